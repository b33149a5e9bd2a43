// Where a zone's feed stands, forwards or in reverse.

import RecordStore
import Records
import Sharing
import WebServices
import ZoneCommit

/// The place between two pages of a zone's feed.
///
/// Forwards a page goes on after the last change that was seen. In reverse (newest first) a feed runs from the zone's
/// last change at its beginning (`top`) back to what the client had seen before (`since`); its tokens name both and the
/// place in between, and the last one is an ordinary token of `top`. A record that changes while a client pages back
/// moves behind `top`: the next feed brings it. A token of an unfinished feed in reverse that is used forwards goes on
/// after `since`: records may come twice, none is lost.
struct FeedPosition: Hashable, Sendable {
  private(set) var since: Int64
  /// In reverse: changes from here on were seen, and where that began.
  private(set) var reverse: Reverse?
  /// A participant's; nil: the caller's own zone, or the schema's.
  private(set) var participation: Participation?

  /// A participant's progress besides the records of the feed; tokens carry it where it differs from the feed's place.
  struct Participation: Hashable, Sendable {
    /// Memberships were told in their state at this sequence.
    let memberships: Int64
    /// Departures up to this sequence were told. It moves only at a feed's end: until then a departed record may change
    /// again and move behind the page that would have told of it.
    var departures: Int64
  }

  /// An incarnation that no zone has.
  private static let participantMark: UInt64 = 2

  struct Reverse: Hashable, Sendable {
    var before: Int64
    let top: Int64
  }

  /// - Parameter members: all of a participant's memberships in the zone, ended ones too; nil: the caller is no
  ///   participant.
  /// - Throws: `Unknown sync continuation type` for a token of another zone or of an earlier zone of that name, and for
  ///   a participant's token from before part of the access ended: the client must start again with the rest.
  init(
    _ token: SyncToken?, at position: ChangesPosition, in zone: StoredZone, isReversed: Bool,
    members: [ShareMember]? = nil
  ) throws {
    var (numbers, marks) = try Self.numbers(of: token, in: zone, isParticipant: members != nil)
    if let members {
      let now = members.reduce(zone.sequence) { max($0, $1.since, $1.until ?? 0) }
      let start = numbers.first ?? zone.sequence
      if marks.isEmpty { marks = numbers.isEmpty ? [now, start] : [start, start] }
      let news = GuestNews(members, since: marks[0], through: now)
      if !news.left.isEmpty { throw SyncToken.Refusal.unknownType.recordError }
      // When a further hierarchy of the zone becomes visible, the feed starts again from the beginning.
      if !news.joined.isEmpty, !numbers.isEmpty { numbers = [0] }
      participation = Participation(memberships: now, departures: marks[1])
    }
    since = numbers.first ?? (position == .caughtUp ? zone.sequence : 0)
    guard isReversed else { return }
    reverse =
      numbers.count == 3
      ? Reverse(before: numbers[1], top: numbers[2]) : Reverse(before: zone.sequence + 1, top: zone.sequence)
  }

  /// Sequences that the zone has given out: one, or the three of a feed in reverse; and a participant's two.
  private static func numbers(of token: SyncToken?, in zone: StoredZone, isParticipant: Bool) throws -> (
    numbers: [Int64], marks: [Int64]
  ) {
    guard let positions = token?.positions else { return ([], []) }
    let numbers = positions.prefix { $0.incarnation == zone.incarnation }.map(\.sequence)
    let marks = positions.dropFirst(numbers.count)
    guard numbers.allSatisfy({ $0 <= zone.sequence }),
      numbers.count == 1 || (numbers.count == 3 && numbers == numbers.sorted()),
      marks.isEmpty || (isParticipant && marks.count == 2 && marks.allSatisfy { $0.incarnation == participantMark })
    else { throw SyncToken.Refusal.unknownType.recordError }
    return (numbers, marks.map(\.sequence))
  }

  /// True while a departure from a participant's sight is untold.
  func tells(departureAt sequence: Int64) -> Bool { participation.map { sequence > $0.departures } ?? true }

  /// Appends the next rows of the feed.
  /// - Returns: false when a limit ended them.
  func read(limit: Int, byteLimit: Int, from snapshot: any ShardSnapshot, into rows: inout RecordRows) throws -> Bool {
    guard let reverse else {
      return try snapshot.readChanges(after: since, limit: limit, byteLimit: byteLimit, into: &rows)
    }
    return try snapshot.readChangesBackwards(
      after: since, before: reverse.before, limit: limit, byteLimit: byteLimit, into: &rows)
  }

  /// A change was delivered.
  mutating func pass(_ sequence: Int64) {
    if reverse == nil { since = max(since, sequence) } else { reverse?.before = sequence }
  }

  /// The feed is finished; `end`: the zone's last change, deliverable or not.
  mutating func finish(at end: Int64) {
    since = reverse?.top ?? end
    reverse = nil
    // Changes made while a feed was read in reverse belong to the next feed.
    if since == end { participation?.departures = end }
  }

  func token(incarnation: UInt64) -> SyncToken {
    var numbers = [since]
    // Before its first record a feed in reverse has passed nothing, so it can begin again.
    if let reverse, reverse.before <= reverse.top { numbers += [reverse.before, reverse.top] }
    var positions = numbers.map { SyncToken.Position(incarnation: incarnation, sequence: $0) }
    if let participation, participation != Participation(memberships: since, departures: since) {
      for number in [participation.memberships, participation.departures] {
        positions.append(SyncToken.Position(incarnation: Self.participantMark, sequence: number))
      }
    }
    return SyncToken(.zone, positions)
  }
}
