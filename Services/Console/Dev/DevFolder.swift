// The folders of `aquifer dev`: data, logs and sockets, and the lock that keeps a second one out.

import CLinux
import Glibc

/// A data folder in use by this process.
struct DevFolder {
  /// Absolute.
  let data: String
  /// Of sockets and ready files: in the data folder, or a short one of its own where the path would be too long for a socket.
  let run: String
  var logs: String { data + "/log" }
  private let isRunTemporary: Bool

  /// Unix sockets' paths end here (`sockaddr_un`).
  static let socketPathLimit = 107
  private static let longestSocketName = "/notifier.sock.00000".utf8.count
  private static let logByteLimit = 16 << 20

  /// Makes and locks the folder.
  init(_ path: String) throws(SystemProblem) {
    data = try Self.made(path)
    let lock = open(data + "/dev.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard lock >= 0 else { throw SystemProblem("\(data)/dev.lock can't be opened") }
    // Held until the process ends, however it ends.
    guard flock(lock, LOCK_EX | LOCK_NB) == 0 else { throw SystemProblem(giving: "\(data) is in use by another `aquifer dev`") }
    _ = try Self.made(data + "/log")
    let inside = data + "/run"
    isRunTemporary = inside.utf8.count + Self.longestSocketName > Self.socketPathLimit
    if isRunTemporary {
      var template = Array(("/tmp/aquifer-" + String(repeating: "X", count: 6)).utf8CString)
      guard mkdtemp(&template) != nil else { throw SystemProblem("A folder for sockets can't be made in /tmp") }
      run = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    } else {
      run = try Self.made(inside)
      // Whoever enters it can join the bus.
      guard chmod(run, 0o700) == 0 else { throw SystemProblem("\(run) can't be closed to others") }
      try Self.empty(run)
    }
  }

  func cleanUp() {
    // Dropped because a socket that stays behind is replaced by the next start.
    try? Self.empty(run)
    if isRunTemporary { rmdir(run) }
  }

  /// A log to append to; a large one of an earlier run is put aside once.
  func log(of name: String) -> String {
    let path = "\(logs)/\(name).log"
    var status = stat()
    if stat(path, &status) == 0, status.st_size > Self.logByteLimit { rename(path, path + ".1") }
    return path
  }

  /// The absolute path of a folder, made with the folders above it.
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
