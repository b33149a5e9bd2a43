// `aquifer bus-key`: makes the keys by which processes on several machines recognise each other.

import Glibc
import ServiceBus

extension Console {
  func addBusKey(_ invocation: Invocation) throws(UsageError) -> Int32 {
    let path = invocation.arguments[0]
    guard let role = invocation.value("role").flatMap({ Role(rawValue: $0) }) else {
      throw UsageError(
        "--role is one of \(Role.allCases.map(\.rawValue).joined(separator: ", "))", path: invocation.command.path)
    }
    let name = invocation.value("name") ?? ""
    guard !name.isEmpty, !name.contains(where: \.isWhitespace) else {
      throw UsageError("--name is a process's name, without spaces", path: invocation.command.path)
    }
    do throws(SystemProblem) {
      terminal.output("\(try BusKeyFile.addKey(to: path, role: role, name: name, peers: invocation.value("peers")))")
      return ExitCode.done
    } catch {
      return refused(error)
    }
  }

  func showBusKey(_ invocation: Invocation) -> Int32 {
    let path = invocation.arguments[0]
    do {
      let text = String(decoding: try ModelFile.read(path), as: UTF8.self)
      do throws(BusError) {
        terminal.output(try BusKeyPair(parsing: text).publicKey)
      } catch {
        throw SystemProblem(giving: "\(path): \(error.reason)")
      }
      return ExitCode.done
    } catch {
      return refused(error)
    }
  }

  private func refused(_ error: any Error) -> Int32 {
    terminal.problem("aquifer: \(SystemProblem(ofBusKey: error).reason)")
    return ExitCode.refused
  }
}

enum BusKeyFile {
  /// Makes a process's key. Calls at the same time for one folder of known peers follow each other, so that each line
  /// stays.
  /// - Parameter peers: the file that gets the new line; nil: none.
  /// - Returns: the line.
  /// - Throws: for a key file that is there, and for a line that contradicts another one; nothing was changed then.
  static func addKey(to path: String, role: Role, name: String, peers: String?) throws(SystemProblem) -> KnownPeer {
    try DurableFile.alone(inFolderOf: peers ?? path) { () throws(SystemProblem) -> KnownPeer in
      do {
        guard access(path, F_OK) != 0 else {
          throw SystemProblem(giving: "\(path) exists already. `bus-key add` replaces no key: name another file")
        }
        let pair = try BusKeyPair.generate()
        let line = KnownPeer(role: role, name: name, publicKey: pair.publicKey)
        let peers = try peers.map { (path: $0, text: try text(ofPeers: $0, adding: line)) }
        try DurableFile.write(Array(pair.fileText.utf8), to: path)
        if let peers { try DurableFile.write(Array(peers.text.utf8), to: peers.path, mode: 0o644) }
        return line
      } catch {
        throw SystemProblem(ofBusKey: error)
      }
    }
  }

  /// The text of the file of known peers, with one more line.
  private static func text(ofPeers path: String, adding line: KnownPeer) throws -> String {
    var text = access(path, F_OK) == 0 ? String(decoding: try ModelFile.read(path), as: UTF8.self) : ""
    if !text.isEmpty, !text.hasSuffix("\n") { text += "\n" }
    text += "\(line)\n"
    do throws(BusError) {
      _ = try KnownPeers(parsing: text)
    } catch {
      throw SystemProblem(giving: "\(path): \(error.reason)")
    }
    return text
  }
}

extension SystemProblem {
  fileprivate init(ofBusKey error: any Error) {
    switch error {
    case let error as SystemProblem: self = error
    case let error as ModelFile.Problem: self.init(giving: error.reason)
    case let error as BusError: self.init(giving: error.reason)
    default: self.init(giving: "\(error)")
    }
  }
}
