// Records written from their stored bytes, beside the record itself and beside a naive writer that shares no code with
// either.

import Foundation
import JSON
import Records
import Sharing
import Testing

@testable import WebServices

@Suite struct `Stored records into JSON` {
  private static let forms: [RecordPresentation] = [
    .complete, RecordPresentation(desiredKeys: .all, numbersAsStrings: true),
    RecordPresentation(desiredKeys: DesiredKeys([]), numbersAsStrings: false),
    RecordPresentation(desiredKeys: DesiredKeys(["a", "é", "none"]), numbersAsStrings: false),
  ]

  private static func text(
    stored content: [UInt8], _ record: Record, tag: Int64 = 77, as form: RecordPresentation,
    by writer: RecordDictionaryWriter
  ) throws(StoredFormatError) -> String {
    var output = JSONWriter()
    let name = Array(record.recordName.utf8)
    try name.withUnsafeBufferPointer { name throws(StoredFormatError) in
      try content.withUnsafeBufferPointer { content throws(StoredFormatError) in
        try writer.write(
          stored: UnsafeRawBufferPointer(content), recordName: name, recordType: record.recordType,
          tag: RecordChangeTag(sequence: tag), as: form, to: &output)
      }
    }
    return String(decoding: output.bytes, as: UTF8.self)
  }

  private static func text(
    _ record: Record, tag: Int64 = 77, as form: RecordPresentation, by writer: RecordDictionaryWriter
  ) -> String {
    var output = JSONWriter()
    writer.write(record, tag: RecordChangeTag(sequence: tag), as: form, to: &output)
    return String(decoding: output.bytes, as: UTF8.self)
  }

  @Test func `random records have the text of a naive writer, from their values and from their bytes`() {
    var generator = RandomRecords(state: 31)
    let naive = NaiveRecordText()
    for round in 0..<1500 {
      let record = generator.record()
      for form in Self.forms {
        let expected = naive.text(of: record, tag: Int64(round + 1), as: form)
        #expect(Self.text(record, tag: Int64(round + 1), as: form, by: Wire.writer) == expected)
        #expect(throws: Never.self) {
          let text = try Self.text(
            stored: record.encoded(), record, tag: Int64(round + 1), as: form, by: Wire.writer)
          #expect(text == expected)
        }
      }
    }
  }

  @Test func `versions of fields are left out`() throws {
    var record = RandomRecords(state: 32).first
    let expected = NaiveRecordText().text(of: record, tag: 77, as: .complete)
    record.set(
      FieldVersion(
        field: "b", edits: [FieldVersion.Edit(device: "B", time: 9, sent: .list(element: .string, [.string("y")]))],
        elements: [FieldVersion.Element(text: "1", edit: FieldVersion.Edit(device: "A", time: 7), isPresent: false)]))
    #expect(try Self.text(stored: record.encoded(), record, as: .complete, by: Wire.writer) == expected)
  }

  @Test func `a record at the top of a shared hierarchy shows its share`() throws {
    var writer = Wire.writer
    writer.shares = ShownShares(to: KnownUser(userRecordName: "_alice"))
    writer.shares?.roots = ["root": "share-1"]
    var generator = RandomRecords(state: 33)
    for name in ["root", "other"] {
      var record = generator.record()
      record.recordName = name
      let text = try Self.text(stored: record.encoded(), record, as: .complete, by: writer)
      #expect(text == Self.text(record, as: .complete, by: writer))
      #expect(text.contains(#""share":{"recordName":"share-1""#) == (name == "root"))
    }
  }

  @Test func `bytes that were cut or altered are refused exactly where the record is`() {
    var generator = RandomRecords(state: 34)
    for _ in 0..<60 {
      let record = generator.record()
      let blob = record.encoded()
      var cases = (0..<min(blob.count, 120)).map { Array(blob[..<$0]) } + [blob + [0xc0]]
      for _ in 0..<150 {
        var altered = blob
        altered[generator.below(altered.count)] = UInt8(generator.below(256))
        cases.append(altered)
      }
      for content in cases {
        let decoded = try? Record(decoding: content, recordName: record.recordName, recordType: record.recordType)
        let text = try? Self.text(stored: content, record, as: .complete, by: Wire.writer)
        #expect(text == decoded.map { Self.text($0, as: .complete, by: Wire.writer) })
      }
    }
  }

  @Test func `a name or value that is no text is refused`() {
    let record = Record(
      recordName: "n", recordType: "Note", fields: ["a": .string("€ \u{1} \" text of more than sixteen bytes")],
      created: Wire.stamp, modified: Wire.later, parent: "parent")
    let blob = record.encoded()
    for (place, byte) in blob.enumerated() where byte == 0xe2 || byte == UInt8(ascii: "p") {
      var altered = blob
      altered[place] = 0xff
      #expect(throws: StoredFormatError.self) {
        _ = try Self.text(stored: altered, record, as: .complete, by: Wire.writer)
      }
    }
  }
}

/// The text of a record, put together from strings.
private struct NaiveRecordText {
  func text(of record: Record, tag: Int64, as form: RecordPresentation) -> String {
    let fields = record.fields.elements.filter { form.desiredKeys.contains($0.name) }
      .map { "\(quoted($0.name)):\(self.field($0.field, form.numbersAsStrings))" }
    let parent = record.parent.map { #","parent":{"recordName":\#(quoted($0))}"# } ?? ""
    let shortGUID = record.shortGUID.map { #","shortGUID":\#(quoted($0))"# } ?? ""
    return #"""
      {"recordName":\#(quoted(record.recordName)),"recordType":\#(quoted(record.recordType)),\#
      "fields":{\#(fields.joined(separator: ","))},"pluginFields":{},"recordChangeTag":"\#(String(tag, radix: 36))",\#
      "created":\#(stamp(record.created)),"modified":\#(stamp(record.modified)),\#
      "deleted":false\#(parent)\#(shortGUID),"zoneID":\#(Wire.zoneJSON)}
      """#
  }

  private func stamp(_ stamp: Stamp) -> String {
    #"""
    {"timestamp":\#(stamp.timestamp),"userRecordName":\#(quoted(stamp.userRecordName)),\#
    "deviceID":\#(quoted(stamp.deviceID))}
    """#
  }

  private func field(_ field: Field, _ numbersAsStrings: Bool) -> String {
    var type = field.value.type.wireName
    var mark = ""
    if field.isEncrypted, type == "BYTES" {
      type = "ENCRYPTED_BYTES"
    } else if field.isEncrypted {
      mark = #","isEncrypted":true"#
    }
    return #"{"value":\#(value(field.value, numbersAsStrings)),"type":"\#(type)"\#(mark)}"#
  }

  private func value(_ value: FieldValue, _ numbersAsStrings: Bool) -> String {
    let mark = numbersAsStrings ? "\"" : ""
    switch value {
    case .int64(let number), .timestamp(let number): return "\(mark)\(number)\(mark)"
    case .double(let number): return number.isFinite ? "\(mark)\(number)\(mark)" : "null"
    case .string(let text): return quoted(text)
    case .bytes(let bytes): return "\"\(Data(bytes).base64EncodedString())\""
    case .reference(let reference):
      let zone = reference.zoneID.map { String(decoding: $0.json, as: UTF8.self) } ?? Wire.zoneJSON
      return #"""
        {"recordName":\#(quoted(reference.recordName)),"action":"\#(reference.action.rawValue)","zoneID":\#(zone)}
        """#
    case .location(let location):
      var members = ["\"latitude\":\(location.latitude)", "\"longitude\":\(location.longitude)"]
      members += [
        ("horizontalAccuracy", location.horizontalAccuracy), ("verticalAccuracy", location.verticalAccuracy),
        ("altitude", location.altitude), ("speed", location.speed), ("course", location.course),
      ].compactMap { name, value in value.map { "\"\(name)\":\($0)" } }
      if let timestamp = location.timestamp { members.append("\"timestamp\":\(timestamp)") }
      return "{\(members.joined(separator: ","))}"
    case .asset(let asset):
      let url = AssetURL(shard: 3, hash: asset.hash, expiry: 1_700_000_900, reader: nil).path(
        signedWith: Array("key".utf8))
      return #"""
        {"fileChecksum":\#(quoted(asset.fileChecksum)),"size":\#(asset.byteCount),"downloadURL":"https://host\#(url)"}
        """#
    case .list(_, let values): return "[\(values.map { self.value($0, numbersAsStrings) }.joined(separator: ","))]"
    }
  }

  private func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += #"\""#
      case "\\": result += #"\\"#
      case "\n": result += #"\n"#
      case "\r": result += #"\r"#
      case "\t": result += #"\t"#
      case _ where scalar.value < 16: result += "\\u000" + String(scalar.value, radix: 16)
      case _ where scalar.value < 32: result += "\\u00" + String(scalar.value, radix: 16)
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}

/// Records with fields of every type, encrypted or not, and with text of all kinds.
private struct RandomRecords: RandomNumberGenerator {
  var state: UInt64

  /// The first record of this state.
  var first: Record {
    var copy = self
    return copy.record()
  }

  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return (state >> 33) | (state << 31)
  }

  mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &self) }
  private mutating func flip() -> Bool { Bool.random(using: &self) }

  private mutating func text(upTo count: Int = 50) -> String {
    let scalars: [Unicode.Scalar] = [
      "a", "b", "Z", "0", " ", "\"", "\\", "\n", "\r", "\t", "\u{0}", "\u{1f}", "\u{7f}", "é", "€", "😀", "\u{301}",
      "\u{2028}",
    ]
    let variety = [3, 5, scalars.count][below(3)]
    var text = ""
    for _ in 0..<below(count) { text.unicodeScalars.append(scalars[below(variety)]) }
    return text
  }

  private mutating func number() -> Int64 {
    flip() ? Int64(below(200) - 100) : .random(in: .min ... .max, using: &self)
  }
  private mutating func double() -> Double { flip() ? Double(below(100)) : .random(in: -1e9...1e9, using: &self) }
  private mutating func bytes(upTo count: Int) -> [UInt8] { (0..<below(count)).map { _ in UInt8(below(256)) } }

  private mutating func value(_ type: FieldType) -> FieldValue {
    if let element = type.element {
      return .list(element: element, (0..<below(4)).map { _ in value(element) })
    }
    switch type {
    case .int64: return .int64(number())
    case .timestamp: return .timestamp(number())
    case .double: return .double(below(20) == 0 ? [.nan, .infinity, -0.0][below(3)] : double())
    case .string: return .string(text(upTo: 300))
    case .bytes: return .bytes(bytes(upTo: 200))
    case .reference:
      let zone = flip() ? Zone.ID(zoneName: text(), ownerName: text()) : nil
      return .reference(Reference(recordName: text(), action: Reference.Action.allCases[below(3)], zoneID: zone))
    case .location:
      return .location(
        Location(
          latitude: double(), longitude: double(), horizontalAccuracy: flip() ? double() : nil,
          verticalAccuracy: flip() ? double() : nil, altitude: flip() ? double() : nil, speed: flip() ? double() : nil,
          course: flip() ? double() : nil, timestamp: flip() ? number() : nil))
    default: return .asset(Asset(hash: (0..<32).map { _ in UInt8(below(256)) }, byteCount: number()))
    }
  }

  mutating func record() -> Record {
    let users = ["_alice", "_bob", text()]
    func stamp(_ number: Int64, _ user: Int, _ device: String) -> Stamp {
      Stamp(timestamp: number, userRecordName: users[user], deviceID: device)
    }
    let devices = ["", "phone", text()]
    let created = stamp(number(), below(3), devices[below(3)])
    let modified = stamp(number(), below(3), devices[below(3)])
    var fields = Fields()
    for _ in 0..<below(10) {
      let name = flip() ? ["a", "b", "é", "z"][below(4)] : text(upTo: 30)
      fields[name] = Field(value(FieldType.allCases[below(FieldType.allCases.count)]), isEncrypted: flip())
    }
    return Record(
      recordName: text(), recordType: flip() ? "Note" : text(), fields: fields, created: created, modified: modified,
      parent: flip() ? text() : nil, shortGUID: flip() ? text() : nil)
  }
}
