// A store that notes the party of each turn, because no call waits in a store in memory.

import RecordStore
import Records
import Synchronization

/// The users of the turns, one entry per body or read; the server's own turns are left out.
final class Lines: Sendable {
  private let parties = Mutex<[String]>([])
  var all: [String] { parties.withLock { $0 } }
  func take() -> Set<String> {
    parties.withLock { parties in
      defer { parties = [] }
      return Set(parties)
    }
  }
  fileprivate func note(_ party: String) { if !party.isEmpty { parties.withLock { $0.append(party) } } }
}

struct LineStore: RecordStore {
  let base: any RecordStore
  let lines: Lines

  var shardCount: Int { base.shardCount }
  func open(shard: Int, knownEpoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    LineShard(base: try await base.open(shard: shard, knownEpoch: knownEpoch, renewingBelow: bound), lines: lines)
  }
}

struct LineShard: ShardStore {
  let base: any ShardStore
  let lines: Lines
  var party = ""

  var shard: Int { base.shard }
  var epoch: Int64 { base.epoch }
  var statistics: [StoreStatistic] { base.statistics }

  func turns(of party: String) -> any ShardStore { LineShard(base: base, lines: lines, party: party) }

  func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value> {
    lines.note(party)
    return base.enqueue(expecting: lookups, body)
  }

  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    lines.note(party)
    return try await base.read(body)
  }

  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    base.collectAssets(orphanedBefore: cutoff, limit: limit)
  }
  func removeUnknownContent(after part: Int?) async throws -> RemovedContent? {
    try await base.removeUnknownContent(after: part)
  }
  func close() async { await base.close() }
}
