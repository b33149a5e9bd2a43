// Files that a power cut must not take back: keys, which nobody can make again, and exports.

import CLinux
import Glibc

/// A file that gets its name only when all of it is on the disk.
struct DurableFile: ~Copyable {
  private let path: String
  private let draft: String
  private let descriptor: Int32

  /// - Parameter mode: of the file. Only its owner may read it unless it says otherwise.
  init(_ path: String, mode: mode_t = 0o600) throws(SystemProblem) {
    self.path = path
    draft = "\(path).\(getpid()).part"
    descriptor = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw SystemProblem("\(path) can't be written") }
  }

  deinit { close(descriptor) }

  func append(_ bytes: [UInt8]) throws(SystemProblem) {
    var start = 0
    while start < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.write(descriptor, $0.baseAddress.map { $0 + start }, bytes.count - start)
      }
      guard count > 0 else { throw SystemProblem("\(path) can't be written") }
      start += count
    }
  }

  /// Gives the file its name. The name is durable when its folder is synced.
  func finish() throws(SystemProblem) {
    guard fsync(descriptor) == 0, rename(draft, path) == 0 else { throw SystemProblem("\(path) can't be written") }
  }

  /// Takes owner, group and mode from the file that this one replaces, if there is one.
  private func takePlace() throws(SystemProblem) {
    var earlier = stat()
    guard stat(path, &earlier) == 0 else { return }
    guard fchown(descriptor, earlier.st_uid, earlier.st_gid) == 0, fchmod(descriptor, earlier.st_mode & 0o7777) == 0
    else { throw SystemProblem("\(path) is left as it is, because a new file can't have its owner and group") }
  }

  private func discard() { unlink(draft) }

  /// Writes a whole file with its name. A file that is there keeps owner, group and mode.
  /// - Throws: nothing was changed then, unless the folder can't be synced.
  static func write(_ bytes: [UInt8], to path: String, mode: mode_t = 0o600) throws(SystemProblem) {
    let file = try DurableFile(path, mode: mode)
    do throws(SystemProblem) {
      try file.takePlace()
      try file.append(bytes)
      try file.finish()
    } catch {
      file.discard()
      throw error
    }
    try sync(folder: folder(of: path))
  }

  /// Runs `body` while no other process does so for a file of the same folder: it waits for their end. The lock ends
  /// with the process, too.
  static func alone<Value>(inFolderOf path: String, _ body: () throws(SystemProblem) -> Value) throws(SystemProblem)
    -> Value
  {
    let descriptor = open(folder(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemProblem("\(path) can't be written") }
    defer { close(descriptor) }
    while flock(descriptor, LOCK_EX) != 0 {
      let code = errno
      // Dropped because NFS has no locks of folders, and files are written there as well.
      if [EBADF, ENOLCK, EOPNOTSUPP, ENOSYS].contains(code) { break }
      guard code == EINTR else { throw SystemProblem("the folder of \(path) can't be locked", errno: code) }
    }
    return try body()
  }

  private static func folder(of path: String) -> String {
    String(path.lastIndex(of: "/").map { path[...$0] } ?? ".")
  }

  /// Makes the names in a folder durable.
  static func sync(folder: String) throws(SystemProblem) {
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { if descriptor >= 0 { close(descriptor) } }
    guard descriptor >= 0, fsync(descriptor) == 0 else { throw SystemProblem("\(folder) can't be synced") }
  }
}
