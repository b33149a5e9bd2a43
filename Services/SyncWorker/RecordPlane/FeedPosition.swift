// Where a zone's feed stands, forwards or in reverse.

import RecordStore
import Records
import WebServices

/// The place between two pages of a zone's feed.
///
/// Forwards a page goes on after the last change that was seen. In reverse (newest first) a feed runs from the zone's last change at its
/// beginning (`top`) back to what the client had seen before (`since`); its tokens name both and the place in between, and the last one
/// is an ordinary token of `top`. A record that changes while a client pages back moves behind `top`: the next feed brings it. A token of
/// an unfinished feed in reverse that is used forwards goes on after `since`: records may come twice, none is lost.
struct FeedPosition: Hashable, Sendable {
  private(set) var since: Int64
  /// In reverse: changes from here on were seen, and where that began.
  private(set) var reverse: Reverse?
  /// For somebody who sees hierarchies of the zone: when he came to see the last of them. A feed that began before has not told of all that is in it,
  /// and begins anew; its tokens say with which it began.
  private let accessSince: Int64?

  struct Reverse: Hashable, Sendable {
    var before: Int64
    let top: Int64
  }

  /// - Throws: `Unknown sync continuation type` for a token of another zone, or of the same name in an earlier life.
  init(_ token: SyncToken?, at position: ChangesPosition, in zone: StoredZone, isReversed: Bool, accessSince: Int64? = nil) throws {
    var numbers = try Self.numbers(of: token, in: zone, isPartial: accessSince != nil)
    self.accessSince = accessSince
    if let accessSince, !numbers.isEmpty, numbers.count < 3 { numbers = numbers.count == 2 && numbers[1] == accessSince ? [numbers[0]] : [0] }
    since = numbers.first ?? (position == .caughtUp ? zone.sequence : 0)
    guard isReversed else { return }
    reverse = numbers.count == 3 ? Reverse(before: numbers[1], top: numbers[2]) : Reverse(before: zone.sequence + 1, top: zone.sequence)
  }

  /// Sequences that the zone has given out: one, or the three of a feed in reverse; where only a part of the zone is seen, one more with the one.
  private static func numbers(of token: SyncToken?, in zone: StoredZone, isPartial: Bool) throws -> [Int64] {
    guard let positions = token?.positions else { return [] }
    let numbers = positions.map(\.sequence)
    guard positions.allSatisfy({ $0.incarnation == zone.incarnation && $0.sequence <= zone.sequence }),
      numbers.count == 1 || (isPartial && numbers.count == 2) || (numbers.count == 3 && numbers == numbers.sorted())
    else { throw SyncToken.Refusal.unknownType.recordError }
    return numbers
  }

  /// What comes next.
  func rows(in zone: Int64, limit: Int, from snapshot: any ShardSnapshot) throws -> [StoredRecord] {
    guard let reverse else { return try snapshot.changes(in: zone, after: since, limit: limit) }
    return try snapshot.changesBackwards(in: zone, after: since, before: reverse.before, limit: limit)
  }

  /// A change was delivered.
  mutating func pass(_ sequence: Int64) {
    if reverse == nil { since = max(since, sequence) } else { reverse?.before = sequence }
  }

  /// Nothing more comes; `end`: the zone's last change, deliverable or not.
  mutating func finish(at end: Int64) {
    since = reverse?.top ?? end
    reverse = nil
  }

  func token(incarnation: UInt64) -> SyncToken {
    // Before its first record a feed in reverse has passed nothing: it may as well begin again.
    guard let reverse, reverse.before <= reverse.top else {
      return SyncToken(.zone, [since, accessSince].compactMap(\.self).map { SyncToken.Position(incarnation: incarnation, sequence: $0) })
    }
    return SyncToken(.zone, [since, reverse.before, reverse.top].map { SyncToken.Position(incarnation: incarnation, sequence: $0) })
  }
}
