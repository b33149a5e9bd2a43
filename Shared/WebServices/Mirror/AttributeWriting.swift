// Values of the mirror API as JSON.

public import History
public import JSON
import Records

/// Writes attribute values. The caller decides beforehand what becomes of values kept as assets.
public struct MirrorValueWriter: Sendable {
  private let assets: RecordDictionaryWriter.AssetLinks

  public init(assets: RecordDictionaryWriter.AssetLinks) { self.assets = assets }

  public func write(_ value: AttributeValue, to writer: inout JSONWriter) {
    switch value {
    case .null: writer.null()
    case .integer(let number): writer.integer(number)
    // JSON has no other numbers, and only the record plane can have stored one.
    case .double(let number): if number.isFinite { writer.double(number) } else { writer.null() }
    case .decimal(let text), .string(let text), .uuid(let text), .uri(let text): writer.string(text)
    case .boolean(let flag): writer.bool(flag)
    case .date(let milliseconds): writer.string(MirrorDate.text(milliseconds))
    case .binary(let bytes): writer.base64(bytes)
    case .asset(let asset): write(asset, to: &writer)
    case .composite(let elements):
      writer.beginObject()
      for element in elements {
        writer.key(element.name)
        write(element.value, to: &writer)
      }
      writer.endObject()
    }
  }

  /// Writes `{name: value, …}`.
  public func write(_ attributes: [NamedValue<AttributeValue>], to writer: inout JSONWriter) {
    writer.beginObject()
    for attribute in attributes {
      writer.key(attribute.name)
      write(attribute.value, to: &writer)
    }
    writer.endObject()
  }

  /// Writes a change's members, without its place in a history.
  func writeMembers(of change: HistoryChange, to writer: inout JSONWriter) {
    writer.member("changeType", change.changeType.wireName)
    writer.member("entity", change.entity)
    writer.member("objectID", change.objectID)
    if change.changeType == .delete {
      writer.key("tombstone")
      write(change.tombstone, to: &writer)
      return
    }
    writer.key("attributes")
    write(change.attributes, to: &writer)
    writer.key("relationships")
    writer.beginObject()
    for relationship in change.relationships { write(relationship, to: &writer) }
    writer.endObject()
  }

  func write(_ relationship: NamedValue<RelationshipValue>, to writer: inout JSONWriter) {
    switch relationship.value {
    case .toOne(let target): writer.nullable(relationship.name, target)
    case .toMany(let targets): writer.strings(relationship.name, targets)
    case .toManyDelta(let added, let removed):
      writer.key(relationship.name)
      writer.beginObject()
      writer.strings("add", added)
      writer.strings("remove", removed)
      writer.endObject()
    }
  }

  private func write(_ asset: Asset, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("asset")
    writer.beginObject()
    writer.member("fileChecksum", asset.fileChecksum)
    writer.member("size", asset.byteCount)
    writer.member("downloadURL", assets.downloadURL(of: asset))
    writer.endObject()
    writer.endObject()
  }
}

extension JSONWriter {
  mutating func nullable(_ name: String, _ value: String?) {
    key(name)
    if let value { string(value) } else { null() }
  }

  mutating func optional(_ name: String, _ value: String?) {
    if let value { member(name, value) }
  }

  mutating func strings(_ name: String, _ values: [String]) {
    key(name)
    beginArray()
    for value in values { string(value) }
    endArray()
  }
}
