// The token of a shared database's feed (docs/protocol/record-plane.md#changes-database): its position at each owner.

import Crypto
public import Records

/// A position for each owner whose zones were told of. Owners are named by a digest: their names would make the token longer than requests
/// should be, and tell whoever finds it who shares with whom.
public struct SharedFeedToken: Hashable, Sendable {
  /// Parts beyond this are forgotten, of owners who share nothing any more: then their databases' feeds begin anew.
  public static let partLimit = 2000

  private var parts: [UInt64: SyncToken.Position]

  public init() { parts = [:] }

  /// Reads what a client sent back. A token without positions is good whichever database gave it out.
  /// - Throws: what a private database's token is refused with.
  public init(_ text: String) throws(SyncToken.Refusal) {
    parts = [:]
    if let empty = try? SyncToken(text, as: .database), empty.positions.isEmpty { return }
    let token = try SyncToken(text, as: .sharedDatabase)
    guard token.positions.count % 2 == 0 else { throw .invalidFormat }
    for index in stride(from: 0, to: token.positions.count, by: 2) { parts[token.positions[index].incarnation] = token.positions[index + 1] }
  }

  /// Where an owner's database stands; nil: nothing of it was told.
  public subscript(owner: String) -> SyncToken.Position? {
    get { parts[Self.digest(owner)] }
    set { parts[Self.digest(owner)] = newValue }
  }

  /// Forgets parts of owners not named here when there are more than may be.
  public mutating func forget(butOf owners: [String]) {
    guard parts.count > Self.partLimit else { return }
    let known = Set(owners.map(Self.digest))
    for digest in parts.keys.filter({ !known.contains($0) }).sorted().prefix(parts.count - Self.partLimit) { parts[digest] = nil }
  }

  public var text: String {
    var positions: [SyncToken.Position] = []
    for (digest, position) in parts.sorted(by: { $0.key < $1.key }) {
      positions.append(SyncToken.Position(incarnation: digest, sequence: 0))
      positions.append(position)
    }
    return SyncToken(.sharedDatabase, positions).text
  }

  private static func digest(_ owner: String) -> UInt64 { SHA256.hash(owner).prefix(8).reduce(0) { $0 << 8 | UInt64($1) } }
}
