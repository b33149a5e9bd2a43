// One process of the installation: starting, signalling and reaping.

package import Glibc

/// An error that ends a run.
package struct RunError: Error, CustomStringConvertible {
  package let description: String

  package init(_ description: String) { self.description = description }
}

/// A process's role, in the order of starting: servers before their clients.
package enum Role: String, CaseIterable, Sendable {
  case share, worker, notifier, gateway
}

/// The command line and files of a process.
package struct Specification: Sendable {
  package let name: String
  package let role: Role
  package var executable: String
  package let arguments: [String]
  package var environment: [String: String] = [:]
  package let log: String
  package let readyFile: String
}

package enum ServerProcess {
  /// Starts a process with default signal handling and its output in its log.
  package static func spawn(_ specification: Specification) throws -> pid_t {
    unlink(specification.readyFile)
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 1, specification.log, O_WRONLY | O_CREAT | O_APPEND, 0o640)
    posix_spawn_file_actions_adddup2(&actions, 1, 2)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    var pid: pid_t = 0
    let code = withCStrings([specification.executable] + specification.arguments) { arguments in
      withCStrings(environment(adding: specification.environment)) { environment in
        posix_spawn(&pid, specification.executable, &actions, &attributes, arguments, environment)
      }
    }
    guard code == 0 else {
      throw RunError("\(specification.executable) can't be started: \(String(cString: strerror(code)))")
    }
    return pid
  }

  /// The exit code of `pid`, a child of this process; nil while it runs. After a signal it is the signal's number,
  /// negated.
  package static func reap(_ pid: pid_t) -> Int32? {
    var status: Int32 = 0
    guard waitpid(pid, &status, WNOHANG) == pid else { return nil }
    return status & 0x7f == 0 ? status >> 8 & 0xff : -(status & 0x7f)
  }

  package static func contents(_ path: String) -> [UInt8]? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = fread(&buffer, 1, buffer.count, file)
      if count == 0 { return bytes }
      bytes += buffer[..<count]
    }
  }

  private static func environment(adding additions: [String: String]) -> [String] {
    var lines: [String] = []
    var next = environ
    while let line = next.pointee {
      let text = String(cString: line)
      if !additions.keys.contains(where: { text.hasPrefix($0 + "=") }) { lines.append(text) }
      next += 1
    }
    return lines + additions.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
  }

  private static func withCStrings<Result>(_ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result)
    -> Result
  {
    let copies = strings.map { strdup($0) }
    defer { copies.forEach { free($0) } }
    return body(copies + [nil])
  }
}
