// How far a store has imported: what the token of an import batch says.

import RecordStore
import Records

/// A position in a database's feed, as one store sees it.
///
/// On the wire a `SyncToken`: first the database's incarnation with `sequence`, then with `firstUnseen`; then, where it is not 0, the incarnation
/// 0 (which no zone has) with `epoch`, and while a refetch is under way with its epoch and sequence; then for each zone its incarnation with a
/// hash of its name. A guest's has no zones, but the incarnation 2 with `memberships`, while zones that were joined are caught up with those
/// two numbers. Before either, where `firstUnseen` does not say it, the incarnation 3 with
/// `told` and `endsTold`.
struct ImportPosition: Hashable, Sendable {
  /// What the store is sent again because its model knows more than before (I8), or because it was reset.
  struct Refetch: Hashable, Sendable {
    /// The epoch whose model it is for.
    let epoch: Int64
    /// Records up to here were sent again, of those up to the position's `sequence`.
    var sequence: Int64
  }

  /// Records changed up to here were delivered, or left out as the store's own echoes.
  var sequence: Int64 = 0
  /// Behind what the store had when it last had everything. Between two pages of a run that lies behind `sequence`: a record that the store
  /// itself exports meanwhile moves to the end of the feed, past others' changes to it that were not delivered yet. So a record is an echo
  /// only if others left it alone since then, not just since the last page.
  var firstUnseen: Int64 = 1
  /// Where the store had everything when it last had, or since it began anew: 0 if it never had. `firstUnseen` falls behind it when a zone is
  /// lost or joined, or something is told again.
  var told: Int64 = 0
  /// The ends of zones up to here were told by a page of a run that is not over.
  var endsTold: Int64 = 0
  /// `StoredSyncState.modelEpoch` of the model by which everything up to `sequence` was delivered.
  var epoch: Int64 = 0
  var refetch: Refetch?
  /// The zones the store knows, by `hash(of:)`, with their incarnations: one that is gone, or was made anew, must be told.
  var zones: [Int64: UInt64] = [:]

  /// A guest's: what was told of its user's memberships, as the sequences have them that were taken when each began or ended.
  var memberships: Int64 = 0
  /// Zones that were joined since are told from their beginnings: those that were by `through`, their records up to `sequence`, of those up to
  /// the position's.
  var catchUp: CatchUp?

  /// A guest's: what went out of its user's sight up to then was told. It moves when the store has everything: during a run a record that left may be
  /// changed again and move behind the page that would have told of it.
  var departures: Int64 { told }

  struct CatchUp: Hashable, Sendable {
    let through: Int64
    var sequence: Int64
  }

  /// Zones that wait for their user's decision, by hash: of more zones than a token has room for these are named first, because nothing else says
  /// what was told of them.
  var pausedZones: Set<Int64> = []

  /// Incarnations that no zone has.
  private static let guestMark: UInt64 = 2
  private static let toldMark: UInt64 = 3

  /// A token has to fit into a URL: of zones beyond this number the ends are told by their sequences (`ImportBatch`).
  private static let zoneLimit = 32

  /// Where a client without a token begins. One that was reset has none of its own records any more.
  init(beginning state: StoredSyncState = StoredSyncState()) {
    epoch = state.modelEpoch
    if state.resetSequence > 0 { firstUnseen = 0 }
  }

  /// Whether a store need not be sent a record, because every change to it since then is the store's own.
  func isEcho(_ row: StoredRecord, of mirror: StoredMirror) -> Bool { row.origin == mirror.key && row.sequenceOfOthers < firstUnseen }

  /// The store had everything at least once since it began.
  var hasBeenComplete: Bool { told > 0 }

  /// The client's new copy is whole, since the reset that `state` tells of.
  /// It had everything since then: what was changed during the run has moved to its end.
  func completes(_ state: StoredSyncState) -> Bool { epoch == state.modelEpoch && refetch == nil && firstUnseen > state.resetSequence }

  /// The store has everything up to `sequence`.
  mutating func caughtUp(with sequence: Int64) {
    self.sequence = sequence
    firstUnseen = sequence + 1
    told = sequence
    endsTold = 0
  }

  /// A guest's client without a token is told of all that is there now.
  mutating func begin(with sequence: Int64) {
    memberships = sequence
  }

  /// What the store itself exported is news to it until the run ends.
  mutating func beginAgain() {
    firstUnseen = 0
  }

  /// A zone that the store knew is gone, and what it had there with it: even its own records are news until the run ends. Earlier pages of the run
  /// may have left out deletions of what had moved to that zone: what was told since the run began is told again.
  /// - Parameter restart: where what is in a zone of that name now begins, when the store is to be told all of it.
  mutating func lostZone(_ restart: Int64) {
    firstUnseen = 0
    sequence = min(sequence, restart, told)
  }

  /// Whether there may be zones of which the token has no word.
  var isFull: Bool { zones.count >= Self.zoneLimit }

  /// Whether an earlier page, or an earlier run, came by the end of a zone.
  func hasTold(endAt sequence: Int64) -> Bool { sequence <= max(self.sequence, told, endsTold) }

  /// Something is to be told again: with what the store itself exports meanwhile, which moves behind the position.
  mutating func beginRefetch(for epoch: Int64) {
    refetch = Refetch(epoch: epoch, sequence: 0)
    beginAgain()
  }

  /// - Throws: `SyncToken.Refusal.expired` for a token of another database, or of this one before it was restored or began anew.
  init(_ token: SyncToken, of database: StoredDatabase) throws(RecordError) {
    let positions = token.positions
    guard positions.count >= 2, positions[0].incarnation == database.incarnation, positions[0].sequence <= database.sequence,
      positions[1].incarnation == database.incarnation, positions[1].sequence <= positions[0].sequence + 1
    else { throw SyncToken.Refusal.expired }
    sequence = positions[0].sequence
    firstUnseen = positions[1].sequence
    let epochs = positions.dropFirst(2).prefix { $0.incarnation == 0 }.map(\.sequence)
    epoch = epochs.first ?? 0
    if epochs.count == 3 { refetch = Refetch(epoch: epochs[1], sequence: epochs[2]) }
    let knowledge = positions.dropFirst(2 + epochs.count).prefix(2).prefix { $0.incarnation == Self.toldMark }.map(\.sequence)
    told = knowledge.first ?? max(firstUnseen - 1, 0)
    if knowledge.count == 2 { endsTold = knowledge[1] }
    guard (0...database.sequence).contains(told), (0...database.sequence).contains(endsTold) else { throw SyncToken.Refusal.expired }
    let marks = positions.dropFirst(2 + epochs.count + knowledge.count).prefix { $0.incarnation == Self.guestMark }.map(\.sequence)
    memberships = marks.first ?? 0
    if marks.count > 2 { catchUp = CatchUp(through: marks[1], sequence: marks[2]) }
    for position in positions.dropFirst(2 + epochs.count + knowledge.count + marks.count) { zones[position.sequence] = position.incarnation }
  }

  func token(of database: StoredDatabase) -> SyncToken {
    var positions = [
      SyncToken.Position(incarnation: database.incarnation, sequence: sequence), SyncToken.Position(incarnation: database.incarnation, sequence: firstUnseen),
    ]
    if epoch > 0 || refetch != nil {
      for number in [epoch] + (refetch.map { [$0.epoch, $0.sequence] } ?? []) { positions.append(SyncToken.Position(incarnation: 0, sequence: number)) }
    }
    if told != max(firstUnseen - 1, 0) || endsTold > 0 {
      for number in [told, endsTold] { positions.append(SyncToken.Position(incarnation: Self.toldMark, sequence: number)) }
    }
    if memberships > 0 || catchUp != nil {
      for number in [memberships] + (catchUp.map { [$0.through, $0.sequence] } ?? []) {
        positions.append(SyncToken.Position(incarnation: Self.guestMark, sequence: number))
      }
    }
    let named = zones.sorted { (pausedZones.contains($0.key) ? 0 : 1, $0.key) < (pausedZones.contains($1.key) ? 0 : 1, $1.key) }
    for (hash, incarnation) in named.prefix(Self.zoneLimit) {
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
