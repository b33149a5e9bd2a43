// Moves of shards between clusters, and divisions of shards, over HTTP.

import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension OperatorAPI {
  /// `POST shards/N/move` `{"to"}`: asks the shard's worker for a move (202). The shard's own cluster takes an earlier
  /// request back.
  func moveShard(_ text: String, _ body: [UInt8]) async throws -> OperatorAnswer {
    guard let shard = Int(text) else { throw RecordError(.badRequest, "'\(text)' is no shard's number") }
    guard let target = try JSONValue.request(body)["to"]?.string else {
      throw RecordError(.badRequest, "to is missing")
    }
    let map = await map()
    let present = map?.cluster(ofShard: shard).name ?? ShardCluster.main
    let known = map?.reachedClusters ?? []
    guard target == present || map?.isReached([present, target]) == true else {
      throw RecordError(
        .badRequest,
        known.contains(target)
          ? "No ready worker reaches both \(present) and \(target): give one of them both in --records"
          : "No ready worker reaches the cluster '\(target)', only \(known.sorted().joined(separator: ", "))",
        httpStatus: 409)
    }
    try await directory.move(shard, to: target)
    await clustersChanged()
    log.info("a shard is asked to move", ["shard": .integer(Int64(shard)), "to": .text(target)])
    var answer = OperatorAnswer { writer in
      writer.member("shard", shard)
      writer.member("cluster", present)
      if target != present { writer.member("movesTo", target) }
    }
    answer.status = 202
    return answer
  }

  /// `POST shards/N/split` `{"to"}`: asks the shard's worker to divide it (202), with the new shard in that cluster, or
  /// in the shard's own. `{"cancel": true}` takes an earlier request back.
  func splitShard(_ text: String, _ body: [UInt8]) async throws -> OperatorAnswer {
    guard let shard = Int(text) else { throw RecordError(.badRequest, "'\(text)' is no shard's number") }
    let request = try JSONValue.request(body)
    let map = await map()
    let present = map?.cluster(ofShard: shard).name ?? ShardCluster.main
    let isCancelled = request["cancel"]?.bool == true
    let target = request["to"]?.string ?? present
    if !isCancelled { try Self.checkSplit(map, from: present, to: target) }
    if isCancelled {
      try await directory.takeSplitBack(shard)
      log.info("the request to divide a shard is taken back", ["shard": .integer(Int64(shard))])
    } else {
      try await directory.split(shard, to: target)
      log.info("a shard is asked to be divided", ["shard": .integer(Int64(shard)), "to": .text(target)])
    }
    await clustersChanged()
    let newShard = directory.shardCount
    var answer = OperatorAnswer { writer in
      writer.member("shard", shard)
      writer.member("cluster", present)
      if !isCancelled {
        writer.member("splitsInto", target)
        writer.member("newShard", newShard)
      }
    }
    answer.status = 202
    return answer
  }

  /// Refuses a division that the processes can't carry out.
  private static func checkSplit(_ map: ClusterMap?, from present: String, to target: String) throws(RecordError) {
    guard let map, map.members.contains(where: { $0.role == .worker && $0.isReady }) else {
      throw RecordError(.tryAgainLater, "No worker is ready to divide a shard", retryAfter: 1)
    }
    let older = map.members.filter { $0.knowsSplits != true }.map(\.name)
    guard older.isEmpty else {
      throw RecordError(
        .badRequest,
        """
        These processes are of an earlier release, which would look for databases in the wrong shard: \
        \(older.joined(separator: ", ")). Replace them first
        """, httpStatus: 409)
    }
    guard !map.members.contains(where: { $0.role == .worker && $0.clusters == nil }) else {
      throw RecordError(
        .badRequest,
        """
        The shards are in files, and only shards in PostgreSQL can be divided: one disk has them all, so that more \
        files would not make it faster. Move them into a database first (OPERATING.md, "Workers on PostgreSQL")
        """, httpStatus: 409)
    }
    let known = map.reachedClusters
    guard map.isReached([present, target]) else {
      throw RecordError(
        .badRequest,
        known.contains(target)
          ? "No ready worker reaches both \(present) and \(target): give one of them both in --records"
          : "No ready worker reaches the cluster '\(target)', only \(known.sorted().joined(separator: ", "))",
        httpStatus: 409)
    }
  }
}
