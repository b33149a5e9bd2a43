// Attribute values into a record's fields: which become inline fields, which assets (R5, R7, R8).

public import History
public import ObjectModel
public import Records

/// Reads and stores the contents of assets while records are written.
///
/// Large values arrive as assets already (the object plane writes them, durably, when a transaction is received), and
/// the R8 decision may put them inline; a small value of a record that is nearly full goes the other way. Both are
/// looked up here, so that the mirroring itself touches no file.
public protocol AssetContents {
  /// The content of an asset of a history transaction. If this throws, the asset stays an asset.
  func content(of asset: Asset) throws -> [UInt8]
  /// Stores an asset with that content; it is durable on return.
  func asset(with content: [UInt8]) throws -> Asset
}

/// Writes attributes into records.
public struct Serializer {
  /// Largest `record.size + value` in bytes that stays inline (R8).
  public let inlineByteLimit: Int
  /// `ckAssetThresholdBytes`: values of at least this size become assets in records of any size; nil sets no threshold.
  public let assetThresholdByteCount: Int?
  private let contents: any AssetContents

  public init(
    contents: any AssetContents, inlineByteLimit: Int = Limit.inlineRecordByteCount, assetThresholdByteCount: Int? = nil
  ) {
    self.contents = contents
    self.inlineByteLimit = inlineByteLimit
    self.assetThresholdByteCount = assetThresholdByteCount
  }

  /// A variable-length value that is not placed yet.
  private struct Pending {
    let attribute: AttributeDescription
    let assetFieldName: String
    let byteCount: Int
    let value: Value

    enum Value {
      case inline(FieldValue)
      case asset(Asset)
    }
  }

  /// The text of a field, or of the asset in its place; nil if it is no text or cannot be read.
  func text(of value: FieldValue) -> String? {
    switch value {
    case .string(let text): text
    // Dropped because nil says it. Longer assets count as unreadable: a shard's writer would wait while they are
    // merged.
    case .asset(let asset) where asset.byteCount <= Limit.recordByteCount:
      (try? contents.content(of: asset)).flatMap { String(validating: $0, as: UTF8.self) }
    default: nil
    }
  }

  /// Sets the fields of `values` in `record`. Attributes that are not mirrored, or that the entity lacks, are left out.
  ///
  /// Only the given attributes are placed; the others keep their place, and their inline bytes count. Apple places all
  /// attributes at every export; readers cannot tell, and an edit here writes no fields but its own.
  /// - Throws: `MirroringProblem` for a value that does not fit its attribute; errors of `AssetContents`. `record` may
  ///   be half written then.
  public func write(_ values: [NamedValue<AttributeValue>], of entity: EntityDescription, into record: inout Record)
    throws
  {
    let pending: [Pending]
    do throws(ValueMismatch) {
      pending = try Self.set(values, of: entity, in: &record.fields)
    } catch {
      throw MirroringProblem(
        recordName: record.recordName, entity: entity.name, code: .badRequest, reason: error.reason)
    }
    if !pending.isEmpty { try place(pending, of: entity, into: &record) }
  }

  /// Sets the fields of fixed-length values and of nulls.
  /// - Returns: the variable-length values.
  private static func set(_ values: [NamedValue<AttributeValue>], of entity: EntityDescription, in fields: inout Fields)
    throws(ValueMismatch) -> [Pending]
  {
    var pending: [Pending] = []
    var place = 0
    for named in values {
      guard let attribute = entity.attribute(named: named.name, near: &place), attribute.isMirrored else { continue }
      if let variable = try Self.pending(named.value, attribute, entity: entity.name) {
        pending.append(variable)
        continue
      }
      let value = try attribute.encode(named.value, entity: entity.name)
      fields[attribute.fieldName] = value.map { Field($0, isEncrypted: attribute.isEncrypted) }
      if let assetFieldName = attribute.assetFieldName { fields[assetFieldName] = nil }
      if let exactFieldName = attribute.exactFieldName { fields[exactFieldName] = Self.exact(named.value, attribute) }
      // Else the former value would be the attribute's again (R18).
      if value == nil { for former in attribute.formers { former.clear(in: &fields) } }
    }
    return pending
  }

  /// The text with all digits of a decimal number; other clients read the DOUBLE field.
  private static func exact(_ value: AttributeValue, _ attribute: AttributeDescription) -> Field? {
    guard case .decimal(let text) = value else { return nil }
    return DecimalText.exact(text).map { Field(.string($0), isEncrypted: attribute.isEncrypted) }
  }

  /// nil for fixed-length values and null.
  private static func pending(_ value: AttributeValue, _ attribute: AttributeDescription, entity: String)
    throws(ValueMismatch) -> Pending?
  {
    guard let assetFieldName = attribute.assetFieldName else { return nil }
    if case .asset(let asset) = value {
      return Pending(
        attribute: attribute, assetFieldName: assetFieldName, byteCount: Int(asset.byteCount), value: .asset(asset))
    }
    guard let encoded = try attribute.encode(value, entity: entity) else { return nil }
    return Pending(
      attribute: attribute, assetFieldName: assetFieldName, byteCount: encoded.byteCount, value: .inline(encoded))
  }

  /// R8: in ascending size, inline while the record's size allows it.
  private func place(_ pending: [Pending], of entity: EntityDescription, into record: inout Record) throws {
    if placeAll(pending, into: &record.fields) { return }
    for item in pending {
      record.fields[item.attribute.fieldName] = nil
      record.fields[item.assetFieldName] = nil
    }
    var byteCount = Self.attributeByteCount(of: record, entity: entity)
    for item in pending.sorted(by: { ($0.byteCount, $0.attribute.name) < ($1.byteCount, $1.attribute.name) }) {
      let isInline =
        assetThresholdByteCount.map { item.byteCount < $0 } ?? true && byteCount + item.byteCount <= inlineByteLimit
      if isInline, let value = try inlineValue(of: item, record: record, entity: entity.name) {
        record.fields[item.attribute.fieldName] = Field(value, isEncrypted: item.attribute.isEncrypted)
        byteCount += item.byteCount
      } else {
        record.fields[item.assetFieldName] = Field(.asset(try asset(of: item)))
      }
    }
  }

  /// Places all values inline, the case of nearly every record: none is an asset, and all fit in any order.
  /// - Returns: false, with nothing changed, if that is not possible.
  private func placeAll(_ pending: [Pending], into fields: inout Fields) -> Bool {
    var byteCount = 0
    for item in pending {
      guard case .inline = item.value else { return false }
      byteCount += item.byteCount
      if let assetThresholdByteCount, item.byteCount >= assetThresholdByteCount { return false }
    }
    // More than R8 counts: relationships, too, and what is replaced.
    for element in fields.elements { byteCount += element.field.value.byteCount }
    guard byteCount <= inlineByteLimit else { return false }
    for item in pending {
      guard case .inline(let value) = item.value else { continue }
      fields[item.attribute.fieldName] = Field(value, isEncrypted: item.attribute.isEncrypted)
      fields[item.assetFieldName] = nil
    }
    return true
  }

  /// The value to write inline; nil for an asset without readable content, which stays an asset for later readers.
  private func inlineValue(of item: Pending, record: Record, entity: String) throws(MirroringProblem) -> FieldValue? {
    switch item.value {
    case .inline(let value): return value
    case .asset(let asset):
      // Dropped because the record keeps the asset, and its readers get the error.
      guard let content = try? contents.content(of: asset) else { return nil }
      return try fitting(record, entity) { () throws(ValueMismatch) in
        try item.attribute.fieldValue(fromContent: content, entity: entity)
      }
    }
  }

  private func asset(of item: Pending) throws -> Asset {
    switch item.value {
    case .asset(let asset): return asset
    case .inline(let value): return try contents.asset(with: value.content)
    }
  }

  /// `record.size` of R8: the inline bytes of attribute values; names, `CD_entityName` and relationships do not count.
  static func attributeByteCount(of record: Record, entity: EntityDescription) -> Int {
    var count = 0
    for element in record.fields where element.name != ReservedName.entityName {
      count += element.field.value.byteCount
    }
    for relationship in entity.mirroredToOnes {
      guard case .field(let name) = relationship.storage, let value = record.fields[name]?.value else { continue }
      count -= value.byteCount
    }
    return count
  }
}

/// Runs a conversion; its mismatch becomes the record's problem.
func fitting<Value>(_ record: Record, _ entity: String, _ body: () throws(ValueMismatch) -> Value)
  throws(MirroringProblem) -> Value
{
  do {
    return try body()
  } catch {
    throw MirroringProblem(recordName: record.recordName, entity: entity, code: .badRequest, reason: error.reason)
  }
}

extension AttributeDescription {
  private var ownFieldNames: [String] { [fieldName, assetFieldName, exactFieldName].compactMap(\.self) }

  fileprivate func clear(in fields: inout Fields) { for name in ownFieldNames { fields[name] = nil } }

  /// Gives a record the attribute's former fields of an earlier state again: an edit that emptied them does not stand.
  func restoreFormers(of before: Record?, in record: inout Record) {
    for name in formers.flatMap(\.ownFieldNames) { record.fields[name] = before?.fields[name] }
  }

  /// Gives a record the attribute as an earlier state has it, under whichever name.
  func restore(from before: Record?, in record: inout Record) {
    for name in ownFieldNames { record.fields[name] = before?.fields[name] }
    restoreFormers(of: before, in: &record)
  }
}

extension FieldValue {
  /// The bytes of a value inside its record: 8 for fixed-length types, none for assets.
  var byteCount: Int {
    switch self {
    case .int64, .double, .timestamp: 8
    case .string(let text): text.utf8.count
    case .bytes(let bytes): bytes.count
    case .asset: 0
    case .reference(let reference): reference.recordName.utf8.count
    case .location: 64
    case .list(_, let values): values.reduce(0) { $0 + $1.byteCount }
    }
  }

  /// The content of a variable-length value, as an asset file holds it.
  var content: [UInt8] {
    switch self {
    case .string(let text): Array(text.utf8)
    case .bytes(let bytes): bytes
    default: []
    }
  }
}
