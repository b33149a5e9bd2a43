import Crypto
import HTTPServer
import SigningKeys
import Testing
import WebServices

@testable import Authentication

/// Seconds since 1970 of `2026-11-20T07:33:24Z`.
private let signedAt: Int64 = 1_795_160_004
private let keyID = String(repeating: "0f", count: 32)

@Suite struct RequestSignatureTests {
  private let key = SigningKey()
  private let path = "/database/1/iCloud.a/development/public/records/query"

  /// A request whose message `sign` puts together and signs.
  private func request(
    _ target: String, body: String = "{}", date: String = "2026-11-20T07:33:24Z", sentTarget: String? = nil,
    sentBody: String? = nil,
    sign: ((_ date: String, _ body: [UInt8], _ target: String) -> String)? = nil
  ) -> HTTPRequest {
    let bytes = Array(body.utf8)
    let message = sign?(date, bytes, target) ?? "\(date):\(Base64.encode(SHA256.hash(bytes))):\(target)"
    return HTTPRequest(
      method: .post, target: sentTarget ?? target, pathSegments: [], query: [],
      headers: [
        ("x-apple-cloudkit-request-keyid", keyID.uppercased()), ("x-apple-cloudkit-request-iso8601date", date),
        ("x-apple-cloudkit-request-signaturev1", Base64.encode(key.signature(of: Array(message.utf8)))),
      ], body: sentBody.map { Array($0.utf8) } ?? bytes, remoteAddress: "127.0.0.1")
  }

  private func proof(_ request: HTTPRequest, now: Int64 = signedAt * 1000) throws -> RequestSignature.Proof? {
    try #require(RequestSignature(of: request)).proof(
      for: request, by: try #require(P256PublicKey(pem: key.publicPEM)), now: now)
  }

  @Test func `a signed request is taken apart and its signature holds`() throws {
    let request = request(path)
    let signature = try #require(RequestSignature(of: request))
    #expect(signature.keyID == keyID && signature.isPlausible)
    let proof = try #require(try proof(request))
    #expect(proof.digest.count == 32)
    // Long enough even if the server's clock is ten minutes behind.
    #expect(proof.expiry >= signedAt * 1000 + RequestSignature.window)
  }

  @Test func `the query is signed as it stands in the request line`() throws {
    let target = path + "?ckjsBuildVersion=2310&clientId=A%2fb+c%20"
    #expect(try proof(request(target)) != nil)
    #expect(try proof(request(path, sentTarget: target)) == nil)
    #expect(try proof(request(target, sentTarget: path)) == nil)
    #expect(try proof(request(target, sentTarget: target.replacing("%2f", with: "%2F"))) == nil)
    // RFC 9112 lets a client send the whole URL.
    #expect(try proof(request(target, sentTarget: "http://host" + target)) != nil)
  }

  @Test func `an empty body is signed with the hash of nothing, or with none`() throws {
    let withoutHash: (String, [UInt8], String) -> String = { date, _, target in "\(date)::\(target)" }
    #expect(try proof(request(path, body: "")) != nil)
    #expect(try proof(request(path, body: "", sign: withoutHash)) != nil)
    #expect(try proof(request(path, body: "{}", sign: withoutHash)) == nil)
    #expect(Base64.encode(SHA256.hash([UInt8]())) == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")
  }

  @Test func `another body, date or key makes it void`() throws {
    #expect(try proof(request(path, sentBody: "{} ")) == nil)
    #expect(try proof(request(path, sign: { "2026-11-20T07:33:25Z:\(Base64.encode(SHA256.hash($1))):\($2)" })) == nil)
    let request = request(path)
    let other = try #require(P256PublicKey(pem: SigningKey().publicPEM))
    #expect(try #require(RequestSignature(of: request)).proof(for: request, by: other, now: signedAt * 1000) == nil)
  }

  @Test(arguments: [
    "2026-11-20T07:33:24Z", "2026-11-20T07:33:24+00:00", "2026-11-20T08:33:24+01:00", "2026-11-20T07:33:24.000Z",
  ])
  func `a date is read leniently and signed to the letter`(date: String) throws {
    #expect(try proof(request(path, date: date)) != nil)
  }

  @Test(arguments: [
    "", "now", "2026-11-20", "1795160004", "2026-13-20T07:33:24Z", "999999999-11-20T07:33:24Z",
    "-99999-11-20T07:33:24Z",
  ])
  func `a text that is not a date is refused`(date: String) throws {
    #expect(try proof(request(path, date: date)) == nil)
  }

  @Test func `a date is good for ten minutes either way, and not a millisecond longer`() throws {
    let request = request(path)
    let now = signedAt * 1000
    for offset in [-600_000, -1, 0, 1, 600_000] as [Int64] {
      #expect(try proof(request, now: now + offset) != nil, "\(offset)")
    }
    for offset in [-600_001, 600_001, 86_400_000] as [Int64] {
      #expect(try proof(request, now: now + offset) == nil, "\(offset)")
    }
  }

  @Test func `both spellings of a signature leave the same trace, two signatures do not`() throws {
    let original = request(path)
    var headers = original.headers
    let der = try #require(Base64.decode(headers[2].value))
    headers[2].value = Base64.encode(SigningKey.negated(der))
    let respelt = HTTPRequest(
      method: .post, target: original.target, pathSegments: [], query: [], headers: headers, body: original.body,
      remoteAddress: "127.0.0.1")
    #expect(try #require(try proof(original)).digest == #require(try proof(respelt)).digest)
    #expect(try #require(try proof(original)).digest != #require(try proof(request(path))).digest)
  }

  @Test(arguments: ["", "zz", "AAAA", "MEUCIQ=="])
  func `a text that is not a signature is refused`(text: String) throws {
    var headers = request(path).headers
    headers[2].value = text
    let request = HTTPRequest(
      method: .post, target: path, pathSegments: [], query: [], headers: headers, body: [], remoteAddress: "127.0.0.1")
    #expect(try proof(request) == nil)
  }

  @Test func `a request without a key ID is not signed, and one with another kind of ID has no key`() {
    func signature(_ headers: [(name: String, value: String)]) -> RequestSignature? {
      RequestSignature(
        of: HTTPRequest(
          method: .get, target: path, pathSegments: [], query: [], headers: headers, body: [],
          remoteAddress: "127.0.0.1"))
    }
    #expect(signature([("x-apple-cloudkit-request-signaturev1", "AAAA")]) == nil)
    for id in ["", "12345678", String(repeating: "g", count: 64), String(repeating: "a", count: 65)] {
      #expect(signature([("x-apple-cloudkit-request-keyid", id)])?.isPlausible == false, "\(id)")
    }
  }
}
