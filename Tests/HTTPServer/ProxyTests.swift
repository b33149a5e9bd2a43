import HTTPServer
import Testing

struct ProxyTests {
  @Test func `a list of networks contains what its prefixes say`() throws {
    let list = try #require(NetworkList("127.0.0.1, 10.0.0.0/8,192.0.2.128/25 ,fd00::/8,2001:db8::1"))
    for address in ["127.0.0.1", "10.255.1.2", "192.0.2.200", "fd12:3456::1", "2001:db8::1", "::ffff:10.1.1.1"] {
      #expect(list.contains(address), "\(address)")
    }
    for address in [
      "127.0.0.2", "11.0.0.1", "192.0.2.127", "fe80::1", "2001:db8::2", "::1", "", "localhost", "10.0.0",
      "::ffff:11.1.1.1",
    ] {
      #expect(!list.contains(address), "\(address)")
    }
    #expect(try #require(NetworkList("0.0.0.0/0")).contains("203.0.113.9"))
    #expect(try !#require(NetworkList("0.0.0.0/0")).contains("::1"))
    #expect(try !#require(NetworkList("")).contains("127.0.0.1"))
  }

  @Test(arguments: [
    "localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8/8", "10.0.0.0/-1", "10.0.0.0/+8", "::/129", "10.0.0",
    "127.0.0.1;10.0.0.1",
  ])
  func `a text that is not a network is refused`(text: String) { #expect(NetworkList(text) == nil) }

  /// The client address and origin that a handler sees for a request with these headers.
  private func seen(_ headers: String, trusting proxies: String, host: String = "inside:8080") async throws -> String {
    var configuration = HTTPServer.Configuration()
    configuration.trustedProxies = try #require(NetworkList(proxies))
    let server = try HTTPServer(
      configuration: configuration,
      handler: ClosureHandler {
        HTTPResponse(status: 200, body: .bytes(Array("\($0.remoteAddress) \($0.forwardedOrigin ?? "-")".utf8)))
      })
    let client = try RawConnection(port: server.port)
    try await client.send("GET / HTTP/1.1\r\nHost: \(host)\r\n\(headers)\r\n")
    return try await client.readAnswer().text
  }

  @Test func `a trusted proxy says who the client is and how it was addressed`() async throws {
    let headers = "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: data.example.org\r\n"
    #expect(try await seen(headers, trusting: "127.0.0.0/8") == "203.0.113.7 https://data.example.org")
    #expect(
      try await seen("X-Forwarded-Proto: HTTPS\r\n", trusting: "127.0.0.1", host: "data.example.org:8443")
        == "127.0.0.1 https://data.example.org:8443")
    #expect(
      try await seen("X-Forwarded-Host: data.example.org\r\n", trusting: "127.0.0.1")
        == "127.0.0.1 http://data.example.org")
    #expect(try await seen("", trusting: "127.0.0.1") == "127.0.0.1 -")
  }

  @Test func `anybody else's claims are ignored`() async throws {
    let headers = "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example.org\r\n"
    #expect(try await seen(headers, trusting: "") == "127.0.0.1 -")
    #expect(try await seen(headers, trusting: "10.0.0.0/8") == "127.0.0.1 -")
  }

  @Test func `behind trusted proxies the last address nobody vouches for is the client`() async throws {
    let trusted = "127.0.0.1,10.0.0.0/8"
    // A client can put any text in front of the chain.
    #expect(try await seen("X-Forwarded-For: 1.1.1.1, 203.0.113.7, 10.0.0.2\r\n", trusting: trusted) == "203.0.113.7 -")
    #expect(
      try await seen("X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 203.0.113.7\r\n", trusting: trusted)
        == "203.0.113.7 -")
    #expect(try await seen("X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n", trusting: trusted) == "10.0.0.3 -")
    #expect(try await seen("X-Forwarded-For: 203.0.113.7:4711\r\n", trusting: trusted) == "203.0.113.7 -")
    #expect(try await seen("X-Forwarded-For: [2001:db8::7]:4711\r\n", trusting: trusted) == "2001:db8::7 -")
    #expect(try await seen("X-Forwarded-For: 203.0.113.7, unknown, 10.0.0.2\r\n", trusting: trusted) == "10.0.0.2 -")
    #expect(try await seen("X-Forwarded-For: nonsense\r\n", trusting: trusted) == "127.0.0.1 -")
  }

  @Test(arguments: ["data.example.org/x", "a b", "user@host", "host\"onload=", "", "é"])
  func `a host that does not belong into a URL is not used`(host: String) async throws {
    #expect(
      try await seen(
        "X-Forwarded-Proto: https\r\nX-Forwarded-Host: \(host)\r\n", trusting: "127.0.0.1", host: "good.example.org"
      ).hasSuffix("https://good.example.org"))
    #expect(
      try await seen("X-Forwarded-Proto: ftp\r\n", trusting: "127.0.0.1", host: "good.example.org") == "127.0.0.1 -")
  }
}
