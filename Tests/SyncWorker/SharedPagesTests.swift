import Assets
import FixedClocks
import Foundation
import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
import WebServices
import ZoneCommit

@testable import RecordPlane

/// Pages that several devices ask for, beside a plane that writes each page anew.
@Suite struct `Shared pages` {
  /// A plane that shares pages, and one that does not, over the same store.
  private struct Planes {
    let world: RecordPlaneWorld
    let sharing: RecordPlane
    let plain: RecordPlane

    init(_ world: RecordPlaneWorld, byteLimit: Int = 16 << 20) {
      self.world = world
      sharing = Self.plane(of: world, byteLimit: byteLimit)
      plain = Self.plane(of: world, byteLimit: 0)
    }

    private static func plane(of world: RecordPlaneWorld, byteLimit: Int) -> RecordPlane {
      // Nothing ages.
      let pages = SharedPages(byteLimit: byteLimit) { _ in try? await Task.sleep(for: .seconds(3600)) }
      return RecordPlane(context: world.context.records(pages: pages))
    }

    var sentAgain: Int { Int(sharing.context.pages.sentAgain.count) }

    /// A page for each of three devices, which are all to be that of the plain plane.
    @discardableResult func page(
      after token: String? = nil, limit: Int? = nil, zone: String = "Trips", more: String = "",
      as change: (inout DatabaseRequest) -> Void = { _ in }, _ location: SourceLocation = #_sourceLocation
    ) async throws -> JSONValue {
      let members = [
        #""zoneID":{"zoneName":"\#(zone)"}"#, token.map { #""syncToken":"\#($0)""# },
        limit.map { #""resultsLimit":\#($0)"# }, more.isEmpty ? nil : more,
      ]
      let body = Array(#"{"zones":[{\#(members.compactMap(\.self).joined(separator: ","))}]}"#.utf8)
      var request = world.request("changes/zone")
      change(&request)
      let expected = try await plain.respond(to: request, body: body, in: world.store, startNext: {}).body
      for _ in 0..<3 {
        let answer = try await sharing.respond(to: request, body: body, in: world.store, startNext: {}).body
        #expect(
          String(decoding: answer, as: UTF8.self) == String(decoding: expected, as: UTF8.self), sourceLocation: location
        )
      }
      return try #require(JSONValue(parsing: expected)["zones"]?.elements.first)
    }
  }

  @Test(arguments: 0..<20 as Range<UInt64>)
  func `devices get the pages that a server without shared ones gives, whatever was saved between`(_ seed: UInt64)
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory(seed: seed)
    try await world.makeZone()
    try await world.makeZone("Other")
    let planes = Planes(world, byteLimit: seed % 2 == 0 ? 16 << 20 : 4000)
    let random = SeededRandom(seed: seed)
    var tokens: [String?] = [nil, nil, nil]
    for step in 0..<60 {
      let (name, zone) = ("r\(random.next() % 9)", random.next() % 4 == 0 ? "Other" : "Trips")
      switch random.next() % 8 {
      case 0: _ = try await world.operate("forceDelete", name, zone: zone)
      case 1, 2, 3:
        _ = try await world.operate("forceUpdate", name, fields: #"{"n":{"value":\#(step)}}"#, zone: zone)
      case 4 where step % 5 == 0:
        _ = try await world.post(
          "zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Trips"}}}]}"#)
        try await world.makeZone()
        tokens = [nil, nil, nil]
      default: break
      }
      let device = Int(random.next() % 3)
      let limit = [nil, 1, 3][Int(random.next() % 3)]
      let page = try await planes.page(
        after: tokens[device], limit: limit, more: step % 7 == 0 ? #""numbersAsStrings":true"# : "")
      tokens[device] = page["syncToken"]?.string
      try await planes.page(limit: limit, zone: "Other")
    }
    #expect(planes.sentAgain > 10)
  }

  @Test func `a page is shared only with devices that ask for the same`() async throws {
    let world = try await `The record plane's change feeds`.world()
    let planes = Planes(world)
    try await planes.page()
    #expect(planes.sentAgain == 1, "the first is written, the second kept, the third sent again")
    for more in [#""reverse":true"#, #""desiredKeys":["x"]"#, #""desiredRecordTypes":["Other"]"#, #""syncToken":"""#] {
      try await planes.page(more: more)
    }
    #expect(planes.sentAgain == 1)
    for (index, more) in [#""numbersAsStrings":true"#, #""resultsLimit":2"#].enumerated() {
      try await planes.page(more: more)
      #expect(planes.sentAgain == 2 + index)
    }
    // Another owner's zone of the same name.
    let missing = try await planes.page(as: { $0 = world.request("changes/zone", user: "_bob") })
    #expect(missing.code == "ZONE_NOT_FOUND")
    #expect(planes.sentAgain == 3)
  }

  @Test func `an owner's page with a share shows who has accepted, whether an operator or they asked before`()
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a")
    let planes = Planes(world)
    _ = try await world.shareHierarchy("a", with: ["bob"])
    let operatorsCaller = Caller(userRecordName: nil, isOperator: true)
    try await planes.page(as: { $0 = world.request("changes/zone", caller: operatorsCaller, owner: "_alice") })
    let before = try await planes.page()
    #expect(before.text.contains("cloudkit.share") && planes.sentAgain == 0)
  }

  @Test func `addresses of assets are those of the present time`() async throws {
    let folder = NSTemporaryDirectory() + "aquifer-shared-pages-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let assets = AssetFolder(directory: folder + "/assets")
    let store = try await SQLiteRecordStore(
      SQLiteConfiguration(directory: folder + "/shards", assets: assets), shardCount: 1
    ).open(shard: 0)
    let world = RecordPlaneWorld(store, assets: assets)
    try await world.makeZone()
    let expiry = AssetLifetime.uploadExpiry(at: world.clock.now)
    var writer = JSONWriter()
    AssetReceipt(asset: try assets.put(Array("hello".utf8), until: expiry), expiry: expiry).write(
      for: AssetUser(
        container: RecordPlaneWorld.container, environment: .development, userRecordName: "_alice"),
      signedWith: Array("signing key".utf8), to: &writer)
    let receipt = String(decoding: writer.bytes, as: UTF8.self)
    let saved = try await world.operate("create", "a", fields: #"{"blob":{"value":\#(receipt)}}"#)
    #expect(saved.records.first?.code == nil)
    let planes = Planes(world)
    let before = try await planes.page()
    world.clock.advance(by: 600_000)
    let after = try await planes.page()
    #expect(before.text.contains("downloadURL") && before.text != after.text && planes.sentAgain == 0)
    await store.close()
  }

  @Test(arguments: [2_999_400, 2_999_900])
  func `a page that another zone's records cut is sent to no device that asks for it alone`(_ byteCount: Int)
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    try await world.makeZone("Other")
    let text = String(repeating: "x", count: 750_000)
    for name in 0..<3 { _ = try await world.operate("create", "\(name)", fields: #"{"t":{"value":"\#(text)"}}"#) }
    for name in 0..<4 { _ = try await world.operate("create", "\(name)", zone: "Other") }
    let planes = Planes(world)
    // The last text fills the answer up to the wanted length.
    _ = try await world.operate("create", "3", fields: #"{"t":{"value":""}}"#)
    let rest = byteCount - (try await planes.plain.page(of: #"{"zoneID":"Trips"}"#, in: world).utf8.count)
    let filling = String(repeating: "x", count: rest)
    _ = try await world.operate("forceUpdate", "3", fields: #"{"t":{"value":"\#(filling)"}}"#)
    for _ in 0..<3 {
      _ = try await planes.sharing.page(of: #"{"zoneID":"Trips"},{"zoneID":"Other"}"#, in: world)
    }
    let other = try await planes.page(zone: "Other")
    #expect(other["records"]?.count == 4 && other["moreComing"]?.bool == false)
  }

  @Test func `kept pages take no more than their limit, and age until none is left`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let text = String(repeating: "x", count: 500)
    for name in 0..<20 { _ = try await world.operate("create", "\(name)", fields: #"{"t":{"value":"\#(text)"}}"#) }
    let (pauses, continuation) = AsyncStream.makeStream(of: CheckedContinuation<Void, Never>.self)
    let pages = SharedPages(byteLimit: 8000) { _ in await withCheckedContinuation { continuation.yield($0) } }
    let plane = RecordPlane(context: world.context.records(pages: pages))
    func ask(_ limit: Int) async throws {
      let body = #"{"zones":[{"zoneID":{"zoneName":"Trips"},"resultsLimit":\#(limit)}]}"#
      _ = try await plane.respond(
        to: world.request("changes/zone"), body: Array(body.utf8), in: world.store, startNext: {})
    }
    for limit in 1...20 {
      for _ in 0..<3 { try await ask(limit) }
      #expect(pages.byteCount <= 8000)
    }
    // Four records take less than half of the limit, and seven more.
    #expect(pages.sentAgain.count > 2 && pages.sentAgain.count < 7 && pages.byteCount > 0)
    var turns = pauses.makeAsyncIterator()
    for _ in 0..<2 { await turns.next()?.resume() }
    while pages.byteCount > 0 { await Task.yield() }
    // The next request begins it anew.
    for _ in 0..<2 { try await ask(1) }
    #expect(pages.byteCount > 0)
    for _ in 0..<2 { await turns.next()?.resume() }
    while pages.byteCount > 0 { await Task.yield() }
  }
}

extension RecordPlane {
  /// The answer to a request for pages of zones.
  fileprivate func page(of zones: String, in world: RecordPlaneWorld) async throws -> String {
    let body = Array(#"{"zones":[\#(zones)]}"#.utf8)
    let answer = try await respond(to: world.request("changes/zone"), body: body, in: world.store, startNext: {})
    return String(decoding: answer.body, as: UTF8.self)
  }
}
