// Content-addressed files for values too large for a record.

import CLinux
import Crypto
import Glibc
public import Records

/// A folder of files named by the SHA-256 of their content: `ab/cdef…`. Only names of ours ever become paths.
///
/// Files appear whole or not at all: they are written beside, synced, and moved to their name. What a crash leaves in `incoming` is
/// nobody's and may be deleted while no process writes.
public struct AssetStore: Sendable {
  public let directory: String

  public init(directory: String) { self.directory = directory }

  /// Writes `content` durably (file and folder synced) unless it is there already.
  /// - Throws: `StoreError.full`, `.io`; nothing is left behind under the asset's name then.
  public func put(_ content: [UInt8]) throws(StoreError) -> Asset {
    let asset = Asset(hash: SHA256.hash(content), byteCount: Int64(content.count))
    let path = path(of: asset)
    let folder = Folder.parent(of: path)
    // Who put it there first may not have synced its folder yet.
    if Self.byteCount(path) == asset.byteCount {
      try Folder.sync(folder)
      return asset
    }
    let incoming = directory + "/incoming"
    try Folder.make(incoming)
    try Folder.make(folder)
    let temporary = incoming + "/" + Hex.encode(SecureRandom.bytes(16))
    do throws(StoreError) {
      try Self.write(content, to: temporary)
      guard rename(temporary, path) == 0 else { throw Folder.failure("name file", path) }
    } catch {
      unlink(temporary)
      throw error
    }
    try Folder.sync(folder)
    return asset
  }

  /// The content, verified against its hash.
  /// - Throws: `StoreError.io` when it is missing, `.corrupt` when it is not what was written.
  public func read(_ asset: Asset) throws(StoreError) -> [UInt8] {
    guard asset.hash.count == Self.hashByteCount else { throw .io("an asset's hash has \(asset.hash.count) bytes") }
    let path = path(of: asset)
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { throw Folder.failure("open asset", path) }
    defer { _ = Glibc.close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw Folder.failure("look at asset", path) }
    guard Int64(status.st_size) == asset.byteCount else {
      throw .corrupt("\(path) has \(status.st_size) bytes instead of \(asset.byteCount); restore it from a backup")
    }
    var failure: StoreError?
    let content = [UInt8](unsafeUninitializedCapacity: status.st_size) { buffer, count in
      while count < buffer.count {
        let length = Glibc.read(descriptor, buffer.baseAddress?.advanced(by: count), buffer.count - count)
        if length < 0 && errno == EINTR { continue }
        if length <= 0 {
          failure = length == 0 ? .corrupt("\(path) became shorter") : Folder.failure("read asset", path)
          return
        }
        count += length
      }
    }
    if let failure { throw failure }
    guard SHA256.hash(content) == asset.hash else { throw .corrupt("\(path) is not what its name says; restore it from a backup") }
    return content
  }

  /// Where the file is (or would be).
  public func path(of asset: Asset) -> String {
    directory + "/" + asset.relativePath
  }

  private static let hashByteCount = 32

  private static func byteCount(_ path: String) -> Int64? {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG ? Int64(status.st_size) : nil
  }

  /// Writes a new file and syncs it.
  private static func write(_ content: [UInt8], to path: String) throws(StoreError) {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw Folder.failure("make file", path) }
    var isWritten = content.withUnsafeBytes { bytes in
      var offset = 0
      while offset < bytes.count {
        let length = Glibc.write(descriptor, bytes.baseAddress?.advanced(by: offset), bytes.count - offset)
        if length < 0 && errno != EINTR { return false }
        offset += max(length, 0)
      }
      return true
    }
    isWritten = isWritten && fsync(descriptor) == 0
    let failure = isWritten ? nil : Folder.failure("write file", path)
    // Some file systems report a failed write only now.
    if Glibc.close(descriptor) != 0 && isWritten { throw Folder.failure("close file", path) }
    if let failure { throw failure }
  }
}
