// A file of lines, each written before the next thing is done.

import Glibc

final class Ledger: Sendable {
  private let file: Int32

  private let isSynced: Bool

  /// - Parameter isSynced: whether lines outlive the power, too.
  init(_ path: String, isSynced: Bool = false) {
    file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    self.isSynced = isSynced
    if isSynced { Self.syncFolder(of: path) }
  }

  /// Without it, a loss of power takes a new file whole, with its synced lines.
  private static func syncFolder(of path: String) {
    let end = path.lastIndex(of: "/") ?? path.startIndex
    let folder = open(end == path.startIndex ? "." : String(path[..<end]), O_RDONLY | O_DIRECTORY)
    defer { close(folder) }
    guard fsync(folder) == 0 else { exit(3) }
  }

  deinit { close(file) }

  func write(_ line: String) {
    let bytes = Array(line.utf8)
    guard Glibc.write(file, bytes, bytes.count) == bytes.count, !isSynced || fsync(file) == 0 else { exit(3) }
  }
}
