import HTTPServer
import JSON
import Records
import ServiceKit
import Synchronization
import Testing

@testable import Gateway

/// The decision about a body before its first byte is read.
@Suite struct BodyIntakeTests {
  private static let modify = "\(GatewayWorld.records)/records/modify"

  private func request(
    _ path: String, _ method: HTTPMethod = .post, bearer: String? = nil, keyID: String? = nil,
    query: [(String, String)] = [], byteCount: Int? = 16_385
  ) -> HTTPRequest {
    var headers: [(name: String, value: String)] = []
    if let byteCount { headers.append(("content-length", String(byteCount))) }
    if let bearer { headers.append(("authorization", "Bearer \(bearer)")) }
    if let keyID { headers.append(("x-apple-cloudkit-request-keyid", keyID)) }
    return HTTPRequest(
      method: method, target: path, pathSegments: path.split(separator: "/").map(String.init),
      query: query.map { (name: $0.0, value: $0.1) }, headers: headers,
      body: [], remoteAddress: "192.0.2.1")
  }

  /// The decision in a word or two.
  private func text(_ intake: HTTPBodyIntake) async throws -> String {
    switch intake {
    case .collect(let limit, let party):
      "collect \(limit.map { String($0) } ?? "-") \(party == nil ? "by address" : "by user")"
    case .stream: "stream"
    case .refuse(let answer): "\(answer.status) \(try answer.code ?? "")"
    case .ask(let question): "asked: " + (try await text(await question()))
    }
  }

  @Test func `a large body is wanted of nobody unknown, and nowhere unknown`() async throws {
    let world = try await GatewayWorld()
    func intake(_ request: HTTPRequest) async throws -> String { try await text(world.gateway.intake(of: request)) }
    #expect(try await intake(request("/nowhere")) == "404 NOT_FOUND")
    #expect(try await intake(request("/")) == "405 BAD_REQUEST")
    #expect(try await intake(request(Self.modify, .put)) == "405 BAD_REQUEST")
    #expect(try await intake(request(Self.modify)) == "401 AUTHENTICATION_FAILED")
    #expect(try await intake(request("\(GatewayWorld.stores)/s", .delete)) == "401 AUTHENTICATION_FAILED")
    #expect(
      try await intake(request("/database/1/\(GatewayWorld.container)/moon/private/records/modify", bearer: "alice"))
        == "400 BAD_REQUEST")
    #expect(try await intake(request(Self.modify, bearer: "mallory")) == "asked: 401 AUTHENTICATION_FAILED")
    #expect(try await intake(request(Self.modify, bearer: "operator")) == "asked: 401 AUTHENTICATION_FAILED")
    #expect(
      try await intake(request(Self.modify, query: [("ckAPIToken", GatewayWorld.apiToken)]))
        == "asked: 421 AUTHENTICATION_REQUIRED")
    #expect(try await intake(request(Self.modify, byteCount: nil)) == "401 AUTHENTICATION_FAILED", "in chunks")
  }

  @Test func `a known caller is not asked about again`() async throws {
    let world = try await GatewayWorld()
    #expect(
      try await text(world.gateway.intake(of: request(Self.modify, bearer: "alice")))
        == "asked: collect 8388608 by user")
    for _ in 0..<3 {
      #expect(
        try await text(world.gateway.intake(of: request(Self.modify, bearer: "alice"))) == "collect 8388608 by user")
    }
    #expect(world.record.withLock(\.authentications) == 1)
  }

  @Test func `the address pays for a signed body, whose signature only its end shows`() async throws {
    let world = try await GatewayWorld()
    let keyID = String(repeating: "5", count: 64)
    world.record.withLock { $0.serverKeys[keyID] = [1] }
    let path = Self.modify.replacing("/private/", with: "/public/")
    let signed = request(path, keyID: keyID)
    #expect(try await text(world.gateway.intake(of: signed)) == "asked: collect 8388608 by address")
    #expect(try await text(world.gateway.intake(of: signed)) == "collect 8388608 by address")
    let forged = request(path, keyID: String(repeating: "6", count: 64))
    #expect(try await text(world.gateway.intake(of: forged)) == "asked: 401 AUTHENTICATION_FAILED")
    #expect(try await text(world.gateway.intake(of: request(path, bearer: "alice"))).hasSuffix("by user"))
  }

  @Test func `a small body is taken unseen`() async throws {
    let world = try await GatewayWorld()
    #expect(try await text(world.gateway.intake(of: request("/nowhere", byteCount: 16_384))) == "collect - by address")
    #expect(world.record.withLock(\.authentications) == 0)
  }

  private static let limits: [(String, Int)] = [
    (GatewayWorld.records + "/records/modify", 8_388_608), (GatewayWorld.records + "/records/query", 1_048_576),
    (GatewayWorld.records + "/changes/zone", 1_048_576), (GatewayWorld.stores + "/s/transactions", 8_388_608),
    (GatewayWorld.stores + "/s/purge", 1_048_576),
    ("/signin", 16_384), ("/share/x", 16_384),
  ]

  @Test(arguments: limits)
  func `a call takes no more than it can need`(path: String, limit: Int) async throws {
    let world = try await GatewayWorld()
    let found = try await text(world.gateway.intake(of: request(path, bearer: "alice")))
    #expect(found.contains("collect \(limit) "), "\(found)")
  }

  @Test func `tries with forged tokens count for the address they come from`() async throws {
    let world = try await GatewayWorld(rate: TokenBucket.Rate(perSecond: 1, burst: 3))
    var answers: [String] = []
    // On a slow machine the bucket may refill a little between two attempts.
    while answers.last != "asked: 429 THROTTLED", answers.count < 1000 {
      answers.append(try await text(world.gateway.intake(of: request(Self.modify, bearer: "forged\(answers.count)"))))
    }
    #expect(
      answers.count > 3 && answers.count < 1000
        && answers.dropLast().allSatisfy { $0 == "asked: 401 AUTHENTICATION_FAILED" })
  }

  // MARK: Documents

  @Test func `the description of all calls is served as it is in the repository, and the root says where`() async throws
  {
    let world = try await GatewayWorld()
    let document = await world.respond(.get, "/openapi.json")
    #expect(
      document.status == 200 && document.header("Content-Type") == "application/json"
        && document.header("Access-Control-Allow-Origin") == "*")
    #expect(try document.json["openapi"]?.string?.hasPrefix("3.") == true)
    #expect(document.bytes == Gateway.openAPI && document.bytes.count > 100_000)
    let root = await world.respond(.get, "/")
    #expect(
      root.status == 200 && root.text.contains("/openapi.json") && root.text.contains(Release.version)
        && root.text.contains("docs/operating/OPERATING.md"))
    #expect(await world.respond(.post, "/").status == 405)
    #expect(await world.respond(.get, "/nothing").status == 404)
  }
}
