// A world of unique tags with photos, for tests of merging.

import FixedClocks
import JSON
import Mirroring
import ObjectModel
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
import WebServices
@testable import ZoneActions
@testable import ZoneCommit

/// Changes of the photo model, as devices send them.
enum Edit {
  static func insertTag(_ id: String, _ name: String = "x") -> String {
    #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
  }
  static func renameTag(_ id: String, _ name: String) -> String {
    #"{"changeType":"update","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
  }
  static func insertPhoto(_ id: String, tags: [String] = []) -> String {
    #"""
    {"changeType":"insert","entity":"Photo","objectID":"\#(id)","attributes":{"displayName":"\#(id)"},\#
    "relationships":{"tags":\#(list(tags))}}
    """#
  }
  static func setTags(_ photo: String, _ value: String) -> String {
    #"{"changeType":"update","entity":"Photo","objectID":"\#(photo)","relationships":{"tags":\#(value)}}"#
  }
  static func delete(_ entity: String, _ id: String) -> String {
    #"{"changeType":"delete","entity":"\#(entity)","objectID":"\#(id)"}"#
  }
  static func list(_ names: [String]) -> String { "[" + names.map { #""\#($0)""# }.joined(separator: ",") + "]" }
}

extension ObjectPlaneWorld {
  func declareTags(_ policy: EnvironmentRules.Unique.Policy = .mergeLowestUUID) {
    schemas.declare(EnvironmentRules.Unique(entity: "Tag", attributes: ["name"], policy: policy))
  }

  /// Saves, exports, and lets time go by.
  @discardableResult
  func export(_ store: String, _ changes: String..., user: String = "_alice", scope: DatabaseScope = .private)
    async throws -> PlaneReply
  {
    let reply = try await save(
      store, changes.joined(separator: ","), query: ["wait": "export"], user: user, scope: scope)
    clock.advance(by: 1000)
    return reply
  }

  /// The live tags as `name of the record=its name`, ascending.
  func tags() async throws -> [String] {
    try await liveRecords().filter { $0.recordType == "CD_Tag" }.map {
      "\($0.recordName)=\($0.fields.string("CD_name") ?? "")"
    }
  }

  /// The live pairs as `photo:tag`, ascending.
  func pairs() async throws -> [String] {
    try await liveRecords().filter { $0.recordType == "CDMR" }.compactMap { $0.fields.string("CD_recordNames") }
      .sorted()
  }

  func redirect(of name: String, zone: String = ReservedName.privateMirrorZone) async throws -> StoredRedirect? {
    let database = request("GET", "stores/x").database
    return try await store.read { snapshot in
      guard let row = try snapshot.database(database), let zone = try snapshot.zone(named: zone, in: row.key) else {
        return nil
      }
      return try snapshot.redirect(of: name, in: zone.key)
    }
  }

  /// Records saved or deleted over the record plane, in one request.
  func modify(
    _ operations: String..., zone: String = ReservedName.privateMirrorZone, user: String = "_alice",
    scope: DatabaseScope = .private, isAtomic: Bool = false
  ) async throws -> PlaneReply {
    let owner = scope == .public ? DatabaseID.publicOwner : user
    let request = DatabaseRequest(
      plane: .record, method: "POST", path: ["records", "modify"], query: [:],
      database: DatabaseID(container: Self.container, environment: .development, owner: owner), scope: scope,
      caller: Caller(userRecordName: user),
      requestID: "gateway:\(random.uuid())", baseURL: "https://host")
    let body =
      #"""
      {"operations":[\#(operations.joined(separator: ","))],\#
      "zoneID":{"zoneName":"\#(zone)"}\#(isAtomic ? "" : #","atomic":false"#)}
      """#
    do {
      let answer = try await records.respond(to: request, body: Array(body.utf8), in: store, startNext: {})
      return PlaneReply(status: answer.status, bytes: answer.body, json: try JSONValue(parsing: answer.body))
    } catch let error as RecordError {
      let bytes = error.dictionary(uuid: "uuid")
      return PlaneReply(status: error.status, bytes: bytes, json: try JSONValue(parsing: bytes))
    }
  }

  /// Runs the background's rounds until they find nothing to do.
  func settleDuplicates() async throws {
    for _ in 0..<100 {
      // Each commit is followed by a slice of an index that is being filled in.
      for _ in 0..<20 { try await store.enqueue { _ in }.value }
      if await duplicates.advance(store) {
        clock.advance(by: 1000)
        return
      }
    }
    Issue.record("duplicates were never settled")
  }
}

/// An operation of records/modify on a tag.
func tagOperation(_ kind: String, _ id: String, name: String = "x") -> String {
  kind == "forceDelete"
    ? #"{"operationType":"forceDelete","record":{"recordName":"\#(id)"}}"#
    : #"""
    {"operationType":"\#(kind)","record":{"recordName":"\#(id)","recordType":"CD_Tag",\#
    "fields":{"CD_entityName":{"value":"Tag"},"CD_name":{"value":"\#(name)"}}}}
    """#
}

func linkOperation(_ name: String, _ photo: String, _ tag: String) -> String {
  #"""
  {"operationType":"create","record":{"recordName":"\#(name)","recordType":"CDMR",\#
  "fields":{"CD_entityNames":{"value":"Photo:Tag"},"CD_relationships":{"value":"tags:photos"},\#
  "CD_recordNames":{"value":"\#(photo):\#(tag)"}}}}
  """#
}
