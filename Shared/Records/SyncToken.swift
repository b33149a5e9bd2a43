// Change tokens: opaque to clients, deterministic, equal for every worker and session.

import Crypto

/// A position in a change feed.
///
/// On the wire it is base64 of `kind, version, count, count × (incarnation, sequence), checksum`: 48 characters for one
/// position. A zone or database that is created anew or restored gets another incarnation, so that an old token is
/// refused instead of skipping changes.
public struct SyncToken: Hashable, Sendable {
  public enum Kind: UInt8, Hashable, Sendable {
    case zone = 0x5a
    case database = 0x44
    case importBatch = 0x49
    case history = 0x48
    case query = 0x51
    /// A token of a shared database's feed: two positions for each owner.
    case sharedDatabase = 0x53
  }

  public struct Position: Hashable, Sendable {
    /// Random, drawn when the zone, database or store was created.
    public var incarnation: UInt64
    /// The last sequence number that the client has seen; 0 is the beginning.
    public var sequence: Int64

    public init(incarnation: UInt64, sequence: Int64) {
      self.incarnation = incarnation
      self.sequence = sequence
    }
  }

  /// The reason why a token is refused, in the words that clients look for (docs/protocol/record-plane.md#tokens).
  public enum Refusal: String, Error, Sendable {
    case unknownType = "Unknown sync continuation type"
    case invalidFormat = "Invalid continuation format"

    public var recordError: RecordError { RecordError(.badRequest, rawValue) }

    /// The answer to an import whose token is of a database that is no more (CKError 21): start over (P6).
    public static let expired = RecordError(
      .badRequest, Refusal.unknownType.rawValue, httpStatus: 410,
      specialCKErrorCode: SpecialCKErrorCode.changeTokenExpired.rawValue)
  }

  public let kind: Kind
  public let positions: [Position]

  public init(_ kind: Kind, _ positions: [Position]) {
    precondition(positions.count <= Int(UInt16.max), "a token holds at most 65 535 positions")
    self.kind = kind
    self.positions = positions
  }

  public init(_ kind: Kind, incarnation: UInt64, sequence: Int64) {
    self.init(kind, [Position(incarnation: incarnation, sequence: sequence)])
  }

  private static let version: UInt8 = 1
  private static let headerByteCount = 4
  private static let positionByteCount = 16
  private static let checksumByteCount = 16

  public var text: String {
    var bytes: [UInt8] = [kind.rawValue, Self.version, UInt8(positions.count >> 8), UInt8(positions.count & 0xff)]
    for position in positions {
      withUnsafeBytes(of: position.incarnation.bigEndian) { bytes.append(contentsOf: $0) }
      withUnsafeBytes(of: position.sequence.bigEndian) { bytes.append(contentsOf: $0) }
    }
    bytes.append(contentsOf: SHA256.hash(bytes).prefix(Self.checksumByteCount))
    return Base64.encode(bytes)
  }

  /// Reads a token that a client sent back.
  /// - Throws: `Refusal.unknownType` if the text does not begin as a token of this kind; `.invalidFormat` if it is
  ///   damaged.
  public init(_ text: String, as kind: Kind) throws(Refusal) {
    guard let bytes = Base64.decode(text), bytes.count >= 2, bytes[0] == kind.rawValue, bytes[1] == Self.version else {
      throw .unknownType
    }
    guard bytes.count >= Self.headerByteCount + Self.checksumByteCount else { throw .invalidFormat }
    let count = Int(bytes[2]) << 8 | Int(bytes[3])
    let bodyByteCount = Self.headerByteCount + count * Self.positionByteCount
    guard bytes.count == bodyByteCount + Self.checksumByteCount,
      SHA256.hash(Array(bytes[..<bodyByteCount])).prefix(Self.checksumByteCount).elementsEqual(bytes[bodyByteCount...])
    else { throw .invalidFormat }
    var positions: [Position] = []
    for index in 0..<count {
      let start = Self.headerByteCount + index * Self.positionByteCount
      let incarnation = Self.bigEndian(bytes[start..<start + 8])
      let sequence = Int64(bitPattern: Self.bigEndian(bytes[start + 8..<start + 16]))
      guard sequence >= 0 else { throw .invalidFormat }
      positions.append(Position(incarnation: incarnation, sequence: sequence))
    }
    self.kind = kind
    self.positions = positions
  }

  private static func bigEndian(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.reduce(0) { $0 << 8 | UInt64($1) }
  }
}
