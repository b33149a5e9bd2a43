// records/resolve and records/accept: the gateway asks the shards that short GUIDs name, and puts the results in the request's order.

import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// - Throws: `BAD_REQUEST` off the public path; what is wrong with one short GUID is its result.
  func resolve(
    _ exchange: Exchange, _ purpose: ResolveShortGUIDs.Purpose, _ address: Address, _ caller: Caller
  ) async throws(RecordError) -> HTTPResponse {
    guard let container = address.container, let environment = address.environment, address.scope == .public else {
      throw RecordError(.badRequest, "records/\(purpose.rawValue) is asked on the path of the public database")
    }
    let references = try ShortGUIDReference.references(of: try JSONValue.request(exchange.request.body))
    var places: [Int: [Int]] = [:]
    for (index, reference) in references.enumerated() {
      guard let shard = ShortGUID(reference.value)?.shard, shard < forwarding.cluster.current?.shardCount ?? 0 else { continue }
      places[shard, default: []].append(index)
    }
    var results: [JSONValue?] = Array(repeating: nil, count: references.count)
    for (shard, indices) in places.sorted(by: { $0.key < $1.key }) {
      let items = indices.map { index in
        ResolveShortGUIDs.Item(
          shortGUID: references[index].value, fetchesRootRecord: references[index].shouldFetchRootRecord ?? false,
          desiredKeys: references[index].rootRecordDesiredKeys)
      }
      let message = ResolveShortGUIDs(
        purpose: purpose, shard: shard, container: container, environment: environment, caller: caller, items: items,
        baseURL: options.publicAddress.url(for: exchange.request))
      for (index, result) in zip(indices, try await found(message)) { results[index] = result.isNull ? nil : result }
    }
    return Self.json(Self.answer(references, results))
  }

  private func found(_ message: ResolveShortGUIDs) async throws(RecordError) -> [JSONValue] {
    let answer = try await forwarding.ask(message, holderOf: message.shard)
    do {
      return try JSONValue(parsing: answer.body).elements
    } catch {
      throw RecordError(.internalError, "A worker's answer can't be read")
    }
  }

  private static func answer(_ references: [ShortGUIDReference], _ results: [JSONValue?]) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 512 * (references.count + 1))
    writer.beginObject()
    writer.key("results")
    writer.beginArray()
    for (reference, result) in zip(references, results) {
      writer.beginObject()
      writer.key("shortGUID")
      reference.write(to: &writer)
      if let result {
        result.forEachMember { key, value in
          writer.key(key.string ?? "")
          writer.value(value)
        }
      } else {
        RecordError(.notFound, "There is no share with this short GUID").writeMembers(to: &writer)
      }
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}

extension Forwarding {
  /// Asks the holder of a shard, again and again within the client's time.
  func ask<M: Message>(_ message: M, holderOf shard: Int) async throws(RecordError) -> Answer<M.Reply> {
    let start = timing.now()
    var plan = RetryPlan(limit: limit)
    while true {
      let step: RetryPlan.Step
      if let worker = cluster.holder(ofShard: shard) {
        do {
          return try await bus.call(message, body: [], to: .peer(worker), within: plan.attemptBudget(after: timing.now() - start))
        } catch {
          step = plan.step(after: error, elapsed: timing.now() - start)
        }
      } else {
        step = plan.stepWithoutHolder(elapsed: timing.now() - start)
      }
      switch step {
      case .retry(let pause): try await RetryPlan.pause(pause, timing)
      case .fail(let error): throw error
      }
    }
  }
}
