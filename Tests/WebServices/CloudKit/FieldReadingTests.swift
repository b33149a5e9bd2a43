import ObjectModel
import Records
import Testing

@testable import WebServices

@Suite struct `Fields between JSON and values` {
  @Test(arguments: [
    (#"{"int64":{"value":9007199254740993,"type":"INT64"}}"#, #"{"int64":{"value":9007199254740993,"type":"INT64"}}"#),
    (#"{"int64":{"value":-9223372036854775808}}"#, #"{"int64":{"value":-9223372036854775808,"type":"INT64"}}"#),
    (#"{"int64":{"value":true}}"#, #"{"int64":{"value":1,"type":"INT64"}}"#),
    (#"{"int64":{"value":"42","type":"INT64"}}"#, #"{"int64":{"value":42,"type":"INT64"}}"#),
    (#"{"int64":{"value":1e3}}"#, #"{"int64":{"value":1000,"type":"INT64"}}"#),
    (#"{"double":{"value":2}}"#, #"{"double":{"value":2.0,"type":"DOUBLE"}}"#),
    (#"{"double":{"value":"-2.5e3"}}"#, #"{"double":{"value":-2500.0,"type":"DOUBLE"}}"#),
    (#"{"string":{"value":"grüß 🌍\u0000\n"}}"#, #"{"string":{"value":"grüß 🌍\u0000\n","type":"STRING"}}"#),
    (#"{"bytes":{"value":"AQID"}}"#, #"{"bytes":{"value":"AQID","type":"BYTES"}}"#),
    (#"{"bytes":{"value":""}}"#, #"{"bytes":{"value":"","type":"BYTES"}}"#),
    (
      #"{"timestamp":{"value":-62135769600000,"type":"TIMESTAMP"}}"#,
      #"{"timestamp":{"value":-62135769600000,"type":"TIMESTAMP"}}"#
    ),
    (#"{"timestamp":{"value":"1700000000000"}}"#, #"{"timestamp":{"value":1700000000000,"type":"TIMESTAMP"}}"#),
    (#"{"timestamp":{"value":782983984642.4}}"#, #"{"timestamp":{"value":782983984642,"type":"TIMESTAMP"}}"#),
    (
      #"{"reference":{"value":{"recordName":"b","action":"DELETE_SELF"}}}"#,
      #"""
      {"reference":{"value":{"recordName":"b","action":"DELETE_SELF","zoneID":\#(Wire.zoneJSON)},"type":"REFERENCE"}}
      """#
    ),
    (
      #"{"reference":{"value":{"recordName":"_user","zoneID":{"zoneName":"Other","ownerRecordName":"_bob"}}}}"#,
      #"""
      {"reference":{"value":{"recordName":"_user","action":"NONE","zoneID":{"zoneName":"Other",\#
      "ownerRecordName":"_bob","zoneType":"REGULAR_CUSTOM_ZONE"}},"type":"REFERENCE"}}
      """#
    ),
    (
      #"{"location":{"value":{"latitude":1.5,"longitude":-2.5,"altitude":7,"timestamp":5}}}"#,
      #"{"location":{"value":{"latitude":1.5,"longitude":-2.5,"altitude":7.0,"timestamp":5},"type":"LOCATION"}}"#
    ),
    (#"{"stringList":{"value":["a","b"]}}"#, #"{"stringList":{"value":["a","b"],"type":"STRING_LIST"}}"#),
    (#"{"stringList":{"value":[],"type":"STRING_LIST"}}"#, #"{"stringList":{"value":[],"type":"STRING_LIST"}}"#),
    (#"{"doubleList":{"value":[1,2.5]}}"#, #"{"doubleList":{"value":[1.0,2.5],"type":"DOUBLE_LIST"}}"#),
    (#"{"timestampList":{"value":[1,2]}}"#, #"{"timestampList":{"value":[1,2],"type":"TIMESTAMP_LIST"}}"#),
    (#"{"bytesList":{"value":["AQID","AA=="]}}"#, #"{"bytesList":{"value":["AQID","AA=="],"type":"BYTES_LIST"}}"#),
    (#"{"secret":{"value":"x"}}"#, #"{"secret":{"value":"x","type":"STRING","isEncrypted":true}}"#),
    (
      #"{"secret":{"value":"x","type":"STRING","isEncrypted":true}}"#,
      #"{"secret":{"value":"x","type":"STRING","isEncrypted":true}}"#
    ),
    (
      #"{"cipher":{"value":"AQID","type":"ENCRYPTED_BYTES"}}"#, #"{"cipher":{"value":"AQID","type":"ENCRYPTED_BYTES"}}"#
    ),
  ])
  func `a value of a declared type comes back typed as the schema types it`(sent: String, shown: String) throws {
    #expect(try Wire.text(of: Wire.fields(sent)) == shown)
  }

  @Test(arguments: [
    (#"{"f":{"value":1}}"#, FieldType.int64), (#"{"f":{"value":1.5}}"#, .double), (#"{"f":{"value":"x"}}"#, .string),
    (#"{"f":{"value":false}}"#, .int64),
    (#"{"f":{"value":{"latitude":1,"longitude":2}}}"#, .location), (#"{"f":{"value":{"recordName":"b"}}}"#, .reference),
    (#"{"f":{"value":["x"]}}"#, .stringList), (#"{"f":{"value":[1]}}"#, .int64List),
    (#"{"f":{"value":[{"recordName":"b","action":"NONE"}]}}"#, .referenceList),
    (#"{"f":{"value":1,"type":"TIMESTAMP"}}"#, .timestamp), (#"{"f":{"value":"AQID","type":"BYTES"}}"#, .bytes),
  ])
  func `a field the schema does not know has the type that was sent or is inferred`(sent: String, type: FieldType)
    throws
  {
    #expect(try Wire.fields(sent)["f"]?.value.type == type)
  }

  @Test(arguments: [
    #"{"string":null}"#, #"{"string":{"value":null}}"#, #"{"timestamp":{"type":"TIMESTAMP"}}"#, #"{"string":{}}"#,
  ])
  func `a null or missing value removes the field`(sent: String) throws {
    let request = try Wire.modify(
      #"{"operations":[{"operationType":"update","record":{"recordType":"Note","recordName":"a","fields":\#(sent)}}]}"#)
    let patch = try request.operations[0].patch.get()
    #expect(patch.changes.count == 1 && patch.changes[0].field == nil)
  }

  @Test(arguments: [
    (#"{"int64":{"value":"x"}}"#, "Note.int64: INT64 must be an integer of 64 bits"),
    (#"{"int64":{"value":1.5}}"#, "Note.int64: INT64 must be an integer of 64 bits"),
    (#"{"int64":{"value":1e300}}"#, "Note.int64: INT64 must be an integer of 64 bits"),
    (#"{"int64":{"value":"9223372036854775808"}}"#, "Note.int64: INT64 must be an integer of 64 bits"),
    (
      #"{"int64":{"value":1,"type":"STRING"}}"#,
      "Note.int64: invalid attempt to set value type STRING, defined to be INT64"
    ),
    (#"{"double":{"value":"nan"}}"#, "Note.double: DOUBLE must be a number"),
    (#"{"double":{"value":"0x1p3"}}"#, "Note.double: DOUBLE must be a number"),
    (#"{"double":{"value":"1e999"}}"#, "Note.double: DOUBLE must be a number"),
    (#"{"string":{"value":1}}"#, "Note.string: STRING must be a string"),
    (#"{"bytes":{"value":"AQI"}}"#, "Note.bytes: BYTES must be padded base64"),
    (#"{"bytes":{"value":"A Q="}}"#, "Note.bytes: BYTES must be padded base64"),
    (#"{"timestamp":{"value":"soon"}}"#, "Note.timestamp: TIMESTAMP must be milliseconds since 1970"),
    (#"{"timestamp":{"value":1e30}}"#, "Note.timestamp: TIMESTAMP must be milliseconds since 1970"),
    (#"{"reference":{"value":"b"}}"#, "Note.reference: REFERENCE must be an object with a recordName"),
    (
      #"{"reference":{"value":{"recordName":"b","action":"EAT"}}}"#,
      "Note.reference: action must be NONE, DELETE_SELF or VALIDATE"
    ),
    (#"{"reference":{"value":{"recordName":""}}}"#, "Note.reference: recordName is empty"),
    (
      #"{"location":{"value":{"latitude":1}}}"#, "Note.location: LOCATION must be an object with latitude and longitude"
    ),
    (#"{"location":{"value":{"latitude":91,"longitude":0}}}"#, "Note.location: latitude or longitude is out of range"),
    (#"{"stringList":{"value":"a"}}"#, "Note.stringList: STRING_LIST must be an array"),
    (#"{"stringList":{"value":["a",null]}}"#, "Note.stringList: [1]: STRING must be a string"),
    (#"{"stringList":{"value":[["a"]]}}"#, "Note.stringList: [0]: STRING must be a string"),
    (#"{"new":{"value":[]}}"#, "Note.new: an empty list needs a type: send its type"),
    (#"{"new":{"value":[[1]]}}"#, "Note.new: a list of lists is not a field value"),
    (#"{"new":{"value":{}}}"#, "Note.new: the object is neither a location nor a reference nor an asset"),
    (#"{"new":{"value":1,"type":"LIST"}}"#, "Note.new: unknown type 'LIST'"),
    (#"{"string":"plain"}"#, "Note.string: a field must be an object with a value"),
    (
      #"{"string":{"value":"x","isEncrypted":true}}"#,
      "Note.string: Attempt to save encrypted data in non encrypted field type"
    ),
    (
      #"{"a-b":{"value":1}}"#,
      "Note: 'a-b' is not a field name: it takes up to 255 letters, digits and underscores after a letter"
    ),
    (
      #"{"___createTime":{"value":1}}"#,
      "Note: '___createTime' is not a field name: it takes up to 255 letters, digits and underscores after a letter"
    ),
  ])
  func `a value that does not fit is refused with its type and field`(sent: String, reason: String) throws {
    #expect(try Wire.reason { _ = try Wire.fields(sent) } == reason)
  }

  @Test(arguments: [
    #"{"asset":{"value":{"fileChecksum":"x","size":1,"receipt":"forged"}}}"#,
    #"{"asset":{"type":"ASSET","value":{"fileChecksum":"x","size":1}}}"#,
  ])
  func `an asset without a receipt of this server is refused`(sent: String) throws {
    #expect(
      try Wire.reason { _ = try Wire.fields(sent) }
        == "Note.asset: the asset has no receipt of this server: upload its content first")
  }

  @Test func `numbersAsStrings shows integers, doubles and timestamps as strings, in lists too`() throws {
    let fields: Fields = [
      "a": .int64(9_007_199_254_740_993), "b": .double(1.5), "c": .timestamp(7),
      "d": .list(element: .int64, [.int64(1)]), "e": .string("x"),
    ]
    let shown = try Wire.text(of: fields, as: RecordPresentation(desiredKeys: .all, numbersAsStrings: true))
    #expect(
      shown
        == #"""
        {"a":{"value":"9007199254740993","type":"INT64"},"b":{"value":"1.5","type":"DOUBLE"},"c":{"value":"7",\#
        "type":"TIMESTAMP"},"d":{"value":["1"],"type":"INT64_LIST"},"e":{"value":"x","type":"STRING"}}
        """#)
  }

  @Test(arguments: [9_007_199_254_740_993, 11_204_795_160_004_125, Int64.max, .min])
  func `a time that no double holds is read as it was shown, as a number and as a string`(milliseconds: Int64) throws {
    let fields: Fields = ["timestamp": .timestamp(milliseconds)]
    for numbersAsStrings in [false, true] {
      let shown = try Wire.text(
        of: fields, as: RecordPresentation(desiredKeys: .all, numbersAsStrings: numbersAsStrings))
      #expect(try Wire.fields(shown) == fields)
    }
  }

  @Test func `desiredKeys leaves the other fields out`() throws {
    let fields: Fields = ["a": .int64(1), "b": .int64(2), "c": .int64(3)]
    #expect(
      try Wire.text(
        of: fields, as: RecordPresentation(desiredKeys: DesiredKeys(["c", "a", "z"]), numbersAsStrings: false)
      ).contains(#""b""#) == false)
    #expect(
      try Wire.text(of: fields, as: RecordPresentation(desiredKeys: DesiredKeys([]), numbersAsStrings: false)) == "{}")
  }

  @Test func `an asset shows checksum, size and a signed URL, never a receipt`() throws {
    let hash = [UInt8](repeating: 0xab, count: 32)
    let shown = try Wire.text(of: ["photo": .asset(Asset(hash: hash, byteCount: 11))])
    let url = "https://host" + AssetURL(shard: 3, hash: hash, expiry: 1_700_000_900).path(signedWith: Array("key".utf8))
    #expect(
      shown
        == #"""
        {"photo":{"value":{"fileChecksum":"Aaurq6urq6urq6urq6urq6urq6ur","size":11,"downloadURL":"\#(url)"},\#
        "type":"ASSETID"}}
        """#
    )
  }
}
