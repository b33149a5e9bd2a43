// The token of a shared database's feed (docs/protocol/record-plane.md#changes-database): its position at each owner.

import Crypto
public import Records

/// A position in each owner's database. Digests stand for the owners: their names would make the token too long for
/// requests, and would tell its finder who shares with whom.
public struct SharedFeedToken: Hashable, Sendable {
  /// The number of positions that a token keeps. Beyond it, those of owners who no longer share anything are dropped,
  /// and their feeds begin anew.
  public static let partLimit = 2000

  private var parts: [UInt64: SyncToken.Position]

  public init() { parts = [:] }

  /// Reads a token that a client sent back. Tokens without positions of any kind of database are valid.
  /// - Throws: the refusals of a private database's token.
  public init(_ text: String) throws(SyncToken.Refusal) {
    parts = [:]
    if let empty = try? SyncToken(text, as: .database), empty.positions.isEmpty { return }
    let token = try SyncToken(text, as: .sharedDatabase)
    guard token.positions.count % 2 == 0 else { throw .invalidFormat }
    for index in stride(from: 0, to: token.positions.count, by: 2) {
      parts[token.positions[index].incarnation] = token.positions[index + 1]
    }
  }

  /// The position in an owner's database; nil if the feed has reported nothing of it.
  public subscript(owner: String) -> SyncToken.Position? {
    get { parts[Self.digest(owner)] }
    set { parts[Self.digest(owner)] = newValue }
  }

  /// Drops positions of owners that are not in the list, down to the limit.
  public mutating func forget(butOf owners: [String]) {
    guard parts.count > Self.partLimit else { return }
    let known = Set(owners.map(Self.digest))
    for digest in parts.keys.filter({ !known.contains($0) }).sorted().prefix(parts.count - Self.partLimit) {
      parts[digest] = nil
    }
  }

  public var text: String {
    var positions: [SyncToken.Position] = []
    for (digest, position) in parts.sorted(by: { $0.key < $1.key }) {
      positions.append(SyncToken.Position(incarnation: digest, sequence: 0))
      positions.append(position)
    }
    return SyncToken(.sharedDatabase, positions).text
  }

  private static func digest(_ owner: String) -> UInt64 {
    SHA256.hash(owner).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
}
