// How far a store has imported: what the token of an import batch says.

import RecordStore
import Records

/// A position in a database's feed, as one store sees it.
///
/// On the wire a `SyncToken`: first the database's incarnation with `sequence`, then with `firstUnseen`, then for each zone its incarnation
/// with a hash of its name.
struct ImportPosition: Hashable, Sendable {
  /// Records changed up to here were delivered, or left out as the store's own echoes.
  var sequence: Int64 = 0
  /// Behind what the store had when it last had everything. Between two pages of a run that lies behind `sequence`: a record that the store
  /// itself exports meanwhile moves to the end of the feed, past others' changes to it that were not delivered yet. So a record is an echo
  /// only if others left it alone since then, not just since the last page.
  var firstUnseen: Int64 = 1
  /// The zones the store knows, by `hash(of:)`, with their incarnations: one that is gone, or was made anew, must be told.
  var zones: [Int64: UInt64] = [:]

  /// Zones beyond this number are not watched; a token has to fit into a URL.
  private static let zoneLimit = 32

  init() {}

  /// Whether a store need not be sent a record, because every change to it since then is the store's own.
  func isEcho(_ row: StoredRecord, of mirror: StoredMirror) -> Bool { row.origin == mirror.key && row.sequenceOfOthers < firstUnseen }

  /// The store has everything up to `sequence`.
  mutating func caughtUp(with sequence: Int64) {
    self.sequence = sequence
    firstUnseen = sequence + 1
  }

  /// A zone that the store knew is gone, and what it had there with it: even its own records are news until the run ends.
  mutating func lostZone() { firstUnseen = 0 }

  /// - Throws: `Unknown sync continuation type` for a token of another database, or of this one before it was restored.
  init(_ token: SyncToken, of database: StoredDatabase) throws(RecordError) {
    let positions = token.positions
    guard positions.count >= 2, positions[0].incarnation == database.incarnation, positions[0].sequence <= database.sequence,
      positions[1].incarnation == database.incarnation, positions[1].sequence <= positions[0].sequence + 1
    else { throw SyncToken.Refusal.unknownType.recordError }
    sequence = positions[0].sequence
    firstUnseen = positions[1].sequence
    for position in positions.dropFirst(2) { zones[position.sequence] = position.incarnation }
  }

  func token(of database: StoredDatabase) -> SyncToken {
    var positions = [
      SyncToken.Position(incarnation: database.incarnation, sequence: sequence), SyncToken.Position(incarnation: database.incarnation, sequence: firstUnseen),
    ]
    for (hash, incarnation) in zones.sorted(by: { $0.key < $1.key }).prefix(Self.zoneLimit) {
      positions.append(SyncToken.Position(incarnation: incarnation, sequence: hash))
    }
    return SyncToken(.importBatch, positions)
  }

  /// FNV-1a without its sign bit: stable over processes and releases.
  static func hash(of zoneName: String) -> Int64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in zoneName.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return Int64(hash >> 1)
  }
}
