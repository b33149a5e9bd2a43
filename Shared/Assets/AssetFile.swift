// Reads an asset's file as plain content, and opens sealed files chunk by chunk on the way.

import CLinux
public import Crypto
import Glibc

/// An asset's file, open for reading. Calls block on the disk; any thread may make them.
public final class AssetFile: Sendable {
  private let path: String
  private let descriptor: Int32
  private let keys: KeyRing
  /// nil when the file is the content itself.
  private let sealed: SealedFile?
  /// The length of the content.
  public let byteCount: Int64
  public var isSealed: Bool { sealed != nil }

  /// - Returns: nil when the path names no regular file.
  /// - Throws: `missingKey` when `keys` lacks the key that sealed the file; `corrupt` for an impossible length; `io`.
  public init?(path: String, keys: KeyRing) throws(AssetError) {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw Folder.failure("open asset", path)
    }
    self.path = path
    self.descriptor = descriptor
    self.keys = keys
    var status = stat()
    var problem: AssetError?
    if fstat(descriptor, &status) != 0 { problem = Folder.failure("look at asset", path) }
    let length = Int64(status.st_size)
    do {
      let head =
        problem == nil && length >= SealedFile.headByteCount
        ? try Self.bytes(of: descriptor, path, at: 0, count: SealedFile.headByteCount) : []
      sealed = try SealedFile(head: head, keys: keys)
    } catch SealingError.missingKey(let id) {
      sealed = nil
      problem = .missingKey(
        "\(path) is sealed with the encryption key \(id), which is not in the key file (--encryption-key)")
    } catch {
      sealed = nil
      problem = error as? AssetError ?? .io("\(path): \(error)")
    }
    let content = sealed == nil ? length : SealedFile.contentByteCount(ofFile: length)
    byteCount = content ?? 0
    if content == nil {
      problem = .corrupt("\(path) has \(length) bytes, but no sealed file has that length; restore it from a backup")
    }
    if let problem { throw problem }
    guard status.st_mode & S_IFMT == S_IFREG else { return nil }
  }

  deinit { _ = close(descriptor) }

  /// Reads from `offset` of the content.
  /// - Parameter limit: the most bytes to return.
  /// - Returns: at least one byte before the end of the content; of a sealed file, at most the rest of one chunk.
  /// - Throws: `corrupt`, `io`.
  public func read(at offset: Int64, limit: Int) throws(AssetError) -> [UInt8] {
    let count = Int(min(Int64(limit), max(byteCount - offset, 0)))
    guard let sealed else { return try Self.bytes(of: descriptor, path, at: offset, count: count) }
    guard count > 0 else { return [] }
    let index = offset / Int64(SealedFile.chunkContentByteCount)
    let content = try chunk(index, of: sealed)
    let start = Int(offset % Int64(SealedFile.chunkContentByteCount))
    return Array(content[start..<min(start + count, content.count)])
  }

  /// Reads the whole content.
  /// - Throws: `corrupt`, `io`.
  public func readAll() throws(AssetError) -> [UInt8] {
    guard let sealed else { return try Self.bytes(of: descriptor, path, at: 0, count: Int(byteCount)) }
    var content: [UInt8] = []
    content.reserveCapacity(Int(byteCount))
    var index: Int64 = 0
    // Even an empty content has one chunk, which authenticates it.
    repeat {
      content += try chunk(index, of: sealed)
      index += 1
    } while Int64(content.count) < byteCount
    return content
  }

  /// Compares the hash of the content with the file's name.
  /// - Throws: `corrupt` when they differ; `io`.
  public func compareWithName() throws(AssetError) {
    let hash = SHA256.Stream()
    var offset: Int64 = 0
    while offset < byteCount {
      let piece = try read(at: offset, limit: Self.comparedByteCount)
      piece.withUnsafeBytes { hash.update($0) }
      offset += Int64(piece.count)
    }
    // The hash begins in the folder's name, which is its first two digits.
    guard path.filter({ $0 != "/" }).hasSuffix(Hex.encode(hash.finish())) else {
      throw .corrupt("\(path) does not match the hash in its name; restore it from a backup")
    }
  }

  private static let comparedByteCount = 1 << 20

  private func chunk(_ index: Int64, of sealed: SealedFile) throws(AssetError) -> [UInt8] {
    let place = SealedFile.place(ofChunk: index, contentByteCount: byteCount)
    let bytes = try Self.bytes(of: descriptor, path, at: place.offset, count: place.byteCount)
    do {
      return try sealed.open(chunk: bytes, index: index, contentByteCount: byteCount)
    } catch {
      throw .corrupt("\(path) is damaged; restore it from a backup")
    }
  }

  /// Reads exactly `count` bytes.
  private static func bytes(of descriptor: Int32, _ path: String, at offset: Int64, count: Int) throws(AssetError)
    -> [UInt8]
  {
    var failure: AssetError?
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      while filled < count {
        let length = pread(
          descriptor, buffer.baseAddress?.advanced(by: filled), count - filled, off_t(offset) + off_t(filled))
        if length < 0 && errno == EINTR { continue }
        if length <= 0 {
          failure = length == 0 ? .corrupt("\(path) became shorter") : Folder.failure("read asset", path)
          return
        }
        filled += length
      }
    }
    if let failure { throw failure }
    return bytes
  }
}
