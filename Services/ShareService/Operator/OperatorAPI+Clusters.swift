// Moves of shards between clusters over HTTP.

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
}
