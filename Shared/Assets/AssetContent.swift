// Reads stored bytes as plain content, and opens sealed ones chunk by chunk on the way.

import CLinux
import Crypto
import Glibc
import Records

/// The stored bytes of one content, sealed or not. Calls block; any thread may make them.
package protocol AssetBytes: Sendable {
  /// Names the place in errors.
  var name: String { get }
  var byteCount: Int64 { get }
  /// False when reading takes longer than from a file.
  var areLocal: Bool { get }
  /// The URL by which clients may fetch the bytes for a short time; nil when they can't.
  var address: String? { get }
  /// The most bytes that reading keeps in memory.
  var windowByteCount: Int { get }
  var identity: ContentIdentity { get }
  /// Reads exactly `count` bytes.
  /// - Throws: `corrupt` when there are fewer; `io`, `unavailable`.
  func read(at offset: Int64, count: Int) throws(AssetError) -> [UInt8]
}

extension AssetBytes {
  package var windowByteCount: Int { 0 }
}

/// One state of one file or object. One that is written, replaced or linked has another identity afterwards.
public struct ContentIdentity: Hashable, Sendable {
  private enum Form: Hashable {
    /// Times are of the content, and of all that the file system keeps about the file; seconds and nanoseconds since
    /// 1970.
    case file(device: UInt, number: UInt, byteCount: Int, times: [Int])
    case object(key: String, tag: String)
  }

  private let form: Form

  init(_ status: stat) {
    form = .file(
      device: status.st_dev, number: status.st_ino, byteCount: status.st_size,
      times: [status.st_mtim, status.st_ctim].flatMap { [$0.tv_sec, $0.tv_nsec] })
  }

  init(key: String, tag: String) { form = .object(key: key, tag: tag) }
}

/// An asset's content, open for reading. Calls block; any thread may make them.
public final class AssetContent: Sendable {
  private let bytes: any AssetBytes
  private let hash: [UInt8]
  private let keys: KeyRing
  /// nil when the bytes are the content itself.
  private let sealed: SealedFile?
  /// The key that is missing if the bytes are sealed: they begin as sealed ones do.
  private let missing: KeyRing.ID?
  /// The length of the content; of a doubtful one, that of its bytes.
  public let byteCount: Int64
  public var isSealed: Bool { sealed != nil }
  /// True for bytes that begin as sealed ones do, by a key that this process lacks. They are plain, or nobody can open
  /// them here. `compareWithName` tells, and only then may they be shown.
  public var isDoubtful: Bool { missing != nil }
  /// False when reading takes longer than from a file, so that a server must not wait for it on its own threads.
  public var isLocal: Bool { bytes.areLocal }

  /// The most bytes that reading keeps in memory.
  public var windowByteCount: Int { bytes.windowByteCount }

  /// The URL by which clients may fetch the content for a short time, without this process; nil when they can't, as
  /// they can't open sealed bytes.
  public var address: String? { isSealed || isDoubtful ? nil : bytes.address }

  public var identity: ContentIdentity { bytes.identity }

  /// Reads the head at most.
  /// - Throws: `corrupt` for an impossible length; `io`.
  init(_ bytes: any AssetBytes, hash: [UInt8], keys: KeyRing) throws(AssetError) {
    self.bytes = bytes
    self.hash = hash
    self.keys = keys
    let length = bytes.byteCount
    let head =
      length >= SealedFile.headByteCount ? try bytes.read(at: 0, count: SealedFile.headByteCount) : []
    var missing: KeyRing.ID?
    let sealed: SealedFile?
    do throws(SealingError) {
      sealed = try SealedFile(head: head, keys: keys)
    } catch {
      guard case .missingKey(let id) = error else { throw .io("\(bytes.name): \(error)") }
      (missing, sealed) = (id, nil)
    }
    self.sealed = sealed
    self.missing = missing
    guard let content = sealed == nil ? length : SealedFile.contentByteCount(ofFile: length) else {
      throw .corrupt("\(bytes.name) has \(length) bytes, but no sealed file has that length; restore it from a backup")
    }
    byteCount = content
  }

  /// Reads from `offset` of the content.
  /// - Parameter limit: the most bytes to return.
  /// - Returns: at least one byte before the end of the content; of a sealed file, at most the rest of one chunk.
  /// - Throws: `corrupt`, `io`.
  public func read(at offset: Int64, limit: Int) throws(AssetError) -> [UInt8] {
    let count = Int(min(Int64(limit), max(byteCount - offset, 0)))
    guard let sealed else { return try bytes.read(at: offset, count: count) }
    guard count > 0 else { return [] }
    let index = offset / Int64(SealedFile.chunkContentByteCount)
    let content = try chunk(index, of: sealed)
    let start = Int(offset % Int64(SealedFile.chunkContentByteCount))
    return Array(content[start..<min(start + count, content.count)])
  }

  /// Reads the whole content.
  /// - Throws: `corrupt`, `io`; `missingKey` for bytes that this process can't open.
  public func readAll() throws(AssetError) -> [UInt8] {
    guard let sealed else {
      let content = try bytes.read(at: 0, count: Int(byteCount))
      if isDoubtful, SHA256.hash(content) != hash { throw differs }
      return content
    }
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

  /// Reads the whole content and compares it with the asset.
  /// - Throws: `corrupt`, `io`; `missingKey` for bytes that this process can't open.
  func readAll(of asset: Asset) throws(AssetError) -> [UInt8] {
    try expectLength(of: asset)
    let content = try readAll()
    guard SHA256.hash(content) == asset.hash else { throw differs }
    return content
  }

  private func expectLength(of asset: Asset) throws(AssetError) {
    if byteCount == asset.byteCount { return }
    if isDoubtful { throw differs }
    throw .corrupt(
      "\(bytes.name) has \(byteCount) bytes of content instead of \(asset.byteCount); restore it from a backup")
  }

  /// Compares the whole content with the asset, a piece at a time.
  /// - Throws: as `readAll(of:)`.
  func compare(with asset: Asset) throws(AssetError) {
    try expectLength(of: asset)
    try compareWithName()
  }

  private var differs: AssetError {
    if let missing {
      return .missingKey(
        "\(bytes.name) is sealed with the encryption key \(missing), which is not in the key file (--encryption-key)")
    }
    return .corrupt("\(bytes.name) does not match the hash in its name; restore it from a backup")
  }

  /// Compares the hash of the content with its name.
  /// - Throws: `corrupt` when they differ, or `missingKey` for a doubtful content; `io`.
  public func compareWithName() throws(AssetError) {
    let hash = SHA256.Stream()
    var offset: Int64 = 0
    // It authenticates an empty content, too.
    if byteCount == 0, let sealed { _ = try chunk(0, of: sealed) }
    while offset < byteCount {
      let piece = try read(at: offset, limit: Self.comparedByteCount)
      piece.withUnsafeBytes { hash.update($0) }
      offset += Int64(piece.count)
    }
    guard hash.finish() == self.hash else { throw differs }
  }

  private static let comparedByteCount = 1 << 20

  private func chunk(_ index: Int64, of sealed: SealedFile) throws(AssetError) -> [UInt8] {
    let place = SealedFile.place(ofChunk: index, contentByteCount: byteCount)
    let chunk = try bytes.read(at: place.offset, count: place.byteCount)
    do {
      return try sealed.open(chunk: chunk, index: index, contentByteCount: byteCount)
    } catch {
      throw .corrupt("\(bytes.name) is damaged; restore it from a backup")
    }
  }
}

/// The bytes of an open file.
final class FileBytes: AssetBytes {
  let name: String
  let byteCount: Int64
  var areLocal: Bool { true }
  var address: String? { nil }
  let identity: ContentIdentity
  private let descriptor: Int32

  /// - Returns: nil when the path names no regular file.
  init?(path: String) throws(AssetError) {
    let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw Folder.failure("open asset", path)
    }
    self.descriptor = descriptor
    name = path
    var status = stat()
    let isKnown = fstat(descriptor, &status) == 0
    byteCount = Int64(status.st_size)
    identity = ContentIdentity(status)
    guard isKnown else { throw Folder.failure("look at asset", path) }
    guard status.st_mode & S_IFMT == S_IFREG else { return nil }
  }

  deinit { _ = close(descriptor) }

  func read(at offset: Int64, count: Int) throws(AssetError) -> [UInt8] {
    var failure: AssetError?
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      while filled < count {
        let length = pread(
          descriptor, buffer.baseAddress?.advanced(by: filled), count - filled, off_t(offset) + off_t(filled))
        if length < 0 && errno == EINTR { continue }
        if length <= 0 {
          failure = length == 0 ? .corrupt("\(name) became shorter") : Folder.failure("read asset", name)
          return
        }
        filled += length
      }
    }
    if let failure { throw failure }
    return bytes
  }
}
