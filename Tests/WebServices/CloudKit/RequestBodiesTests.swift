import JSON
import Records
import Testing

@testable import WebServices

@Suite struct `Bodies of lookups, feeds and zones` {
  @Test func `a lookup keeps the order, repeats included, and overrides by item`() throws {
    let request = try LookupRecordsRequest(
      try Wire.json(
        #"{"records":[{"recordName":"b"},{"recordName":"a","desiredKeys":["x"]},{"recordName":"b"}],"desiredKeys":[]}"#)
    )
    #expect(request.items.map(\.recordName) == ["b", "a", "b"])
    #expect(request.items.map(\.presentation.desiredKeys) == [DesiredKeys([]), DesiredKeys(["x"]), DesiredKeys([])])
    #expect(
      try Wire.reason { _ = try LookupRecordsRequest(try Wire.json(#"{"records":[{}]}"#)) }
        == "records[0]: recordName is missing")
  }

  @Test func `keys of changes/zone hold for every zone that does not say otherwise`() throws {
    let zones = try ZoneChangesRequest.zones(
      of: try Wire.json(
        """
        {"zones":[{"zoneID":{"zoneName":"A"},"syncToken":"t","resultsLimit":5,"reverse":true},
                  {"zoneID":{"zoneName":"B","ownerRecordName":"_bob"},"desiredRecordTypes":["Task"],\
        "numberAsStrings":false},
                  {"zoneID":{"zoneName":"C","ownerRecordName":"__defaultOwner__"},"syncToken":"","desiredKeys":["y"]}],
         "resultsLimit":400,"desiredKeys":["x"],"desiredRecordTypes":["Note"],"numbersAsStrings":true,"unknown":{}}
        """))
    #expect(
      zones.map(\.zone) == [
        .init(zoneName: "A", ownerRecordName: nil), .init(zoneName: "B", ownerRecordName: "_bob"),
        .init(zoneName: "C", ownerRecordName: nil),
      ])
    #expect(zones.map(\.position) == [.token("t"), .beginning, .caughtUp])
    #expect(zones.map(\.resultsLimit) == [5, 200, 200])
    #expect(zones.map(\.isReversed) == [true, false, false])
    #expect(zones.map(\.desiredRecordTypes) == [["Note"], ["Task"], ["Note"]])
    #expect(zones.map(\.presentation.numbersAsStrings) == [true, false, true])
    #expect(zones.map(\.presentation.desiredKeys) == [DesiredKeys(["x"]), DesiredKeys(["x"]), DesiredKeys(["y"])])
  }

  @Test(arguments: [
    ("{}", "zones is missing"), (#"{"zones":[{}]}"#, "zones[0]: zoneID is missing"),
    (#"{"zones":[{"zoneID":7}]}"#, "zones[0]: zoneID must be an object"),
    (#"{"zones":[{"zoneID":{"zoneName":7}}]}"#, "zones[0]: zoneName must be a string"),
    (#"{"zones":[{"zoneID":{"zoneName":"A"},"syncToken":7}]}"#, "zones[0]: syncToken must be a string"),
    (#"{"zones":[],"resultsLimit":0}"#, "resultsLimit must be positive"),
    (#"{"zones":[],"resultsLimit":"many"}"#, "resultsLimit must be an integer"),
    (#"{"zones":[],"reverse":"yes"}"#, "reverse must be true or false"),
    (#"{"zones":[],"desiredRecordTypes":[{}]}"#, "desiredRecordTypes[0] must be a string"),
  ])
  func `a malformed changes/zone is refused`(text: String, reason: String) throws {
    #expect(try Wire.reason { _ = try ZoneChangesRequest.zones(of: try Wire.json(text)) } == reason)
  }

  @Test func `the database feed reads both spellings of its token`() throws {
    #expect(try DatabaseChangesRequest(try Wire.json("")).position == .beginning)
    #expect(try DatabaseChangesRequest(try Wire.json(#"{"syncToken":"t"}"#)).position == .token("t"))
    #expect(
      try DatabaseChangesRequest(try Wire.json(#"{"metaSyncToken":"m","resultsLimit":3}"#)).position == .token("m"))
    #expect(try DatabaseChangesRequest(try Wire.json(#"{"metaSyncToken":"m","resultsLimit":3}"#)).resultsLimit == 3)
    #expect(try DatabaseChangesRequest(try Wire.json(#"{"syncToken":""}"#)).position == .caughtUp)
  }

  @Test(arguments: ["_defaultOwner", "__defaultOwner__"])
  func `the default owner means the caller`(owner: String) throws {
    #expect(
      try ZoneReference(try Wire.json(#"{"zoneName":"Trips","ownerRecordName":"\#(owner)"}"#))
        == ZoneReference(zoneName: "Trips", ownerRecordName: nil))
  }

  @Test(arguments: [
    "{}", #"{"zoneID":null}"#, #"{"zoneID":{}}"#, #"{"zoneID":{"zoneName":"_defaultZone"}}"#,
    #"{"zoneID":"_defaultZone"}"#,
  ])
  func `no zone means the default zone`(text: String) throws {
    #expect(try ZoneReference(of: try Wire.json(text)) == .defaultZone)
  }

  @Test func `zone operations are read, and the default zone is beyond them`() throws {
    let operations = try ZoneOperation.operations(
      of: try Wire.json(
        #"""
        {"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"A"}}},{"operationType":"delete",\#
        "zone":{"zoneID":"_defaultZone"}},{"operationType":"create","zone":{"zoneID":{"zoneName":"_x"}}}]}
        """#
      ))
    #expect(
      operations.map(\.problem?.reason) == [
        nil, "the default zone can't be created or deleted", "zoneName '_x' starts with '_', which is reserved",
      ])
  }

  @Test(arguments: [
    ("{}", "operations is missing"),
    (#"{"operations":[{"operationType":"create"}]}"#, "operations[0]: zone is missing"),
    (#"{"operations":[{"operationType":"create","zone":{}}]}"#, "operations[0]: zone.zoneID is missing"),
    (
      #"{"operations":[{"operationType":"rename","zone":{"zoneID":"A"}}]}"#,
      "operations[0]: unknown operationType 'rename'"
    ),
    (
      #"""
      {"operations":[{"operationType":"create","zone":{"zoneID":"A"}},{"operationType":"delete","zone":{"zoneID":"A"}}]}
      """#,
      "You can't modify the zone 'A' twice in one request"
    ),
  ])
  func `a malformed zones/modify is refused`(text: String, reason: String) throws {
    #expect(try Wire.reason { _ = try ZoneOperation.operations(of: try Wire.json(text)) } == reason)
  }

  @Test func `zones/lookup takes bare zone IDs`() throws {
    let zones = try LookupZonesRequest.zones(
      of: try Wire.json(#"{"zones":[{"zoneName":"A"},{"zoneID":{"zoneName":"B"}},{}]}"#))
    #expect(
      zones == [.init(zoneName: "A", ownerRecordName: nil), .init(zoneName: "B", ownerRecordName: nil), .defaultZone])
  }

  @Test func `the error dictionary has a uuid, its items have none`() throws {
    let error = RecordError(
      .authenticationRequired, "request needs \"authorization\"", retryAfter: 5, redirectURL: "https://host/signin")
    #expect(
      String(decoding: error.dictionary(uuid: "U"), as: UTF8.self)
        == #"""
        {"uuid":"U","serverErrorCode":"AUTHENTICATION_REQUIRED","reason":"request needs \#
        \"authorization\"","retryAfter":5,"redirectURL":"https://host/signin"}
        """#
    )
    var writer = JSONWriter()
    RecordDictionaryWriter.writeError(RecordError(.notFound, "Record not found"), of: "zzz", to: &writer)
    #expect(
      String(decoding: writer.bytes, as: UTF8.self)
        == #"{"recordName":"zzz","serverErrorCode":"NOT_FOUND","reason":"Record not found"}"#)
  }

  @Test func `a record dictionary has every key of an answer`() throws {
    let record = Record(
      recordName: "a/1", recordType: "Note", fields: ["title": .string("A")], created: Wire.stamp, modified: Wire.later,
      parent: "root", shortGUID: "0abc")
    var writer = JSONWriter()
    Wire.writer.write(record, tag: RecordChangeTag(sequence: 52), as: .complete, to: &writer)
    Wire.writer.writeTombstone("b", to: &writer)
    #expect(
      String(decoding: writer.bytes, as: UTF8.self)
        == #"""
        {"recordName":"a/1","recordType":"Note","fields":{"title":{"value":"A","type":"STRING"}},"pluginFields":{},\#
        "recordChangeTag":"1g","created":{"timestamp":1700000000000,"userRecordName":"_alice","deviceID":"1"},\#
        "modified":{"timestamp":1700000001000,"userRecordName":"_bob","deviceID":"1"},"deleted":false,\#
        "parent":{"recordName":"root"},"shortGUID":"0abc","zoneID":\#(Wire.zoneJSON)},{"recordName":"b",\#
        "deleted":true,"zoneID":\#(Wire.zoneJSON)}
        """#
    )
  }

  @Test func `the public database's zone belongs to nobody in particular`() {
    let zone = Zone.ID(zoneName: ReservedName.defaultZone, ownerName: DatabaseID.publicOwner)
    #expect(
      String(decoding: zone.json, as: UTF8.self)
        == #"{"zoneName":"_defaultZone","ownerRecordName":"_defaultOwner","zoneType":"DEFAULT_ZONE"}"#)
  }
}
