// Child processes of these tests. Foundation's `Process` waits with select(2), which can't see descriptors beyond 1024;
// parallel tests' shards hold more.

import Glibc

/// A process started by a test; its standard output and error are dropped.
struct ChildProcess {
  struct NotStarted: Error {
    let program: String
    /// A value of errno.
    let code: Int32
  }

  private let identifier: pid_t

  /// - Parameters:
  ///   - program: its path, or a name that is looked up in PATH.
  ///   - environment: variables added to this process's own.
  init(_ program: String, _ arguments: [String] = [], environment: [String: String] = [:]) throws {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for descriptor: Int32 in 0...2 { posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0) }
    var words = ([program] + arguments).map { strdup($0) } + [nil]
    var variables = Self.variables(with: environment).map { strdup($0) } + [nil]
    defer { for word in words + variables { free(word) } }
    var child = pid_t()
    let code = posix_spawnp(&child, program, &actions, nil, &words, &variables)
    guard code == 0 else { throw NotStarted(program: program, code: code) }
    identifier = child
  }

  private static func variables(with additions: [String: String]) -> [String] {
    var own: [String] = []
    var next = environ
    while let entry = next.pointee {
      let text = String(cString: entry)
      if additions[String(text.prefix { $0 != "=" })] == nil { own.append(text) }
      next += 1
    }
    return own + additions.map { "\($0)=\($1)" }
  }

  /// Sends SIGKILL.
  func kill() { _ = Glibc.kill(identifier, SIGKILL) }

  /// - Returns: its exit status or the number of the signal that ended it; nil while it runs. Must not be called again
  ///   after the end.
  func result() -> Int32? { status(options: WNOHANG) }

  /// Waits until it has ended.
  func wait() -> Int32 { status(options: 0) ?? -1 }

  private func status(options: Int32) -> Int32? {
    var status: Int32 = 0
    var result = waitpid(identifier, &status, options)
    while result < 0, errno == EINTR { result = waitpid(identifier, &status, options) }
    guard result == identifier else { return nil }
    return status & 0x7f == 0 ? (status >> 8) & 0xff : status & 0x7f
  }
}
