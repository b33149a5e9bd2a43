// A record's fields back into an object's attributes and relationships (R2, R6, R9, R10, R11).

public import History
public import ObjectModel
public import Records

/// An object's values, read from its record.
public struct ObjectValues: Hashable, Sendable {
  /// The concrete entity's name.
  public let entity: String
  /// All mirrored attributes, ascending by name. An absent field gives the default value, or null without one. A value
  /// kept as an asset is `.asset` for every attribute type.
  public var attributes: [NamedValue<AttributeValue>]
  /// All mirrored to-one relationships, ascending by name.
  public var relationships: [NamedValue<String?>]

  public init(entity: String, attributes: [NamedValue<AttributeValue>], relationships: [NamedValue<String?>]) {
    self.entity = entity
    self.attributes = attributes
    self.relationships = relationships
  }
}

/// Reads objects out of records.
public struct Deserializer: Sendable {
  public let model: ModelIndex

  public init(_ model: ModelIndex) { self.model = model }

  /// The entity a record is an object of; nil when the model doesn't know it, or when its root is mirrored as another
  /// record type (R2).
  public func entity(of record: Record) -> EntityDescription? {
    guard
      let entity = model.entity(
        recordType: record.recordType, entityName: record.fields.string(ReservedName.entityName)),
      entity.recordType == record.recordType
    else { return nil }
    return entity
  }

  /// The object: just the model's properties, whatever else the record carries (R6, T-M12).
  /// - Throws: `MirroringProblem` naming the attribute whose field does not fit (R10).
  public func object(_ entity: EntityDescription, from record: Record) throws(MirroringProblem) -> ObjectValues {
    var attributes: [NamedValue<AttributeValue>] = []
    attributes.reserveCapacity(entity.mirroredAttributes.count)
    for attribute in entity.mirroredAttributes {
      let value = try fitting(record, entity.name) { () throws(ValueMismatch) in
        try Self.value(of: attribute, entity: entity.name, record: record)
      }
      attributes.append(NamedValue(name: attribute.name, value: value))
    }
    var relationships: [NamedValue<String?>] = []
    relationships.reserveCapacity(entity.mirroredToOnes.count)
    for relationship in entity.mirroredToOnes {
      guard case .field(let name) = relationship.storage else { continue }
      relationships.append(
        NamedValue(name: relationship.name, value: try target(name, relationship, entity: entity, record: record)))
    }
    return ObjectValues(entity: entity.name, attributes: attributes, relationships: relationships)
  }

  /// The value an asset's content stands for (T-M10).
  /// - Throws: `MirroringProblem` for text that is not UTF-8, or bytes that are no composite.
  public func value(
    of attributeName: String, entity: EntityDescription, fromAssetContent content: [UInt8], recordName: String
  ) throws(MirroringProblem) -> AttributeValue {
    do throws(ValueMismatch) {
      guard let attribute = entity.attribute(named: attributeName) else {
        throw ValueMismatch(reason: "\(entity.name).\(attributeName) is not in the model")
      }
      return try attribute.decode(
        try attribute.fieldValue(fromContent: content, entity: entity.name), entity: entity.name)
    } catch {
      throw MirroringProblem(recordName: recordName, entity: entity.name, code: .badRequest, reason: error.reason)
    }
  }

  /// R9, R18: the field, or else the asset companion, or else those of a former name, or else the default.
  private static func value(of attribute: AttributeDescription, entity: String, record: Record) throws(ValueMismatch)
    -> AttributeValue
  {
    if let value = try kept(attribute, entity: entity, record: record) { return value }
    for former in attribute.formers {
      // Dropped because a field that does not fit says nothing of the attribute: it may be another one's.
      if let value = try? kept(former, entity: entity, record: record) { return value }
      if let value = record.fields[former.fieldName]?.value, let converted = attribute.converted(value),
        let value = try? attribute.decode(converted, entity: entity)
      {
        return value
      }
    }
    return attribute.defaultAttributeValue
  }

  /// nil if the record has neither the field nor the companion.
  private static func kept(_ attribute: AttributeDescription, entity: String, record: Record) throws(ValueMismatch)
    -> AttributeValue?
  {
    if let field = record.fields[attribute.fieldName] {
      // The exact text counts only if it equals the number: a client that does not know the text may have changed the
      // number.
      if let exactFieldName = attribute.exactFieldName, let text = record.fields.string(exactFieldName),
        case .double(let number) = field.value,
        DecimalText.double(text) == number
      {
        return .decimal(text)
      }
      return try attribute.decode(field.value, entity: entity)
    }
    guard let assetFieldName = attribute.assetFieldName, let companion = record.fields[assetFieldName] else {
      return nil
    }
    guard case .asset(let asset) = companion.value else {
      throw ValueMismatch(
        reason: "\(attribute.path(in: entity)) has a companion of type \(companion.value.type.wireName)")
    }
    return .asset(asset)
  }

  private func target(
    _ field: String, _ relationship: RelationshipDescription, entity: EntityDescription, record: Record
  ) throws(MirroringProblem) -> String? {
    switch record.fields[field]?.value {
    case nil: return nil
    case .string(let name)?: return name.isEmpty ? nil : name
    case let value?:
      throw MirroringProblem(
        recordName: record.recordName, entity: entity.name, code: .badRequest,
        reason: "\(entity.name).\(relationship.name) is a to-one relationship, but the field is \(value.type.wireName)")
    }
  }
}
