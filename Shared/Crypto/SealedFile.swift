// Files encrypted at rest. They are sealed in chunks, so that a writer streams them and a reader starts anywhere.

/// The format of a sealed file: a head, then chunks of 64 KiB, of which the last may be shorter.
///
/// The head: 8 bytes that mark such files, the key's 8, a salt of 16, and 28 that authenticate the bytes before them.
///
/// A chunk: a nonce of 12 bytes, a tag of 16, and up to 65 508 of content. The tag covers the head, the chunk's index
/// and whether it is the last, so a reader notices exchanged chunks and truncated files.
public struct SealedFile: Sendable {
  /// The length of the head in bytes.
  public static let headByteCount = mark.count + KeyRing.ID.byteCount + saltByteCount + AESGCM.overhead
  public static let chunkContentByteCount = chunkByteCount - AESGCM.overhead

  private static let mark: [UInt8] = Array("aqseal-1".utf8)
  private static let saltByteCount = 16
  private static let chunkByteCount = 65_536

  private let keys: KeyRing
  private let key: KeyRing.ID
  fileprivate let head: [UInt8]

  /// The head of a new file; nil when there is no key.
  fileprivate init?(new keys: KeyRing) {
    guard let key = keys.newest else { return nil }
    self.keys = keys
    self.key = key
    var head = Self.mark + key.bytes + SecureRandom.bytes(Self.saltByteCount)
    let context = head
    UnsafeRawBufferPointer(start: nil, count: 0).seal(in: context, keys, key, appendingTo: &head)
    self.head = head
  }

  /// Reads the head of a file.
  /// - Parameter head: the first `headByteCount` bytes of the file.
  /// - Returns: nil for a file that is not sealed.
  /// - Throws: `missingKey` when the head names a key that the ring lacks.
  public init?(head: [UInt8], keys: KeyRing) throws(SealingError) {
    guard head.count == Self.headByteCount, Array(head.prefix(Self.mark.count)) == Self.mark else { return nil }
    guard let key = KeyRing.ID(bytes: Array(head[Self.mark.count..<Self.mark.count + KeyRing.ID.byteCount])) else {
      return nil
    }
    let context = Array(head.prefix(head.count - AESGCM.overhead))
    do {
      _ = try Array(head.suffix(AESGCM.overhead)).open(in: context, keys, key)
    } catch {
      // Plain content that happens to begin with the mark.
      if case .altered = error { return nil }
      throw error
    }
    self.keys = keys
    self.key = key
    self.head = head
  }

  /// The length of a sealed file in bytes, from the length of its content.
  public static func byteCount(ofContent count: Int64) -> Int64 {
    Int64(headByteCount) + count + Int64(AESGCM.overhead)
      * max(1, (count + Int64(chunkContentByteCount) - 1) / Int64(chunkContentByteCount))
  }

  /// The content's length in bytes, from the length of its sealed file; nil when no sealed file has that length.
  public static func contentByteCount(ofFile count: Int64) -> Int64? {
    let chunks = (count - Int64(headByteCount) + Int64(chunkByteCount) - 1) / Int64(chunkByteCount)
    let content = count - Int64(headByteCount) - chunks * Int64(AESGCM.overhead)
    return content >= 0 && byteCount(ofContent: content) == count ? content : nil
  }

  /// The position of a chunk in the file: its offset and its length, both in bytes.
  /// - Parameter contentByteCount: the length of the whole file's content.
  public static func place(ofChunk index: Int64, contentByteCount: Int64) -> (offset: Int64, byteCount: Int) {
    let start = index * Int64(chunkContentByteCount)
    let content = min(Int64(chunkContentByteCount), max(contentByteCount - start, 0))
    return (Int64(headByteCount) + index * Int64(chunkByteCount), Int(content) + AESGCM.overhead)
  }

  /// Opens one chunk.
  /// - Parameters:
  ///   - chunk: the bytes at `place(ofChunk:contentByteCount:)`.
  ///   - contentByteCount: the length of the whole file's content.
  /// - Returns: the content of the chunk.
  public func open(chunk: [UInt8], index: Int64, contentByteCount: Int64) throws(SealingError) -> [UInt8] {
    let isLast = (index + 1) * Int64(Self.chunkContentByteCount) >= contentByteCount
    return try chunk.open(in: context(index, isLast: isLast), keys, key)
  }

  fileprivate func seal(_ content: ArraySlice<UInt8>, index: Int64, isLast: Bool, appendingTo output: inout [UInt8]) {
    content.withUnsafeBytes { $0.seal(in: context(index, isLast: isLast), keys, key, appendingTo: &output) }
  }

  private func context(_ index: Int64, isLast: Bool) -> [UInt8] {
    head + withUnsafeBytes(of: index.bigEndian) { Array($0) } + [isLast ? 1 : 0]
  }
}

/// Seals content that arrives in pieces.
public struct FileSealer: Sendable {
  private let file: SealedFile
  /// Content of at most one chunk: it is sealed once more content or the end arrives.
  private var waiting: [UInt8] = []
  private var index: Int64 = 0
  private var isHeadGiven = false

  /// Fails when there is no key.
  public init?(_ keys: KeyRing) {
    guard let file = SealedFile(new: keys) else { return nil }
    self.file = file
  }

  /// - Returns: the bytes to write next; may be empty.
  public mutating func add(_ content: [UInt8]) -> [UInt8] {
    var output = takeHead()
    waiting += content
    var start = 0
    // A chunk is sealed as the last one only once no content follows.
    while waiting.count - start > SealedFile.chunkContentByteCount {
      file.seal(
        waiting[start..<start + SealedFile.chunkContentByteCount], index: index, isLast: false, appendingTo: &output)
      start += SealedFile.chunkContentByteCount
      index += 1
    }
    if start > 0 { waiting.removeFirst(start) }
    return output
  }

  /// - Returns: the last bytes of the file.
  public mutating func finish() -> [UInt8] {
    var output = takeHead()
    file.seal(waiting[...], index: index, isLast: true, appendingTo: &output)
    waiting = []
    return output
  }

  private mutating func takeHead() -> [UInt8] {
    defer { isHeadGiven = true }
    return isHeadGiven ? [] : file.head
  }
}

extension UnsafeRawBufferPointer {
  fileprivate func seal(in context: [UInt8], _ keys: KeyRing, _ id: KeyRing.ID, appendingTo output: inout [UInt8]) {
    keys.seal(self, in: context, with: id, appendingTo: &output)
  }
}

extension [UInt8] {
  fileprivate func open(in context: [UInt8], _ keys: KeyRing, _ id: KeyRing.ID) throws(SealingError) -> [UInt8] {
    try withUnsafeBufferPointer { bytes throws(SealingError) in
      try keys.open(UnsafeRawBufferPointer(bytes), in: context, with: id)
    }
  }
}
