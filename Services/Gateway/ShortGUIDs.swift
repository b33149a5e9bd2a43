// records/resolve and records/accept: asks the shards that the short GUIDs name, and answers in the request's order.

import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// - Throws: `BAD_REQUEST` off the public path. A fault of one short GUID becomes that item's result.
  func resolve(
    _ exchange: IncomingRequest, _ purpose: ResolveShortGUIDs.Purpose, _ address: Address, _ caller: Caller
  ) async throws(RecordError) -> HTTPResponse {
    guard let container = address.container, let environment = address.environment, address.scope == .public else {
      throw RecordError(.badRequest, "records/\(purpose.rawValue) is a call of the public database")
    }
    let holding = PartBudget.Holding(parts, of: caller.userRecordName ?? exchange.request.clientNetwork.description)
    let references = try holding.reading(exchange.request.body) { body throws(RecordError) in
      try ShortGUIDReference.references(of: try JSONValue.request(body))
    }
    let named = references.map { ShortGUID($0.value)?.shard }
    // A shard number beyond the last shard has no share, but the number of shards must be known to say so.
    let start = forwarding.timing.now()
    let layout = named.contains { $0 != nil } ? try await forwarding.layout(since: start) : nil
    var places: [Int: [Int]] = [:]
    for (index, shard) in named.enumerated() {
      for heir in shard.flatMap({ layout?.heirs(of: $0) }) ?? [] { places[heir, default: []].append(index) }
    }
    let messages = places.sorted { $0.key < $1.key }.map { shard, indices in
      let items = indices.map { index in
        ResolveShortGUIDs.Item(
          shortGUID: references[index].value, fetchesRootRecord: references[index].shouldFetchRootRecord ?? false,
          desiredKeys: references[index].rootRecordDesiredKeys)
      }
      return ResolveShortGUIDs(
        purpose: purpose, shard: shard, part: layout?.dividedPart(of: shard), container: container,
        environment: environment, caller: caller, items: items,
        baseURL: options.publicAddress.url(for: exchange.request))
    }
    var results: [ItemResult] = Array(repeating: .success(nil), count: references.count)
    var failures: [RecordError] = []
    let answers = await askAll(messages) { message throws(RecordError) in
      let answer = try await forwarding.ask(message, holderOf: message.shard, since: start)
      try holding.grow(by: answer.body.count)
      return answer.body
    }
    for (message, answer) in answers {
      let places = places[message.shard] ?? []
      do throws(RecordError) {
        // One after the other, and as bytes: parsed documents take many times their memory.
        let items = try holding.reading(try answer.get()) { body throws(RecordError) in
          zip(places, try Self.elements(of: body)).map { $1.isNull ? nil : Self.item(references[$0], $1) }
        }
        try holding.grow(by: items.reduce(0) { $0 + ($1?.count ?? 0) })
        for (index, item) in zip(places, items) where item != nil { results[index] = .success(item) }
      } catch {
        failures.append(error)
        // Another shard that was split off may have found it.
        for index in places {
          if case .success(nil) = results[index] { results[index] = .failure(error) }
        }
      }
    }
    // A shard that is away fails its items only; if all are away, the request fails.
    if let failure = failures.first, failures.count == messages.count { throw failure }
    return Self.json(Self.answer(references, results))
  }

  /// nil: there is no such share.
  private typealias ItemResult = Result<[UInt8]?, RecordError>

  private static func item(_ reference: ShortGUIDReference, _ found: JSONValue) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 512)
    writer.beginObject()
    writer.key("shortGUID")
    reference.write(to: &writer)
    found.forEachMember { key, value in
      writer.key(key.string ?? "")
      writer.value(value)
    }
    writer.endObject()
    return writer.bytes
  }

  /// A shard's answer about a single short GUID, whose root record nobody asks for.
  func found(_ message: ResolveShortGUIDs, since start: ContinuousClock.Instant) async throws(RecordError)
    -> [JSONValue]
  {
    try Self.elements(of: try await forwarding.ask(message, holderOf: message.shard, since: start).body)
  }

  private static func elements(of body: [UInt8]) throws(RecordError) -> [JSONValue] {
    do {
      return try JSONValue(parsing: body).elements
    } catch {
      throw RecordError(.internalError, "A worker's answer can't be read")
    }
  }

  private static func answer(_ references: [ShortGUIDReference], _ results: [ItemResult]) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 512 * (references.count + 1))
    writer.beginObject()
    writer.key("results")
    writer.beginArray()
    for (reference, result) in zip(references, results) {
      if case .success(let item?) = result {
        writer.raw(item)
        continue
      }
      writer.beginObject()
      writer.key("shortGUID")
      reference.write(to: &writer)
      switch result {
      case .success: RecordError(.notFound, "There is no share with this short GUID").writeMembers(to: &writer)
      case .failure(let error): error.writeMembers(to: &writer)
      }
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}

extension Forwarding {
  /// The shards of the installation, once the cluster's map tells them.
  /// - Parameter start: the start of the client's time.
  /// - Throws: `tryAgainLater` when the map does not tell them within the client's time.
  func layout(since start: ContinuousClock.Instant) async throws(RecordError) -> ShardLayout {
    var plan = RetryPlan(limit: limit)
    while true {
      if let layout = cluster.layout { return layout }
      switch plan.stepWithoutHolder(elapsed: timing.now() - start) {
      case .retry(let pause): try await RetryPlan.pause(pause, timing)
      case .fail(let error): throw error
      }
    }
  }

  /// Asks the holder of a shard, with retries until the client's time is over.
  func ask<M: Message>(_ message: M, holderOf shard: Int, since start: ContinuousClock.Instant)
    async throws(RecordError) -> Answer<M.Reply>
  {
    try await calls.ask(message, holderOf: shard, within: limit, since: start)
  }
}
