// What a browser does with the server's sign-in page.

import Foundation
import ReplicaSync
import ReplicaWorld
import Testing

extension Server {
  func setPassword(of name: String) async throws {
    let request = TransportRequest(
      "POST", "\(gateway)/admin/1/users/\(name)/password", headers: [("Authorization", "Bearer \(operatorToken)")],
      body: Array(#"{"password":"battery staple"}"#.utf8))
    #expect(try await CurlTransport().send(request).status == 200)
  }

  /// Fills the page's form, and follows it back to the program.
  static func signIn(_ name: String, at address: String) async throws {
    let transport = CurlTransport()
    let headers = [(name: "Content-Type", value: "application/x-www-form-urlencoded")]
    let form = Array("name=\(name)&password=battery+staple".utf8)
    let answer = try await transport.send(TransportRequest("POST", address, headers: headers, body: form))
    let location = try #require(answer["Location"])
    let port = try #require(address.firstMatch(of: /127\.0\.0\.1%3A(\d+)/)?.output.1)
    let query = try #require(location.firstIndex(of: "?"))
    // Not awaited: the program answers once it listens.
    let back = TransportRequest("GET", "http://127.0.0.1:\(port)/done\(location[query...])")
    Task { _ = try? await transport.send(back) }
  }
}
