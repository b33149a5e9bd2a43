// Writes one file of a folder of contents: temporary until it is durable, and named then.

import Crypto
import Glibc

/// A file that appears under its name complete or not at all. Its temporary place is in the spool, whose sweep removes
/// what a crash leaves.
final class PartFile: UnnamedContent {
  private let directory: String
  private let path: String
  /// -1 once the file is closed.
  private var descriptor: Int32

  init(in store: AssetFolder, hour: Int64) throws(AssetError) {
    directory = store.directory
    try Folder.make(store.spoolFolder(hour))
    path = store.spoolPath(hour, Hex.encode(SecureRandom.bytes(16)) + ".part")
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw Folder.failure("make file", path) }
  }

  deinit { discard() }

  /// No part ever stays in memory.
  var partCount: Int { 0 }

  func add(_ bytes: [UInt8]) throws(AssetError) {
    let isWritten = bytes.withUnsafeBytes { bytes in
      var offset = 0
      while offset < bytes.count {
        let length = Glibc.write(descriptor, bytes.baseAddress?.advanced(by: offset), bytes.count - offset)
        if length < 0 && errno != EINTR { return false }
        offset += max(length, 0)
      }
      return true
    }
    if !isWritten { throw Folder.failure("write file", path) }
  }

  /// Syncs the file, renames it, syncs the folder.
  func finish(as name: String) throws(AssetError) {
    guard fsync(descriptor) == 0 else { throw Folder.failure("sync file", path) }
    let target = "\(directory)/\(name)"
    try Folder.make(Folder.parent(of: target))
    let closed = close(descriptor)
    descriptor = -1
    // Some file systems report a failed write only at closing. An earlier file of that name differs in its age only.
    guard closed == 0, rename(path, target) == 0 else {
      let failure = Folder.failure(closed == 0 ? "name file" : "close file", path)
      unlink(path)
      throw failure
    }
    try Folder.sync(Folder.parent(of: target))
  }

  func discard() {
    guard descriptor >= 0 else { return }
    _ = close(descriptor)
    descriptor = -1
    unlink(path)
  }
}
