// Starts child processes and reads their exit statuses.

import Glibc

/// The exit status of a process.
enum ExitStatus: Hashable, Sendable {
  case exited(code: Int32)
  case killed(signal: Int32)

  /// - Parameter status: a value from `waitpid`.
  init(waitStatus status: Int32) {
    let signal = status & 0x7f
    self = signal == 0 ? .exited(code: status >> 8 & 0xff) : .killed(signal: signal)
  }

  /// True when a restart can't help: usage and configuration errors stay (sysexits.h: 64, 78).
  var isFinal: Bool { self == .exited(code: 64) || self == .exited(code: 78) }

  var text: String {
    switch self {
    case .exited(let code): "exited with code \(code)"
    case .killed(let signal): "was ended by signal \(signal)\(Self.names[signal].map { " (\($0))" } ?? "")"
    }
  }

  private static let names: [Int32: String] = [
    SIGHUP: "SIGHUP", SIGINT: "SIGINT", SIGQUIT: "SIGQUIT", SIGILL: "SIGILL", SIGTRAP: "SIGTRAP", SIGABRT: "SIGABRT",
    SIGBUS: "SIGBUS", SIGFPE: "SIGFPE",
    SIGKILL: "SIGKILL", SIGSEGV: "SIGSEGV", SIGPIPE: "SIGPIPE", SIGTERM: "SIGTERM", SIGXFSZ: "SIGXFSZ",
  ]
}

/// A system call that failed.
struct SystemProblem: Error, Hashable {
  let reason: String

  init(_ what: String, errno code: Int32 = errno) { reason = "\(what): \(String(cString: strerror(code)))" }
  init(giving reason: String) { self.reason = reason }
}

/// The command line of a process to start.
struct ChildSpecification: Hashable, Sendable {
  let executable: String
  /// Without the executable's name.
  let arguments: [String]
  /// Added to this process's environment.
  var environment: [String: String] = [:]
  /// The file to which standard output and standard error are appended; nil: the child shares this process's streams.
  var logPath: String?
}

enum ChildProcess {
  /// Starts a process with default signal handling.
  /// - Parameters:
  ///   - standardInput: a descriptor of this process; nil: `/dev/null`.
  ///   - group: the process group to join; 0: a new group with the child as leader.
  /// - Returns: the child's pid.
  static func spawn(_ specification: ChildSpecification, standardInput: Int32? = nil, group: pid_t)
    throws(SystemProblem) -> pid_t
  {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    if let standardInput {
      posix_spawn_file_actions_adddup2(&actions, standardInput, 0)
    } else {
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    }
    if let logPath = specification.logPath {
      posix_spawn_file_actions_addopen(&actions, 1, place(ofLog: logPath), O_WRONLY | O_CREAT | O_APPEND, 0o640)
      posix_spawn_file_actions_adddup2(&actions, 1, 2)
    }
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)
    posix_spawnattr_setpgroup(&attributes, group)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))
    var pid: pid_t = 0
    let code = withCStrings([specification.executable] + specification.arguments) { arguments in
      withCStrings(mergedEnvironment(specification.environment)) { environment in
        posix_spawn(&pid, specification.executable, &actions, &attributes, arguments, environment)
      }
    }
    guard code == 0 else { throw SystemProblem("\(specification.executable) can't be started", errno: code) }
    return pid
  }

  /// - Returns: `/dev/null` when a full disk has no room for the file: without a log the process serves all the same.
  private static func place(ofLog path: String) -> String {
    let file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o640)
    guard file < 0 else {
      close(file)
      return path
    }
    return [ENOSPC, EDQUOT].contains(errno) ? "/dev/null" : path
  }

  /// The exit status of the child `pid`; nil while it runs.
  static func reap(_ pid: pid_t) -> ExitStatus? {
    var status: Int32 = 0
    let result = waitpid(pid, &status, WNOHANG)
    if result == pid { return ExitStatus(waitStatus: status) }
    // No child of this process any more: something else reaped it, and its status is lost.
    return result == -1 && errno == ECHILD ? .exited(code: -1) : nil
  }

  private static func mergedEnvironment(_ additions: [String: String]) -> [String] {
    let lines = ProcessEnvironment.lines.filter { line in !additions.keys.contains { line.hasPrefix($0 + "=") } }
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
