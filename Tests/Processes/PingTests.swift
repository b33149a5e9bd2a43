// Pings through real processes: event streams and the web courier.

import Foundation
import HTTPClient
import Testing

@Suite(.serialized) struct PingTests {
  private let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  private func stream(_ device: Device) async throws -> HTTPClient.Stream {
    let app = device.user.app
    let url = "\(app.installation.ready.notifier)/mirror/1/\(app.container)/development/pings?device=\(device.store)"
    let headers = [
      HTTPClient.Header("Authorization", "Bearer \(device.user.token)"),
      HTTPClient.Header("Accept", "text/event-stream"),
    ]
    let stream = try await app.installation.client.stream(url, headers: headers)
    guard stream.status == 200 else { throw Unexpected("pings: \(stream.status)") }
    return stream
  }

  @Test(.timeLimit(.minutes(1)), arguments: [false, true])
  func `a save pings the other devices of its owner, and nobody else`(tls: Bool) async throws {
    try await Installation.run(tls: tls) { installation in
      let app = try await App(installation, model: model)
      let (alice, bob) = (try await app.user("alice"), try await app.user("bob"))
      let (first, second, stranger) = (
        try await alice.device("A"), try await alice.device("B"), try await bob.device("C")
      )
      var own = EventLines(try await stream(first))
      var other = EventLines(try await stream(second))
      var foreign = EventLines(try await stream(stranger))

      try await first.save([MainJob.insert("Tag", UUID().uuidString, ["name": "one"])])
      let ping = try #require(try await other.next())
      #expect(ping["aps"] == ["content-available": 1])
      #expect(ping["ck"]["ce"] == 2)
      #expect(ping["ck"]["cid"].string == app.container)
      #expect(UUID(uuidString: ping["ck"]["nid"].string ?? "") != nil)
      #expect(ping["ck"]["met"]["dbs"] == 1)
      #expect(ping["ck"]["met"]["zid"] == "com.apple.coredata.cloudkit.zone")
      #expect(ping["ck"]["met"]["zoid"].string == alice.recordName)

      // The saving device's first ping is for the other device's save; a stranger's first ping is for a save of their
      // own second device.
      try await second.save([MainJob.insert("Tag", UUID().uuidString, ["name": "two"])])
      #expect(try await own.next()?["ck"]["met"]["zoid"].string == alice.recordName)
      try await (try await bob.device("D")).save([MainJob.insert("Tag", UUID().uuidString, ["name": "three"])])
      #expect(try await foreign.next()?["ck"]["met"]["zoid"].string == bob.recordName)
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `T-V01 a store's event stream shows the start and the end of an export, and goes on where a client lost it`()
    async throws
  {
    try await Installation.run { installation in
      let app = try await App(installation, model: model)
      let device = try await app.user("alice").device("A")
      func events(after last: String?) async throws -> EventLines {
        let headers = [
          HTTPClient.Header("Authorization", "Bearer \(device.user.token)"),
          HTTPClient.Header("Accept", "text/event-stream"),
        ]
        let stream = try await installation.client.stream(
          device.url + "/events", headers: headers + (last.map { [HTTPClient.Header("Last-Event-ID", $0)] } ?? []))
        guard stream.status == 200 else { throw Unexpected("events: \(stream.status)") }
        return EventLines(stream)
      }
      var lines = try await events(after: nil)
      for isEnd in [false, true] {
        let setUp = try #require(try await lines.next())
        #expect(setUp["type"] == "setup" && setUp["succeeded"] == .bool(isEnd))
      }
      try await device.save([MainJob.insert("Tag", UUID().uuidString, ["name": "one"])])
      var start = try #require(try await lines.next())
      // A set-up that came too early on a busy machine was tried again, and left events, too.
      while start["type"] == "setup" { start = try #require(try await lines.next()) }
      let end = try #require(try await lines.next())
      #expect(start["type"] == "export" && start["endDate"] == .null)
      #expect(end["identifier"] == start["identifier"] && end["endDate"] != .null && end["counts"]["saved"] == 1)
      let last = try #require(try await device.call("GET", "/events")["lastEvent"].string)
      var again = try await events(after: last)
      try await device.save([MainJob.insert("Tag", UUID().uuidString, ["name": "two"])])
      let next = try #require(try await again.next())
      #expect(next["type"] == "export" && next["identifier"] != start["identifier"])
    }
  }

  @Test(.timeLimit(.minutes(1)), arguments: [false, true]) func `a web courier holds its poll until a save`(tls: Bool)
    async throws
  {
    try await Installation.run(tls: tls) { installation in
      let app = try await App(installation, model: model)
      let alice = try await app.user("alice")
      let device = try await alice.device("A")
      let credentials = "ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(alice.token)"
      for path in [
        "device/1/\(app.container)/development", "database/1/\(app.container)/development",
        "database/1/\(app.container)/development/private",
      ] {
        let body: Value = ["apnsEnvironment": "development", "clientId": .string(UUID().uuidString)]
        let made = try await installation.send(
          "POST", "\(installation.ready.gateway)/\(path)/tokens/create?\(credentials)", bytes: try body.json)
        #expect(made.status == 200)
        let token = try made.json
        #expect(token["apnsEnvironment"] == "development")
        #expect(Data(base64Encoded: token["apnsToken"].string ?? "") != nil)
        let courier = try #require(token["webcourierURL"].string)
        #expect(courier.hasPrefix(installation.ready.notifier + "/"))

        async let poll = installation.send("GET", courier)
        // The order of save and poll does not matter: notifications are kept between two polls.
        try await device.save([MainJob.insert("Tag", UUID().uuidString, ["name": "x"])])
        let notification = try await poll
        #expect(notification.status == 200)
        #expect(notification.header("Access-Control-Allow-Origin") == "*")
        #expect(try notification.json["ck"]["cid"].string == app.container)

        let registered = try await installation.send(
          "POST", "\(installation.ready.gateway)/\(path)/tokens/register?\(credentials)",
          bytes: try (["apnsEnvironment": "development", "apnsToken": token["apnsToken"], "clientId": "c"] as Value)
            .json)
        #expect(registered.status == 200)
        #expect(try registered.json == [:])
      }
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `a save made while the notifier stands still pings its listeners when it goes on`() async throws {
    try await Installation.run { installation in
      let app = try await App(installation, model: model)
      let alice = try await app.user("alice")
      let (first, second) = (try await alice.device("A"), try await alice.device("B"))
      var lines = EventLines(try await stream(second))
      let notifier = try #require(installation.ready.pids["notifier"]?.first)
      kill(notifier, SIGSTOP)
      defer { kill(notifier, SIGCONT) }
      // The bus loses a process after a second and a half, although its listeners are still connected to it.
      try await Task.sleep(for: .seconds(4))
      try await first.save([MainJob.insert("Tag", UUID().uuidString, ["name": "one"])])
      kill(notifier, SIGCONT)
      #expect(try await lines.next()?["ck"]["met"]["zoid"].string == alice.recordName)
    }
  }

  @Test(.timeLimit(.minutes(1)), arguments: [false, true])
  func `a held import is answered by the next save of another device`(tls: Bool) async throws {
    try await Installation.run(tls: tls) { installation in
      let user = try await App(installation, model: model).user("alice")
      let (first, second) = (try await user.device("A"), try await user.device("B"))
      let (_, token) = try await second.changes()
      let after = (token.string ?? "").addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
      let start = ContinuousClock.now
      async let held = second.call("GET", "/changes?wait=60&after=\(after)")
      let tag = UUID().uuidString
      try await first.save([MainJob.insert("Tag", tag, ["name": "x"])])
      #expect(try await held["changes"][0]["objectID"].string == tag)
      // Not a timing assertion: the poll must not have waited for its end.
      #expect(ContinuousClock.now - start < .seconds(50))
    }
  }
}
