import Authentication
import Crypto
import FixedClocks
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import SigningKeys
import Synchronization
import Testing

@testable import Gateway

/// A server with a key that sends requests to a gateway.
private struct Server {
  static let keyID = String(repeating: "0f", count: 32)
  static let records = "/database/1/\(GatewayWorld.container)/development/public/records/query"

  let world: GatewayWorld
  let key = SigningKey()

  init() async throws {
    world = try await GatewayWorld()
    let der = try #require(P256PublicKey(pem: key.publicPEM)).der
    world.record.withLock { $0.serverKeys[Self.keyID] = der }
  }

  /// The clock of `GatewayWorld` stands at 2023-11-14T22:13:20Z.
  func headers(
    _ target: String, body: String = "{}", date: String = "2023-11-14T22:13:20Z", keyID: String = Server.keyID
  ) -> [(String, String)] {
    let message = "\(date):\(Base64.encode(SHA256.hash(Array(body.utf8)))):\(target)"
    return [
      ("x-apple-cloudkit-request-keyid", keyID), ("x-apple-cloudkit-request-iso8601date", date),
      ("x-apple-cloudkit-request-signaturev1", Base64.encode(key.signature(of: Array(message.utf8)))),
    ]
  }

  func send(
    _ headers: [(String, String)], to path: String = Server.records, query: [(String, String)] = [],
    body: String = "{}", target: String? = nil
  ) async
    -> HTTPResponse
  {
    await world.respond(.post, path, query: query, headers: headers, body: body, target: target)
  }

  func isRefused(_ response: HTTPResponse) throws -> Bool {
    guard response.status == 401 else { return false }
    let error = try response.json
    #expect(error["uuid"]?.string?.count == 36)
    return error["serverErrorCode"]?.string == "AUTHENTICATION_FAILED"
      && error["reason"]?.string == "Authentication failed"
  }
}

@Suite struct ServerKeyTests {
  @Test func `a signed request is made by the key's user`() async throws {
    let server = try await Server()
    #expect(await server.send(server.headers(Server.records)).status == 200)
    let request = try #require(server.world.requests.first?.request)
    #expect(request.caller.userRecordName == "_server" && request.scope == .public)
    let target = Server.records + "?ckjsVersion=2.6.1&clientId=a%2Fb"
    #expect(
      await server.send(server.headers(target), query: [("ckjsVersion", "2.6.1"), ("clientId", "a/b")], target: target)
        .status == 200)
  }

  @Test func `a signature is used once`() async throws {
    let server = try await Server()
    let headers = server.headers(Server.records)
    #expect(await server.send(headers).status == 200)
    #expect(try server.isRefused(await server.send(headers)))
    #expect(await server.send(server.headers(Server.records)).status == 200)
    #expect(server.world.requests.count == 2)
  }

  @Test func `all errors have the same answer`() async throws {
    let server = try await Server()
    let good = server.headers(Server.records)
    let private_ = Server.records.replacing("public", with: "private")
    let foreign = Server.records.replacing("photos", with: "other")
    let stores = "\(GatewayWorld.stores)/S/changes"
    for (name, response) in [
      ("another body", await server.send(good, body: "{} ")),
      ("another path", await server.send(good, to: Server.records.replacing("query", with: "lookup"))),
      ("an unknown key", await server.send(server.headers(Server.records, keyID: String(repeating: "a", count: 64)))),
      ("a short key ID", await server.send(server.headers(Server.records, keyID: "abc"))),
      ("an old date", await server.send(server.headers(Server.records, date: "2023-11-14T22:03:19Z"))),
      ("no date", await server.send(good.filter { !$0.0.contains("date") })),
      ("no signature", await server.send(good.filter { !$0.0.contains("signature") })),
      ("an API token beside it", await server.send(good, query: [("ckAPIToken", GatewayWorld.apiToken)])),
      ("a bearer token beside it", await server.send(good + [("authorization", "Bearer alice")])),
      ("a private database", await server.send(server.headers(private_), to: private_)),
      ("another container", await server.send(server.headers(foreign), to: foreign)),
      ("the object plane", await server.world.respond(.get, stores, headers: server.headers(stores, body: ""))),
      (
        "an operator's call",
        await server.world.respond(.get, "/admin/1/users", headers: server.headers("/admin/1/users", body: ""))
      ),
    ] {
      #expect(try server.isRefused(response), "\(name): \(response.text)")
    }
    #expect(server.world.requests.isEmpty)
  }

  @Test func `discovery is not for servers`() async throws {
    let server = try await Server()
    let path = Server.records.replacing("records/query", with: "users/discover")
    #expect(try server.isRefused(await server.send(server.headers(path), to: path)))
  }

  @Test func `a key that is revoked is refused at once`() async throws {
    let server = try await Server()
    #expect(await server.send(server.headers(Server.records)).status == 200)
    server.world.record.withLock { $0.serverKeys = [:] }
    server.world.state.authenticator.note(DirectoryChanged(credentials: true, schemas: []))
    #expect(try server.isRefused(await server.send(server.headers(Server.records))))
  }
}

@Suite struct RateLimitTests {
  @Test func `a bucket gives its burst at once and then its rate`() {
    let start = ContinuousClock.now
    let rate = TokenBucket.Rate(perSecond: 10, burst: 5)
    var bucket = TokenBucket(now: start)
    for _ in 0..<5 { #expect(bucket.take(rate, now: start) == nil) }
    #expect(bucket.take(rate, now: start) == .milliseconds(100))
    #expect(bucket.take(rate, now: start + .milliseconds(99)) == .milliseconds(1))
    #expect(bucket.take(rate, now: start + .milliseconds(100)) == nil)
    #expect(bucket.take(rate, now: start + .milliseconds(100)) == .milliseconds(100))
    #expect(!bucket.isFull(at: start + .milliseconds(599)) && bucket.isFull(at: start + .milliseconds(600)))
    for _ in 0..<5 { #expect(bucket.take(rate, now: start + .seconds(3600)) == nil) }
    #expect(bucket.take(rate, now: start + .seconds(3600)) != nil)
  }

  @Test func `one key's requests take nothing from another's`() {
    let time = FixedTime()
    let limiter = RateLimiter(rate: .init(perSecond: 1, burst: 2), timing: time.standing)
    let keys: [RateLimiter.Key] = [
      .address(ClientNetwork("192.0.2.1")), .address(ClientNetwork("192.0.2.2")), .serverKey("a"),
      .tokens(api: "a", user: nil), .tokens(api: "a", user: "u"),
    ]
    for key in keys {
      #expect(limiter.take(key) == nil)
      #expect(limiter.take(key) == nil)
      #expect(limiter.take(key) == 2)
    }
    #expect(limiter.count == keys.count)
    #expect(RateLimiter(rate: nil, timing: time.standing).take(keys[0]) == nil)
  }

  @Test func `the table of buckets is bounded`() {
    let limiter = RateLimiter(rate: .init(perSecond: 1, burst: 1), timing: FixedTime().standing)
    for number in 0..<(RateLimiter.bucketLimit + 10) {
      _ = limiter.take(.address(ClientNetwork("10.0.\(number / 256).\(number % 256)")))
    }
    #expect(limiter.count <= RateLimiter.bucketLimit)
  }

  @Test func `too many requests of one credential are throttled, others' are not`() async throws {
    let time = FixedTime()
    let world = try await GatewayWorld(rate: .init(perSecond: 1, burst: 3), timing: time.standing)
    let path = "\(GatewayWorld.records)/zones/list"
    for _ in 0..<3 { #expect(await world.alice(.get, path).status == 200) }
    let refused = await world.respond(
      .get, path, query: [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", "alice")],
      headers: [("origin", "https://page.example")])
    #expect(refused.status == 429)
    #expect(try refused.code == "THROTTLED")
    #expect(try refused.json["retryAfter"]?.int64 == 2)
    #expect(refused.header("Retry-After") == "2" && refused.header("Access-Control-Allow-Origin") == "*")
    #expect(
      await world.respond(.get, path, query: [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", "bob")]).status
        == 200)
    time.advance(by: .seconds(1))
    #expect(await world.alice(.get, path).status == 200)
    #expect(
      await String(decoding: world.metrics.text(), as: UTF8.self).contains(
        "aquifer_http_requests_throttled_total{by=\"tokens\"} 1"))
  }

  @Test func `guesses are counted for their address, and known credentials are not held up by them`() async throws {
    let world = try await GatewayWorld(rate: .init(perSecond: 1, burst: 5), timing: FixedTime().standing)
    let path = "\(GatewayWorld.records)/zones/list"
    #expect(await world.alice(.get, path).status == 200)
    for number in 0..<10 {
      let response = await world.respond(
        .get, path, query: [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", "guess-\(number)")],
        address: "127.0.0.1")
      #expect(response.status == (number < 4 ? 401 : 429), "\(number)")
    }
    #expect(await world.alice(.get, path).status == 200)
    #expect(world.record.withLock(\.authentications) == 5)
    #expect(await world.respond(.get, "/signin", query: [("state", "x")]).status == 429)
    #expect(await world.respond(.get, "/signin", query: [("state", "x")], address: "192.0.2.1").status == 400)
  }
}
