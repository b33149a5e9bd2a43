// The members of a record's dictionary behind its fields, alike for a record and for the bytes that the store keeps.

import JSON
import MessagePack
import Records

/// A text on its way into JSON: a string, or a piece of stored bytes.
protocol WrittenText {
  associatedtype Failure: Error
  func write(to writer: inout JSONWriter) throws(Failure)
}

extension String: WrittenText {
  func write(to writer: inout JSONWriter) { writer.string(self) }
}

extension StoredText: WrittenText {
  func write(to writer: inout JSONWriter) throws(MessagePackError) { try writer.text(self) }
}

extension JSONWriter {
  mutating func text(_ text: StoredText) throws(MessagePackError) {
    if !string(utf8: text) { throw MessagePackError("a text is not UTF-8") }
  }

  mutating func name(_ text: StoredText) throws(MessagePackError) {
    if !key(utf8: text) { throw MessagePackError("a field's name is not UTF-8") }
  }
}

extension DesiredKeys {
  func contains(_ name: StoredText) throws(MessagePackError) -> Bool {
    if isAll { return true }
    guard let name = String(utf8: name) else { throw MessagePackError("a field's name is not UTF-8") }
    return contains(name)
  }
}

struct StampTexts<Text: WrittenText> {
  let timestamp: Int64
  let userRecordName: Text
  let deviceID: Text

  fileprivate func write(to writer: inout JSONWriter) throws(Text.Failure) {
    writer.constant(#"{"timestamp":"#)
    writer.integer(timestamp)
    writer.constant(#","userRecordName":"#)
    try userRecordName.write(to: &writer)
    writer.constant(#","deviceID":"#)
    try deviceID.write(to: &writer)
    writer.endObject()
  }
}

extension StampTexts<String> {
  init(_ stamp: Stamp) {
    self.init(timestamp: stamp.timestamp, userRecordName: stamp.userRecordName, deviceID: stamp.deviceID)
  }
}

extension StampTexts<StoredText> {
  init(_ stamp: StoredStamp) {
    self.init(timestamp: stamp.timestamp, userRecordName: stamp.userRecordName, deviceID: stamp.deviceID)
  }
}

struct RecordEnd<Text: WrittenText> {
  let tag: RecordChangeTag
  let created: StampTexts<Text>
  let modified: StampTexts<Text>
  let parent: Text?
  let shortGUID: Text?

  /// Ends the object of the fields, writes the other members, and ends the record's object.
  func write(
    of recordName: @autoclosure () -> String, shares: ShownShares?, zoneJSON: [UInt8], to writer: inout JSONWriter
  ) throws(Text.Failure) {
    writer.constant(#"},"pluginFields":{},"recordChangeTag":"#)
    writer.string(tag.text)
    writer.constant(#","created":"#)
    try created.write(to: &writer)
    writer.constant(#","modified":"#)
    try modified.write(to: &writer)
    writer.constant(#","deleted":false"#)
    if let parent {
      writer.constant(#","parent":{"recordName":"#)
      try parent.write(to: &writer)
      writer.endObject()
    }
    let isShare = shares?.writeMembers(of: recordName(), zoneJSON: zoneJSON, to: &writer) ?? false
    if !isShare, let shortGUID {
      writer.constant(#","shortGUID":"#)
      try shortGUID.write(to: &writer)
    }
    writer.constant(#","zoneID":"#)
    writer.raw(zoneJSON)
    writer.endObject()
  }
}
