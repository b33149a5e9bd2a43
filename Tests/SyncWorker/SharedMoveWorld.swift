// Owners and participants who move objects between shared zones.

import History
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import Synchronization
import Testing
import WebServices

@testable import WorkerHost
@testable import ZoneCommit

extension SharedWorld {
  /// A call on alice's own store.
  func own(_ method: String, _ path: String = "", _ body: String = "", query: [String: String] = [:], id: String? = nil)
    async throws -> PlaneReply
  {
    let request = DatabaseRequest(
      plane: .object, method: method, path: ["stores", "A"] + path.split(separator: "/").map(String.init), query: query,
      database: Self.database("_alice"),
      scope: .private, caller: Caller(userRecordName: "_alice"), requestID: id ?? random.uuid(), baseURL: "https://host"
    )
    do {
      let answer = try await plane.respond(to: request, body: Array(body.utf8), in: store(of: "_alice"), startNext: {})
      return PlaneReply(status: answer.status, bytes: answer.body, json: try JSONValue(parsing: answer.body))
    } catch let error as RecordError {
      let bytes = error.mirrorDictionary(uuid: "uuid")
      return PlaneReply(status: error.status, bytes: bytes, json: try JSONValue(parsing: bytes))
    }
  }

  /// Alice's store, with a photo P that has a rating R and a tag T, and a photo of its own.
  func setUpOwner() async throws {
    let made = try await own("PUT", "", #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)","device":{"name":"mac"}}"#)
    try #require(made.status == 200, "\(made.text)")
    let changes = [
      objectChange("insert", "Photo", "P", #""tags":["T"]"#, #""displayName":"dunes""#),
      objectChange("insert", "Rating", "R", #""photo":"P""#, #""value":3"#),
      objectChange("insert", "Tag", "T", "", #""name":"desert""#),
      objectChange("insert", "Photo", "alone", "", #""displayName":"alone""#),
    ]
    try await ownSave(changes.joined(separator: ","))
  }

  func ownSave(_ changes: String) async throws {
    let transaction =
      #"""
      {"transactionID":"\#(random.uuid())","timestamp":"2026-11-20T07:33:24.123Z","author":"app",\#
      "changes":[\#(changes)]}
      """#
    let saved = try await own("POST", "transactions", #"{"transactions":[\#(transaction)]}"#, query: ["wait": "export"])
    try #require(saved.status == 200 && saved.json["event"]?["succeeded"]?.bool == true, "\(saved.text)")
  }

  /// Shares objects of alice's by a graph's share, with people who accept the invitation in their stores.
  /// - Returns: the zone.
  @discardableResult
  func ownShare(
    _ objectID: String, with users: [String] = ["_bob"], _ permission: String = "READ_WRITE", accepts: Bool = true
  ) async throws -> (
    zone: String, shortGUID: String
  ) {
    let people = users.map { #"{"userIdentity":{"userRecordName":"\#($0)"},"permission":"\#(permission)"}"# }.joined(
      separator: ",")
    let shared = try await own(
      "POST", "shares", #"{"objectIDs":["\#(objectID)"],"to":null,"participants":[\#(people)]}"#)
    let zone = try #require(shared.json["zoneID"]?["zoneName"]?.string, "\(shared.text)")
    let guid = try #require(shared.json["share"]?["shortGUID"]?.string)
    if accepts { for user in users { try await accept(guid, by: user) } }
    return (zone, guid)
  }

  func accept(_ guid: String, by user: String = "_bob") async throws {
    let accepted = try await send("POST", "accept", [:], #"{"shortGUIDs":[{"value":"\#(guid)"}]}"#, user: user)
    let result = try #require(accepted.json["results"]?.elements.first, "\(accepted.text)")
    try #require(result["serverErrorCode"] == nil, "\(accepted.text)")
  }

  func ownMove(_ objectID: String, to zone: String?) async throws {
    let target = zone.map { #"{"zoneName":"\#($0)"}"# } ?? "null"
    let moved = try await own("POST", "move", #"{"objectIDs":["\#(objectID)"],"to":\#(target)}"#)
    try #require(moved.status == 200, "\(moved.text)")
  }

  /// Two zones, P and what belongs to it in the first; `other` keeps the second one alive.
  func setUpTwoZones(_ seen: Set<String>) async throws -> (first: String, second: String) {
    try await setUpOwner()
    try await setUp()
    try await ownSave(objectChange("insert", "Photo", "other", "", #""displayName":"other""#))
    let first = try await ownShare("P", with: seen.contains("first") ? ["_bob"] : []).zone
    let second = try await ownShare("other", with: seen.contains("second") ? ["_bob"] : []).zone
    return (first, second)
  }

  func hold(_ changes: String) async throws {
    schemas.userQuotas.withLock { $0 = ["_alice": 10] }
    let saved = try await save(changes)
    try #require(saved.status == 200, "\(saved.text)")
  }

  func endHold() async throws {
    schemas.userQuotas.withLock { $0 = [:] }
    #expect(try await send("POST", "quarantine/retry").json["retried"]?.int64 == 1)
    // With the guest's next export.
    #expect(try await save(objectChange("update", "Photo", "other", "", #""displayName":"edited""#)).status == 200)
  }

  /// In which of alice's zones something of a name lives.
  func zones(with name: String) async throws -> [String] {
    let store = try store(of: "_alice")
    return try await store.read { snapshot in
      guard let row = try snapshot.database(Self.database("_alice")) else { return [] }
      return try snapshot.allZones(in: row.key, after: 0).filter { zone in
        try !zone.isDeleted && snapshot.record(named: name, in: zone.key)?.isDeleted == false
      }.map(\.zoneName).sorted()
    }
  }
}

/// Where a client has its objects; with a zone those go that it has there.
struct ZonedCopy {
  private(set) var zones: [String: String] = [:]

  mutating func apply(_ changes: [JSONValue]) {
    for change in changes {
      let (id, zone) = (change["objectID"]?.string ?? "", change["zoneID"]?["zoneName"]?.string)
      switch change["changeType"]?.string {
      case "save": zones[id] = zone
      case "move": zones[id] = change["to"]?["zoneName"]?.string
      case "delete": zones[id] = nil
      case "zone": zones = zones.filter { $0.value != zone }
      default: break
      }
    }
  }
}

extension ModelSchemas {
  /// The model, with edits of an entity's objects that win over their deletions.
  func letEditsWin(of entity: String) {
    var model = PhotoModel.model
    for index in model.entities.indices where model.entities[index].name == entity {
      model.entities[index].userInfo[ReservedName.deletePolicyKey] = "editWins"
    }
    forgetModels(in: .development)
    add(model, to: .development)
  }
}
