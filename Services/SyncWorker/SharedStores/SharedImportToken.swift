// The import position of a shared store: one position in the feed of each owner who shares with its user.

import Crypto
import Records

/// The import tokens of a store's guests by owner, and under the user's own name the position among the losses at home
/// (`SharedLosses`).
///
/// On the wire: base64 of `mark, version, count`; for each owner 8 bytes of a hash of the name, the number of
/// positions, and for each position 8 bytes of incarnation and a variable-length sequence; then 8 bytes of checksum. An
/// owner takes some 40 bytes, so the token of a full store fits into a URL. A finished owner has one position with the
/// incarnation `end` and the sequence of its last news.
struct SharedImportToken: Hashable, Sendable {
  /// By `hash(of:)` the owner.
  var positions: [UInt64: [SyncToken.Position]] = [:]

  /// The owners that one store imports from: a token of more would be too long for a URL.
  static let ownerLimit = 100

  /// The owners and the user.
  private static let entryLimit = ownerLimit + 1

  private static let mark: UInt8 = 0x53
  private static let version: UInt8 = 1
  private static let checksumByteCount = 8

  init() {}

  subscript(owner: String) -> SyncToken? {
    get { positions[Self.hash(of: owner)].flatMap { Self.isEnd($0) ? nil : SyncToken(.importBatch, $0) } }
    set { positions[Self.hash(of: owner)] = newValue?.positions }
  }

  /// Notes that the client has everything of an owner who shares nothing any more.
  mutating func finish(_ owner: SharedOwner) {
    positions[Self.hash(of: owner.name)] = [SyncToken.Position(incarnation: Self.end, sequence: owner.sequence)]
  }

  /// True when an owner has shared nothing since the client had everything.
  func isFinished(_ owner: SharedOwner) -> Bool {
    guard let list = positions[Self.hash(of: owner.name)], Self.isEnd(list) else { return false }
    return !owner.isActive && list[0].sequence >= owner.sequence
  }

  private static func isEnd(_ list: [SyncToken.Position]) -> Bool { list.count == 1 && list[0].incarnation == end }

  /// The mark of a finished owner, in place of an incarnation.
  private static let end = UInt64.max

  /// Drops positions of owners not named here as far as the token lacks room; an incomplete owner list may miss some of
  /// them.
  mutating func makeRoom(for owners: [String]) {
    let named = Set(owners.map(Self.hash(of:)))
    let others = positions.keys.filter { !named.contains($0) }.sorted()
    for owner in others.dropFirst(max(Self.entryLimit - named.count, 0)) { positions[owner] = nil }
  }

  /// Grows with every page; events' figures use it.
  var progress: Int64 { positions.values.reduce(0) { $0 &+ ($1.first?.sequence ?? 0) } }

  static func hash(of owner: String) -> UInt64 { SHA256.hash(owner).prefix(8).reduce(0) { $0 << 8 | UInt64($1) } }

  var text: String {
    let owners = positions.sorted { $0.key < $1.key }.prefix(Self.entryLimit)
    var bytes: [UInt8] = [Self.mark, Self.version, UInt8(owners.count)]
    func append(_ number: UInt64) {
      for shift in stride(from: 56, through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift)))
      }
    }
    for (owner, list) in owners {
      append(owner)
      bytes.append(UInt8(clamping: list.count))
      for position in list.prefix(Int(UInt8.max)) {
        append(position.incarnation)
        var rest = UInt64(bitPattern: position.sequence)
        while rest >= 0x80 {
          bytes.append(UInt8(rest & 0x7f) | 0x80)
          rest >>= 7
        }
        bytes.append(UInt8(rest))
      }
    }
    bytes += SHA256.hash(bytes).prefix(Self.checksumByteCount)
    return Base64.encode(bytes)
  }

  /// Reads a token that a client sent back.
  /// - Throws: `Refusal.unknownType` for text that is no such token, `.invalidFormat` for a cut or altered token.
  init(_ text: String) throws(SyncToken.Refusal) {
    guard let bytes = Base64.decode(text), bytes.count >= 3 + Self.checksumByteCount, bytes[0] == Self.mark,
      bytes[1] == Self.version
    else { throw .unknownType }
    let end = bytes.count - Self.checksumByteCount
    guard SHA256.hash(Array(bytes[..<end])).prefix(Self.checksumByteCount).elementsEqual(bytes[end...]) else {
      throw .invalidFormat
    }
    var rest = bytes[3..<end]
    // A client can compute the checksum too, so the content is checked as input.
    guard bytes[2] <= Self.entryLimit else { throw .invalidFormat }
    for _ in 0..<bytes[2] {
      let owner = try Self.number(&rest)
      guard let count = rest.popFirst() else { throw .invalidFormat }
      var list: [SyncToken.Position] = []
      for _ in 0..<count {
        list.append(SyncToken.Position(incarnation: try Self.number(&rest), sequence: try Self.variable(&rest)))
      }
      positions[owner] = list
    }
    guard rest.isEmpty else { throw .invalidFormat }
  }

  private static func number(_ bytes: inout ArraySlice<UInt8>) throws(SyncToken.Refusal) -> UInt64 {
    guard bytes.count >= 8 else { throw .invalidFormat }
    defer { bytes = bytes.dropFirst(8) }
    return bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
  }

  private static func variable(_ bytes: inout ArraySlice<UInt8>) throws(SyncToken.Refusal) -> Int64 {
    var number: UInt64 = 0
    for shift in stride(from: UInt64(0), through: 56, by: 7) {
      guard let byte = bytes.popFirst() else { throw .invalidFormat }
      number |= UInt64(byte & 0x7f) << shift
      if byte < 0x80 { return Int64(number) }
    }
    throw .invalidFormat
  }
}
