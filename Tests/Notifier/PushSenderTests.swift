// The vendors' protocols: headers, tokens, signatures, and the meaning of each answer.

import Crypto
import FixedClocks
import HTTPClient
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Notifier

/// A vendor that keeps what it gets, and answers as it is told.
final class ForgedVendor: HTTPHandler {
  struct Request: Sendable {
    let path: String
    let headers: [String: String]
    let body: [UInt8]
  }

  private let state = Mutex<(requests: [Request], answer: HTTPResponse, answers: [String: HTTPResponse])>(
    ([], HTTPResponse(status: 200), [:]))

  /// - Parameter path: where it answers so; nil: everywhere else.
  func answer(_ status: Int, _ body: String = "", headers: [(String, String)] = [], at path: String? = nil) {
    let answer = HTTPResponse(status: status, headers: headers, body: .bytes(Array(body.utf8)))
    state.withLock { state in
      if let path { state.answers[path] = answer } else { state.answer = answer }
    }
  }

  func take() -> [Request] {
    state.withLock { state in
      defer { state.requests = [] }
      return state.requests
    }
  }

  func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    let names = [
      "authorization", "apns-topic", "apns-push-type", "apns-priority", "apns-collapse-id", "apns-expiration", "ttl",
      "topic", "urgency", "content-encoding", "aquifer-signature",
    ]
    let headers = names.reduce(into: [:]) { $0[$1] = request.header($1) }
    let kept = Request(
      path: "/" + request.pathSegments.joined(separator: "/"), headers: headers, body: request.body)
    return state.withLock { state in
      state.requests.append(kept)
      return state.answers[kept.path] ?? state.answer
    }
  }
}

@Suite struct PushSenderTests {
  private let vendor = ForgedVendor()
  private let clock = FixedClock()
  private let device = String(repeating: "ab", count: 32)

  private func ping(_ json: String) throws -> Ping {
    Ping(
      SubscriptionNotification(
        container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development,
        userRecordName: "_ann", subscriptionID: "s", scope: .private, zone: nil, sequence: 1, originDevice: nil,
        notificationID: "n", json: Array(json.utf8)))
  }

  private let silent = #"{"aps":{"content-available":1},"ck":{"ce":2,"cid":"iCloud.a","nid":"n"}}"#
  private let alert = #"{"aps":{"alert":{"body":"Hello"},"badge":1},"ck":{"ce":2,"cid":"iCloud.a","nid":"n"}}"#

  private func content(_ json: String, byteLimit: Int = 4096) throws -> PushContent {
    PushContent(try ping(json), byteLimit: byteLimit)
  }

  private func apns(_ server: HTTPServer, key: P256PrivateKey = .make()) -> APNsSender {
    APNsSender(
      client: HTTPClient(), clock: clock, teamID: "TEAM", keyID: "KEY", key: key, topic: "org.example.photos",
      url: "http://127.0.0.1:\(server.port)")
  }

  /// The claims of a token, whose signature must be the key's.
  private func claims(_ token: String, _ key: P256PrivateKey) throws -> (header: JSONValue, claims: JSONValue) {
    let parts = token.split(separator: ".").map(String.init)
    try #require(parts.count == 3)
    let texts = try parts.map { try #require(Base64URL.decode($0)) }
    let signature = try #require(P256Signature(der: Self.der(texts[2])))
    let publicKey = try #require(Self.publicKey(key.publicPoint))
    #expect(publicKey.isValid(signature, for: Array("\(parts[0]).\(parts[1])".utf8)))
    return (try JSONValue(parsing: texts[0]), try JSONValue(parsing: texts[1]))
  }

  /// `r` and `s` as a DER sequence of two integers.
  private static func der(_ numbers: [UInt8]) -> [UInt8] {
    func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
      var bytes = Array(bytes.drop { $0 == 0 })
      if bytes.first.map({ $0 > 127 }) ?? true { bytes.insert(0, at: 0) }
      return [2, UInt8(bytes.count)] + bytes
    }
    let body = integer(numbers[..<32]) + integer(numbers[32...])
    return [0x30, UInt8(body.count)] + body
  }

  /// SubjectPublicKeyInfo of a point.
  private static func publicKey(_ point: [UInt8]) -> P256PublicKey? {
    let head: [UInt8] = [
      0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
      0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]
    return P256PublicKey(
      pem: "-----BEGIN PUBLIC KEY-----\n\(Base64.encode(head + point))\n-----END PUBLIC KEY-----\n")
  }

  // MARK: Apple

  @Test func `a silent push is background with priority 5, an alert has 10, and both collapse by their zone`()
    async throws
  {
    let server = try HTTPServer(handler: vendor)
    let key = P256PrivateKey.make()
    let sender = apns(server, key: key)
    let address = PushAddress.apns(deviceToken: device, isSandbox: true)
    for json in [silent, alert] {
      #expect(await sender.send(try content(json), to: address, of: "_alice") == .delivered)
    }
    let sent = vendor.take()
    #expect(sent.map(\.path) == ["/3/device/\(device)", "/3/device/\(device)"])
    #expect(sent.map { $0.headers["apns-push-type"] } == ["background", "alert"])
    #expect(sent.map { $0.headers["apns-priority"] } == ["5", "10"])
    #expect(sent.allSatisfy { $0.headers["apns-topic"] == "org.example.photos" })
    #expect(sent.allSatisfy { $0.headers["apns-collapse-id"]?.utf8.count == 32 })
    #expect(sent.map(\.body) == [silent, alert].map { Array($0.utf8) })
    let bearer = try #require(sent[0].headers["authorization"])
    #expect(bearer.hasPrefix("bearer ") && bearer == sent[1].headers["authorization"])
    let (header, claims) = try claims(String(bearer.dropFirst(7)), key)
    #expect(header["alg"]?.string == "ES256" && header["kid"]?.string == "KEY")
    #expect(claims["iss"]?.string == "TEAM" && claims["iat"]?.int64 == clock.now / 1000)
  }

  @Test func `a provider's token is used for 50 minutes, and made anew when Apple's clock is ahead`() async throws {
    let server = try HTTPServer(handler: vendor)
    let sender = apns(server)
    let address = PushAddress.apns(deviceToken: device, isSandbox: false)
    func token() async throws -> String? {
      _ = await sender.send(try content(silent), to: address, of: "_alice")
      return vendor.take().first?.headers["authorization"]
    }
    let first = try await token()
    clock.advance(by: 49 * 60_000)
    #expect(try await token() == first)
    clock.advance(by: 2 * 60_000)
    let second = try await token()
    #expect(second != first)
    vendor.answer(403, #"{"reason":"ExpiredProviderToken"}"#)
    #expect(
      await sender.send(try content(silent), to: address, of: "_alice")
        == .later(.device, pause: .seconds(1), reason: "ExpiredProviderToken"))
    // Apple refuses a provider that makes tokens more often than every 20 minutes.
    _ = vendor.take()
    #expect(try await token() == second)
    clock.advance(by: 21 * 60_000)
    _ = try await token()
    #expect(try await token() != second)
  }

  @Test(arguments: [
    (410, #"{"reason":"Unregistered","timestamp":1}"#, PushOutcome.gone),
    (410, #"{"reason":"Elsewhere"}"#, .gone), (410, "<html>Gone</html>", .gone), (410, "", .gone),
    (400, #"{"reason":"BadDeviceToken"}"#, .gone), (400, #"{"reason":"BadTopic"}"#, .refused(reason: "BadTopic")),
    (400, #"{"reason":"DeviceTokenNotForTopic"}"#, .refused(reason: "DeviceTokenNotForTopic")),
    (403, #"{"reason":"InvalidProviderToken"}"#, .refused(reason: "InvalidProviderToken")),
    (413, #"{"reason":"PayloadTooLarge"}"#, .refused(reason: "PayloadTooLarge")),
    (429, #"{"reason":"TooManyRequests"}"#, .later(.device, pause: .seconds(7), reason: "TooManyRequests")),
    (503, "half an answ", .later(.service, pause: .seconds(7), reason: "status 503")),
    (404, "", .refused(reason: "status 404")),
  ]) func `each of Apple's answers has its meaning`(status: Int, body: String, outcome: PushOutcome) async throws {
    let server = try HTTPServer(handler: vendor)
    vendor.answer(status, body, headers: status == 429 || status == 503 ? [("Retry-After", "7")] : [])
    let sent = await apns(server).send(
      try content(silent), to: .apns(deviceToken: device, isSandbox: true), of: "_alice")
    #expect(sent == outcome)
  }

  @Test func `a vendor that is away is tried later`() async throws {
    // Not the port of a server that has ended, which another test's may get.
    let sender = APNsSender(
      client: HTTPClient(), clock: clock, teamID: "TEAM", keyID: "KEY", key: .make(), topic: "org.example.photos",
      url: "http://127.0.0.1:1")
    let outcome = await sender.send(try content(silent), to: .apns(deviceToken: device, isSandbox: true), of: "_alice")
    guard case .later(.service, nil, let reason) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(reason.contains("connect"))
  }

  // MARK: Browsers

  @Test func `a browser's service gets an encrypted message and a token for its own origin`() async throws {
    let server = try HTTPServer(handler: vendor)
    let (key, receiver) = (P256PrivateKey.make(), P256PrivateKey.make())
    let sender = WebPushSender(client: HTTPClient(), clock: clock, contact: "mailto:ops@example.org", key: key)
    let address = PushAddress.web(
      endpoint: "http://127.0.0.1:\(server.port)/push/abc", receiverKey: receiver.publicPoint,
      secret: [UInt8](repeating: 1, count: 16))
    vendor.answer(201)
    #expect(await sender.send(try content(alert), to: address, of: "_alice") == .delivered)
    let sent = try #require(vendor.take().first)
    #expect(sent.path == "/push/abc" && sent.headers["content-encoding"] == "aes128gcm")
    #expect(sent.headers["ttl"] == "86400" && sent.headers["urgency"] == "high")
    #expect(sent.headers["topic"]?.wholeMatch(of: /[A-Za-z0-9_-]{32}/) != nil)
    #expect(
      sent.body.count == 86 + alert.utf8.count + 17 && !String(decoding: sent.body, as: UTF8.self).contains("Hello"))
    let authorization = try #require(sent.headers["authorization"])
    let parts = try #require(authorization.wholeMatch(of: /vapid t=([^,]+), k=(.+)/))
    #expect(Base64URL.decode(String(parts.2)) == key.publicPoint)
    let (_, claims) = try claims(String(parts.1), key)
    #expect(claims["aud"]?.string == "http://127.0.0.1:\(server.port)")
    #expect(claims["sub"]?.string == "mailto:ops@example.org")
    #expect(claims["exp"]?.int64 == clock.now / 1000 + 12 * 3600)
  }

  @Test(arguments: [
    (201, PushOutcome.delivered), (404, .gone), (410, .gone),
    (429, .later(.device, pause: nil, reason: "status 429")), (500, .later(.address, pause: nil, reason: "status 500")),
    (400, .refused(reason: "status 400")), (413, .refused(reason: "status 413")),
  ]) func `each answer of a browser's service has its meaning`(status: Int, outcome: PushOutcome) async throws {
    let server = try HTTPServer(handler: vendor)
    vendor.answer(status)
    let sender = WebPushSender(client: HTTPClient(), clock: clock, contact: "mailto:o@example.org", key: .make())
    let address = PushAddress.web(
      endpoint: "http://127.0.0.1:\(server.port)/p", receiverKey: P256PrivateKey.make().publicPoint,
      secret: [UInt8](repeating: 1, count: 16))
    #expect(await sender.send(try content(silent), to: address, of: "_alice") == outcome)
  }

  @Test func `a browser whose key is no point of the curve is gone, and nothing is sent`() async throws {
    let server = try HTTPServer(handler: vendor)
    let sender = WebPushSender(client: HTTPClient(), clock: clock, contact: "mailto:o@example.org", key: .make())
    let address = PushAddress.web(
      endpoint: "http://127.0.0.1:\(server.port)/p", receiverKey: [4] + [UInt8](repeating: 9, count: 64),
      secret: [UInt8](repeating: 1, count: 16))
    #expect(await sender.send(try content(silent), to: address, of: "_alice") == .gone)
    #expect(vendor.take().isEmpty)
  }

  // MARK: Servers

  @Test func `a server's call is signed with its secret and the time`() async throws {
    let server = try HTTPServer(handler: vendor)
    let sender = WebhookSender(client: HTTPClient(), clock: clock)
    let address = PushAddress.webhook(url: "http://127.0.0.1:\(server.port)/hook", secret: "a secret of sixteen")
    vendor.answer(204)
    #expect(await sender.send(try content(silent), to: address, of: "_alice") == .delivered)
    let sent = try #require(vendor.take().first)
    let time = clock.now / 1000
    let code = HMACSHA256.code(for: Array("\(time).\(silent)".utf8), key: Array("a secret of sixteen".utf8))
    #expect(sent.headers["aquifer-signature"] == "t=\(time),v1=\(Hex.encode(code))")
    vendor.answer(410)
    #expect(await sender.send(try content(silent), to: address, of: "_alice") == .gone)
    vendor.answer(401)
    #expect(await sender.send(try content(silent), to: address, of: "_alice") == .refused(reason: "status 401"))
  }

  // MARK: Content

  @Test func `content beyond a vendor's limit goes without values, and then with its name only`() throws {
    let value = String(repeating: "x", count: 5000)
    let long = """
      {"aps":{"alert":{"body":"Hello"}},"ck":{"ce":2,"cid":"iCloud.a","nid":"n",\
      "qry":{"sid":"s","rid":"r","af":{"title":"\(value)"}}}}
      """
    let short = try content(long)
    #expect(
      String(decoding: short.json, as: UTF8.self)
        == """
        {"aps":{"alert":{"body":"Hello"}},"ck":{"ce":2,"cid":"iCloud.a","nid":"n","qry":{"sid":"s","rid":"r"}}}
        """)
    #expect(!short.isSilent)
    let named = try content(
      #"{"aps":{"alert":{"body":"\#(value)"}},"ck":{"ce":2,"cid":"iCloud.a","nid":"n","qry":{"sid":"s"}}}"#)
    #expect(
      String(decoding: named.json, as: UTF8.self)
        == #"{"aps":{"content-available":1},"ck":{"ce":2,"cid":"iCloud.a","nid":"n"}}"#)
    #expect(named.isSilent)
    #expect(try content(long, byteLimit: 64 * 1024).json == Array(long.utf8))
  }
}
