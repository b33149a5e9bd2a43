// The state of the shards that a worker holds, for reports and metrics.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import ZoneCommit

extension ShardHost {
  // MARK: State

  /// Assigned shards that are not open yet, without those out of service.
  var openingCount: Int { shards.values.count { $0.isAssigned && $0.store == nil && $0.outage == nil } }

  /// The open shards, ascending.
  var openStores: [any ShardStore] {
    shards.sorted { $0.key < $1.key }.compactMap { $0.value.isAssigned ? $0.value.store : nil }
  }

  /// The shards that don't serve, with the reason, ascending.
  var problems: [(shard: Int, problem: String)] {
    shards.sorted { $0.key < $1.key }.compactMap { number, shard in
      guard shard.isAssigned else { return nil }
      if let store = shard.store {
        return store.failure.map { (number, "takes no writes: \($0)") }
          ?? store.outage.map { (number, "can't reach its storage: \($0)") }
      }
      if let problem = shard.problem { return (number, "can't be opened: \(problem)") }
      return (
        number, recordStore.holder(ofShard: number).map { "is held by another worker: \($0)" } ?? "is being opened"
      )
    }
  }

  /// Shards that can't be opened, take no writes after a failure, or can't reach their storage.
  var outOfServiceCount: Int {
    shards.values.count { shard in
      guard shard.isAssigned else { return false }
      return shard.store.map { $0.failure != nil || $0.outage != nil } ?? (shard.problem != nil)
    }
  }

  /// Shards out of service because they are not the ones that were in use.
  var refusedCount: Int { shards.values.count { if $0.isAssigned, case .foreign = $0.outage { true } else { false } } }

  /// The totals of all shards held since the start.
  var totals: ShardTotals {
    var totals = departed
    for store in openStores { totals.add(store, isOpen: true) }
    return totals
  }

  /// The state of an assigned shard, for operators.
  struct Standing: Sendable {
    enum State: String, Sendable { case open, opening, outOfService }
    let shard: Int
    let state: State
    let epoch: Int64?
    /// Why it is out of service.
    let reason: String?
    /// Its cluster and its move.
    var placement: ShardPlacement?
  }

  /// The assigned shards, ascending.
  var standings: [Standing] {
    shards.sorted { $0.key < $1.key }.filter(\.value.isAssigned).map { number, shard in
      Standing(
        shard: number, state: shard.store != nil ? .open : shard.outage != nil ? .outOfService : .opening,
        epoch: shard.store?.epoch,
        reason: shard.store == nil ? shard.outage.map { String(describing: $0) } : nil,
        placement: recordStore.placement(ofShard: number))
    }
  }
}
