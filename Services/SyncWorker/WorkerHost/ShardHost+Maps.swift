// What a cluster map changes in the shards of a worker: which of them it holds, and which of them it opens anew.

import RecordStore
import Records
import ServiceBus
import ServiceKit

/// A shard that was brought back to before a division which the directory knows of.
struct FormerShard: Error, CustomStringConvertible {
  let shard: Int
  let part, knownPart: ShardPart

  var description: String {
    """
    shard \(shard) was brought back to before a division: it has part \(part.remainder) of \(part.modulus), and the \
    directory knows it with part \(knownPart.remainder) of \(knownPart.modulus). Bring the directory and all clusters \
    back to one moment, or restore a backup of `aquifer backup` (OPERATING.md, "More shards")
    """
  }

  var outage: StoreError { .foreign(description) }
}

extension ShardHost {
  /// - Returns: the shards that this worker did not hold before.
  func follow(_ map: ClusterMap) -> [Int] {
    guard let layout = map.layout, recordStore.shardCount == layout.createdCount else {
      log.error("a cluster map of another installation was ignored", ["shards": .integer(Int64(map.shardCount))])
      return []
    }
    recordStore.follow(
      (0..<map.shardCount).map { number in
        let cluster = map.cluster(ofShard: number)
        let split = cluster.split.flatMap { target in
          layout.part(of: number).map { RequestedSplit(shard: layout.count, cluster: target, part: $0) }
        }
        return ShardPlacement(cluster: cluster.name, target: cluster.target, split: split, arrival: cluster.arrival)
      }, named: map.namedClusters)
    self.layout = layout
    takenBack = Dictionary(
      uniqueKeysWithValues: (0..<map.shardCount).compactMap { number in
        map.cluster(ofShard: number).takenBack.map { (number, $0) }
      })
    var added: [Int] = []
    for (number, holder) in map.holders.enumerated() {
      if holder == name {
        if shards[number] == nil {
          shards[number] = Shard()
          added.append(number)
        } else {
          shards[number]?.isAssigned = true
        }
      } else if shards[number]?.isAssigned == true {
        shards[number]?.isAssigned = false
        tellWaiters(of: number, .refused(Self.notMine(number)))
        shards[number]?.wake?.finish()
      }
    }
    for store in openStores where isOutdated(store) { lost(store) }
    return added
  }

  /// Whether an open shard has to be opened anew: only an opening tells for certain whether a request for a division
  /// that was taken back has been carried out, and a store with a former part has another owner, or must not serve.
  func isOutdated(_ store: any ShardStore) -> Bool {
    if let number = takenBack[store.shard], shards[store.shard]?.takenBack != number { return true }
    return former(store) != nil
  }

  /// - Throws: `FormerShard`.
  func checkPart(of store: any ShardStore) throws {
    if let former = former(store) { throw former }
  }

  /// nil for a shard with the part that the last map has, or with a half of it that the directory does not know of yet.
  private func former(_ store: any ShardStore) -> FormerShard? {
    guard let layout, let known = layout.part(of: store.shard),
      let part = store.part
        ?? (store.shard < layout.createdCount
          ? ShardPart(modulus: Int64(layout.createdCount), remainder: Int64(store.shard)) : nil),
      part != known, known.isWithin(part)
    else { return nil }
    return FormerShard(shard: store.shard, part: part, knownPart: known)
  }

  /// The open shards that have another part than the last map.
  var unknownToDirectory: [any ShardStore] {
    guard let layout else { return [] }
    return openStores.filter { $0.part != layout.dividedPart(of: $0.shard) }
  }
}
