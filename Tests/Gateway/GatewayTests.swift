import FixedClocks
import HTTPServer
import InMemoryServiceBus
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Gateway

struct GatewayTests {
  @Test func `a request reaches the worker of its shard as it came and its answer comes back as it is`() async throws {
    let world = try await GatewayWorld(workers: ["worker-1", "worker-2"]) { _, _, _ in
      Answer(DatabaseRequest.Reply(status: 207, contentType: "text/x", retryAfter: 3), body: [0, 255, 1])
    }
    let response = await world.alice(
      .post, "\(GatewayWorld.records)/records/modify", query: [("getCurrentSyncToken", "true")],
      headers: [("x-request-id", "R-1")], body: "{ \u{0} bytes }")
    #expect(response.status == 207)
    #expect(response.bytes == [0, 255, 1])
    #expect(response.header("Content-Type") == "text/x")
    #expect(response.header("Retry-After") == "3")
    let (worker, request, body) = try #require(world.requests.first)
    let database = DatabaseID(
      container: try #require(ContainerID(rawValue: GatewayWorld.container)), environment: .development, owner: "_alice"
    )
    #expect(request.database == database)
    let shard = try #require(ShardLayout(createdCount: GatewayWorld.shardCount)).shard(of: database)
    #expect(worker == (shard % 2 == 0 ? "worker-1" : "worker-2"))
    #expect(body == Array("{ \u{0} bytes }".utf8))
    #expect(request.route == .record(.modifyRecords))
    #expect(request.query == ["getCurrentSyncToken": "true"])
    #expect(request.scope == .private)
    #expect(request.caller == Caller(userRecordName: "_alice"))
    #expect(request.requestID == "_alice:R-1")
    #expect(request.baseURL == "http://gateway")
  }

  @Test func `the public database is one owner's, whoever asks`() async throws {
    let world = try await GatewayWorld()
    let path = "/database/1/\(GatewayWorld.container)/production/public/records/query"
    #expect(await world.respond(.post, path, query: [("ckAPIToken", GatewayWorld.apiToken)]).status == 200)
    #expect(await world.alice(.post, path).status == 200)
    #expect(world.requests.map(\.request.database.owner) == [DatabaseID.publicOwner, DatabaseID.publicOwner])
    #expect(world.requests.map(\.request.caller.userRecordName) == [nil, "_alice"])
  }

  @Test func `a bearer token stands alone on both planes`() async throws {
    let world = try await GatewayWorld()
    for path in ["\(GatewayWorld.records)/zones/list", "\(GatewayWorld.stores)/S/changes"] {
      #expect(await world.respond(.get, path, headers: [("authorization", "Bearer alice")]).status == 200)
    }
    #expect(world.requests.map(\.request.plane) == [.record, .object])
  }

  @Test func `two users' request ids never meet, and a drawn one is new each time`() async throws {
    let world = try await GatewayWorld()
    let path = "\(GatewayWorld.records)/records/modify"
    for user in ["alice", "bob"] {
      _ = await world.respond(.post, path, headers: [("authorization", "Bearer \(user)"), ("x-request-id", "same")])
      _ = await world.respond(.post, path, headers: [("authorization", "Bearer \(user)")])
    }
    #expect(Set(world.requests.map(\.request.requestID)).count == 4)
  }

  @Test(arguments: ["", " ", "a b", "ä", String(repeating: "x", count: 129)])
  func `a request id that can't be kept is refused`(id: String) async throws {
    let world = try await GatewayWorld()
    let response = await world.alice(.post, "\(GatewayWorld.records)/records/modify", headers: [("x-request-id", id)])
    #expect(response.status == 400)
    #expect(try response.json["reason"]?.string?.contains("X-Request-ID") == true)
    #expect(world.requests.isEmpty)
  }

  @Test func `a request is repeated with the same id until a worker answers`() async throws {
    let failures = Mutex<[BusError.Code]>([.notMine, .draining, .overloaded, .unreachable])
    let world = try await GatewayWorld { _, _, _ in
      if let code = failures.withLock({ $0.popLast() }) { throw BusError(code, "no") }
      return Answer(DatabaseRequest.Reply(status: 200))
    }
    #expect(await world.alice(.post, "\(GatewayWorld.records)/records/modify").status == 200)
    #expect(world.requests.count == 5)
    #expect(Set(world.requests.map(\.request.requestID)).count == 1)
  }

  @Test func `a moved shard is found with the next map`() async throws {
    let moved = Mutex(false)
    let world = try await GatewayWorld(workers: ["worker-1", "worker-2"], isMapped: false) { worker, _, _ in
      guard worker == "worker-2" else {
        moved.withLock { $0 = true }
        throw BusError(.notMine, "moved")
      }
      return Answer(DatabaseRequest.Reply(status: 200))
    }
    try await world.map(holders: ["worker-1"])
    async let response = world.alice(.get, "\(GatewayWorld.records)/zones/list")
    while !moved.withLock({ $0 }) { await Task.yield() }
    try await world.map(version: 2, holders: ["worker-2"])
    // An older map that arrives late changes nothing.
    try await world.map(version: 1, holders: ["worker-1"])
    #expect(await response.status == 200)
    #expect(world.requests.last?.worker == "worker-2")
  }

  @Test func `without a worker in time the client is told when to come again`() async throws {
    let world = try await GatewayWorld(timing: FixedTime().skippingPauses)
    try await world.map(version: 2, holders: [])
    let response = await world.alice(.post, "\(GatewayWorld.records)/records/modify")
    #expect(response.status == 503)
    #expect(try response.code == "TRY_AGAIN_LATER")
    #expect(try response.json["retryAfter"]?.int64 == 1)
    #expect(response.header("Retry-After") == "1")
  }

  @Test(
    arguments: [
      ("shares", "{}", nil), ("move", "{}", nil), ("purge", #"{"keepCopy":true}"#, nil),
      ("transactions", "{}", "export"), ("quarantine/retry", "{}", nil),
    ] as [(String, String, String?)])
  func `a long request has the time for it`(path: String, body: String, wait: String?) async throws {
    let refusals = Mutex(0)
    let world = try await GatewayWorld(limit: .seconds(10), timing: FixedTime().skippingPauses) { _, _, _ in
      // Pauses are 100 ms long at most: the worker is ready between the two limits of time.
      let count = refusals.withLock { count in
        count += 1
        return count
      }
      if count <= 200 { throw BusError(.draining, "about to stop") }
      return Answer(DatabaseRequest.Reply(status: 200), body: Array("{}".utf8))
    }
    let answer = await world.alice(
      .post, "\(GatewayWorld.stores)/S/\(path)", query: wait.map { [("wait", $0)] } ?? [], body: body)
    #expect(answer.status == (path == "quarantine/retry" ? 503 : 200))
  }

  @Test func `an operator's call is forwarded whole to the share service`() async throws {
    let world = try await GatewayWorld()
    let response = await world.respond(
      .put, "/mirror/1/\(GatewayWorld.container)/development/model", query: [("dryRun", "true"), ("ckAPIToken", "x")],
      headers: [("authorization", "Bearer operator")], body: "<model/>")
    #expect(response.status == 201 && response.text == "made" && response.header("Content-Type") == "text/plain")
    let (request, body) = try #require(world.record.withLock(\.operatorRequests).first)
    #expect(request.method == "PUT")
    #expect(request.path == ["mirror", "1", GatewayWorld.container, "development", "model"])
    #expect(request.query == ["dryRun": "true"])
    #expect(body == Array("<model/>".utf8))
  }
}

struct PublicAddressTests {
  @Test func `an address is as configured, as a trusted proxy says, or where the server listens`() {
    func url(configured: String?, forwarded: String?) -> String {
      let address = PublicAddress(configured: configured)
      address.listens(at: "https://127.0.0.1:8080")
      return address.url(
        for: HTTPRequest(
          method: .get, target: "/", pathSegments: [], query: [], headers: [("x-forwarded-host", "evil.example")],
          body: [], remoteAddress: "127.0.0.1",
          forwardedOrigin: forwarded))
    }
    #expect(url(configured: "https://sync.example", forwarded: "https://proxy.example") == "https://sync.example")
    #expect(url(configured: nil, forwarded: "https://proxy.example") == "https://proxy.example")
    #expect(url(configured: nil, forwarded: nil) == "https://127.0.0.1:8080")
  }

  @Test func `a gateway does not start with a public URL below a path, where its pages and cookies would be lost`()
    throws
  {
    for url in ["https://example.org/sync", "https://example.org?a", "https://ann@example.org"] {
      let error = try #require(throws: ExitError.self) { _ = try PublicAddress(option: url) }
      #expect(error.code == .configuration && error.description.contains(url), "\(error)")
    }
    let request = HTTPRequest(
      method: .get, target: "/", pathSegments: [], query: [], headers: [], body: [], remoteAddress: "127.0.0.1")
    for url in ["https://example.org", "http://127.0.0.1:8080", "https://[2001:db8::1]:8443"] {
      #expect(try PublicAddress(option: url).url(for: request) == url)
    }
    let address = try PublicAddress(option: nil)
    address.listens(at: "http://127.0.0.1:8080")
    #expect(address.url(for: request) == "http://127.0.0.1:8080")
  }
}

struct PushTokenTests {
  private static let container = GatewayWorld.container

  @Test(arguments: [
    "/device/1/\(container)/development", "/database/1/\(container)/development",
    "/database/1/\(container)/development/private",
  ])
  func `every spelling of the path mints a courier that is the user's`(prefix: String) async throws {
    let world = try await GatewayWorld()
    let made = try await world.alice(
      .post, "\(prefix)/tokens/create", body: #"{"apnsEnvironment":"production","clientId":"C"}"#
    ).json
    #expect(made["apnsEnvironment"]?.string == "production")
    let url = try #require(made["webcourierURL"]?.string)
    #expect(made["apnsToken"]?.base64 == Array((url.split(separator: "/").last ?? "").utf8))
    #expect(url.hasPrefix("http://notifier/courier/1/"))
    let token = try #require(
      CourierToken(text: String(url.split(separator: "/").last ?? ""), verifiedWith: GatewayWorld.signingKey, now: 0))
    #expect(token.grant == "grant-alice", "it is good as long as the credentials it was asked for with")
    #expect(
      CourierToken(
        text: String(url.split(separator: "/").last ?? ""), verifiedWith: GatewayWorld.signingKey, now: token.expiry)
        == nil)
    #expect(
      (token.container.rawValue, token.environment, token.userRecordName, token.clientID) == (
        Self.container, .development, "_alice", "C"
      ))
    #expect(
      await world.alice(.post, "\(prefix)/tokens/register", body: #"{"apnsToken":"x","clientId":"C"}"#).text == "{}")
  }

  /// A notifier that keeps the messages it gets.
  private final class Notifier: Sendable {
    final class Inbox: Sendable {
      let opened = Mutex<[OpenCourier]>([])
      let isFull = Mutex(false)
    }

    let inbox = Inbox()
    let bus: InMemoryBus

    init(_ name: String, in world: GatewayWorld) async {
      var handlers = BusHandlers()
      let inbox = inbox
      handlers.on(OpenCourier.self) { message, _, _ in
        inbox.opened.withLock { $0.append(message) }
        return Answer(OpenCourier.Reply(isOpen: !inbox.isFull.withLock { $0 }))
      }
      bus = InMemoryBus(name: name, role: .notifier, network: world.network, handlers: handlers, isReady: true)
      bus.connect(to: world.gateway.couriers.bus.own.endpoint)
      await world.gateway.couriers.bus.waitForPeers { $0.contains { $0.name == name } }
    }

    /// Each as `container client courier's client`.
    var lines: [String] {
      inbox.opened.withLock { opened in
        opened.map { message in
          let token = CourierToken(text: message.courier, verifiedWith: GatewayWorld.signingKey, now: 0)
          return
            "\(message.container.rawValue) \(message.clientID) \(token?.userRecordName ?? "")/\(token?.clientID ?? "")"
        }
      }
    }
  }

  private static let tokens = "/device/1/\(container)/development/tokens"

  @Test func `every notifier has the courier's queue before the client has its address`() async throws {
    let world = try await GatewayWorld()
    let notifiers = [await Notifier("notifier-1", in: world), await Notifier("notifier-2", in: world)]
    let made = try await world.alice(.post, Self.tokens + "/create", body: #"{"clientId":"C"}"#).json
    for notifier in notifiers { #expect(notifier.lines == ["\(Self.container) C _alice/C"]) }
    // The query names a client; the body does not.
    _ = await world.alice(.post, Self.tokens + "/create", query: [("clientId", "Q")], body: "{}")
    #expect(notifiers[0].lines.last == "\(Self.container) Q _alice/Q")

    let token = made["apnsToken"]?.string ?? ""
    #expect(
      await world.alice(.post, Self.tokens + "/register", body: #"{"apnsToken":"\#(token)","clientId":"D"}"#).text
        == "{}")
    for notifier in notifiers { #expect(notifier.lines.last == "\(Self.container) D _alice/C") }
    // Another user's token, and one that this installation did not make, register nothing.
    for (user, token) in [
      ("bob", token), ("alice", "AAAA"), ("alice", "not base64"), ("alice", "\(token.dropLast(8))AAAAAAAA"),
    ] {
      let answer = await world.respond(
        .post, Self.tokens + "/register", query: [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", user)],
        body: #"{"apnsToken":"\#(token)"}"#)
      #expect(answer.text == "{}")
    }
    #expect(notifiers[0].lines.count == 3)
  }

  @Test func `a user with too many couriers is refused, and an absent notifier is no reason to refuse`() async throws {
    let world = try await GatewayWorld()
    let notifier = await Notifier("notifier-1", in: world)
    notifier.inbox.isFull.withLock { $0 = true }
    let refused = await world.alice(.post, Self.tokens + "/create", body: "{}")
    #expect(refused.status == 429)
    #expect(refused.header("Retry-After") == "60")
    world.network.kill("notifier-1")
    await world.gateway.couriers.bus.waitForPeers { !$0.contains { $0.role == .notifier } }
    #expect(await world.alice(.post, Self.tokens + "/create", body: "{}").status == 200)
  }

  @Test func `a client without a name gets one of its own`() async throws {
    let world = try await GatewayWorld()
    var urls: Set<String> = []
    for _ in 0..<2 {
      urls.insert(
        try await world.alice(.post, "/device/1/\(Self.container)/development/tokens/create", body: "{}").json[
          "webcourierURL"]?.string ?? "")
    }
    #expect(urls.count == 2)
  }

  @Test(arguments: [
    ("create", "[1]x"), ("create", #"{"clientId":1}"#), ("create", #"{"apnsEnvironment":[]}"#), ("register", "{}"),
  ])
  func `a bad body is refused`(action: String, body: String) async throws {
    let world = try await GatewayWorld()
    #expect(
      await world.alice(.post, "/device/1/\(Self.container)/development/tokens/\(action)", body: body).status == 400)
  }
}
