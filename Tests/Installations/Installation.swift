// The installation of a run: folders, command lines, and addresses for clients.

package import Glibc
package import HTTPClient
import JSON

/// Folder, ports and command lines. A value; the fleet runs the processes.
package struct Installation: Sendable {
  package let binaries: String
  /// The folder of the whole run. It holds sockets, so its path must be short.
  package let folder: String
  package let gateways: [Endpoint]
  package let notifier: Endpoint
  package let shardCount: Int
  /// More than one need a directory in PostgreSQL, which the environment names.
  package let shareCount: Int
  /// Variables for every process. An entry that preloads a library counts for the share service and workers only.
  package var environment: [String: String] = [:]

  package struct Endpoint: Hashable, Sendable {
    package let port: UInt16
    package var address: String { "127.0.0.1:\(port)" }
    package var url: String { "http://\(address)" }
  }

  package static let operatorToken = "operator-token-of-a-run-on-this-machine"
  package var data: String { folder + "/data" }
  package var logs: String { folder + "/log" }

  package init(
    binaries: String, folder: String, gatewayCount: Int, shardCount: Int, shareCount: Int = 1,
    environment: [String: String] = [:]
  ) throws {
    self.binaries = binaries
    self.folder = folder
    self.shardCount = shardCount
    self.shareCount = shareCount
    self.environment = environment
    let ports = try Self.freePorts(gatewayCount + 1)
    gateways = ports.dropLast().map { Endpoint(port: $0) }
    notifier = Endpoint(port: ports[gatewayCount])
    for path in [folder, data, logs, folder + "/run"] {
      guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
        throw RunError("\(path) can't be made: \(String(cString: strerror(errno)))")
      }
    }
  }

  package func specification(_ role: Role, _ number: Int, binaries: String) -> Specification {
    let name = "\(role.rawValue)-\(number)"
    let readyFile = "\(folder)/run/\(name).ready"
    var arguments = ["--name", name, "--bus", socket(name), "--admin", "127.0.0.1:0", "--ready-file", readyFile]
    let shares = (1...shareCount).map { socket("share-\($0)") }
    if role != .share { arguments += ["--share", shares.joined(separator: ",")] }
    switch role {
    case .share: arguments += ["--data", number == 1 ? data : "\(data)/\(name)", "--shards", String(shardCount)]
    case .worker: arguments += ["--data", data, "--assets", data + "/assets"]
    case .notifier: arguments += ["--http", notifier.address]
    case .gateway:
      arguments += [
        "--http", gateways[number - 1].address, "--notifier-url", notifier.url, "--assets", data + "/assets",
      ]
    }
    return Specification(
      name: name, role: role, executable: "\(binaries)/aquifer-\(role.rawValue)", arguments: arguments,
      environment: environment.merging(["AQUIFER_OPERATOR_TOKEN": Self.operatorToken]) { $1 },
      log: "\(logs)/\(name).log", readyFile: readyFile)
  }

  private func socket(_ name: String) -> String { "ipc://\(folder)/run/\(name).sock" }

  /// True when the process with this pid wrote the ready file and is ready.
  package static func answers(_ readyFile: String, pid: pid_t, _ http: HTTPClient) async -> Bool {
    guard let bytes = ServerProcess.contents(readyFile), let ready = try? JSONValue(parsing: bytes),
      ready["pid"]?.int64 == Int64(pid),
      let admin = ready["admin"]?.string
    else { return false }
    // Dropped because a process that does not answer is not ready.
    return (try? await http.send("GET", admin + "/readyz", timeout: .seconds(1)))?.status == 200
  }

  /// Free ports below those that the kernel gives to connections. All are held until the last is found.
  private static func freePorts(_ count: Int) throws -> [UInt16] {
    var held: [(descriptor: Int32, port: UInt16)] = []
    defer { for entry in held { close(entry.descriptor) } }
    for port in stride(from: 20_000 + UInt16(getpid() % 10_000), to: 32_000, by: 1) where held.count < count {
      let descriptor = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = port.bigEndian
      address.sin_addr.s_addr = inet_addr("127.0.0.1")
      let result = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
      if result == 0 { held.append((descriptor, port)) } else { close(descriptor) }
    }
    guard held.count == count else { throw RunError("there are no \(count) free ports") }
    return held.map(\.port)
  }
}
