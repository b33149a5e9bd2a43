// The places between which shards move, and what a move needs of each.

import Assets
import Crypto
import PostgreSQL
import Records
import SQLite

/// A place that keeps shards: an engine with its configuration.
public enum ShardPlace: Sendable {
  case files(SQLiteConfiguration)
  case database(PostgreSQLConfiguration)

  var engine: any MigrationPlace {
    switch self {
    case .files(let configuration): configuration
    case .database(let configuration): configuration
    }
  }

  /// The place's shards, as its engine opens them.
  /// - Parameter report: gets each damaged record that background work skipped.
  public func store(shardCount: Int, report: @escaping @Sendable (_ problem: String) -> Void = { _ in })
    throws(StoreError) -> any RecordStore
  {
    try engine.store(shardCount: shardCount, report: report)
  }
}

/// The state of a shard in a place, as its tables tell it.
struct ShardStanding: Hashable, Sendable {
  /// The modulus of the shard's part: the number of shards at the installation's creation, unless it was divided.
  let shardCount: Int
  let epoch: Int64
  let installation: String?
  /// The number of the move that the shard left with, or is arriving with. Nobody opens the shard here while it has
  /// one. nil: the shard is here.
  let move: Int64?
  /// The shard arrived here by a move, and nothing has brought the place back to an earlier state since.
  var hasArrived = false
  /// The remainder of the shard's part, if it is not the shard's number.
  var remainder: Int64?
  /// The shard that this one was split off, and the number of that division; nil: it is no division's.
  var source: Int?
  var origin: Int64?

  func part(ofShard shard: Int) -> ShardPart? {
    ShardPart(modulus: Int64(shardCount), remainder: remainder ?? Int64(shard))
  }

  /// The shard is a copy that was made by a division, without its last round.
  var isBeforeRest = false

  /// True for the new shard of a division that nobody could open yet.
  var isUnopened: Bool { move != nil && move == origin }
  /// True for a new shard that lacks changes of its source: its last round was not carried out, or a cluster was
  /// brought back to before.
  var lacksRest: Bool { isUnopened && isBeforeRest }
}

/// What a new shard gets besides its rows.
struct MovingShard: Sendable {
  /// Its number at the target.
  var shard: Int
  /// Its standing while it arrives, with the number of the move.
  let standing: ShardStanding
  /// The counters in `meta`.
  var counters: [(key: MetaKey, value: Int64)]
  /// The rows of `meta` about the keys of contents.
  var contentKeys: [KeyRing.ID] = []
  /// The last key of a conflict. Keys are never used again.
  let lastConflict: Int64
  /// Whether the copy of a later owner stays, and refuses this one.
  var yieldsToLater = false
}

extension MovingShard {
  private static let counterKeys: [MetaKey] = [.lastKey, .lastEvent, .bindsReferences, .firstNumber]
  /// Only what is there.
  private static let divisionKeys: [MetaKey] = [
    .remainder, .cut, .split, .splitShard, .splitCluster, .source, .origin,
  ]

  /// Reads what comes besides the rows, and lets the source's transaction idle while the target is written and read.
  /// - Parameter idle: how long. Nobody takes the shard over from a process that hangs meanwhile.
  init(from source: ShardSession, standing: ShardStanding, idle: Duration = PostgreSQLConfiguration.longTime)
    throws
  {
    try source.connection.mayIdle(for: idle)
    shard = source.shard
    self.standing = standing
    func meta(_ key: MetaKey) throws -> Int64? {
      let statement = try source.statement(ShardQuery.meta)
      try statement.bind(1, key.rawValue)
      return try statement.first { $0.int64(0) }
    }
    counters =
      try Self.counterKeys.map { ($0, try meta($0) ?? 0) }
      + Self.divisionKeys.compactMap { key in try meta(key).map { (key, $0) } }
    contentKeys = try source.contentKeys()
    let text =
      source.connection.dialect == .sqlite
      ? "SELECT seq FROM sqlite_sequence WHERE name = 'journal'" : "SELECT last_value FROM journal_id_seq"
    lastConflict = try source.statement(SQL("migrate.lastConflict", text)).first { $0.int64(0) } ?? 0
  }
}

extension MovingShard {
  /// The new shard of a division, which first has the rows of both.
  /// - Parameter part: what the new shard has.
  func splitOff(_ part: ShardPart, as shard: Int) -> MovingShard {
    var split = self
    split.shard = shard
    split.counters.removeAll { Self.divisionKeys.contains($0.key) }
    split.counters += [
      (.remainder, part.remainder), (.cut, 1), (.source, Int64(self.shard)), (.origin, standing.move ?? 0),
      (.lacksRest, 1),
    ]
    return split
  }

  /// The same with the last round, behind which the source writes no more.
  var withRest: MovingShard {
    var last = self
    for index in last.counters.indices where last.counters[index].key == .lacksRest { last.counters[index].value = 0 }
    return last
  }

  private func counter(_ key: MetaKey) -> Int64? { counters.first { $0.key == key }?.value }

  /// As `ShardStanding.source`.
  var source: Int? { counter(.source).map { Int($0) } }
  /// True when a division makes it.
  var isSplitOff: Bool { standing.move != nil && counter(.origin) == standing.move }
}

/// An engine's side of a move. Its calls block.
protocol MigrationPlace: Sendable {
  /// The place in a sentence, without secrets.
  var name: String { get }
  /// The numbers of the shards that are or were here, ascending.
  func shards() throws(StoreError) -> [Int]
  /// - Returns: nil when the shard never was here.
  /// - Throws: `StoreError.io` while a worker holds the shard.
  func standing(ofShard shard: Int) throws -> ShardStanding?
  /// - Parameter report: gets each damaged record that background work skipped.
  func store(shardCount: Int, report: @escaping @Sendable (_ problem: String) -> Void) throws(StoreError)
    -> any RecordStore
  /// The owner of the shards; nil when anybody's are taken.
  var installation: InstallationID? { get }
  /// Makes a shard, durably, in place of one that has left.
  /// - Parameter fill: writes its rows.
  func receive(_ moving: MovingShard, fill: (StoreConnection) throws -> Void) throws
  /// Calls `body` with what is stored.
  func read<Value>(shard: Int, _ body: (StoreConnection) throws -> Value) throws -> Value
  /// Lets workers open a shard that arrived with the move. Does nothing for a shard that has not its number.
  func admit(shard: Int, move: Int64) throws
}

extension StoreError {
  static func held(shard: Int, by holder: String) -> StoreError {
    .io("shard \(shard) is held by \(holder): stop the workers first")
  }

  static func moved(shard: Int, from place: String) -> StoreError {
    .foreign(
      """
      shard \(shard) is no longer in \(place): it has moved to another place, or `aquifer migrate` was interrupted. \
      Start the worker with the other place, or give the command again
      """)
  }

  /// The store's error for an error of either engine.
  init(migrating shard: Int, _ error: any Error) {
    self =
      error as? StoreError ?? (error as? any EngineError)?.storeError(shard: shard) ?? .io("shard \(shard): \(error)")
  }
}
