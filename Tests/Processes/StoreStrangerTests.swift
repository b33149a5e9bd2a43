// Users without access, at every call of the object plane: they read and change nothing, and can't tell a shared object
// from a missing one.

import Foundation
import Testing

@Suite(.serialized) struct StoreStrangerTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let secret = "nobody but Ann and Cem"

  /// The names of a shared graph, or of one that does not exist.
  private struct Names: Sendable {
    let store: String
    let owner: String
    let zone: String
    let object: String
    let shortGUID: String

    var zoneID: Value { ["zoneName": .string(zone), "ownerRecordName": .string(owner)] }

    /// The text with placeholders in place of the names.
    func stripped(_ text: String) -> String {
      var text = text
      for (name, placeholder) in [
        (store, "STORE"), (owner, "OWNER"), (zone, "ZONE"), (object, "OBJECT"), (shortGUID, "GUID"),
      ] {
        text = text.replacingOccurrences(of: name, with: placeholder)
      }
      for key in [
        "uuid", "historyToken", "importToken", "syncToken", "identifier", "startDate", "endDate", "lastExport",
        "lastImport", "transactionID",
      ] {
        text = text.replacing(try! Regex("\"\(key)\":(\"[^\"]*\"|null)"), with: "\"\(key)\":…")
      }
      return text.replacing(/"transactionNumber":\d+/, with: "NUMBER").replacing(
        /[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}/, with: "UUID")
    }
  }

  private struct Call {
    let method: String
    let path: String
    var body: Value?
  }

  /// All calls below a store that can name a part of the graph.
  private static func calls(_ names: Names) -> [Call] {
    let (object, text) = (Value.string(names.object), names.object)
    func save(_ changes: Value...) -> Call {
      Call(method: "POST", path: "/transactions?wait=export", body: Device.transactions(changes, id: UUID().uuidString))
    }
    return [
      Call(method: "GET", path: "/changes"), Call(method: "GET", path: "/history"),
      Call(method: "GET", path: "/events"), Call(method: "GET", path: "/status"),
      Call(method: "GET", path: "/consumers"), Call(method: "GET", path: "/quarantine"),
      Call(method: "GET", path: "/conflicts"),
      Call(method: "GET", path: "/conflicts?objectID=\(text)"),
      Call(method: "POST", path: "/conflicts/1/restore", body: [:]),
      Call(method: "POST", path: "/conflicts/1/resolve", body: ["pick": "client"]),
      Call(method: "GET", path: "/audit?record=\(text)&zone=\(names.zone)"),
      Call(method: "GET", path: "/objects/\(text)"), Call(method: "GET", path: "/objects/\(text)/explain"),
      Call(method: "POST", path: "/records", body: ["objectIDs": [object]]),
      Call(method: "POST", path: "/permissions", body: ["objectIDs": [object]]),
      Call(method: "GET", path: "/shares"), Call(method: "GET", path: "/shares?objectID=\(text)"),
      Call(method: "POST", path: "/shares", body: ["objectIDs": [object], "to": nil, "title": "mine"]),
      Call(method: "POST", path: "/shares", body: ["objectIDs": [object], "to": names.zoneID]),
      Call(method: "POST", path: "/move", body: ["objectIDs": [object], "to": nil]),
      Call(method: "POST", path: "/move", body: ["objectIDs": [object], "to": names.zoneID]),
      Call(method: "POST", path: "/accept", body: ["shortGUIDs": [["value": .string(names.shortGUID)]]]),
      save(["changeType": "update", "entity": "Post", "objectID": object, "attributes": ["title": "taken over"]]),
      save(["changeType": "delete", "entity": "Post", "objectID": object]),
      save([
        "changeType": "insert", "entity": "Attachment", "objectID": .string(UUID().uuidString),
        "relationships": ["post": object],
      ]),
      Call(method: "POST", path: "/zones/\(names.zone)/resume", body: ["action": "delete"]),
      Call(method: "POST", path: "/purge", body: ["zoneID": names.zoneID]),
      Call(method: "POST", path: "/purge", body: ["zoneID": names.zoneID, "keepCopy": true]),
      Call(method: "POST", path: "/quarantine/retry", body: [:]),
    ]
  }

  /// Tries all calls with the names of a share and with names of nothing, and compares the answers.
  /// - Parameter where: selects the calls to try.
  private func expectNothing(
    _ who: String, _ user: User, at store: String?, in databases: [String] = ["shared", "private"], _ shared: Names,
    _ missing: Names,
    where isTried: (Call) -> Bool = { _ in true }
  ) async throws {
    for database in databases {
      for (call, other) in zip(Self.calls(shared), Self.calls(missing)) where isTried(call) {
        let found = try await Device(user: user, store: store ?? shared.store, database: database).send(
          call.method, call.path, call.body)
        let absent = try await Device(user: user, store: store ?? missing.store, database: database).send(
          other.method, other.path, other.body)
        let place = "\(who), \(database)/\(call.method) \(call.path) \(call.body.map { "\($0)" } ?? "")"
        #expect(found.status == absent.status, "\(place): \(found.text) and \(absent.text)")
        #expect(shared.stripped(found.text) == missing.stripped(absent.text), "\(place)")
        #expect(!found.text.contains(Self.secret), "\(place): \(found.text)")
      }
    }
  }

  @Test(.timeLimit(.minutes(3)))
  func
    `T-P06 T-P19 strangers, removed people, readers and other containers' users learn and change nothing by stores`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: Self.model)
      let (ann, cem, removed, stranger) = (
        try await app.user("ann"), try await app.user("cem"), try await app.user("removed"),
        try await app.user("stranger")
      )
      let device = try await ann.device("phone")
      let object = UUID().uuidString
      let tag = UUID().uuidString
      try await device.save([
        MainJob.insert("Tag", tag, ["name": "sea"]),
        MainJob.insert("Post", object, ["title": .string(Self.secret)], ["tags": [.string(tag)]]),
      ])
      let participants = [(cem, "READ_ONLY"), (removed, "READ_WRITE")].map { user, permission -> Value in
        [
          "type": "USER", "permission": .string(permission),
          "userIdentity": ["lookupInfo": ["userRecordName": .string(user.recordName)]],
        ]
      }
      let made = try await device.call(
        "POST", "/shares",
        ["objectIDs": [.string(object)], "to": nil, "title": "Trip", "participants": .array(participants)])
      let (guid, zone) = (
        try #require(made["share"]["shortGUID"].string), try #require(made["zoneID"]["zoneName"].string)
      )
      var stores: [String: Device] = [:]
      for (name, user) in [("cem", cem), ("removed", removed)] {
        let theirs = try await user.device("tablet", in: "shared")
        let answer = try await theirs.call("POST", "/accept", ["shortGUIDs": [["value": .string(guid)]]])
        #expect(answer["results"][0]["participantStatus"] == "ACCEPTED", "\(answer)")
        #expect(try await theirs.importedGraph().graph.objects[object]?.attributes["title"] == .string(Self.secret))
        stores[name] = theirs
      }
      try await remove(removed, from: ann, zone: zone)
      let afterwards = UUID().uuidString
      try await device.save([
        MainJob.insert("Post", afterwards, ["title": .string(Self.secret)], ["tags": [.string(tag)]])
      ])
      let before = try await ann.allRecords(in: zone)

      let shared = Names(store: device.store, owner: ann.recordName, zone: zone, object: object, shortGUID: guid)
      let missing = Names(
        store: UUID().uuidString, owner: "_" + UUID().uuidString.replacing("-", with: "").lowercased(), zone: "Nowhere",
        object: UUID().uuidString,
        shortGUID: String(guid.dropLast(4)) + "zzzz")
      let elsewhere = try await App(installation, container: "iCloud.org.example.other", model: Self.model)
      // The same user with another app's credentials.
      let foreign = User(app: elsewhere, recordName: cem.recordName, token: cem.token)
      for (who, user) in [
        ("a stranger", stranger), ("who was removed", removed), ("another container's user", foreign),
      ] {
        // At the owner's store, by its name; then at a store of the user's own.
        try await expectNothing(who, user, at: nil, shared, missing)
        for database in ["shared", "private"] where user.recordName != removed.recordName || database == "private" {
          try await expectNothing(
            who, user, at: user.device("own", in: database).store, in: [database], shared, missing)
        }
      }
      // A store that had the object is told only that it was lost; it can't know of later objects.
      let former = try #require(stores["removed"])
      for call in Self.calls(shared) {
        let answer = try await former.send(call.method, call.path, call.body)
        #expect(!answer.text.contains(Self.secret), "who was removed, \(call.method) \(call.path): \(answer.text)")
      }
      let later = Names(store: former.store, owner: ann.recordName, zone: zone, object: afterwards, shortGUID: guid)
      let never = Names(
        store: former.store, owner: missing.owner, zone: missing.zone, object: missing.object,
        shortGUID: missing.shortGUID)
      try await expectNothing("who was removed", removed, at: former.store, in: ["shared"], later, never) { call in
        let text = "\(call.path) \(call.body.map { "\($0)" } ?? "")"
        return text.contains(afterwards) && !text.contains(zone)
      }

      // A user who may only read: everything can be read, nothing changed.
      let reader = try #require(stores["cem"])
      for call in Self.calls(shared) where call.path != "/purge" && call.path != "/accept" {
        _ = try await reader.send(call.method, call.path, call.body)
      }
      let allowed = try await reader.call("POST", "/permissions", ["objectIDs": [.string(object)]])
      #expect(allowed["objects"][0]["canUpdate"] == false && allowed["objects"][0]["canDelete"] == false, "\(allowed)")
      #expect(try await reader.importedGraph().graph.objects[object]?.attributes["title"] == .string(Self.secret))
      let after = try await ann.allRecords(in: zone)
      #expect(
        after.records == before.records && after.token == before.token,
        "nothing was changed, not even the zone's sequence")
    }
  }

  /// Removes a participant from the list like the owner's client.
  private func remove(_ user: User, from owner: User, zone: String) async throws {
    let zoneID: Value = ["zoneName": .string(zone)]
    let found = try await owner.records(
      "records/lookup", ["zoneID": zoneID, "records": [["recordName": "cloudkit.zoneshare"]]])["records"][0]
    let participants = found["participants"].elements.filter {
      $0["userIdentity"]["userRecordName"] != .string(user.recordName)
    }
    let record: Value = [
      "recordName": "cloudkit.zoneshare", "recordType": "cloudkit.share", "recordChangeTag": found["recordChangeTag"],
      "participants": .array(participants),
    ]
    let answer = try await owner.records(
      "records/modify", ["zoneID": zoneID, "operations": [["operationType": "update", "record": record]]])
    guard answer["records"][0]["serverErrorCode"] == .null else { throw Unexpected("remove: \(answer)") }
  }
}
