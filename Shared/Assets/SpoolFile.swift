// Writes one file into the spool: hashes (and, with a key, seals) it on the way, and names it by its hash once it is
// durable.

import Crypto
import Glibc
import Records
import Synchronization

/// A file that appears in the spool complete or not at all.
final class SpoolFile: SpooledContent {
  private struct State {
    /// -1 once the file is closed.
    var descriptor: Int32
    var intake: ContentIntake
  }

  private let folder: String
  private let temporaryPath: String
  private let state: Mutex<State>

  /// - Parameter expiry: the end of the time in which shards can adopt the content, seconds since 1970.
  init(in store: AssetFolder, until expiry: Int64) throws(AssetError) {
    folder = store.spoolFolder(SpoolHour.hour(of: expiry))
    try Folder.make(folder)
    temporaryPath = "\(folder)/\(Hex.encode(SecureRandom.bytes(16))).part"
    let descriptor = open(temporaryPath, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw Folder.failure("make file", temporaryPath) }
    state = Mutex(State(descriptor: descriptor, intake: ContentIntake(store.keys)))
  }

  deinit { discard() }

  func write(_ content: [UInt8]) throws(AssetError) {
    try state.withLock { state throws(AssetError) in
      guard state.descriptor >= 0 else { throw .io("\(temporaryPath) is closed") }
      try put(state.intake.add(content), into: state.descriptor)
    }
  }

  private func put(_ bytes: [UInt8], into descriptor: Int32) throws(AssetError) {
    let isWritten = bytes.withUnsafeBytes { bytes in
      var offset = 0
      while offset < bytes.count {
        let length = Glibc.write(descriptor, bytes.baseAddress?.advanced(by: offset), bytes.count - offset)
        if length < 0 && errno != EINTR { return false }
        offset += max(length, 0)
      }
      return true
    }
    if !isWritten { throw Folder.failure("write file", temporaryPath) }
  }

  /// Syncs the file, renames it, syncs the folder.
  func finish() throws(AssetError) -> Asset {
    let asset = try state.withLock { state throws(AssetError) -> Asset in
      guard state.descriptor >= 0 else { throw .io("\(temporaryPath) is closed") }
      let (end, asset) = state.intake.finish()
      try put(end, into: state.descriptor)
      guard fsync(state.descriptor) == 0 else { throw Folder.failure("sync file", temporaryPath) }
      let descriptor = state.descriptor
      state.descriptor = -1
      // Some file systems report a failed write only at closing.
      guard close(descriptor) == 0 else {
        let failure = Folder.failure("close file", temporaryPath)
        unlink(temporaryPath)
        throw failure
      }
      // Replaces an earlier upload of the same content, which differs in its age only.
      guard rename(temporaryPath, "\(folder)/\(Hex.encode(asset.hash))") == 0 else {
        let failure = Folder.failure("name file", temporaryPath)
        unlink(temporaryPath)
        throw failure
      }
      return asset
    }
    try Folder.sync(folder)
    return asset
  }

  func discard() {
    state.withLock { state in
      guard state.descriptor >= 0 else { return }
      _ = close(state.descriptor)
      state.descriptor = -1
      unlink(temporaryPath)
    }
  }
}
