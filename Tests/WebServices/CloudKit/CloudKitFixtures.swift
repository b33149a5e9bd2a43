// Shared parts of the record plane tests: a zone, a schema, and shortcuts from text to values and back.

import JSON
import ObjectModel
import Records
import Testing

@testable import WebServices

enum Wire {
  static let zone = Zone.ID(zoneName: "Trips", ownerName: "_alice")
  static let zoneJSON = #"{"zoneName":"Trips","ownerRecordName":"_alice","zoneType":"REGULAR_CUSTOM_ZONE"}"#
  static let stamp = Stamp(timestamp: 1_700_000_000_000, userRecordName: "_alice", deviceID: "1")
  static let later = Stamp(timestamp: 1_700_000_001_000, userRecordName: "_bob", deviceID: "1")

  /// `Note` with a field of every type, named after it: `int64`, `stringList`, …; `secret` is encrypted.
  static let schema: SchemaIndex = {
    var fields = FieldType.allCases.map { Schema.Field(name: "\($0)", type: $0) }
    fields.append(Schema.Field(name: "secret", type: .string, isEncrypted: true))
    fields.append(Schema.Field(name: "cipher", type: .bytes, isEncrypted: true))
    return SchemaIndex(Schema(recordTypes: [Schema.RecordType(name: "Note", fields: fields, grants: [])]))
  }()

  static func json(_ text: String) throws -> JSONValue { try JSONValue.request(Array(text.utf8)) }

  static func modify(_ text: String, schema: SchemaIndex = schema, recordTypes: [String: String] = [:]) throws
    -> ModifyRecordsRequest
  {
    var count = 0
    return try ModifyRecordsRequest(try json(text), zone: zone, schema: schema, recordTypes: recordTypes) {
      count += 1
      return "NEW-\(count)"
    }
  }

  /// The fields of one `create` of a `Note`, sent as the given JSON.
  static func fields(_ text: String, schema: SchemaIndex = schema) throws -> Fields {
    let request = try modify(
      #"{"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"a","fields":\#(text)}}]}"#,
      schema: schema)
    let patch = try request.operations[0].patch.get()
    var fields = Fields()
    for change in patch.changes { fields[change.name] = change.field }
    return fields
  }

  static let writer = RecordDictionaryWriter(
    zone: zone,
    assets: RecordDictionaryWriter.AssetLinks(
      baseURL: "https://host", signingKey: Array("key".utf8), expiry: 1_700_000_900, shard: 3))

  /// A record's `fields` as an answer shows them.
  static func text(of fields: Fields, as presentation: RecordPresentation = .complete) throws -> String {
    let record = Record(recordName: "a", recordType: "Note", fields: fields, created: stamp, modified: stamp)
    var output = JSONWriter()
    writer.write(record, tag: RecordChangeTag(sequence: 1), as: presentation, to: &output)
    var fieldsOnly = JSONWriter()
    fieldsOnly.value(try #require(JSONValue(parsing: output.bytes)["fields"]))
    return String(decoding: fieldsOnly.bytes, as: UTF8.self)
  }

  static func reason(_ body: () throws -> Void) throws -> String {
    let error = try #require(throws: RecordError.self) { try body() }
    #expect(error.code == .badRequest)
    return error.reason
  }
}
