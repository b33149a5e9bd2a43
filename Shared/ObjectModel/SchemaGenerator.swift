// A model's schema (M2): the types that Core Data's schema initialization makes, without sample records.

public import Records

/// Generates the schema that mirrored objects need.
public enum SchemaGenerator {
  /// The schema of a model's hierarchies, together with the system types.
  ///
  /// Each hierarchy becomes one record type with the fields of all its entities. Where two fields clash, the first
  /// stays: the validator refuses such a model. `CDMR` is included if a relationship is many-to-many.
  /// - Parameter configuration: nil is the default configuration; an unknown one has no entities.
  public static func schema(for index: ModelIndex, configuration: String? = nil) -> Schema {
    let entities = index.entities(inConfiguration: configuration) ?? []
    var fieldsByType: [String: [String: Schema.Field]] = [:]
    for entity in entities {
      for field in fields(of: entity) where fieldsByType[entity.recordType]?[field.name] == nil {
        fieldsByType[entity.recordType, default: [:]][field.name] = field
      }
    }
    var types = fieldsByType.map {
      Schema.RecordType(name: $0, fields: Array($1.values), grants: Schema.Grant.forMirroredTypes)
    }
    if entities.contains(where: { !$0.mirroredLinks.isEmpty }) { types.append(linkRecordType) }
    return Schema(recordTypes: types).withSystemTypes
  }

  /// The fields of an entity's objects, asset companions included.
  static func fields(of entity: EntityDescription) -> [Schema.Field] {
    var fields = mirroringFields
    for attribute in entity.mirroredAttributes {
      fields.append(
        Schema.Field(standard: attribute.fieldName, attribute.fieldType, isEncrypted: attribute.isEncrypted))
      if let companion = attribute.assetFieldName { fields.append(Schema.Field(standard: companion, .asset)) }
      if let exact = attribute.exactFieldName {
        fields.append(Schema.Field(standard: exact, .string, isEncrypted: attribute.isEncrypted))
      }
    }
    for relationship in entity.mirroredToOnes {
      fields.append(Schema.Field(standard: ReservedName.fieldPrefix + relationship.name, .string))
    }
    return fields
  }

  /// Fields that mirroring itself writes into an object's record.
  fileprivate static let mirroringFields = [
    Schema.Field(standard: ReservedName.entityName, .string), Schema.Field(standard: ReservedName.moveReceipt, .bytes),
    Schema.Field(standard: ReservedName.moveReceipt + ReservedName.assetSuffix, .asset),
  ]

  fileprivate static let linkRecordType = Schema.RecordType(
    name: ReservedName.linkRecordType,
    fields: [ReservedName.linkEntityNames, ReservedName.linkRecordNames, ReservedName.linkRelationships].map {
      Schema.Field(standard: $0, .string)
    },
    grants: Schema.Grant.forMirroredTypes)
}

extension Schema {
  /// The types of every environment: sharing a zone needs `cloudkit.share`.
  public static let systemRecordTypes: [RecordType] = [
    RecordType(
      name: ReservedName.usersRecordType, fields: [Field(name: "roles", type: .int64List)],
      grants: [Grant(permissions: [.write], role: "_creator"), Grant(permissions: [.read], role: "_world")]),
    RecordType(
      name: ReservedName.shareRecordType,
      fields: [
        Field(name: "cloudkit.thumbnailImageData", type: .bytes), Field(name: "cloudkit.title", type: .string),
        Field(name: "cloudkit.type", type: .string),
      ], grants: [Grant(permissions: [.write], role: "_creator"), Grant(permissions: [.read], role: "_world")]),
  ]

  /// The schema of an environment without models. It has the type of link records, which any device's model may need.
  public static let initial = Schema(recordTypes: systemRecordTypes + [SchemaGenerator.linkRecordType])

  /// The schema with those system types added that it lacks.
  public var withSystemTypes: Schema { merging(Schema(recordTypes: Self.systemRecordTypes), replacesConflicts: false) }

  /// The schema with the parts added that every environment has: the types of `initial`, and mirroring's own fields in
  /// every type of mirrored objects. A type without room for those fields stays as it is.
  public var inEnvironment: Schema {
    var schema = merging(Schema.initial, replacesConflicts: false)
    for (index, type) in schema.recordTypes.enumerated() where type.isOfObjects {
      let missing = SchemaGenerator.mirroringFields.filter { type.field(named: $0.name) == nil }
      guard !missing.isEmpty, type.fields.count + missing.count <= Limit.fieldsPerRecordType else { continue }
      schema.recordTypes[index] = RecordType(
        name: type.name, fields: type.fields + missing, grants: type.grants, systemIndexes: type.systemIndexes)
    }
    return schema
  }
}

extension Schema.RecordType {
  /// True for `CD_` types, except legacy link records (`CD_M2M_`) and names of no entity (`CD_FAKE_`).
  fileprivate var isOfObjects: Bool {
    name.hasPrefix(ReservedName.fieldPrefix)
      && !["M2M_", "FAKE_"].contains { name.dropFirst(ReservedName.fieldPrefix.count).hasPrefix($0) }
  }
}

extension Schema.Grant {
  /// The grants of record types that a model or a save creates.
  public static let forMirroredTypes = [
    Schema.Grant(permissions: [.write], role: "_creator"), Schema.Grant(permissions: [.create], role: "_icloud"),
    Schema.Grant(permissions: [.read], role: "_world"),
  ]
}

extension Schema.Indexes {
  /// CloudKit's indexes for a field whose schema text names none: no index on encrypted fields, bytes and assets.
  public static func standard(for type: FieldType, isEncrypted: Bool = false) -> Schema.Indexes {
    if isEncrypted { return [] }
    return switch type {
    case .string: [.queryable, .searchable, .sortable]
    case .int64, .double, .timestamp, .location: [.queryable, .sortable]
    case .stringList: [.queryable, .searchable]
    case .reference, .int64List, .doubleList, .timestampList, .referenceList: .queryable
    default: []
    }
  }
}

extension Schema.Field {
  /// A field with the standard indexes of its type.
  public init(standard name: String, _ type: FieldType, isEncrypted: Bool = false) {
    self.init(name: name, type: type, isEncrypted: isEncrypted, indexes: .standard(for: type, isEncrypted: isEncrypted))
  }
}
