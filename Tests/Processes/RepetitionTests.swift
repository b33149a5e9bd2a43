// A client whose answer is lost repeats its request with the same identifier: it is executed once and answered the
// same.

import Foundation
import HTTPClient
import Testing

/// A request that changes something.
private struct Mutation {
  let action: String
  var database = "private"
  let body: Value
  /// Members of the answer that may differ: addresses that contain their expiry.
  var changing: Set<String> = []
  /// The state afterwards, which must be the same after a repetition.
  let effect: (User) async throws -> Value
}

@Suite(.serialized) struct RepetitionTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  @Test(.timeLimit(.minutes(2)))
  func
    `every request that changes something is done once and answered alike when it is sent again`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: Self.model)
      let users = try await app.usersApart(["alice", "bob"])
      let (alice, bob) = (users[0], users[1])
      try await alice.makeZone("Trips")
      let invitation = try await alice.share("Trips", with: [(bob, "READ_WRITE")])

      for (number, mutation) in Self.mutations(invitation: invitation).enumerated() {
        let user = mutation.action == "records/accept" ? bob : alice
        let id = "lost-\(number)"
        // The first answer is lost: the client has closed the connection.
        try await user.sendAndLeave(mutation.action, mutation.body, in: mutation.database, requestID: id)
        let first = try await user.sendAgain(mutation.action, mutation.body, in: mutation.database, requestID: id)
        #expect(first.status == 200, "\(mutation.action): \(first.text)")
        let effect = try await mutation.effect(user)
        let second = try await user.sendAgain(mutation.action, mutation.body, in: mutation.database, requestID: id)
        #expect(second.status == 200, "\(mutation.action): \(second.text)")
        #expect(
          try second.json.without(mutation.changing) == first.json.without(mutation.changing), "\(mutation.action)")
        #expect(try await mutation.effect(user) == effect, "\(mutation.action)")
        // With another identifier it is another request, which may be answered differently.
        let other = try await user.sendAgain(
          mutation.action, mutation.body, in: mutation.database, requestID: id + "-other")
        #expect((200..<300).contains(other.status), "\(mutation.action): \(other.text)")
      }
    }
  }

  private static func mutations(invitation: String) -> [Mutation] {
    [
      Mutation(
        action: "records/modify",
        body: [
          "zoneID": ["zoneName": "Trips"], "atomic": false,
          "operations": [
            ["operationType": "create", "record": ["recordType": "Note", "fields": ["n": ["value": 1]]]],
            ["operationType": "create", "record": ["recordName": "named", "recordType": "Note"]],
            ["operationType": "delete", "record": ["recordName": "missing", "recordChangeTag": "1"]],
          ],
        ]
      ) { user in .object(try await user.allRecords(in: "Trips").records.mapValues { $0["recordChangeTag"] }) },
      Mutation(
        action: "zones/modify",
        body: [
          "operations": [
            ["operationType": "create", "zone": ["zoneID": ["zoneName": "New"]]],
            ["operationType": "delete", "zone": ["zoneID": ["zoneName": "Nowhere"]]],
          ]
        ]
      ) { user in try await user.records("zones/list", [:])["zones"] },
      Mutation(
        action: "subscriptions/modify",
        body: [
          "operations": [
            [
              "operationType": "create", "subscription": ["subscriptionType": "zone", "zoneID": ["zoneName": "Trips"]],
            ],
            ["operationType": "delete", "subscription": ["subscriptionID": "missing"]],
          ]
        ]
      ) { user in try await user.records("subscriptions/list", [:])["subscriptions"] },
      // Without a client name the server draws one; a second draw would make a second courier.
      Mutation(action: "tokens/create", body: ["apnsEnvironment": "development"]) { _ in .null },
      Mutation(
        action: "assets/upload",
        body: ["tokens": [["recordType": "Note", "fieldName": "blob"], ["recordType": "Note", "fieldName": "blob"]]],
        changing: ["url"]
      ) { _ in .null },
      Mutation(action: "records/accept", database: "public", body: ["shortGUIDs": [["value": .string(invitation)]]]) {
        user in
        .array(try await user.sharedZones().sorted().map { .string($0) })
      },
    ]
  }

  @Test(.timeLimit(.minutes(1)))
  func `content that is uploaded again to the same address is stored once and has one identity`() async throws {
    try await Installation.run { installation in
      let app = try await App(installation, model: Self.model)
      let alice = try await app.user("alice")
      let tokens = try await alice.records("assets/upload", ["tokens": [["recordType": "Note", "fieldName": "blob"]]])[
        "tokens"]
      let url = try #require(tokens[0]["url"].string)
      var receipts: [Value] = []
      for _ in 0..<2 {
        let answer = try await installation.send(
          "POST", url, headers: [("Content-Type", "text/plain;charset=UTF-8")],
          bytes: Array(repeating: 7, count: 100_000))
        #expect(answer.status == 200)
        receipts.append(try answer.json["singleFile"])
      }
      for member in ["fileChecksum", "referenceChecksum", "size", "wrappingKey"] {
        #expect(receipts[0][member] == receipts[1][member])
      }
      // A record saved with either answer is the same.
      for (number, receipt) in receipts.enumerated() {
        #expect(
          try await alice.saveNote("n\(number)", blob: receipt)["fields"]["blob"]["value"]["fileChecksum"]
            == receipts[0]["fileChecksum"])
      }
    }
  }
}

extension User {
  fileprivate func url(_ action: String, in database: String) -> String {
    let token = token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    return
      """
      \(app.installation.ready.gateway)/database/1/\(app.container)/development/\(database)/\(action)?\
      ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(token)
      """
  }

  fileprivate func sendAgain(_ action: String, _ body: Value, in database: String, requestID: String) async throws
    -> Installation.Answer
  {
    try await app.installation.send(
      "POST", url(action, in: database), headers: [("X-Request-ID", requestID)], bytes: try body.json)
  }

  /// Sends a request without waiting for the answer; it may or may not be executed.
  fileprivate func sendAndLeave(_ action: String, _ body: Value, in database: String, requestID: String) async throws {
    // Dropped because the time is too short for an answer.
    _ = try? await app.installation.send(
      "POST", url(action, in: database), headers: [("X-Request-ID", requestID)], bytes: try body.json,
      timeout: .milliseconds(1))
  }
}

extension Value {
  /// Without the members of these names, at any depth.
  fileprivate func without(_ names: Set<String>) -> Value {
    switch self {
    case .object(let members): .object(members.filter { !names.contains($0.key) }.mapValues { $0.without(names) })
    case .array(let elements): .array(elements.map { $0.without(names) })
    default: self
    }
  }
}
