// Subscriptions through real processes: from a save over HTTP to couriers and event streams.

import Foundation
import HTTPClient
import Synchronization
import Testing

/// A client of a user, as CloudKit JS is one: a name of its own choice, and a web courier.
private struct Client: Sendable {
  let user: User
  let name: String

  @discardableResult func call(_ path: String, _ body: Value, database: String = "private") async throws -> Value {
    let app = user.app
    let token = user.token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let url =
      """
      \(app.installation.ready.gateway)/database/1/\(app.container)/development/\(database)/\(path)?\
      ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(token)&clientId=\(name)
      """
    let answer = try await app.installation.send("POST", url, bytes: try body.json)
    guard answer.status == 200 else { throw Unexpected("\(path): \(answer.status) \(answer.text)") }
    return try answer.json
  }

  func save(_ record: String, in zone: String = "Trips", title: String = "t") async throws {
    let answer = try await call(
      "records/modify",
      [
        "zoneID": ["zoneName": .string(zone)],
        "operations": [
          [
            "operationType": "forceUpdate",
            "record": [
              "recordName": .string(record), "recordType": "Note", "fields": ["title": ["value": .string(title)]],
            ],
          ]
        ],
      ])
    guard answer["records"][0]["serverErrorCode"] == .null else { throw Unexpected("records/modify: \(answer)") }
  }

  func subscribe(_ subscription: Value, database: String = "private") async throws {
    let answer = try await call(
      "subscriptions/modify", ["operations": [["operationType": "create", "subscription": subscription]]],
      database: database)
    guard answer["subscriptions"][0]["serverErrorCode"] == .null else {
      throw Unexpected("subscriptions/modify: \(answer)")
    }
  }

  /// Calls `tokens/create`.
  /// - Returns: the courier's address.
  func courier() async throws -> String {
    let app = user.app
    let url =
      """
      \(app.installation.ready.gateway)/device/1/\(app.container)/development/tokens/create?ckAPIToken=\(app.apiToken)&\
      ckWebAuthToken=\(user.escapedToken)
      """
    let answer = try await app.installation.send(
      "POST", url, bytes: try (["apnsEnvironment": "development", "clientId": .string(name)] as Value).json)
    return try #require(try answer.json["webcourierURL"].string)
  }
}

extension User {
  fileprivate var escapedToken: String { token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "" }
}

@Suite(.serialized) struct SubscriptionTests {
  private let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  private static func poll(_ installation: Installation, _ courier: String) async throws -> Value {
    let answer = try await installation.send("GET", courier)
    guard answer.status == 200 else { throw Unexpected("courier: \(answer.status) \(answer.text)") }
    return answer.bytes.isEmpty ? .null : try answer.json
  }

  /// The notification without its identifier, which is a UUID.
  private static func content(_ notification: Value) throws -> Value {
    guard case .object(var members) = notification, case .object(var ck)? = members["ck"] else {
      throw Unexpected("no notification: \(notification)")
    }
    #expect(UUID(uuidString: ck["nid"]?.string ?? "") != nil)
    ck["nid"] = nil
    members["ck"] = .object(ck)
    return .object(members)
  }

  private static let notes: Value = [
    "subscriptionID": "notes", "subscriptionType": "query", "zoneWide": true, "firesOn": ["create", "delete"],
    "query": ["recordType": "Note"],
    "notificationInfo": [
      "alertBody": "A note", "shouldBadge": true, "soundName": "default", "additionalFields": ["title"],
    ],
  ]

  @Test(.timeLimit(.minutes(1)))
  func `the three kinds of subscriptions reach couriers and streams, and never the client that saved`() async throws {
    try await Installation.run { installation in
      let app = try await App(installation, model: model)
      let alice = try await app.user("alice")
      let (saver, other) = (Client(user: alice, name: "C1"), Client(user: alice, name: "C2"))
      try await saver.call(
        "zones/modify", ["operations": [["operationType": "create", "zone": ["zoneID": ["zoneName": "Trips"]]]]])
      try await saver.subscribe(Self.notes)
      try await saver.subscribe([
        "subscriptionID": "trips", "subscriptionType": "zone", "zoneID": ["zoneName": "Trips"],
      ])
      try await saver.subscribe([
        "subscriptionID": "all", "subscriptionType": "database",
        "notificationInfo": ["shouldSendContentAvailable": true],
      ])
      let (own, courier) = (try await saver.courier(), try await other.courier())
      let url = "\(installation.ready.notifier)/mirror/1/\(app.container)/development/pings?device=C3"
      let stream = try await installation.client.stream(
        url, headers: [HTTPClient.Header("Authorization", "Bearer \(alice.token)")])
      var lines = EventLines(stream)

      try await saver.save("n1", title: "Dunes")
      let zone: [String: Value] = ["zid": "Trips", "zoid": .string(alice.recordName), "dbs": 1]
      func expected(_ aps: Value, _ kind: String, _ identifier: String, _ more: [String: Value] = [:]) -> Value {
        let subject = zone.merging(["sid": .string(identifier)]) { $1 }.merging(more) { $1 }
        return ["aps": aps, "ck": ["cid": .string(app.container), "ce": 2, .init(kind): .object(subject)]]
      }
      let alert: Value = ["alert": ["body": "A note"], "badge": 1, "sound": "default"]
      let told = [
        expected(alert, "qry", "notes", ["rid": "n1", "fo": 1, "af": ["title": "Dunes"]]),
        expected(["content-available": 1], "fet", "trips"),
        expected(["content-available": 1], "met", "all"),
      ]
      for notification in told { #expect(try Self.content(try await Self.poll(installation, courier)) == notification) }
      // The stream also has the mirrored database's ping, whose subscription has another name.
      var events: [Value] = []
      while events.count < 4 { events.append(try Self.content(try #require(try await lines.next()))) }
      for notification in told { #expect(events.contains(notification)) }
      #expect(events.contains { $0["ck"]["met"]["sid"] == "com.apple.coredata.cloudkit.private.subscription" })

      // The saving client got no notification: its first one is for the other client's save.
      try await other.call(
        "records/modify",
        [
          "zoneID": ["zoneName": "Trips"],
          "operations": [["operationType": "forceDelete", "record": ["recordName": "n1"]]],
        ])
      #expect(
        try Self.content(try await Self.poll(installation, own))
          == expected(alert, "qry", "notes", ["rid": "n1", "fo": 3, "af": ["title": "Dunes"]]))
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `a subscriber of the shared database hears of each of its changes once, and of the private one as ever`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let users = try await app.usersApart(["ann", "bea", "cid"])
      let (ann, bea, cid) = (users[0], users[1], users[2])
      try await ann.makeZone("Trips")
      let invitation = try await ann.share("Trips", with: [(bea, "READ_WRITE"), (cid, "READ_ONLY")])
      for guest in [bea, cid] { _ = try await guest.accept(invitation) }
      try await bea.makeZone("Own")
      let (hers, his) = (Client(user: bea, name: "hers"), Client(user: cid, name: "his"))
      try await hers.subscribe(["subscriptionID": "all", "subscriptionType": "database"], database: "shared")
      let (courier, other) = (try await hers.courier(), try await his.courier())
      func told(_ courier: String) async throws -> [Value] {
        let met = try await Self.poll(installation, courier)["ck"]["met"]
        return [met["sid"], met["zid"], met["dbs"]]
      }
      for title in ["first", "second"] {
        _ = try await ann.save("n", title, in: "Trips")
        #expect(try await told(courier) == ["all", "Trips", 2])
        // A client without subscriptions counts as subscribed to everything.
        #expect(try await told(other) == ["com.apple.coredata.cloudkit.shared.subscription", "Trips", 2])
        // No further notification came before this one; the private database has no subscription.
        try await Client(user: bea, name: "elsewhere").save("m", in: "Own", title: title)
        #expect(try await told(courier) == ["com.apple.coredata.cloudkit.private.subscription", "Own", 1])
      }
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `one that fires once does so once, through saves at a time and a worker's SIGKILL`() async throws {
    try await Installation.run { installation in
      let app = try await App(installation, model: model)
      let alice = try await app.user("alice")
      let clients = (0..<4).map { Client(user: alice, name: "C\($0)") }
      try await clients[0].call(
        "zones/modify", ["operations": [["operationType": "create", "zone": ["zoneID": ["zoneName": "Trips"]]]]])
      let url = "\(installation.ready.notifier)/mirror/1/\(app.container)/development/pings?device=listener"
      let stream = try await installation.client.stream(
        url, headers: [HTTPClient.Header("Authorization", "Bearer \(alice.token)")])
      let heard = Mutex<[String: Int]>([:])
      let listening = Task {
        var lines = EventLines(stream)
        while let event = try await lines.next() {
          if let identifier = event["ck"]["qry"]["sid"].string { heard.withLock { $0[identifier, default: 0] += 1 } }
        }
      }
      let rounds = 12
      for round in 0..<rounds {
        try await clients[0].subscribe([
          "subscriptionID": .string("once \(round)"), "subscriptionType": "query", "zoneWide": true,
          "firesOn": ["create"], "firesOnce": true,
          "query": ["recordType": "Note"],
        ])
        try await withThrowingTaskGroup(of: Void.self) { group in
          for (number, client) in clients.enumerated() {
            group.addTask {
              for save in 0..<3 { try await Self.insist { try await client.save("\(round) \(number) \(save)") } }
            }
          }
          if round == rounds / 2 {
            let pid = try #require(try installation.now().pids["worker"]?.first)
            group.addTask { #expect(kill(pid, SIGKILL) == 0) }
          }
          try await group.waitForAll()
        }
      }
      let listed = try await clients[0].call("subscriptions/list", [:])
      #expect(listed["subscriptions"] == [])
      // Comes after everything else, so all earlier notifications have arrived by then.
      try await clients[0].subscribe([
        "subscriptionID": "last", "subscriptionType": "query", "zoneWide": true, "firesOn": ["create"],
        "query": ["recordType": "Note"],
      ])
      var count = 0
      while heard.withLock({ $0["last"] }) == nil {
        count += 1
        try await clients[0].save("last \(count)")
        try await Task.sleep(for: .milliseconds(20))
      }
      listening.cancel()
      let counts = heard.withLock { $0 }
      for round in 0..<rounds {
        // A killed worker may lose a hint; no notification comes twice.
        #expect(
          (round == rounds / 2 ? 0...1 : 1...1).contains(counts["once \(round)"] ?? 0), "round \(round): \(counts)")
      }
    }
  }

  /// Repeats a save until it is acknowledged.
  private static func insist(_ save: () async throws -> Void) async throws {
    let end = ContinuousClock.now + .seconds(30)
    while true {
      do {
        return try await save()
      } catch {
        guard ContinuousClock.now < end else { throw error }
        try await Task.sleep(for: .milliseconds(20))
      }
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a courier goes on at a notifier that was killed and came back`() async throws {
    try await Installation.run { installation in
      let app = try await App(installation, model: model)
      let alice = try await app.user("alice")
      let (saver, other) = (Client(user: alice, name: "C1"), Client(user: alice, name: "C2"))
      try await saver.subscribe([
        "subscriptionID": "notes", "subscriptionType": "query", "firesOn": ["create"], "query": ["recordType": "Note"],
      ])
      let courier = try await other.courier()
      try await saver.save("before", in: "_defaultZone")
      #expect(try await Self.poll(installation, courier)["ck"]["qry"]["rid"] == "before")
      let before = try installation.now()
      #expect(kill(try #require(before.pids["notifier"]?.first), SIGKILL) == 0)
      _ = try await installation.waitForReadyFile {
        $0.pids["notifier"]?.count == 1 && $0.pids["notifier"] != before.pids["notifier"]
      }
      // The next poll makes the queue again; the client repeats it until it is answered, as CloudKit JS does.
      async let polled = Self.pollUntilTold(installation, courier)
      let isTold = Mutex(false)
      async let saving: Void = {
        var count = 0
        while !isTold.withLock({ $0 }) {
          count += 1
          try await saver.save("after \(count)", in: "_defaultZone")
          try await Task.sleep(for: .milliseconds(50))
        }
      }()
      let notification = try await polled
      isTold.withLock { $0 = true }
      try await saving
      #expect(notification["ck"]["qry"]["rid"].string?.hasPrefix("after ") == true)
    }
  }

  private static func pollUntilTold(_ installation: Installation, _ courier: String) async throws -> Value {
    let end = ContinuousClock.now + .seconds(40)
    while ContinuousClock.now < end {
      do {
        let notification = try await poll(installation, courier)
        if notification != .null { return notification }
      } catch {
        try await Task.sleep(for: .milliseconds(50))
      }
    }
    throw Unexpected("the courier told nothing")
  }
}
