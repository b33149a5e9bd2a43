// The file that tells programs the addresses of an installation (docs/protocol/mirror-api.md#operators).

import Glibc
import JSON

enum ReadyFile {
  /// `{"gateway","notifier","console","operatorToken","pids":{role:[…]},"admin":{role:…}}`. Of several processes of a
  /// role, `admin` has the first under its role and the others under their names.
  static func json(_ running: [(member: FleetMember, process: Supervisor.Running)], operatorToken: String) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("gateway", clientAddress(of: .gateway, running) ?? "")
    writer.member("notifier", clientAddress(of: .notifier, running) ?? "")
    if let console = consoleAddress(running) { writer.member("console", console) }
    writer.member("operatorToken", operatorToken)
    writer.key("pids")
    writer.beginObject()
    for role in FleetMember.Role.allCases {
      writer.key(role.rawValue)
      writer.beginArray()
      for (member, process) in running where member.role == role { writer.integer(Int64(process.pid)) }
      writer.endArray()
    }
    writer.endObject()
    writer.key("admin")
    writer.beginObject()
    for role in FleetMember.Role.allCases {
      for (index, entry) in running.filter({ $0.member.role == role }).enumerated() {
        guard let admin = entry.process.addresses.admin else { continue }
        writer.member(index == 0 ? role.rawValue : entry.member.name, admin)
      }
    }
    writer.endObject()
    writer.endObject()
    return writer.bytes + [UInt8(ascii: "\n")]
  }

  static func clientAddress(of role: FleetMember.Role, _ running: [(member: FleetMember, process: Supervisor.Running)])
    -> String?
  {
    running.first { $0.member.role == role }?.process.addresses.client
  }

  /// nil for an installation without a console.
  static func consoleAddress(_ running: [(member: FleetMember, process: Supervisor.Running)]) -> String? {
    running.first { $0.member.role == .gateway }?.process.addresses.console
  }

  /// Writes a file atomically. Its owner alone can read it, because it holds a token.
  static func write(_ bytes: [UInt8], to path: String) throws(SystemProblem) {
    let temporary = "\(path).\(getpid()).new"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemProblem("\(temporary) can't be written") }
    let count = Glibc.write(descriptor, bytes, bytes.count)
    let problem = count == bytes.count ? nil : SystemProblem("\(temporary) can't be written")
    close(descriptor)
    if let problem { throw problem }
    guard rename(temporary, path) == 0 else { throw SystemProblem("\(path) can't be written") }
  }
}
