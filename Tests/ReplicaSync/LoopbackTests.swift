// Sign-ins that call back at a port of this machine: anybody can call it, and only the page's callback counts.

import Foundation
import MirrorWire
import ReplicaStore
import ReplicaWorld
import Testing

@testable import ReplicaSync

/// - Returns: nil: no answer came.
private func status(_ url: String, method: String = "GET") async -> Int? {
  try? await CurlTransport().send(TransportRequest(method, url)).status
}

/// A callback's parts.
private struct Callback {
  let text: String
  let origin: String
  let port: UInt16
  let nonce: String

  init(_ text: String) throws {
    let parts = try #require(text.wholeMatch(of: /(http:\/\/127\.0\.0\.1:(\d+))\/done\?nonce=([0-9a-f]+)/)).output
    (self.text, origin, nonce) = (text, String(parts.1), String(parts.3))
    port = try #require(UInt16(parts.2))
  }
}

/// A connection that says what it is told to, and nothing else.
private final class Visitor {
  private let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)

  init(port: UInt16) {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    #expect(result == 0)
  }

  deinit { close(descriptor) }

  func say(_ text: String) { _ = text.withCString { send(descriptor, $0, strlen($0), Int32(MSG_NOSIGNAL)) } }
}

@Suite struct LoopbackTests {
  @Test func `a listener answers others that nothing is here, and goes on waiting for the callback with its nonce`()
    async throws
  {
    let listener = try LoopbackListener()
    let own = try Callback(listener.callback)
    let other = try Callback(try LoopbackListener().callback)
    #expect(own.nonce.count == 64 && other.nonce != own.nonce, "256 bits, of one sign-in")
    async let query = listener.query(timeout: .seconds(60))
    let last = own.nonce.last == "0" ? "1" : "0"
    let token = "ckWebAuthToken=ses_theirs"
    for foreign in [
      "/", "/favicon.ico", "/done", "/done?\(token)", "/done?errorMessage=no", "/done?nonce=&\(token)",
      "/done?nonce&\(token)", "/done?nonce=\(own.nonce.dropLast())\(last)&\(token)",
      "/done?nonce=\(own.nonce.dropLast())&\(token)", "/done?nonce=\(own.nonce)0&\(token)",
      "/done?nonce=\(own.nonce.uppercased())&\(token)", "/done?Nonce=\(own.nonce)&\(token)",
      "/other?nonce=\(own.nonce)&\(token)", "/done?nonce=\(own.nonce)",
    ] {
      #expect(await status(own.origin + foreign) == 404, "\(foreign)")
    }
    #expect(await status("\(own.text)&\(token)", method: "DELETE") == 404)
    #expect(await status("\(own.text)&ckWebAuthToken=ses_own%2B") == 200)
    #expect(try await query["ckWebAuthToken"] == "ses_own+")
  }

  @Test func `visitors who say nothing, a part or too much keep nobody waiting`() async throws {
    let listener = try LoopbackListener()
    let own = try Callback(listener.callback)
    async let query = listener.query(timeout: .seconds(60))
    let visitors = (0..<40).map { _ in Visitor(port: own.port) }
    for visitor in visitors { visitor.say("GET /done?nonce=\(own.nonce)&errorMessage=") }
    let long = Visitor(port: own.port)
    for _ in 0..<20 { long.say(String(repeating: "a", count: 1000)) }
    #expect(await status("\(own.text)&ckWebAuthToken=ses_own") == 200)
    #expect(try await query["ckWebAuthToken"] == "ses_own")
    withExtendedLifetime((visitors, long)) {}
  }

  @Test(arguments: [true, false])
  func `a sign-in keeps the token of its own page, and ends when its own page is cancelled`(isCancelled: Bool)
    async throws
  {
    let account = Account(server: "http://server", apiToken: "", tokens: FixedToken(token: ""))
    let signIn = {
      try await account.signIn(container: "c", environment: "development", transport: SignInServer()) { address in
        let asked = try #require(address.split(separator: "&callbackURL=").last?.removingPercentEncoding)
        let own = try Callback(asked)
        // Not awaited: the program answers once it listens.
        Task {
          #expect(await status("\(own.origin)/done?ckWebAuthToken=ses_theirs") == 404)
          #expect(await status("\(own.origin)/done?errorMessage=no") == 404)
          let end = isCancelled ? "errorMessage=The%20sign-in%20was%20cancelled" : "ckWebAuthToken=ses_own"
          #expect(await status("\(own.text)&\(end)") == 200)
        }
      }
    }
    if isCancelled {
      await #expect(throws: StoreError.signedOut) { try await signIn() }
      #expect(account.userRecordName == nil)
    } else {
      #expect(try await signIn() == "_of ses_own")
      #expect(try account.token() == "ses_own")
    }
  }
}

/// Signs everybody in who has a token.
private struct SignInServer: Transport {
  func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
    if request.url.hasPrefix("http://server/signin?") { return TransportResponse(status: 200, headers: [], body: []) }
    let token = request.headers.first { $0.name == "Authorization" }?.value.dropFirst("Bearer ".count)
    let body =
      token.map { #"{"userRecordName":"_of \#($0)"}"# } ?? #"{"redirectURL":"http://server/signin?state=s"}"#
    return TransportResponse(status: token == nil ? 421 : 200, headers: [], body: Array(body.utf8))
  }

  func stream(_ request: TransportRequest, silence: Duration) async throws(TransportError) -> TransportStream {
    throw TransportError(.unreachable, "there are no streams")
  }
}
