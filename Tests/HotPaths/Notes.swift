// The benchmark's records and transactions, the same in every run.

import JSON
import ObjectModel
import Records
import WebServices

enum Notes {
  static let user = "_4a1c8e5f0b3d4e6f8a7b9c0d1e2f3a4b"
  static let zone = Zone.ID(zoneName: "Notes", ownerName: user)
  static let stamp = Stamp(
    timestamp: 1_795_160_004_123, userRecordName: user, deviceID: "6F0C2E61-4B7D-4C5E-8E1B-000000000000")
  static let folder = "0B0C2E61-4B7D-4C5E-8E1B-6F0C2E614B7D"
  static let key = [UInt8](0..<32)

  /// 800 characters that need no escapes in JSON.
  static let text = String(decoding: (0..<800).map { alphabet[$0 * 31 % alphabet.count] }, as: UTF8.self)
  private static let alphabet = Array("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .".utf8)

  static let schema = SchemaIndex(
    Schema(recordTypes: [
      Schema.RecordType(
        name: "CD_Note",
        fields: [
          Schema.Field(name: "CD_entityName", type: .string), Schema.Field(name: "CD_title", type: .string),
          Schema.Field(name: "CD_body", type: .string),
          Schema.Field(name: "CD_moveReceipt", type: .bytes), Schema.Field(name: "CD_createdAt", type: .timestamp),
          Schema.Field(name: "CD_rating", type: .int64), Schema.Field(name: "CD_folder", type: .string),
        ], grants: [])
    ]))

  static let model = ModelIndex(
    ManagedObjectModel(entities: [
      Entity(
        name: "Note",
        attributes: [
          Attribute(name: "title", type: .string), Attribute(name: "body", type: .string),
          Attribute(name: "rating", type: .integer32),
          Attribute(name: "createdAt", type: .date),
        ],
        relationships: [
          Relationship(
            name: "folder", destinationName: "Folder", inverseName: "notes", inverseEntityName: "Folder",
            isToMany: false)
        ]),
      Entity(
        name: "Folder",
        relationships: [
          Relationship(
            name: "notes", destinationName: "Note", inverseName: "folder", inverseEntityName: "Note", isToMany: true)
        ]),
    ]))

  static func name(_ number: Int) -> String {
    let digits = String(number, radix: 16, uppercase: true)
    return "6F0C2E61-4B7D-4C5E-8E1B-" + String(repeating: "0", count: 12 - digits.count) + digits
  }

  /// `records/modify` with `count` creations.
  static func modification(_ count: Int) -> [UInt8] {
    let operations = (0..<count).map { number in
      #"""
      {"operationType":"create","record":{"recordName":"\#(name(number))","recordType":"CD_Note",\#
      "fields":{"CD_entityName":{"value":"Note","type":"STRING"},"CD_title":{"value":"Note \#
      \#(number)","type":"STRING"},"CD_body":{"value":"\#(text)","type":"STRING"},\#
      "CD_moveReceipt":{"value":"AAECAwQFBgcICQoLDA0ODw==","type":"BYTES"},"CD_createdAt":{"value":1790000000000,\#
      "type":"TIMESTAMP"},"CD_rating":{"value":4,"type":"INT64"},"CD_folder":{"value":"\#(folder)","type":"STRING"}}}}
      """#
    }
    return Array(
      #"{"zoneID":{"zoneName":"Notes"},"atomic":true,"operations":[\#(operations.joined(separator: ","))]}"#.utf8)
  }

  /// `stores/{id}/transactions` with one transaction of five inserts.
  static let transactions: [UInt8] = {
    let changes = (0..<5).map { number in
      #"""
      {"changeType":"insert","entity":"Note","objectID":"\#(name(number))","attributes":{"title":"Note \#
      \#(number)","body":"\#(text)","createdAt":"2026-11-20T07:33:24.123Z","rating":4},\#
      "relationships":{"folder":"\#(folder)"}}
      """#
    }
    return Array(
      #"""
      {"transactions":[{"transactionID":"\#(name(9))","timestamp":"2026-11-20T07:33:24.123Z","author":"load",\#
      "changes":[\#(changes.joined(separator: ","))]}]}
      """#
      .utf8)
  }()

  static func request(_ body: [UInt8]) throws -> ModifyRecordsRequest {
    try ModifyRecordsRequest(JSONValue.request(body), zone: zone, schema: schema) { "" }
  }

  /// Records as a worker has them after its decisions on creations.
  static func records(_ count: Int) throws -> [Record] {
    try request(modification(count)).operations.map { operation in
      guard case .save(let record) = try operation.decision(meeting: nil, stamp: stamp) else {
        fatalError("a creation saves")
      }
      return record
    }
  }

  static var links: RecordDictionaryWriter.AssetLinks {
    RecordDictionaryWriter.AssetLinks(
      baseURL: "https://sync.example.org", signingKey: key, expiry: 1_795_160_900, shard: 3)
  }
}
