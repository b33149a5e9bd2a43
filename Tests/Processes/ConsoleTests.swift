// The console of real processes: sign-in by cookie, roles, live figures, data of a user, and what is noted of it.

import Foundation
import HTTPClient
import Testing

@Suite(.serialized) struct ConsoleTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  /// A person's browser, as far as the server sees it.
  private struct Browser {
    let installation: Installation
    let cookie: String
    let session: Value

    init(_ installation: Installation, _ entry: Value) async throws {
      let answer = try await installation.send(
        "POST", "\(installation.ready.gateway)/console/session", headers: [("Content-Type", "application/json")],
        bytes: try entry.json)
      guard answer.status == 200, let header = answer.header("Set-Cookie") else {
        throw Unexpected("sign-in: \(answer.status) \(answer.text)")
      }
      self.installation = installation
      cookie = String(header.prefix { $0 != ";" })
      session = try answer.json
    }

    func call(_ method: String, _ path: String, _ body: Value? = nil) async throws -> Installation.Answer {
      let headers = [("Cookie", cookie), ("X-CSRF-Token", session["csrf"].string ?? "")]
      return try await installation.send(
        method, "\(installation.ready.gateway)/console/api/\(path)", headers: headers, bytes: try body?.json)
    }
  }

  /// An installation whose console has one page.
  private func run(_ body: (Installation) async throws -> Void) async throws {
    let pages = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: pages) }
    try Data("<!doctype html><title>Console</title>".utf8).write(to: pages.appending(path: "index.html"))
    try await Installation.run(options: ["--console", pages.path], body)
  }

  @Test(.timeLimit(.minutes(2)))
  func `operators and developers see and change what their roles allow, and the audit says who did`() async throws {
    try await run { installation in
      let page = try await installation.send("GET", "\(installation.ready.gateway)/console/")
      #expect(page.text.contains("<title>Console</title>") && page.header("X-Frame-Options") == "DENY")
      let app = try await App(installation, model: Self.model)
      let alice = try await app.user("alice")
      for (name, role) in [
        ("carol", ["--role", "operator"]), ("dave", ["--role", "developer", "--container", app.container]),
      ] {
        try await installation.admin("POST", "/admin/1/users", ["name": .string(name), "password": "a good password"])
        let granted = try await installation.aquifer(["role", "grant", "--user", name] + role)
        #expect(granted.code == 0, "\(granted.problem)")
      }
      try await installation.admin("POST", "/admin/1/containers", ["container": "iCloud.org.example.other"])
      let carol = try await Browser(installation, ["name": "carol", "password": "a good password"])
      let dave = try await Browser(installation, ["name": "dave", "password": "a good password"])
      #expect(carol.session["role"].string == "operator" && dave.session["containers"] == [.string(app.container)])

      let place = "as/\(alice.recordName)/database/1/\(app.container)/development/private"
      let made = try await dave.call(
        "POST", "\(place)/records/modify",
        [
          "operations": [
            [
              "operationType": "create",
              "record": ["recordName": "r1", "recordType": "Note", "fields": ["text": ["value": "from the console"]]],
            ]
          ]
        ])
      #expect(made.status == 200, "\(made.text)")
      let seen = try await carol.call("POST", "\(place)/records/query", ["query": ["recordType": "Note"]])
      let record = try seen.json["records"][0]
      #expect(record["fields"]["text"]["value"].string == "from the console")
      #expect(record["modified"]["userRecordName"].string == alice.recordName)
      #expect(record["modified"]["deviceID"].string == "operator dave")
      let elsewhere = place.replacingOccurrences(of: app.container, with: "iCloud.org.example.other")
      #expect(
        try await dave.call("POST", "\(elsewhere)/records/query", ["query": ["recordType": "Note"]]).status == 403)
      for path in ["status", "live", "history", "logs", "users/alice"] {
        #expect(try await dave.call("GET", path).status == 403, "\(path)")
        #expect(try await installation.send("GET", "\(installation.ready.gateway)/console/api/\(path)").status == 401)
      }

      let audit = try await carol.call("GET", "audit?container=\(app.container)").json["acts"]
      #expect(audit[0]["name"].string == "dave" && audit[0]["status"] == 200)
      #expect(audit[0]["path"].string == "/admin/1/\(place)/records/modify")

      try await installation.admin("DELETE", "/admin/1/roles/\(app.container)/developer/dave")
      #expect(try await dave.call("GET", "containers").status == 401)
    }
  }

  @Test(.timeLimit(.minutes(2))) func `live figures show a save, and the hour before them is there as columns`()
    async throws
  {
    try await run { installation in
      let token = installation.ready.operatorToken
      let browser = try await Browser(installation, ["operatorToken": .string(token)])
      let app = try await App(installation, model: Self.model)
      let phone = try await app.user("alice").device("phone")
      let stream = try await installation.client.stream(
        "\(installation.ready.gateway)/console/api/live", headers: [HTTPClient.Header("Cookie", browser.cookie)])
      var events = EventLines(stream)
      var first = try #require(try await events.next())
      // The first sample of a process has no rates yet.
      while first["processes"].elements.contains(where: { $0["values"]["processor_seconds_per_second"] == .null }) {
        first = try #require(try await events.next())
      }
      #expect(first["processes"].elements.map { $0["name"].string } == ["gateway", "notifier", "share", "worker-1"])
      #expect(first["shards"].elements.allSatisfy { $0["holder"].string == "worker-1" && $0["state"].string == "open" })
      _ = try await phone.save([MainJob.insert("Tag", UUID().uuidString, ["name": "one"])])
      var commits = 0.0
      for _ in 0..<20 where commits == 0 {
        let sample = try #require(try await events.next())
        let worker = sample["processes"].elements.first { $0["name"].string == "worker-1" }
        commits = worker?["values"]["commits_per_second"].quantity ?? 0
      }
      #expect(commits > 0)
      let history = try await browser.call("GET", "history?step=1000&values=commits_per_second,memory_bytes").json
      #expect(history["step"] == 1000 && history["series"]["worker-1/commits_per_second"].elements.count == 3600)
      #expect(history["series"]["gateway/memory_bytes"].elements.contains { $0.quantity > 1_000_000 })
      let lines = try await browser.call("GET", "logs?level=info").json["lines"].elements
      #expect(Set(lines.compactMap { $0["process"].string }) == ["gateway", "notifier", "share", "worker-1"])
      // A sign-out ends the stream, too.
      let ended = try await installation.send(
        "DELETE", "\(installation.ready.gateway)/console/session",
        headers: [("Cookie", browser.cookie), ("X-CSRF-Token", browser.session["csrf"].string ?? "")])
      #expect(ended.status == 200)
      while try await events.next() != nil {}
      #expect(try await browser.call("GET", "logs").status == 401)
      // Neither the token nor the cookie is in any log, on disk or in memory.
      let secret = String(browser.cookie.drop { $0 != "=" }.dropFirst())
      let kept = try await installation.send("GET", "\(installation.ready.gateway)/admin/1/logs", bearer: token)
      // `aquifer dev` itself prints the token, to a log of its own.
      let folder = installation.folder.appending(path: "data/log")
      let shown = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil).reduce(
        kept.text
      ) { try $0 + String(contentsOf: $1, encoding: .utf8) }
      #expect(kept.status == 200 && !shown.contains(token) && !shown.contains(secret))
    }
  }
}

extension Value {
  /// 0 for a value that is no number.
  fileprivate var quantity: Double {
    switch self {
    case .integer(let number): Double(number)
    case .number(let number): number
    default: 0
    }
  }
}
