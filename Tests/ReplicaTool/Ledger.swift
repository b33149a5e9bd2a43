// A file of lines, each written before the next thing is done.

import Glibc

final class Ledger: Sendable {
  private let file: Int32

  private let isSynced: Bool

  /// - Parameter isSynced: whether lines outlive the power, too.
  init(_ path: String, isSynced: Bool = false) {
    file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    self.isSynced = isSynced
  }

  deinit { close(file) }

  func write(_ line: String) {
    let bytes = Array(line.utf8)
    guard Glibc.write(file, bytes, bytes.count) == bytes.count, !isSynced || fsync(file) == 0 else { exit(3) }
  }
}
