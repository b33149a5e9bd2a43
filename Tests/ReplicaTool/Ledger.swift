// A file of lines, each on the disk before the next thing is done.

import Glibc

final class Ledger: Sendable {
  private let file: Int32

  init(_ path: String) { file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0o600) }

  deinit { close(file) }

  func write(_ line: String) {
    let bytes = Array(line.utf8)
    guard Glibc.write(file, bytes, bytes.count) == bytes.count else { exit(3) }
  }
}
