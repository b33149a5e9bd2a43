// A file of content, read as what it says: sealed ones are opened on the way, piece by piece.

import CLinux
public import Crypto
import Glibc

/// An asset's file, open for reading. Its calls block as long as reads of files do; they are safe from any thread.
public final class AssetFile: Sendable {
  private let path: String
  private let descriptor: Int32
  private let keys: KeyRing
  /// nil: the file is the content.
  private let sealed: SealedFile?
  /// Of the content.
  public let byteCount: Int64
  public var isSealed: Bool { sealed != nil }

  /// - Returns: nil when there is no regular file.
  /// - Throws: `missingKey` for a file that is sealed with a key that is not there; `corrupt`, `io`.
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
      let head = problem == nil && length >= SealedFile.headByteCount ? try Self.bytes(of: descriptor, path, at: 0, count: SealedFile.headByteCount) : []
      sealed = try SealedFile(head: head, keys: keys)
    } catch SealingError.missingKey(let id) {
      sealed = nil
      problem = .missingKey("\(path) is sealed with the encryption key \(id), which is not in the key file (--encryption-key)")
    } catch {
      sealed = nil
      problem = error as? AssetError ?? .io("\(path): \(error)")
    }
    let content = sealed == nil ? length : SealedFile.contentByteCount(ofFile: length)
    byteCount = content ?? 0
    if content == nil { problem = .corrupt("\(path) has \(length) bytes, as no sealed file has; restore it from a backup") }
    if let problem { throw problem }
    guard status.st_mode & S_IFMT == S_IFREG else { return nil }
  }

  deinit { _ = close(descriptor) }

  /// What is at `offset` of the content.
  /// - Parameter limit: at most so many bytes.
  /// - Returns: at least one byte, if there is one; of a sealed file, no further than its chunk goes.
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

  /// All of it.
  /// - Throws: `corrupt`, `io`.
  public func readAll() throws(AssetError) -> [UInt8] {
    guard let sealed else { return try Self.bytes(of: descriptor, path, at: 0, count: Int(byteCount)) }
    var content: [UInt8] = []
    content.reserveCapacity(Int(byteCount))
    var index: Int64 = 0
    // An empty content has a chunk, too, that vouches for it.
    repeat {
      content += try chunk(index, of: sealed)
      index += 1
    } while Int64(content.count) < byteCount
    return content
  }

  /// - Throws: `corrupt` when the content is not what the file's name, its hash, says; `io`.
  public func compareWithName() throws(AssetError) {
    let hash = SHA256.Stream()
    var offset: Int64 = 0
    while offset < byteCount {
      let piece = try read(at: offset, limit: Self.comparedByteCount)
      piece.withUnsafeBytes { hash.update($0) }
      offset += Int64(piece.count)
    }
    // The first two digits are a folder's name.
    guard path.filter({ $0 != "/" }).hasSuffix(Hex.encode(hash.finish())) else { throw .corrupt("\(path) is not what its name says; restore it from a backup") }
  }

  private static let comparedByteCount = 1 << 20

  private func chunk(_ index: Int64, of sealed: SealedFile) throws(AssetError) -> [UInt8] {
    let place = SealedFile.place(ofChunk: index, contentByteCount: byteCount)
    let bytes = try Self.bytes(of: descriptor, path, at: place.offset, count: place.byteCount)
    do {
      return try sealed.open(chunk: bytes, index: index, contentByteCount: byteCount)
    } catch {
      throw .corrupt("\(path) is not what was written; restore it from a backup")
    }
  }

  /// Exactly `count` bytes.
  private static func bytes(of descriptor: Int32, _ path: String, at offset: Int64, count: Int) throws(AssetError) -> [UInt8] {
    var failure: AssetError?
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      while filled < count {
        let length = pread(descriptor, buffer.baseAddress?.advanced(by: filled), count - filled, off_t(offset) + off_t(filled))
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
