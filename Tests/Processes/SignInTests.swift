import Crypto
import Foundation
import HTTPClient
import SigningKeys
import Testing

/// Sign-ins at a complete installation, with a kill of the share service in between.
@Suite(.serialized) struct SignInTests {
  private let container = "iCloud.org.example.signin"

  private func app(_ installation: Installation) async throws -> String {
    try await installation.admin("POST", "/admin/1/containers", ["container": .string(container)])
    try await installation.admin(
      "POST", "/admin/1/users", ["name": "alice", "password": "correct horse", "givenName": "Alice"])
    let made = try await installation.admin(
      "POST", "/admin/1/tokens", ["container": .string(container), "environment": "development"])
    return try #require(made["apiToken"].string)
  }

  private func caller(_ installation: Installation, _ apiToken: String, _ token: String? = nil) async throws
    -> Installation.Answer
  {
    let url =
      "\(installation.ready.gateway)/database/1/\(container)/development/public/users/caller?ckAPIToken=\(apiToken)"
      + (token.map { "&ckWebAuthToken=\($0)" } ?? "")
    return try await installation.send("GET", url, headers: [("Origin", "https://app.example")])
  }

  private func killShare(_ installation: Installation) async throws {
    let before = try installation.now()
    #expect(kill(try #require(before.pids["share"]?.first), SIGKILL) == 0)
    _ = try await installation.waitForReadyFile {
      $0.pids["share"]?.count == 1 && $0.pids["share"] != before.pids["share"]
    }
  }

  /// Repeats the request while the answer is "later", because a new share service needs a moment.
  private func settled(_ send: () async throws -> Installation.Answer) async throws -> Installation.Answer {
    for _ in 0..<600 {
      let answer = try await send()
      guard answer.status == 503 else { return answer }
      try await Task.sleep(for: .milliseconds(50))
    }
    throw Unexpected("the share service does not come back")
  }

  @Test(.timeLimit(.minutes(3)))
  func `a sign-in gives a token that rotates, and both outlive the share service's death`() async throws {
    try await Installation.run(environment: ["AQUIFER_TOKEN_ROTATION": "0"]) { installation in
      let apiToken = try await app(installation)
      let refused = try await caller(installation, apiToken)
      #expect(refused.status == 421 && refused.header("Access-Control-Allow-Origin") == "*")
      let url = try #require(try refused.json["redirectURL"].string)
      #expect(url.hasPrefix(installation.ready.gateway + "/signin?state="))
      let page = try await installation.send("GET", url)
      #expect(page.status == 200 && page.text.contains("https://app.example"))

      let form = { (password: String) in
        try await installation.send(
          "POST", url,
          headers: [
            ("Content-Type", "application/x-www-form-urlencoded"), ("Origin", installation.ready.gateway),
            ("Sec-Fetch-Site", "same-origin"),
          ],
          bytes: Array("name=alice&password=\(password)".utf8))
      }
      let wrong = try await form("wrong+horse")
      #expect(wrong.status == 403 && wrong.text.contains("is wrong") && !wrong.text.contains("data-token"))
      let signedIn = try await form("correct+horse")
      #expect(signedIn.status == 200)
      let first = String(try #require(signedIn.text.firstMatch(of: /data-token="(ses_[0-9a-f]{128})"/)).output.1)

      // Parallel requests with one token get the same successor.
      let answers = try await withThrowingTaskGroup(of: Installation.Answer.self) { group in
        for _ in 0..<8 { group.addTask { try await caller(installation, apiToken, first) } }
        return try await group.reduce(into: [Installation.Answer]()) { $0.append($1) }
      }
      #expect(answers.allSatisfy { $0.status == 200 })
      let successors = Set(answers.compactMap { $0.header("X-Apple-CloudKit-Web-Auth-Token") })
      #expect(successors.count == 1)
      let second = try #require(successors.first)
      #expect(try answers[0].json["nameComponents"]["givenName"] == "Alice")
      try await killShare(installation)
      for token in [second, first] {
        #expect(try await settled { try await caller(installation, apiToken, token) }.status == 200)
      }

      // Ended by the operator, at once.
      try await installation.admin("POST", "/admin/1/users/alice/password", ["password": "battery staple"])
      for token in [first, second] {
        let ended = try await caller(installation, apiToken, token)
        #expect(ended.status == 421)
        #expect(try ended.json["redirectURL"].string?.contains("/signin?state=") == true)
      }
      var statuses: [Int] = []
      for _ in 0..<6 { statuses.append(try await form("wrong+horse").status) }
      #expect(statuses == [403, 403, 403, 403, 403, 429])
      #expect(try await form("battery+staple").status == 429)
    }
  }

  @Test(.timeLimit(.minutes(3)))
  func `a signed request is answered once, also by a share service that was killed in between`() async throws {
    try await Installation.run { installation in
      _ = try await app(installation)
      let key = SigningKey()
      let made = try await installation.admin(
        "POST", "/admin/1/keys", ["container": .string(container), "publicKey": .string(key.publicPEM)])
      let keyID = try #require(made["keyID"].string)
      let path = "/database/1/\(container)/development/public/users/caller?clientId=a%2Fb"
      let formatter = ISO8601DateFormatter()
      let signed = {
        let date = formatter.string(from: Date())
        let message = "\(date)::\(path)"
        return [
          ("X-Apple-CloudKit-Request-KeyID", keyID), ("X-Apple-CloudKit-Request-ISO8601Date", date),
          ("X-Apple-CloudKit-Request-SignatureV1", Base64.encode(key.signature(of: Array(message.utf8)))),
        ]
      }
      let headers = signed()
      let send = { (headers: [(String, String)]) in
        try await installation.send("GET", installation.ready.gateway + path, headers: headers)
      }
      let answer = try await send(headers)
      #expect(answer.status == 200)
      #expect(try answer.json["userRecordName"] == made["userRecordName"])
      #expect(try await send(headers).status == 401)
      try await killShare(installation)
      let replayed = try await settled { try await send(headers) }
      #expect(replayed.status == 401)
      #expect(try replayed.json["reason"] == "Authentication failed")
      #expect(try await settled { try await send(signed()) }.status == 200)
      try await installation.admin("DELETE", "/admin/1/keys/\(keyID)")
      #expect(try await send(signed()).status == 401)
    }
  }
}
