import FixedClocks
import HTTPServer
import JSON
import Records
import ServiceBus
import Synchronization
import Testing

@testable import Gateway

@Suite struct `records/resolve and records/accept` {
  private static let resolve = "/database/1/\(GatewayWorld.container)/development/public/records/resolve"
  private static let accept = "/database/1/\(GatewayWorld.container)/development/public/records/accept"

  private func shortGUID(_ shard: Int, _ number: UInt8) -> String {
    ShortGUID(shard: shard) { Array(repeating: number, count: $0) }.text
  }

  private func world() async throws -> GatewayWorld { try await GatewayWorld(workers: ["worker-1", "worker-2"]) }

  @Test func `each short GUID is asked of its shard, and the results are in the request's order`() async throws {
    let world = try await world()
    let (first, second, third) = (shortGUID(1, 1), shortGUID(0, 2), shortGUID(3, 3))
    let absent = shortGUID(1, GatewayWorld.absent)
    let body =
      #"""
      {"shortGUIDs":[{"value":"\#(first)"},{"value":"nonsense"},{"value":"\#(second)","shouldFetchRootRecord":true,\#
      "rootRecordDesiredKeys":["a"]},{"value":"\#(absent)"},{"value":"\#(third)","shouldFetchRootRecord":false},\#
      {"value":"\#(shortGUID(99, 4))"}]}
      """#
    let response = await world.alice(.post, Self.resolve, body: body)
    #expect(response.status == 200)
    let missing = #""serverErrorCode":"NOT_FOUND","reason":"There is no share with this short GUID"}"#
    #expect(
      response.text
        == #"""
        {"results":[{"shortGUID":{"value":"\#(first)"},"from":"worker-2","user":"_alice"},\#
        {"shortGUID":{"value":"nonsense"},\#(missing),{"shortGUID":{"value":"\#(second)",\#
        "shouldFetchRootRecord":true,"rootRecordDesiredKeys":["a"]},"from":"worker-1","user":"_alice"},\#
        {"shortGUID":{"value":"\#(absent)"},\#(missing),{"shortGUID":{"value":"\#(third)",\#
        "shouldFetchRootRecord":false},"from":"worker-2","user":"_alice"},\#
        {"shortGUID":{"value":"\#(shortGUID(99, 4))"},\#(missing)]}
        """#)
    let asked = world.record.withLock { $0.resolutions }.sorted { $0.shard < $1.shard }
    #expect(asked.map(\.shard) == [0, 1, 3])
    #expect(asked[0].items == [.init(shortGUID: second, fetchesRootRecord: true, desiredKeys: ["a"])])
    #expect(
      asked.allSatisfy {
        $0.purpose == .resolve && $0.container.rawValue == GatewayWorld.container && $0.environment == .development
      })
  }

  /// A barrier that opens when the expected number of tasks has arrived.
  private final class Meeting: Sendable {
    private let state: Mutex<(missing: Int, waiting: [CheckedContinuation<Void, Never>])>
    init(of count: Int) { state = Mutex((count, [])) }

    func attend() async {
      await withCheckedContinuation { continuation in
        let all = state.withLock { state in
          state.missing -= 1
          state.waiting.append(continuation)
          return state.missing == 0 ? state.waiting : []
        }
        for one in all { one.resume() }
      }
    }
  }

  @Test func `shards are asked at once`() async throws {
    let meeting = Meeting(of: 3)
    // Each shard waits for the others, so asking one after the other would never end.
    let world = try await GatewayWorld(
      workers: ["worker-1", "worker-2"], limit: .seconds(60), resolver: { _ in await meeting.attend() })
    let body = #"{"shortGUIDs":[\#((0..<3).map { #"{"value":"\#(shortGUID($0, 1))"}"# }.joined(separator: ","))]}"#
    let response = await world.alice(.post, Self.resolve, body: body)
    #expect(response.status == 200 && !response.text.contains("serverErrorCode"))
  }

  @Test func `a shard that is away is the answer for what it has, and all of them are the request's`() async throws {
    let world = try await GatewayWorld(
      workers: ["worker-1", "worker-2"], timing: FixedTime().skippingPauses,
      resolver: { message in
        if message.shard == 1 { throw BusError(.overloaded, "not now") }
      })
    let (there, away) = (#"{"value":"\#(shortGUID(0, 1))"}"#, #"{"value":"\#(shortGUID(1, 1))"}"#)
    let results =
      try await world.alice(.post, Self.resolve, body: #"{"shortGUIDs":[\#(there),\#(away)]}"#).json["results"]?
      .elements ?? []
    #expect(results.map { $0["serverErrorCode"]?.string } == [nil, "TRY_AGAIN_LATER"])
    #expect(results.last?["retryAfter"] != nil)
    #expect(await world.alice(.post, Self.resolve, body: #"{"shortGUIDs":[\#(away)]}"#).status == 503)
  }

  @Test func `a short GUID is asked of its shard and of all that were split off it, and one of them finds it`()
    async throws
  {
    let (found, absent) = (shortGUID(3, 1), shortGUID(2, 1))
    let world = try await GatewayWorld(
      workers: ["worker-1", "worker-2"], timing: FixedTime().skippingPauses,
      resolver: { message in
        // The other shards of the division don't answer; that of the record does.
        if message.shard != 9 { throw BusError(.overloaded, "not now") }
      })
    try await world.map(version: 2, holders: ["worker-1", "worker-2"], splits: [3, 3])
    let body = #"{"shortGUIDs":[{"value":"\#(found)"},{"value":"\#(absent)"}]}"#
    let results = try await world.alice(.post, Self.resolve, body: body).json["results"]?.elements ?? []
    #expect(results.map { $0["serverErrorCode"]?.string } == [nil, "TRY_AGAIN_LATER"])
    let asked = Dictionary(world.record.withLock { $0.resolutions }.map { ($0.shard, $0.part) }) { first, _ in first }
    #expect(asked.keys.sorted() == [2, 3, 8, 9])
    #expect(asked[2] == .some(nil))
    #expect(asked[3] == ShardPart(modulus: 32, remainder: 3))
    #expect(asked[8] == ShardPart(modulus: 16, remainder: 11))
    #expect(asked[9] == ShardPart(modulus: 32, remainder: 19))
  }

  @Test func `without a map of the shards nothing is said not to exist`() async throws {
    let world = try await GatewayWorld(isMapped: false, timing: FixedTime().skippingPauses)
    let response = await world.alice(.post, Self.resolve, body: #"{"shortGUIDs":[{"value":"\#(shortGUID(0, 1))"}]}"#)
    #expect(response.status == 503)
    #expect(response.header("Retry-After") != nil)
  }

  @Test func `both are asked on the path of the public database only`() async throws {
    let world = try await world()
    for path in [Self.resolve, Self.accept] {
      let response = await world.alice(
        .post, path.replacing("/public/", with: "/private/"), body: #"{"shortGUIDs":[]}"#)
      #expect(response.status == 400 && response.text.contains("is a call of the public database"))
      #expect(await world.alice(.post, path, body: #"{"shortGUIDs":[]}"#).text == #"{"results":[]}"#)
    }
  }

  @Test(
    arguments: [
      ("{}", "shortGUIDs is missing"), (#"{"shortGUIDs":{}}"#, "shortGUIDs must be an array"),
      (#"{"shortGUIDs":["0a"]}"#, "shortGUIDs[0] must be an object"),
      (#"{"shortGUIDs":[{}]}"#, "shortGUIDs[0]: value is missing"),
      (#"{"shortGUIDs":[{"value":1}]}"#, "shortGUIDs[0]: value must be a string"),
      (#"{"shortGUIDs":[{"value":"0","shouldFetchRootRecord":1}]}"#, "shouldFetchRootRecord must be true or false"),
      (#"{"shortGUIDs":[{"value":"0","rootRecordDesiredKeys":[1]}]}"#, "rootRecordDesiredKeys[0] must be a string"),
      ("[", "The body is not JSON"),
      (
        #"{"shortGUIDs":[\#(Array(repeating: #"{"value":"0"}"#, count: 201).joined(separator: ","))]}"#,
        "shortGUIDs has 201 items, the limit is 200"
      ),
    ])
  func `a body that can't be read is refused, naming the place`(body: String, reason: String) async throws {
    let world = try await world()
    let response = await world.alice(.post, Self.resolve, body: body)
    #expect(response.status == 400 && response.text.contains(reason), "\(response.text)")
    #expect(world.record.withLock { $0.resolutions.isEmpty })
  }

  @Test func `an app may resolve without a user, but not accept`() async throws {
    let world = try await world()
    let body = #"{"shortGUIDs":[{"value":"\#(shortGUID(0, 1))"}]}"#
    let query = [("ckAPIToken", GatewayWorld.apiToken)]
    #expect(await world.respond(.post, Self.resolve, query: query, body: body).status == 200)
    #expect(await world.respond(.post, Self.accept, query: query, body: body).status == 421)
    #expect(await world.alice(.post, Self.accept, body: body).status == 200)
    #expect(world.record.withLock { $0.resolutions.map(\.purpose) } == [.resolve, .accept])
    #expect(world.record.withLock { $0.resolutions.map(\.caller.userRecordName) } == [nil, "_alice"])
  }
}
