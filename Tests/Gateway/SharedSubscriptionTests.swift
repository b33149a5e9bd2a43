// Subscriptions of the shared database that move from one owner to another.

import FixedClocks
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Gateway

@Suite struct SharedSubscriptionTests {
  private static let path = "/database/1/\(GatewayWorld.container)/development/shared/subscriptions/modify"

  /// Answers as an owner's worker would, who refuses subscriptions whose names begin with `bad`.
  private static let owner: GatewayWorld.Worker = { _, _, body in
    var output = JSONWriter()
    output.beginObject()
    output.array("subscriptions", of: try JSONValue.request(body)["operations"]?.elements ?? []) { operation, output in
      let name = operation["subscription"]?["subscriptionID"]?.string ?? ""
      output.beginObject()
      output.member("subscriptionID", name)
      if name.hasPrefix("bad") { output.member("serverErrorCode", "ZONE_NOT_FOUND") }
      output.endObject()
    }
    output.endObject()
    return Answer(DatabaseRequest.Reply(status: 200), body: output.bytes)
  }

  private func world(_ worker: @escaping GatewayWorld.Worker = owner) async throws -> GatewayWorld {
    let world = try await GatewayWorld(timing: FixedTime().skippingPauses, worker: worker)
    world.record.withLock { record in
      record.sharedZones = ["_ann", "_bea", "_cem"].map {
        .init(owner: $0, zones: [.init(zoneName: "Trips", isActive: true, sequence: 1)])
      }
    }
    return world
  }

  /// Saves subscriptions to zones of owners.
  private func save(_ subscriptions: [(name: String, owner: String)], in world: GatewayWorld) async -> HTTPResponse {
    let operations = subscriptions.map { name, owner in
      #"""
      {"operationType":"create","subscription":{"subscriptionID":"\#(name)","subscriptionType":"zone",\#
      "zoneID":{"zoneName":"Trips","ownerRecordName":"\#(owner)"}}}
      """#
    }
    return await world.alice(
      .post, Self.path, headers: [("x-request-id", "R-1")],
      body: #"{"operations":[\#(operations.joined(separator: ","))]}"#)
  }

  /// The deletions that owners were asked for, as `owner name`, with the request's identifier.
  private func deletions(_ world: GatewayWorld) throws -> [(text: String, requestID: String)] {
    try world.requests.flatMap { _, request, body in
      try (JSONValue(parsing: body)["operations"]?.elements ?? []).filter { $0["operationType"]?.string == "delete" }
        .map { ("\(request.database.owner) \($0["subscription"]?["subscriptionID"]?.string ?? "")", request.requestID) }
    }
  }

  @Test func `a subscription that the new owner's worker refuses stays where it is`() async throws {
    let world = try await world()
    let answer = try await save([("bad", "_bea")], in: world).json
    #expect(answer["subscriptions"]?.elements.map { $0["serverErrorCode"]?.string } == ["ZONE_NOT_FOUND"])
    #expect(try deletions(world).isEmpty)
    _ = await save([("bad", "_bea"), ("good", "_bea")], in: world)
    #expect(try Set(deletions(world).map(\.text)) == ["_alice good", "_ann good", "_cem good"])
  }

  @Test func `a subscription to a zone of an owner who is away stays where it is`() async throws {
    let world = try await world { worker, request, body in
      if request.database.owner == "_bea" { throw BusError(.draining, "about to stop") }
      return try await Self.owner(worker, request, body)
    }
    let answer = try await save([("first", "_ann"), ("second", "_bea")], in: world).json
    #expect(answer["subscriptions"]?.elements.map { $0["serverErrorCode"]?.string } == [nil, "TRY_AGAIN_LATER"])
    let asked = Set(try deletions(world).map(\.text)).filter { !$0.hasPrefix("_bea") }
    #expect(asked == ["_alice first", "_cem first"])
  }

  @Test func `a subscription that was saved leaves its former place, even if another owner refuses the rest`()
    async throws
  {
    let world = try await world { worker, request, body in
      if request.database.owner == "_bea", !String(decoding: body, as: UTF8.self).contains("delete") {
        return Answer(
          DatabaseRequest.Reply(status: 400), body: Array(#"{"serverErrorCode":"BAD_REQUEST","reason":"no"}"#.utf8))
      }
      return try await Self.owner(worker, request, body)
    }
    #expect(await save([("first", "_ann"), ("second", "_bea")], in: world).status == 400)
    #expect(try Set(deletions(world).map(\.text)) == ["_alice first", "_bea first", "_cem first"])
  }

  @Test(arguments: [
    #"{"operationType":"upsert","subscription":{"subscriptionID":"s"}}"#, #"{"operationType":"create"}"#, "7",
    #"{"operationType":"update","subscription":{"subscriptionType":"zone"}}"#,
    #"{"operationType":"create","subscription":{"subscriptionID":7}}"#,
  ])
  func `a request with an operation that no worker takes is one worker's to refuse, and changes nothing`(
    operation: String
  ) async throws {
    let world = try await world()
    let sound = #"""
      {"operationType":"create","subscription":{"subscriptionID":"first","subscriptionType":"zone",\#
      "zoneID":{"zoneName":"Trips","ownerRecordName":"_ann"}}}
      """#
    let body = #"{"operations":[\#(sound),\#(operation)]}"#
    _ = await world.alice(.post, Self.path, body: body)
    #expect(world.requests.map(\.request.database.owner) == ["_alice"])
    #expect(world.requests.map { String(decoding: $0.body, as: UTF8.self) } == [body])
  }

  @Test func `several subscriptions move at once, and each place is asked by identifiers that a repetition repeats`()
    async throws
  {
    let world = try await world()
    _ = await save([("first", "_ann"), ("second", "_bea"), ("third", "_bea")], in: world)
    let once = try deletions(world)
    #expect(
      Set(once.map(\.text)) == [
        "_alice first", "_bea first", "_cem first", "_alice second", "_ann second", "_cem second", "_alice third",
        "_ann third", "_cem third",
      ])
    // A worker refuses another request of the same identifier.
    let ofCem = once.filter { $0.text.hasPrefix("_cem") }
    #expect(Set(ofCem.filter { $0.text != "_cem first" }.map(\.requestID)).count == 1)
    #expect(Set(ofCem.map(\.requestID)).count == 2)
    _ = await save([("first", "_ann"), ("second", "_bea"), ("third", "_bea")], in: world)
    let twice = try deletions(world)
    #expect(twice.count == 2 * once.count && Set(twice.map(\.requestID)) == Set(once.map(\.requestID)))
  }
}
