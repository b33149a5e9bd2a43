// Users without access, at every endpoint: they read and change nothing, and can't tell a share from a missing one.

import Foundation
import Testing

@Suite(.serialized) struct StrangerTests {
  private let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let secret = "nobody but Ann and Cem"

  /// The names of a shared record, or of one that does not exist.
  private struct Names: Sendable {
    let owner: String
    let zone: String
    let record: String
    let shortGUID: String

    var zoneID: Value { ["zoneName": .string(zone), "ownerRecordName": .string(owner)] }

    /// The text with placeholders in place of the names.
    func stripped(_ text: String) -> String {
      var text = text
      for (name, placeholder) in [(owner, "OWNER"), (zone, "ZONE"), (record, "RECORD"), (shortGUID, "GUID")] {
        text = text.replacingOccurrences(of: name, with: placeholder)
      }
      return text.replacing(/"uuid":"[^"]*"/, with: "UUID").replacing(/"syncToken":"[^"]*"/, with: "TOKEN").replacing(
        /"metaSyncToken":"[^"]*"/, with: "TOKEN")
    }
  }

  /// A body for each call of the record plane; nil for a call that can't name a part of a share, or whose answer always
  /// differs.
  private static func body(of call: String, _ names: Names) throws -> Value? {
    let record: Value = [
      "recordName": .string(names.record), "recordType": "Note", "fields": ["title": ["value": "taken over"]],
    ]
    switch call {
    case "records/query": return ["zoneID": names.zoneID, "query": ["recordType": "Note"]]
    case "records/modify":
      let share: Value = [
        "recordName": "cloudkit.zoneshare", "recordType": "cloudkit.share", "publicPermission": "READ_WRITE",
        "fields": [:],
      ]
      return [
        "zoneID": names.zoneID, "atomic": false,
        "operations": [
          ["operationType": "forceUpdate", "record": record], ["operationType": "forceUpdate", "record": share],
          ["operationType": "create", "record": ["recordName": "theirs", "recordType": "Note", "fields": [:]]],
        ],
      ]
    case "records/lookup":
      return [
        "zoneID": names.zoneID,
        "records": [["recordName": .string(names.record)], ["recordName": "cloudkit.zoneshare"]],
      ]
    case "records/changes": return ["zoneID": names.zoneID]
    case "changes/zone": return ["zones": [["zoneID": names.zoneID]]]
    case "zones/lookup": return ["zones": [["zoneID": names.zoneID]]]
    case "zones/modify":
      return ["operations": [["operationType": "delete", "zone": ["zoneID": names.zoneID]]]]
    case "changes/database", "zones/changes", "zones/list", "subscriptions/list": return [:]
    case "records/resolve", "records/accept", "records/decline", "records/requestAccess":
      return ["shortGUIDs": [["value": .string(names.shortGUID), "shouldFetchRootRecord": true]]]
    case "subscriptions/modify":
      return [
        "operations": [
          [
            "operationType": "create",
            "subscription": [
              "subscriptionID": .string("s-" + names.zone), "subscriptionType": "zone", "zoneID": names.zoneID,
            ],
          ]
        ]
      ]
    case "subscriptions/lookup": return ["subscriptions": [["subscriptionID": .string("s-" + names.zone)]]]
    case "assets/rereference":
      return ["zoneID": names.zoneID, "assets": [["recordName": .string(names.record), "fieldName": "title"]]]
    case "assets/upload", "users/caller", "users/current", "users/discover", "users/lookup/email", "users/lookup/id",
      "users/lookup/contacts", "tokens/create",
      "tokens/register", "records/zip/prepare", "records/copy/start", "records/copy/status":
      return nil
    default: throw Unexpected("Services/openapi.json has \(call), which strangers were not tried with")
    }
  }

  /// All calls below a database's path.
  private static func calls() throws -> [String] {
    let document = try Value(json: [UInt8](Data(contentsOf: Checkout.root.appending(path: "Services/openapi.json"))))
    let prefix = "/database/1/{container}/{environment}/{database}/"
    return document["paths"].members.keys.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
      .sorted()
  }

  /// Tries all calls with the names of a share and with names of nothing, and compares the answers.
  private func expectNothing(_ who: String, _ user: User, _ shared: Names, _ missing: Names) async throws {
    for call in try Self.calls() {
      for database in ["shared", "private", "public"] {
        guard let body = try Self.body(of: call, shared), let other = try Self.body(of: call, missing) else { continue }
        let (found, absent) = (
          try await user.send(call, body, in: database), try await user.send(call, other, in: database)
        )
        #expect(found.status == absent.status, "\(who), \(database)/\(call): \(found.text) and \(absent.text)")
        #expect(shared.stripped(found.text) == missing.stripped(absent.text), "\(who), \(database)/\(call)")
        #expect(!found.text.contains(Self.secret), "\(who), \(database)/\(call): \(found.text)")
      }
    }
    // The page in a browser is the same for all visitors who have not signed in.
    let pages = [shared, missing].map { names in "\(user.app.installation.ready.gateway)/share/\(names.shortGUID)" }
    #expect(
      try await user.app.installation.send("GET", pages[0]).bytes == user.app.installation.send("GET", pages[1]).bytes)
  }

  @Test(.timeLimit(.minutes(3)))
  func `T-P06 T-P19 strangers, those who were removed and users of other containers learn and change nothing`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let (ann, cem, removed, stranger) = (
        try await app.user("ann"), try await app.user("cem"), try await app.user("removed"),
        try await app.user("stranger")
      )
      try await ann.makeZone("Trips")
      _ = try await ann.save("first", Self.secret, in: "Trips")
      let guid = try await ann.share("Trips", with: [(cem, "READ_ONLY"), (removed, "READ_WRITE")])
      _ = try await cem.accept(guid)
      _ = try await removed.accept(guid)
      try await remove(removed, from: ann, keeping: cem)
      let before = try await ann.allRecords(in: "Trips")

      let shared = Names(owner: ann.recordName, zone: "Trips", record: "first", shortGUID: guid)
      let missing = Names(
        owner: "_" + String(UUID().uuidString.replacing("-", with: "").lowercased()), zone: "Nowhere", record: "gone",
        shortGUID: String(guid.dropLast(4)) + "zzzz")
      try await expectNothing("a stranger", stranger, shared, missing)
      try await expectNothing("who was removed", removed, shared, missing)
      let elsewhere = try await App(installation, container: "iCloud.org.example.other", model: model)
      // The same user with another app's credentials.
      try await expectNothing(
        "another container's user", User(app: elsewhere, recordName: cem.recordName, token: cem.token), shared, missing)

      // A user who may only read: everything can be read, nothing changed.
      for call in try Self.calls() {
        guard let body = try Self.body(of: call, shared),
          call.hasSuffix("modify") || call.hasPrefix("records/") || call.hasPrefix("changes/zone")
        else { continue }
        // Declining the invitation would mean leaving.
        if call == "records/decline" { continue }
        let isPublic = ["records/resolve", "records/accept", "records/requestAccess"].contains(call)
        let answer = try await cem.send(call, body, in: isPublic ? "public" : "shared")
        if call == "records/modify" {
          let codes = try answer.json["records"].elements.map { $0["serverErrorCode"].string }
          // Saving a share requires its change tag, whoever saves it.
          #expect(codes == ["ACCESS_DENIED", "CONFLICT", "ACCESS_DENIED"], "\(answer.text)")
        }
        if call == "records/query" || call == "records/lookup" || call == "changes/zone" {
          #expect(answer.text.contains(Self.secret), "\(call): \(answer.text)")
        }
      }
      let after = try await ann.allRecords(in: "Trips")
      #expect(
        after.records == before.records && after.token == before.token,
        "nothing was changed, not even the zone's sequence")
    }
  }

  /// Removes a participant from the list like the owner's client.
  private func remove(_ user: User, from owner: User, keeping other: User) async throws {
    let found = try await owner.records(
      "records/lookup", ["zoneID": User.zoneID("Trips"), "records": [["recordName": "cloudkit.zoneshare"]]])["records"][
        0]
    let participants = found["participants"].elements.filter {
      $0["userIdentity"]["userRecordName"] != .string(user.recordName)
    }
    let record: Value = [
      "recordName": "cloudkit.zoneshare", "recordType": "cloudkit.share", "recordChangeTag": found["recordChangeTag"],
      "participants": .array(participants),
    ]
    let answer = try await owner.records(
      "records/modify",
      ["zoneID": User.zoneID("Trips"), "operations": [["operationType": "update", "record": record]]])
    guard answer["records"][0]["serverErrorCode"] == .null else { throw Unexpected("remove: \(answer)") }
  }
}
