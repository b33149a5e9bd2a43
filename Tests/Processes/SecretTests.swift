// Secrets are planted in all inputs of an installation, and searched for in all of its outputs.

import Foundation
import HTTPClient
import SigningKeys
import Testing

@Suite(.serialized) struct SecretTests {
  private let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private let password = "Planted-Passw0rd"
  private let wrongPassword = "Planted-Wr0ng-Passw0rd"
  private let wrongToken = "planted-wrong-token-0123456789abcdef0123456789"
  private let value = "Planted-field-value"

  /// The process's command line and environment.
  private func words(of pid: Int32) throws -> String {
    try ["cmdline", "environ"].map {
      String(decoding: try Data(contentsOf: URL(filePath: "/proc/\(pid)/\($0)")), as: UTF8.self)
    }.joined(separator: "\0")
  }

  @Test(.timeLimit(.minutes(1))) func `no secret is in a log, a process's words, a metric or the body of an error`()
    async throws
  {
    try await KeyedInstallation.run { keyed in
      let installation = keyed.installation
      let (gateway, notifier) = (installation.ready.gateway, installation.ready.notifier)
      let app = try await App(installation, model: model)
      let alice = try await app.user("alice")
      try await installation.admin("POST", "/admin/1/users/alice/password", ["password": .string(password)])
      let phone = try await alice.device("phone")
      try await phone.save([MainJob.insert("Tag", UUID().uuidString, ["name": .string(value)])])

      var refusals: [(what: String, answer: Installation.Answer)] = []
      func refused(_ what: String, _ answer: Installation.Answer) {
        #expect(answer.status >= 400, "\(what): \(answer.status) \(answer.text)")
        refusals.append((what, answer))
      }
      let database = "\(gateway)/database/1/\(app.container)/development"
      let escaped = alice.token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
      // Wrong credentials in all places that accept them.
      for path in ["/admin/1/users", "/admin/1/status"] {
        refused("operator \(path)", try await installation.send("GET", gateway + path, bearer: wrongToken))
      }
      refused(
        "web token",
        try await installation.send(
          "GET", "\(database)/private/zones/list?ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(wrongToken)"))
      refused(
        "API token",
        try await installation.send(
          "GET", "\(database)/private/zones/list?ckAPIToken=\(wrongToken)&ckWebAuthToken=\(escaped)"))
      refused("bearer", try await installation.send("GET", phone.url, bearer: wrongToken))
      refused(
        "pings",
        try await installation.send(
          "GET", "\(notifier)/mirror/1/\(app.container)/development/pings", bearer: wrongToken))
      refused(
        "cookie",
        try await installation.send(
          "GET", "\(gateway)/nowhere?ckWebAuthToken=\(escaped)", headers: [("Cookie", "token=\(alice.token)")]))
      // Valid credentials with invalid requests.
      let record = #"{"recordType":"\#(value) x","fields":{"a":{"value":"\#(value)"}}}"#
      for body in [
        "{", #"{"operations":"\#(value)"}"#, #"{"operations":[{"operationType":"create","record":\#(record)}]}"#,
      ] {
        let url = "\(database)/private/records/modify?ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(escaped)"
        let answer = try await installation.send("POST", url, bytes: Array(body.utf8))
        if answer.status >= 400 { refusals.append(("modify", answer)) }
      }
      refused(
        "transaction",
        try await phone.send(
          "POST", "/transactions", ["transactions": [["transactionID": .string(value), "changes": 7]]]))
      for (path, body) in [
        ("/admin/1/users/nobody/password", #"{"password":"\#(wrongPassword)"}"#),
        ("/admin/1/users", #"{"name":"eve","password":"\#(wrongPassword)""#),
      ] {
        let answer = try await installation.send(
          "POST", gateway + path, bearer: installation.ready.operatorToken, bytes: Array(body.utf8))
        #expect(answer.status >= 400, "\(path): \(answer.status)")
        refusals.append((path, answer))
      }

      // Sign-ins with a wrong password and with the right one.
      let page = try await installation.send(
        "GET", "\(database)/public/users/caller?ckAPIToken=\(app.apiToken)",
        headers: [("Origin", "https://app.example")])
      let url = try #require(try page.json["redirectURL"].string)
      func signIn(_ password: String) async throws -> Installation.Answer {
        try await installation.send(
          "POST", url,
          headers: [
            ("Content-Type", "application/x-www-form-urlencoded"), ("Origin", gateway),
            ("Sec-Fetch-Site", "same-origin"),
          ],
          bytes: Array("name=alice&password=\(password)".utf8))
      }
      refused("wrong password", try await signIn(wrongPassword))
      let signedIn = try await signIn(password)
      let session = String(try #require(signedIn.text.firstMatch(of: /ses_[0-9a-f]{128}/)).output)

      // The secrets in the processes' files, and a worker that connects with an unknown key.
      var secrets = [
        "operator token": installation.ready.operatorToken, "web-auth token": alice.token, "API token": app.apiToken,
        "session": session, "password": password,
        "wrong password": wrongPassword, "wrong token": wrongToken, "value": value,
        "encryption key": try String(contentsOf: keyed.folder.appending(path: "encryption-key"), encoding: .utf8)
          .trimmingCharacters(in: .whitespacesAndNewlines),
      ]
      for name in ["share", "worker-1", "notifier", "gateway"] {
        secrets["bus key of \(name)"] = try String(contentsOf: keyed.key(name), encoding: .utf8).trimmingCharacters(
          in: .whitespacesAndNewlines)
      }
      #expect(secrets.values.allSatisfy { $0.utf8.count >= 16 })

      var places: [(name: String, text: String)] = refusals.map { ("the answer to \($0.what)", $0.answer.text) }
      for (name, process) in keyed.processes {
        places.append(("the words of \(name)", try words(of: process.processIdentifier)))
      }
      for (name, admin) in installation.ready.admin {
        #expect(admin.hasPrefix("http://127.0.0.1:"), "the admin port of \(name) is this machine's own")
        for path in ["metrics", "readyz", "livez", "version", wrongToken] {
          places.append(("/\(path) of \(name)", try await installation.send("GET", "\(admin)/\(path)").text))
        }
      }
      keyed.stop()
      for (name, _) in keyed.processes {
        places.append(("the log of \(name)", try String(contentsOf: keyed.log(name), encoding: .utf8)))
      }
      #expect(
        places.filter { $0.name.hasPrefix("the log of") }.allSatisfy { $0.text.contains("stopped") },
        "logs were read to their ends")
      for place in places {
        for (name, secret) in secrets where place.text.contains(secret) {
          Issue.record("the \(name) stands in \(place.name)")
        }
      }
      // The search works: it finds the path of the key.
      #expect(places.contains { $0.name == "the words of gateway" && $0.text.contains(keyed.key("gateway").path) })
    }
  }
}
