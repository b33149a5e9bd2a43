// The folders of `aquifer dev`: data, logs and sockets, and the lock against a second `aquifer dev`.

import CLinux
import Glibc

/// A data folder in use by this process.
struct DevFolder {
  /// An absolute path.
  let data: String
  /// For sockets and ready files: in the data folder, or a temporary folder when the path would be too long for a
  /// socket.
  let run: String
  var logs: String { data + "/log" }
  private let isRunTemporary: Bool

  /// The longest path of a Unix socket (`sockaddr_un`).
  static let socketPathLimit = 107
  private static let longestSocketName = "/notifier.sock.00000".utf8.count
  private static let logByteLimit = 16 << 20

  /// Creates and locks the folder.
  init(_ path: String) throws(SystemProblem) {
    data = try Self.made(path)
    let lock = open(data + "/dev.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard lock >= 0 else { throw SystemProblem("\(data)/dev.lock can't be opened") }
    // The lock is held until the process ends, in whatever way it ends.
    guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
      throw SystemProblem(giving: "\(data) is in use by another `aquifer dev`")
    }
    _ = try Self.made(data + "/log")
    let inside = data + "/run"
    isRunTemporary = inside.utf8.count + Self.longestSocketName > Self.socketPathLimit
    if isRunTemporary {
      var template = Array(("/tmp/aquifer-" + String(repeating: "X", count: 6)).utf8CString)
      guard mkdtemp(&template) != nil else { throw SystemProblem("A folder for sockets can't be made in /tmp") }
      run = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    } else {
      run = try Self.made(inside)
      // Every process that can enter the folder can join the bus.
      guard chmod(run, 0o700) == 0 else { throw SystemProblem("the access of others to \(run) can't be removed") }
      try Self.empty(run)
    }
  }

  func cleanUp() {
    // Dropped because the next start replaces a socket that stays behind.
    try? Self.empty(run)
    if isRunTemporary { rmdir(run) }
  }

  /// The path of a log to append to. A large log of an earlier run is renamed once.
  func log(of name: String) -> String {
    let path = "\(logs)/\(name).log"
    var status = stat()
    if stat(path, &status) == 0, status.st_size > Self.logByteLimit { rename(path, path + ".1") }
    return path
  }

  /// The absolute path of a folder, which is created together with its parents.
  private static func made(_ path: String) throws(SystemProblem) -> String {
    var prefix = path.hasPrefix("/") ? "/" : ""
    for part in path.split(separator: "/") {
      prefix += (prefix.isEmpty || prefix.hasSuffix("/") ? "" : "/") + part
      guard mkdir(prefix, 0o750) == 0 || errno == EEXIST else { throw SystemProblem("\(prefix) can't be made") }
    }
    guard let resolved = realpath(path, nil) else { throw SystemProblem("\(path) can't be used") }
    defer { free(resolved) }
    return String(cString: resolved)
  }

  private static func empty(_ directory: String) throws(SystemProblem) {
    guard let listing = opendir(directory) else { throw SystemProblem("\(directory) can't be read") }
    defer { closedir(listing) }
    while let entry = readdir(listing) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if name != ".", name != ".." { unlink("\(directory)/\(name)") }
    }
  }
}
