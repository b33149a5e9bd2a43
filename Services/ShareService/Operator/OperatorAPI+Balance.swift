// Spreads shards over clusters by their bytes and loads, over HTTP.

import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension OperatorAPI {
  /// The most moves that a cluster takes part in, unless the request says otherwise.
  private static let moveLimit = 2

  /// `POST shards/balance` with `dryRun` and `limit`: plans moves, and asks for them (202) unless `dryRun` is set. The
  /// plan replaces the moves of an earlier one that have not begun.
  func balanceShards(_ query: [String: String]) async throws -> OperatorAnswer {
    let limit = query["limit"].map { Int($0) ?? 0 } ?? Self.moveLimit
    guard limit > 0 else { throw RecordError(.badRequest, "limit is a number of moves, at least 1") }
    let map = await map()
    let figures = await shardFigures()
    let stored = try await directory.shardClusters()
    let present = stored.shards.map { $0 ?? ShardCluster() }
    let unknown = present.indices.filter { figures[$0] == nil }
    guard unknown.isEmpty, let map else {
      throw RecordError(
        .tryAgainLater,
        """
        The sizes or loads of the shards \(Units.ranges(unknown.map(Int64.init))) are not known. A worker tells them \
        half a minute after it has opened a shard: see `aquifer shards`
        """, retryAfter: 5)
    }
    let names = map.reachedClusters.union(present.flatMap { [$0.name, $0.target ?? $0.name] }).sorted()
    let places = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($1, $0) })
    let shards = present.indices.map { number in
      let cluster = present[number]
      return ShardBalance.Shard(
        number: number, cluster: places[cluster.target ?? cluster.name] ?? 0,
        byteCount: figures[number]?.byteCount ?? 0, load: figures[number]?.load ?? 0,
        isFixed: cluster.target != nil || cluster.split != nil || stored.division(with: number) != nil)
    }
    let moves = ShardBalance(shards: shards, clusterCount: names.count) { map.isReached([names[$0], names[$1]]) }.plan()
    var waiting: [PlannedMove] = []
    let isDryRun = query["dryRun"] == "true"
    if !isDryRun {
      waiting =
        try await directory.plan(
          moves.map { PlannedMove(shard: $0.shard, from: names[$0.from], to: names[$0.to]) }, limit: limit
        ).planned ?? []
      await clustersChanged()
      log.info("shards are asked to spread", ["moves": .integer(Int64(moves.count))])
    }
    let planned = Set(waiting.map(\.shard))
    var answer = OperatorAnswer { writer in
      write(moves, names, planned, to: &writer)
      write(shards, moves, names, to: &writer)
    }
    answer.status = isDryRun ? 200 : 202
    return answer
  }

  private func write(
    _ moves: [ShardBalance.Move], _ names: [String], _ waiting: Set<Int>, to writer: inout JSONWriter
  ) {
    writer.key("moves")
    writer.beginArray()
    for move in moves {
      writer.beginObject()
      writer.member("shard", move.shard)
      writer.member("from", names[move.from])
      writer.member("to", names[move.to])
      writer.member("bytes", move.byteCount)
      writer.member("waits", waiting.contains(move.shard))
      writer.endObject()
    }
    writer.endArray()
    writer.member("movedBytes", moves.reduce(0) { $0 + $1.byteCount })
  }

  /// Writes what each cluster has before and after the moves.
  private func write(
    _ shards: [ShardBalance.Shard], _ moves: [ShardBalance.Move], _ names: [String], to writer: inout JSONWriter
  ) {
    var after = shards
    for move in moves { after[move.shard].cluster = move.to }
    writer.key("clusters")
    writer.beginArray()
    for (cluster, name) in names.enumerated() {
      writer.beginObject()
      writer.member("cluster", name)
      for (shards, suffix) in [(shards, ""), (after, "After")] {
        let own = shards.filter { $0.cluster == cluster }
        writer.member("shards" + suffix, own.count)
        writer.member("bytes" + suffix, own.reduce(0) { $0 + $1.byteCount })
        writer.member("load" + suffix, (own.reduce(0) { $0 + $1.load } * 10).rounded() / 10)
      }
      writer.endObject()
    }
    writer.endArray()
  }
}
