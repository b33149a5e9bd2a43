import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Gateway

struct AssetDownloadTests {
  private func path(hash: UInt8 = 1, expiry: Int64 = 1_700_000_001) -> String {
    AssetURL(shard: 5, hash: [UInt8](repeating: hash, count: 32), expiry: expiry).path(
      signedWith: GatewayWorld.signingKey)
  }

  @Test(
    arguments: [
      (nil, 200, nil, 0, 1000), ("bytes=0-9", 206, "bytes 0-9/1000", 0, 10),
      ("bytes=990-", 206, "bytes 990-999/1000", 990, 10),
      ("bytes=-5", 206, "bytes 995-999/1000", 995, 5),
    ] as [(String?, Int, String?, UInt64, UInt64)])
  func `a signed address gives the file or a part of it`(
    range: String?, status: Int, contentRange: String?, offset: UInt64, count: UInt64
  ) async throws {
    let world = try await GatewayWorld(servesAssets: true)
    let response = await world.respond(.get, path(), headers: range.map { [("range", $0)] } ?? [])
    #expect(response.status == status)
    #expect(response.header("Content-Range") == contentRange)
    #expect(response.header("Access-Control-Allow-Origin") == "*")
    guard case .content(let content, let start, let byteCount) = response.body else {
      Issue.record("no content")
      return
    }
    let found = content as? FoundContent
    #expect(found?.shard == 5 && found?.hash == [UInt8](repeating: 1, count: 32))
    #expect((start, byteCount) == (offset, count))
  }

  @Test func `a range behind the end is refused`() async throws {
    let world = try await GatewayWorld(servesAssets: true)
    let response = await world.respond(.get, path(), headers: [("range", "bytes=1000-")])
    #expect(response.status == 416)
    #expect(response.header("Content-Range") == "bytes */1000")
  }

  @Test func `an expired address is refused`() async throws {
    let world = try await GatewayWorld(servesAssets: true)
    #expect(await world.respond(.get, path(expiry: 1_700_000_000)).status == 403)
  }

  private func path(zone: String?) -> String {
    let reader = AssetURL.Reader(
      container: ContainerID(rawValue: GatewayWorld.container)!, environment: .production, owner: "_carol",
      userRecordName: "_bob", zoneName: zone)
    return AssetURL(shard: 5, hash: [UInt8](repeating: 1, count: 32), expiry: 1_700_000_001, reader: reader).path(
      signedWith: GatewayWorld.signingKey)
  }

  @Test(arguments: ["Trip", nil])
  func `a participant's address is good as long as they take part, and not a moment longer`(zone: String?) async throws
  {
    let answer = Mutex(#"{"zones":[{"zoneID":{"zoneName":"Trip"}}]}"#)
    let world = try await GatewayWorld(
      servesAssets: true,
      worker: { _, _, _ in Answer(DatabaseRequest.Reply(status: 200), body: Array(answer.withLock { $0 }.utf8)) })
    #expect(await world.respond(.get, path(zone: zone)).status == 200)
    let (request, body) = try #require(world.record.withLock { $0.requests.first.map { ($0.request, $0.body) } })
    #expect(request.scope == .shared && request.database.owner == "_carol" && request.caller.userRecordName == "_bob")
    #expect(request.route == .record(zone == nil ? .listZones : .lookUpZones))
    #expect(String(decoding: body, as: UTF8.self).contains("Trip") == (zone != nil))
    answer.withLock { $0 = zone == nil ? #"{"zones":[]}"# : #"{"zones":[{"serverErrorCode":"ZONE_NOT_FOUND"}]}"# }
    #expect(await world.respond(.get, path(zone: zone)).status == 403)
  }

  @Test func `an owner's address asks nobody, and where the worker does not answer a participant comes again`()
    async throws
  {
    let world = try await GatewayWorld(
      servesAssets: true,
      worker: { _, _, _ in Answer(DatabaseRequest.Reply(status: 503, retryAfter: 2), body: Array("{}".utf8)) })
    #expect(await world.respond(.get, path()).status == 200)
    #expect(world.record.withLock { $0.requests.isEmpty })
    #expect(await world.respond(.get, path(zone: "Trip")).status == 503)
  }

  @Test func `a client fetches a plain content from the store itself where clients reach it`() async throws {
    let world = try await GatewayWorld(servesAssets: true, directAddress: "https://bucket.example/key?X-Amz-Expires=60")
    let response = await world.respond(.get, path(), headers: [("range", "bytes=0-9")])
    #expect(response.status == 302)
    #expect(response.header("Location") == "https://bucket.example/key?X-Amz-Expires=60")
    #expect(response.header("Cache-Control") == "no-store")
    #expect(response.header("Access-Control-Allow-Origin") == "*")
    let known = await world.respond(
      .get, path(), headers: [("if-none-match", "\"\(String(repeating: "01", count: 32))\"")])
    #expect(known.status == 304)
    #expect(await world.respond(.get, path(expiry: 1_700_000_000)).status == 403)
  }

  @Test func `downloads count as requests of their network, or of the participant that they name`() async throws {
    let start = ContinuousClock.now
    let world = try await GatewayWorld(
      servesAssets: true, rate: .init(perSecond: 1, burst: 2), timing: Timing(now: { start }, sleep: { _ in }),
      worker: { _, _, _ in
        Answer(DatabaseRequest.Reply(status: 200), body: Array(#"{"zones":[{"zoneID":{"zoneName":"Trip"}}]}"#.utf8))
      })
    for _ in 0..<2 { #expect(await world.respond(.get, path()).status == 200) }
    let refused = await world.respond(.get, path())
    #expect(refused.status == 429 && refused.header("Retry-After") == "2")
    #expect(await world.respond(.get, path(), address: "192.0.2.1").status == 200)
    for status in [200, 200, 429] { #expect(await world.respond(.get, path(zone: "Trip")).status == status) }
    #expect(
      String(decoding: await world.metrics.text(), as: UTF8.self).contains(
        #"aquifer_http_requests_throttled_total{by="download"} 2"#))
  }

  @Test func `a content that is elsewhere says how much memory it holds until it is sent`() async throws {
    let assets = CountingAssets(areLocal: false)
    let world = try await GatewayWorld(assets: assets)
    for (byteCount, held) in [(10, 30), (2_000_000, 384 << 10)] {
      let asset = try assets.put([UInt8](repeating: 7, count: byteCount), in: 5)
      let path = AssetURL(shard: 5, hash: asset.hash, expiry: 1_700_000_001).path(signedWith: GatewayWorld.signingKey)
      let response = await world.respond(.get, path)
      #expect(response.status == 200 && response.heldByteCount == held)
      guard case .pieces = response.body else {
        Issue.record("it is read on the server's threads")
        return
      }
    }
  }

  @Test func `without a store there are no assets`() async throws {
    let world = try await GatewayWorld()
    #expect(await world.respond(.get, path()).status == 404)
  }
}

/// Stands for a content, and keeps what was asked for.
final class FoundContent: HTTPContent {
  let hash: [UInt8]
  let shard: Int
  init(_ hash: [UInt8], _ shard: Int) { (self.hash, self.shard) = (hash, shard) }
  func read(at offset: UInt64, limit: Int) -> [UInt8]? { nil }
}
