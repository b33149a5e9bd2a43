// Zones that record clients make beside the stores.

import History
import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import RecordPlane
@testable import ZoneCommit

extension ObjectPlaneWorld {
  /// One call of a record client of alice's.
  @discardableResult
  func callRecords(_ path: String, _ body: String) async throws -> JSONValue {
    let request = DatabaseRequest(
      plane: .record, method: "POST", path: path.split(separator: "/").map(String.init), query: [:],
      database: request("GET", "x").database, scope: .private,
      caller: Caller(userRecordName: "_alice"), requestID: random.uuid(), baseURL: "https://host")
    let answer = try await records.respond(to: request, body: Array(body.utf8), in: store, startNext: {})
    return try JSONValue(parsing: answer.body)
  }

  /// Makes a zone with a photo in it, as a web application does.
  func makeZone(_ zone: String, photo: String) async throws {
    let made = try await callRecords(
      "zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"\#(zone)"}}}]}"#)
    #expect(made["zones"]?.elements.first?["serverErrorCode"] == nil, "\(made.text)")
    try await saveRecord(
      "CD_Photo", photo, #""CD_entityName":{"value":"Photo"},"CD_displayName":{"value":"of \#(zone)"}"#, in: zone)
  }

  func saveRecord(_ type: String, _ name: String, _ fields: String, in zone: String) async throws {
    let saved = try await callRecords(
      "records/modify",
      #"""
      {"operations":[{"operationType":"forceUpdate","record":{"recordType":"\#(type)","recordName":"\#(name)",\#
      "fields":{\#(fields)}}}],"zoneID":{"zoneName":"\#(zone)"}}
      """#
    )
    #expect(saved["records"]?.elements.first?["serverErrorCode"] == nil, "\(saved.text)")
  }

  /// The objects of each of alice's zones, as `name` or `name→target`, ascending.
  func zones() async throws -> [String: [String]] {
    try await store.enqueue { _ in }.value
    let id = request("GET", "x").database
    return try await store.read { snapshot in
      guard let database = try snapshot.database(id) else { return [:] }
      var zones: [String: [String]] = [:]
      for zone in try snapshot.allZones(in: database.key, after: 0) where !zone.isDeleted {
        zones[zone.zoneName] = try snapshot.changes(in: zone.key, after: 0, limit: 1000).filter { !$0.isDeleted }.map {
          row in
          let target = row.record.fields.string("CD_photo") ?? row.record.fields.string(ReservedName.linkRecordNames)
          let name = LinkRecord.isLink(recordType: row.record.recordType) ? "link" : row.record.recordName
          return name + (target.map { "→" + $0 } ?? "")
        }.sorted()
      }
      return zones
    }
  }
}
