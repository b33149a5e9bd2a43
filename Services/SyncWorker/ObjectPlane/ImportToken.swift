// How far a store has imported: what the token of an import batch says.

import RecordStore
import Records

/// A position in a database's feed, as one store sees it.
///
/// On the wire a `SyncToken`: first the database's incarnation with `sequence`, then with `seen`, then for each zone its incarnation with
/// a hash of its name.
struct ImportPosition: Hashable, Sendable {
  /// Records changed up to here were delivered, or left out as the store's own echoes.
  var sequence: Int64 = 0
  /// Where the store last had everything. Between two pages of a run it lies behind `sequence`: a record that the store itself exports
  /// meanwhile moves to the end of the feed, past others' changes to it that were not delivered yet. So a record is an echo only if others
  /// left it alone since here, not just since the last page.
  var seen: Int64 = 0
  /// The zones the store knows, by `hash(of:)`, with their incarnations: one that is gone, or was made anew, must be told.
  var zones: [Int64: UInt64] = [:]

  /// Zones beyond this number are not watched; a token has to fit into a URL.
  private static let zoneLimit = 32

  init() {}

  /// - Throws: `Unknown sync continuation type` for a token of another database, or of this one before it was restored.
  init(_ token: SyncToken, of database: StoredDatabase) throws(RecordError) {
    let positions = token.positions
    guard positions.count >= 2, positions[0].incarnation == database.incarnation, positions[0].sequence <= database.sequence,
      positions[1].incarnation == database.incarnation, positions[1].sequence <= positions[0].sequence
    else { throw SyncToken.Refusal.unknownType.recordError }
    sequence = positions[0].sequence
    seen = positions[1].sequence
    for position in positions.dropFirst(2) { zones[position.sequence] = position.incarnation }
  }

  func token(of database: StoredDatabase) -> SyncToken {
    var positions = [
      SyncToken.Position(incarnation: database.incarnation, sequence: sequence), SyncToken.Position(incarnation: database.incarnation, sequence: seen),
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
