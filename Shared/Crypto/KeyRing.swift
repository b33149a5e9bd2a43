// The keys of encryption at rest: the newest one seals, and every one opens.

/// An installation's encryption keys, read from the operator's key file.
///
/// A sealed blob is `0xC1`, the form's number 1, the key's 8 bytes, a nonce of 12, a tag of 16, and the content. No
/// MessagePack value begins with `0xC1`, so unsealed blobs stay readable after a key is added.
public struct KeyRing: Sendable {
  /// The public name of a key: the first 8 bytes of a digest of it.
  public struct ID: Hashable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]
    /// Fails unless there are 8 bytes.
    public init?(bytes: [UInt8]) {
      guard bytes.count == Self.byteCount else { return nil }
      self.bytes = bytes
    }
    public static let byteCount = 8
    /// 16 hexadecimal digits.
    public var description: String { Hex.encode(bytes) }
  }

  /// The use of a blob. A blob sealed for one purpose cannot be opened for another.
  public enum Purpose: UInt8, Sendable {
    /// Stored: never renumber.
    case record = 1, history = 2, quarantine = 3, journal = 4, share = 5
  }

  private struct Key: Sendable {
    let id: ID
    let bytes: [UInt8]
  }

  /// Oldest first.
  private let keys: [Key]

  /// A ring without keys. It opens nothing and must not seal.
  public init() { keys = [] }

  /// Reads a key file: one key of 64 hexadecimal digits a line, the newest last. Skips empty lines and lines with `#`
  /// first.
  /// - Throws: an error that names the line and never shows a key.
  public init(parsing text: String) throws(KeyFileError) {
    var keys: [Key] = []
    for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
      let word = line.filter { $0 != " " && $0 != "\t" }
      if word.isEmpty || word.hasPrefix("#") { continue }
      guard let bytes = Hex.decode(word), bytes.count == AESGCM.keyByteCount else {
        throw KeyFileError(
          reason: "line \(index + 1) is not a key: a key has \(2 * AESGCM.keyByteCount) hexadecimal digits")
      }
      guard !keys.contains(where: { $0.bytes == bytes }) else {
        throw KeyFileError(reason: "line \(index + 1) repeats an earlier key")
      }
      guard let id = ID(bytes: Array(SHA256.hash(Array("aquifer encryption key".utf8) + bytes).prefix(ID.byteCount)))
      else { continue }
      keys.append(Key(id: id, bytes: bytes))
    }
    guard !keys.isEmpty else { throw KeyFileError(reason: "it has no key") }
    guard Set(keys.map(\.id)).count == keys.count else {
      throw KeyFileError(reason: "two of its keys have the same identifier; make another key")
    }
    self.keys = keys
  }

  /// A random key as a line for a key file.
  public static func newKey() -> String { Hex.encode(SecureRandom.bytes(AESGCM.keyByteCount)) }

  /// The key that seals new blobs; nil for a ring without keys.
  public var newest: ID? { keys.last?.id }
  public var canSeal: Bool { !keys.isEmpty }
  public func contains(_ id: ID) -> Bool { keys.contains { $0.id == id } }

  // MARK: Blobs

  private static let mark: UInt8 = 0xC1
  private static let form: UInt8 = 1
  private static let headByteCount = 2 + ID.byteCount
  /// The bytes that sealing adds to a blob.
  public static let overhead = headByteCount + AESGCM.overhead

  /// True when a stored blob is sealed. Compares one byte.
  public static func isSealed(_ blob: UnsafeRawBufferPointer) -> Bool { blob.first == mark }

  /// The length of a stored blob's content, sealed or not.
  public static func contentByteCount(of blob: UnsafeRawBufferPointer) -> Int {
    isSealed(blob) ? max(blob.count - overhead, 0) : blob.count
  }

  /// Seals with the newest key.
  /// - Precondition: the ring has a key (`canSeal`).
  public func seal(_ content: [UInt8], for purpose: Purpose) -> [UInt8] {
    guard let key = keys.last else { preconditionFailure("there is no key to seal \(content.count) bytes with") }
    var blob: [UInt8] = []
    blob.reserveCapacity(content.count + Self.overhead)
    blob += [Self.mark, Self.form]
    blob += key.id.bytes
    content.withUnsafeBytes { AESGCM.seal($0, in: [purpose.rawValue], key: key.bytes, appendingTo: &blob) }
    return blob
  }

  /// Opens a sealed blob.
  /// - Throws: `SealingError` when the key is missing, or when the blob is altered or sealed for another purpose.
  public func open(_ blob: UnsafeRawBufferPointer, for purpose: Purpose) throws(SealingError) -> [UInt8] {
    guard blob.count >= Self.overhead, blob[0] == Self.mark, blob[1] == Self.form else { throw .altered }
    guard let id = ID(bytes: Array(blob[2..<Self.headByteCount])) else { throw .altered }
    return try open(UnsafeRawBufferPointer(rebasing: blob[Self.headByteCount...]), in: [purpose.rawValue], with: id)
  }

  // MARK: Pieces of files

  /// Appends the nonce, the tag and the encrypted content.
  func seal(_ content: UnsafeRawBufferPointer, in context: [UInt8], with id: ID, appendingTo message: inout [UInt8]) {
    guard let key = keys.first(where: { $0.id == id }) else { preconditionFailure("the key \(id) is not in the ring") }
    AESGCM.seal(content, in: context, key: key.bytes, appendingTo: &message)
  }

  func open(_ message: UnsafeRawBufferPointer, in context: [UInt8], with id: ID) throws(SealingError) -> [UInt8] {
    guard let key = keys.first(where: { $0.id == id }) else { throw .missingKey(id) }
    guard let content = AESGCM.open(message, in: context, key: key.bytes) else { throw .altered }
    return content
  }
}

/// The reason why a key file is unusable.
public struct KeyFileError: Error, Hashable, Sendable {
  /// Names the line, never a key.
  public let reason: String
}

/// The reason why a sealed blob cannot be opened.
public enum SealingError: Error, Hashable, Sendable {
  /// The ring lacks the key that sealed it.
  case missingKey(KeyRing.ID)
  /// The blob differs from the one that was sealed, or was sealed for another purpose.
  case altered
}
