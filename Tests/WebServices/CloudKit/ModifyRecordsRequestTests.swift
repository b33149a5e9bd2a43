import JSON
import ObjectModel
import Records
import Testing

@testable import WebServices

@Suite struct `The body of records/modify` {
  @Test func `operations keep their order, and inherit what the request says`() throws {
    let request = try Wire.modify(
      """
      {"atomic":false,"desiredKeys":["string"],"numbersAsStrings":true,"operations":[
        {"operationType":"create","record":{"recordType":"Note","fields":{"string":{"value":"x"}}}},
        {"operationType":"update","record":{"recordType":"Note","recordName":"b","recordChangeTag":"1g",\
      "parent":{"recordName":"a"}},"desiredKeys":["int64"]},
        {"operationType":"forceDelete","record":{"recordName":"c","fields":{"nonsense":7}},"numbersAsStrings":false}]}
      """)
    #expect(request.isAtomic == false)
    #expect(request.operations.map(\.recordName) == ["NEW-1", "b", "c"])
    #expect(request.operations.map(\.kind) == [.create, .update, .forceDelete])
    #expect(request.operations[1].recordChangeTag == RecordChangeTag(sequence: 52))
    #expect(try request.operations[1].patch.get().parent == .set("a"))
    #expect(try request.operations[2].patch.get() == RecordPatch())
    #expect(request.operations.map(\.presentation.numbersAsStrings) == [true, true, false])
    #expect(request.operations[0].presentation.desiredKeys == DesiredKeys(["string"]))
    #expect(request.operations[1].presentation.desiredKeys == DesiredKeys(["int64"]))
  }

  @Test(arguments: [
    ("", "operations is missing"),
    ("{}", "operations is missing"),
    (#"{"operations":{}}"#, "operations must be an array"),
    (#"{"operations":[7]}"#, "operations[0] must be an object"),
    (#"{"operations":[{}]}"#, "operations[0]: operationType is missing"),
    (#"{"operations":[{"operationType":"upsert","record":{}}]}"#, "operations[0]: unknown operationType 'upsert'"),
    (#"{"operations":[{"operationType":"create"}]}"#, "operations[0]: record is missing"),
    (#"{"operations":[{"operationType":"create","record":[]}]}"#, "operations[0]: record must be an object"),
    (
      #"{"operations":[{"operationType":"update","record":{"recordType":"Note"}}]}"#,
      "operations[0]: record.recordName is missing"
    ),
    (
      #"{"operations":[{"operationType":"create","record":{"recordName":7}}]}"#,
      "operations[0]: recordName must be a string"
    ),
    (
      #"{"operations":[{"operationType":"update","record":{"recordName":"a","recordChangeTag":7}}]}"#,
      "operations[0]: recordChangeTag must be a string"
    ),
    (#"{"operations":[],"atomic":"yes"}"#, "atomic must be true or false"),
    (#"{"operations":[],"desiredKeys":"title"}"#, "desiredKeys must be an array"),
    (#"{"operations":[],"desiredKeys":[1]}"#, "desiredKeys[0] must be a string"),
    (#"{"operations":[],"numbersAsStrings":1}"#, "numbersAsStrings must be true or false"),
    (
      #"""
      {"operations":[{"operationType":"forceDelete","record":{"recordName":"a"}},{"operationType":"forceUpdate",\#
      "record":{"recordType":"Note","recordName":"a"}}]}
      """#,
      "You can't save the same record twice"
    ),
  ])
  func `a malformed request is refused as a whole`(text: String, reason: String) throws {
    #expect(try Wire.reason { _ = try Wire.modify(text) } == reason)
  }

  @Test(arguments: [
    ("[]", "The body must be a JSON object"), ("7", "The body must be a JSON object"),
  ])
  func `a body that is not an object is refused`(text: String, reason: String) throws {
    #expect(try Wire.reason { _ = try Wire.json(text) } == reason)
  }

  @Test(arguments: [
    #"{"a":1"#, #"{"a":1,"a":2}"#, #"{"a":NaN}"#, #"{"a":"\ud800"}"#, "{\"a\":\"\u{1}\"}",
    #"{"a":9223372036854775808}"#, #"{} {}"#,
    String(repeating: #"{"a":"#, count: 65) + "1" + String(repeating: "}", count: 65),
  ])
  func `a body that is not strict JSON is refused`(text: String) throws {
    #expect(try Wire.reason { _ = try Wire.json(text) }.hasPrefix("The body is not JSON: "))
  }

  @Test func `bytes that are not UTF-8 are refused`() throws {
    #expect(
      try Wire.reason { _ = try JSONValue.request([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]) }.hasPrefix(
        "The body is not JSON: "))
  }

  @Test func `T-L01 200 operations pass and 201 are refused`() throws {
    func body(_ count: Int) -> String {
      let operations = (0..<count).map { #"{"operationType":"forceDelete","record":{"recordName":"r\#($0)"}}"# }
      return #"{"operations":[\#(operations.joined(separator: ","))]}"#
    }
    #expect(try Wire.modify(body(200)).operations.count == 200)
    #expect(try Wire.reason { _ = try Wire.modify(body(201)) } == "operations has 201 items, the limit is 200")
  }

  @Test(arguments: [
    (String(repeating: "x", count: 256), "recordName has 256 characters, the limit is 255"),
    ("é", "recordName has a character that is not printable ASCII"),
    ("_a", "recordName '_a' starts with '_', which is reserved"),
    ("", "recordName is empty"),
    (#"a\u0000b"#, "recordName has a character that is not printable ASCII"),
  ])
  func `T-L01 a name that breaks the rule is its operation's error`(name: String, reason: String) throws {
    let request = try Wire.modify(
      #"""
      {"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"\#(name)"}},\#
      {"operationType":"create","record":{"recordType":"Note","recordName":"ok/1"}}]}
      """#
    )
    #expect(request.operations[0].patch == .failure(RecordError(.badRequest, reason)))
    #expect(throws: Never.self) { _ = try request.operations[1].patch.get() }
  }

  @Test(arguments: [
    (#"{"recordName":"a"}"#, "recordType is missing for the new record 'a'"),
    (
      #"{"recordName":"a","recordType":"No te"}"#,
      "'No te' is not a record type: it takes up to 255 letters, digits and underscores after a letter"
    ),
    (#"{"recordName":"a","recordType":"Note","parent":"b"}"#, "parent must be an object with a recordName"),
    (
      #"{"recordName":"a","recordType":"Note","parent":{"recordName":"_b"}}"#,
      "parent.recordName '_b' starts with '_', which is reserved"
    ),
    (#"{"recordName":"a","recordType":"Note","fields":[]}"#, "fields must be an object"),
  ])
  func `a record that can't be saved is its operation's error`(record: String, reason: String) throws {
    let request = try Wire.modify(#"{"operations":[{"operationType":"create","record":\#(record)}]}"#)
    #expect(request.operations[0].patch == .failure(RecordError(.badRequest, reason)))
  }

  @Test func `T-L01 256 fields pass and the 257th is refused`() throws {
    func body(_ count: Int) -> String {
      let fields = (0..<count).map { #""f\#($0)":{"value":1}"# }.joined(separator: ",")
      return
        #"""
        {"operations":[{"operationType":"create","record":{"recordType":"Wide","recordName":"a",\#
        "fields":{\#(fields)}}}]}
        """#
    }
    #expect(try Wire.modify(body(256)).operations[0].patch.get().changes.count == 256)
    #expect(
      try Wire.modify(body(257)).operations[0].patch
        == .failure(RecordError(.badRequest, "Wide has 257 fields, the limit is 256")))
  }

  @Test func `operations that leave the type to the record are listed, and read with its type`() throws {
    let text =
      #"""
      {"operations":[{"operationType":"update","record":{"recordName":"a","fields":{"timestamp":{"value":5}}}},\#
      {"operationType":"delete","record":{"recordName":"b"}}]}
      """#
    #expect(ModifyRecordsRequest.recordNamesWithoutType(in: try Wire.json(text)) == ["a"])
    let share =
      #"""
      {"operations":[{"operationType":"update","record":{"recordName":"s","publicPermission":"NONE"}},\#
      {"operationType":"forceUpdate","record":{"recordName":"e"}}]}
      """#
    #expect(ModifyRecordsRequest.recordNamesWithoutType(in: try Wire.json(share)) == ["s", "e"])
    let patch = try Wire.modify(text, recordTypes: ["a": "Note"]).operations[0].patch.get()
    #expect(patch.recordType == "Note")
    #expect(patch.changes == [RecordPatch.Change(name: "timestamp", field: Field(.timestamp(5)), isDeclared: true)])
  }

  @Test func `undeclared fields are found once each, in order, and only where they are set`() throws {
    let request = try Wire.modify(
      """
      {"operations":[
        {"operationType":"create","record":{"recordType":"Task","recordName":"a","fields":{"z":{"value":1},\
      "b":{"value":"x","isEncrypted":true}}}},
        {"operationType":"create","record":{"recordType":"Note","recordName":"b","fields":{"string":{"value":"x"},\
      "more":{"value":1.5},"gone":{"value":null}}}},
        {"operationType":"create","record":{"recordType":"Task","recordName":"c","fields":{"z":{"value":"later"}}}},
        {"operationType":"forceDelete","record":{"recordType":"Task","recordName":"d","fields":{"y":{"value":1}}}}]}
      """)
    #expect(
      request.undeclaredFields == [
        UndeclaredField(recordType: "Note", field: "more", type: .double, isEncrypted: false),
        UndeclaredField(recordType: "Task", field: "b", type: .string, isEncrypted: true),
        UndeclaredField(recordType: "Task", field: "z", type: .int64, isEncrypted: false),
      ])
  }
}
