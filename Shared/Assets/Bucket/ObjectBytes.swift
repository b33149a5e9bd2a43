// Reads an object of a bucket by ranges, somewhat ahead of its reader.

import Crypto
import S3
import Synchronization

/// The stored bytes of an object. It holds one range of them in memory.
final class ObjectBytes: AssetBytes {
  private struct Window {
    let offset: Int64
    let bytes: [UInt8]
  }

  private let key: String
  private let bucket: AssetBucket
  private let tag: String
  private let window: Mutex<Window>
  let byteCount: Int64
  var areLocal: Bool { false }
  var name: String { AssetBucket.text(bucket.location, key) }
  var identity: ContentIdentity { ContentIdentity(key: name, tag: tag) }

  /// Whom an object is read for, and so how far ahead.
  enum Reader {
    /// This process, which reads all of it at once.
    case process
    /// A client, which may be slow, and may want a part or the length alone. Ranges grow as it reads on.
    case client

    /// Enough for the head of a sealed content and its first chunk.
    fileprivate var firstByteCount: Int { self == .process ? windowByteCount : SealedFile.headByteCount + (64 << 10) }
    fileprivate var windowByteCount: Int { self == .process ? 1 << 20 : 256 << 10 }
  }

  private let reader: Reader
  var windowByteCount: Int { min(reader.windowByteCount, Int(clamping: byteCount)) }
  /// Bytes that are in memory now.
  var heldByteCount: Int { window.withLock(\.bytes.count) }

  /// Enough for a client to begin.
  private static let addressSeconds: Int64 = 60

  /// - Returns: nil when the object is missing.
  init?(_ key: String, in bucket: AssetBucket, for reader: Reader = .process) throws(AssetError) {
    // Of a plain object that clients fetch themselves, the head alone tells that it is plain.
    let count = bucket.location.publicEndpoint == nil ? reader.firstByteCount : SealedFile.headByteCount
    guard let found = try bucket.get(key, from: 0, count: count) else { return nil }
    self.key = key
    self.bucket = bucket
    self.reader = reader
    (byteCount, tag) = (found.byteCount, found.tag)
    window = Mutex(Window(offset: 0, bytes: found.bytes))
  }

  var address: String? {
    guard let endpoint = bucket.location.publicEndpoint else { return nil }
    // The headers that the gateway itself would send (`AssetDownloads`).
    let query = [
      "response-content-type": "application/octet-stream", "response-content-disposition": "attachment",
      "response-cache-control": "private, max-age=900, immutable",
    ]
    let connection = bucket.connection
    return connection.signer.presigned(
      key, query: query, endpoint: endpoint, at: connection.now, for: Self.addressSeconds)
  }

  func read(at offset: Int64, count: Int) throws(AssetError) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(count)
    while result.count < count {
      let position = offset + Int64(result.count)
      let window = try window(at: position, for: count - result.count)
      let start = Int(position - window.offset)
      result += window.bytes[start..<min(start + count - result.count, window.bytes.count)]
    }
    return result
  }

  /// A range that begins at or before `offset` and ends behind it.
  /// - Parameter wanted: the bytes that are read from there.
  private func window(at offset: Int64, for wanted: Int) throws(AssetError) -> Window {
    let known = window.withLock(\.self)
    if known.offset <= offset, offset < known.offset + Int64(known.bytes.count) { return known }
    let isNext = offset == known.offset + Int64(known.bytes.count)
    let ahead = min(max(isNext ? 2 * known.bytes.count : 0, reader.firstByteCount), reader.windowByteCount)
    let count = max(ahead, min(wanted, Reader.process.windowByteCount))
    guard let found = try bucket.get(key, from: offset, count: count, tag: tag), !found.bytes.isEmpty
    else { throw .corrupt("\(name) became shorter") }
    let fresh = Window(offset: offset, bytes: found.bytes)
    window.withLock { $0 = fresh }
    return fresh
  }
}
