// Keeps how far a store has imported: the content of an import batch's token.

import RecordStore
import Records

/// A position in a database's feed, as one store sees it.
///
/// On the wire it is a `SyncToken` with these positions (incarnation: sequences), in this order:
/// - the database's incarnation: `sequence`, then `firstUnseen`;
/// - 0, which no zone has, unless all is 0: `epoch`, and during a refetch its epoch and sequence;
/// - 3, unless `firstUnseen` implies them: `told`, `endsTold`;
/// - 2, for a guest: `memberships`, and during a catch-up its `through` and `sequence`;
/// - each zone's incarnation, with a hash of its name; a guest's token names no zones.
struct ImportPosition: Hashable, Sendable {
  /// A second delivery of records, because the store's model reads more than before (I8) or the store was reset.
  struct Refetch: Hashable, Sendable {
    /// The model epoch that it serves.
    let epoch: Int64
    /// Records up to here were sent again, out of those up to the position's `sequence`.
    var sequence: Int64
  }

  /// Records changed up to here were delivered, or left out as the store's own echoes.
  var sequence: Int64 = 0
  /// One past the sequence at which the store last had everything. Between two pages of a run it lags behind
  /// `sequence`: a record that the store exports meanwhile moves to the end of the feed, past undelivered changes of
  /// others. A record is an echo only if others left it alone since then, not just since the last page.
  var firstUnseen: Int64 = 1
  /// The sequence at which the store last had everything since it began; 0 if it never had. `firstUnseen` is lower when
  /// a zone is lost or joined, or something is told again.
  var told: Int64 = 0
  /// A page of the unfinished run told the ends of zones up to here.
  var endsTold: Int64 = 0
  /// The `StoredSyncState.modelEpoch` of the model that delivered everything up to `sequence`.
  var epoch: Int64 = 0
  var refetch: Refetch?
  /// Incarnations of the zones that the store knows, by `hash(of:)`: a page tells of one that ended or was made anew.
  var zones: [Int64: UInt64] = [:]

  /// For a guest: changes of its user's memberships up to this sequence were told.
  var memberships: Int64 = 0
  /// Set while the zones that a guest joined are told from their beginnings.
  var catchUp: CatchUp?

  /// For a guest: records that left its user's sight up to here were told. It moves only when the store has everything,
  /// because a record that left may change during a run and move past the page that would have told of it.
  var departures: Int64 { told }

  struct CatchUp: Hashable, Sendable {
    let through: Int64
    var sequence: Int64
  }

  /// Zones that wait for their user's decision, by hash. They come first in a token that has no room for all zones,
  /// because nothing else says what was told of them.
  var pausedZones: Set<Int64> = []
  /// Zones whose ends a later page of the run tells, by hash. The token that named them has room for them again.
  var deferredZones: Set<Int64> = []

  /// Incarnations that no zone has.
  private static let guestMark: UInt64 = 2
  private static let toldMark: UInt64 = 3

  /// A token has to fit into a URL: the ends of zones beyond this number are told by their sequences (`ImportBatch`).
  private static let zoneLimit = 32

  /// The position of a client without a token. After a reset it has none of the store's own records either.
  init(beginning state: StoredSyncState = StoredSyncState()) {
    epoch = state.modelEpoch
    if state.resetSequence > 0 { firstUnseen = 0 }
  }

  /// True if every change to a record since `firstUnseen` is the store's own, so that the store need not be sent it.
  func isEcho(_ row: StoredRecord, of mirror: StoredMirror) -> Bool {
    row.origin == mirror.key && row.sequenceOfOthers < firstUnseen
  }

  /// True if the store had everything at least once since it began.
  var hasBeenComplete: Bool { told > 0 }

  /// True if the client's new copy is complete since the reset in `state`: it had everything once after that, and
  /// records changed during the run moved to the run's end.
  func completes(_ state: StoredSyncState) -> Bool {
    epoch == state.modelEpoch && refetch == nil && firstUnseen > state.resetSequence
  }

  /// The store has everything up to `sequence`.
  mutating func caughtUp(with sequence: Int64) {
    self.sequence = sequence
    firstUnseen = sequence + 1
    told = sequence
    endsTold = 0
  }

  /// A guest's client without a token is told of everything that is there, so earlier memberships are no news.
  mutating func begin(with sequence: Int64) {
    memberships = sequence
  }

  /// Even records that the store itself exported are news to it until the run ends.
  mutating func beginAgain() {
    firstUnseen = 0
  }

  /// Forgets a known zone with all that the store had there: even its own records are news until the run ends. Earlier
  /// pages may have left out deletions of records that moved to the zone, so the run tells again what it told.
  /// - Parameter restart: the sequence after which the present content of the zone's name begins, if all of it is told.
  mutating func lostZone(_ restart: Int64) {
    firstUnseen = 0
    sequence = min(sequence, restart, told)
  }

  /// True if the token may lack zones that the store knows.
  var isFull: Bool { zones.count >= Self.zoneLimit }

  /// True if an earlier page or run passed the end of a zone.
  func hasTold(endAt sequence: Int64) -> Bool { sequence <= lastToldEnd }

  private var lastToldEnd: Int64 { max(sequence, told, endsTold) }

  /// The page tells the end of a zone, and has told all earlier ones. They stay told when `sequence` goes back.
  mutating func told(endAt sequence: Int64) { endsTold = max(lastToldEnd, sequence) }

  /// Begins a second delivery, which includes records that the store itself exports meanwhile.
  mutating func beginRefetch(for epoch: Int64) {
    refetch = Refetch(epoch: epoch, sequence: 0)
    beginAgain()
  }

  /// - Throws: `SyncToken.Refusal.expired` for a token of another database, or of this one before it was restored or
  ///   began anew.
  init(_ token: SyncToken, of database: StoredDatabase) throws(RecordError) {
    let positions = token.positions
    guard positions.count >= 2, positions[0].incarnation == database.incarnation,
      positions[0].sequence <= database.sequence,
      positions[1].incarnation == database.incarnation, positions[1].sequence <= positions[0].sequence + 1
    else { throw SyncToken.Refusal.expired }
    sequence = positions[0].sequence
    firstUnseen = positions[1].sequence
    let epochs = positions.dropFirst(2).prefix { $0.incarnation == 0 }.map(\.sequence)
    epoch = epochs.first ?? 0
    if epochs.count == 3 { refetch = Refetch(epoch: epochs[1], sequence: epochs[2]) }
    let knowledge = positions.dropFirst(2 + epochs.count).prefix(2).prefix { $0.incarnation == Self.toldMark }.map(
      \.sequence)
    told = knowledge.first ?? max(firstUnseen - 1, 0)
    if knowledge.count == 2 { endsTold = knowledge[1] }
    guard (0...database.sequence).contains(told), (0...database.sequence).contains(endsTold) else {
      throw SyncToken.Refusal.expired
    }
    let marks = positions.dropFirst(2 + epochs.count + knowledge.count).prefix { $0.incarnation == Self.guestMark }.map(
      \.sequence)
    memberships = marks.first ?? 0
    if marks.count > 2 { catchUp = CatchUp(through: marks[1], sequence: marks[2]) }
    for position in positions.dropFirst(2 + epochs.count + knowledge.count + marks.count) {
      zones[position.sequence] = position.incarnation
    }
  }

  func token(of database: StoredDatabase) -> SyncToken {
    var positions = [
      SyncToken.Position(incarnation: database.incarnation, sequence: sequence),
      SyncToken.Position(incarnation: database.incarnation, sequence: firstUnseen),
    ]
    if epoch > 0 || refetch != nil {
      for number in [epoch] + (refetch.map { [$0.epoch, $0.sequence] } ?? []) {
        positions.append(SyncToken.Position(incarnation: 0, sequence: number))
      }
    }
    if told != max(firstUnseen - 1, 0) || endsTold > 0 {
      for number in [told, endsTold] {
        positions.append(SyncToken.Position(incarnation: Self.toldMark, sequence: number))
      }
    }
    if memberships > 0 || catchUp != nil {
      for number in [memberships] + (catchUp.map { [$0.through, $0.sequence] } ?? []) {
        positions.append(SyncToken.Position(incarnation: Self.guestMark, sequence: number))
      }
    }
    let named = zones.sorted { (rank(of: $0.key), $0.key) < (rank(of: $1.key), $1.key) }
    for (hash, incarnation) in named.prefix(Self.zoneLimit) {
      positions.append(SyncToken.Position(incarnation: incarnation, sequence: hash))
    }
    return SyncToken(.importBatch, positions)
  }

  private func rank(of zone: Int64) -> Int { deferredZones.contains(zone) ? 0 : pausedZones.contains(zone) ? 1 : 2 }

  /// FNV-1a without its sign bit: stable over processes and releases.
  static func hash(of zoneName: String) -> Int64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in zoneName.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return Int64(hash >> 1)
  }
}
