// Entities, attributes and relationships for mirroring: inheritance, inverses, field names and link order are resolved
// once.

public import Records

/// An entity with all inherited properties. A `ModelIndex` has one instance per entity.
public final class EntityDescription: Sendable {
  public let entity: Entity
  /// Position in `ModelIndex.entities`.
  public let ordinal: Int
  /// The entity at the top of the inheritance chain; for an entity without a parent its own name.
  public let rootName: String
  /// `CD_<root>` (R1).
  public let recordType: String
  /// Names of superentities, nearest first.
  public let superentityNames: [String]
  /// Names of the entity and all of its subentities, ascending.
  public let kindNames: [String]
  /// Own and inherited attributes, ascending by name.
  public let attributes: [AttributeDescription]
  /// Own and inherited relationships, ascending by name.
  public let relationships: [RelationshipDescription]
  /// The attributes that become fields (R5), ascending by name.
  public let mirroredAttributes: [AttributeDescription]
  /// To-one relationships that become fields (R11), ascending by name.
  public let mirroredToOnes: [RelationshipDescription]
  /// Many-to-many relationships that become link records (R13), ascending by name.
  public let mirroredLinks: [RelationshipDescription]

  /// Attributes whose values a deletion's tombstone keeps; external binaries are none of them (H1).
  public let preservedAttributeNames: Set<String>

  /// The entity's user info, then those of its superentities, nearest first.
  let declaredUserInfo: [[String: String]]

  private let attributesByName: [String: Int]
  private let relationshipsByName: [String: Int]
  /// Names of properties by their former names.
  private let currentNames: [String: String]

  public var name: String { entity.name }
  public var isAbstract: Bool { entity.isAbstract }

  init(
    entity: Entity, ordinal: Int, rootName: String, superentityNames: [String], kindNames: [String],
    attributes: [AttributeDescription],
    relationships: [RelationshipDescription], declaredUserInfo: [[String: String]]
  ) {
    self.declaredUserInfo = declaredUserInfo
    self.entity = entity
    self.ordinal = ordinal
    self.rootName = rootName
    self.recordType = ReservedName.recordTypePrefix + rootName
    self.superentityNames = superentityNames
    self.kindNames = kindNames
    self.attributes = attributes
    self.relationships = relationships
    mirroredAttributes = attributes.filter(\.isMirrored)
    mirroredToOnes = relationships.filter { if case .field = $0.storage { true } else { false } }
    mirroredLinks = relationships.filter { if case .link = $0.storage { true } else { false } }
    preservedAttributeNames = Set(
      attributes.filter { $0.attribute.preservesValueOnDeletion && !$0.attribute.allowsExternalBinaryDataStorage }.map(
        \.name))
    attributesByName = Dictionary(
      attributes.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
    relationshipsByName = Dictionary(
      relationships.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
    currentNames = Dictionary(
      attributes.flatMap { attribute in attribute.formers.map { ($0.name, attribute.name) } }
        + relationships.flatMap { relationship in relationship.formerNames.map { ($0, relationship.name) } },
      uniquingKeysWith: { first, _ in first })
  }

  public func attribute(named name: String) -> AttributeDescription? { attributesByName[name].map { attributes[$0] } }

  /// Finds an attribute without a search, for callers that ask for names in ascending order.
  /// - Parameter place: the position to begin at, 0 for the first call; moves behind the attribute that was found
  ///   there.
  public func attribute(named name: String, near place: inout Int) -> AttributeDescription? {
    for index in place..<min(place + Self.nearCount, attributes.count) where attributes[index].name == name {
      place = index + 1
      return attributes[index]
    }
    return attribute(named: name)
  }

  private static let nearCount = 4

  public func relationship(named name: String) -> RelationshipDescription? {
    relationshipsByName[name].map { relationships[$0] }
  }

  /// True if earlier models have other names for some properties.
  public var hasFormerNames: Bool { !currentNames.isEmpty }

  /// The name that the model has for a property of an earlier one; nil: it is no former name.
  public func currentName(of former: String) -> String? { currentNames[former] }

  /// True if objects of this entity may be targets where `other` is the destination: the entity is `other` or one of
  /// its subentities.
  public func isKind(of other: EntityDescription) -> Bool {
    name == other.name || superentityNames.contains(other.name)
  }
}

extension Attribute {
  /// A Decimal attribute whose model asks for all of its digits (user info `AquiferExactDecimal`).
  public var isExactDecimal: Bool { type == .decimal && userInfo.isSet(ReservedName.exactDecimalKey) }
}

/// An attribute with the entity that declares it and the field that holds it.
public final class AttributeDescription: Sendable {
  public let attribute: Attribute
  /// The entity that declares the attribute: the owner or one of its superentities.
  public let declaringEntityName: String
  /// False for transient, derived, ignored and reserved attributes (R5), and for the two types without a field.
  public let isMirrored: Bool
  /// The value belongs in the record's encrypted bag (R7).
  public let isEncrypted: Bool
  /// `CD_<name>`.
  public let fieldName: String
  /// `CD_<name>_ckAsset` for variable-length types; nil for the others.
  public let assetFieldName: String?
  /// `CD_<name>_exact` for a Decimal attribute that keeps all digits (`AquiferExactDecimal`); nil for the others.
  public let exactFieldName: String?
  /// By the table of docs/protocol/mirroring.md#attribute-types; `.bytes` for the two types without a field.
  public let fieldType: FieldType
  /// The attribute under the names that it has in earlier models, the latest first (R18).
  public let formers: [AttributeDescription]

  public var name: String { attribute.name }
  public var type: AttributeType { attribute.type }
  /// The value may move to the asset companion when the record grows too large (R8).
  public var isVariableLength: Bool { assetFieldName != nil }

  init(_ attribute: Attribute, declaredBy entityName: String, formerNames: [String] = []) {
    self.attribute = attribute
    declaringEntityName = entityName
    formers = formerNames.map { name in
      var former = attribute
      former.name = name
      return AttributeDescription(former, declaredBy: entityName)
    }
    isMirrored =
      !attribute.isTransient && !attribute.isDerived && attribute.type.fieldType != nil
      && !attribute.userInfo.isSet(ReservedName.ignoredPropertyKey)
      && !ReservedName.reservedAttributes.contains(attribute.name)
    isEncrypted = attribute.allowsCloudEncryption || attribute.userInfo.isSet(ReservedName.encryptedAttributeKey)
    fieldName = ReservedName.fieldPrefix + attribute.name
    assetFieldName = attribute.type.isVariableLength ? fieldName + ReservedName.assetSuffix : nil
    exactFieldName = attribute.isExactDecimal ? fieldName + ReservedName.exactSuffix : nil
    fieldType = attribute.type.fieldType ?? .bytes
  }
}

/// A relationship with the entity that declares it, its inverse, and its storage.
public final class RelationshipDescription: Sendable {
  /// How records hold a relationship.
  public enum Storage: Sendable {
    /// A STRING field with the target's record name (R11).
    case field(name: String)
    /// Nothing: the to-one inverse's field says it (R12).
    case inverseField(name: String)
    /// A record per pair (R13).
    case link(LinkDescription)
    /// Not stored: the relationship is transient or ignored, or has no inverse or destination. The validator refuses
    /// all of these but a transient one.
    case none
  }

  public let relationship: Relationship
  /// The entity that declares the relationship: the owner or one of its superentities.
  public let declaringEntityName: String
  /// The inverse, declared by the destination or one of its superentities; nil if there is no such relationship.
  public let inverse: Inverse?
  public let storage: Storage
  /// Its names in earlier models; links by them are its pairs (R18).
  public let formerNames: [String]

  init(
    relationship: Relationship, declaringEntityName: String, inverse: Inverse?, storage: Storage, formerNames: [String]
  ) {
    self.relationship = relationship
    self.declaringEntityName = declaringEntityName
    self.inverse = inverse
    self.storage = storage
    self.formerNames = formerNames
  }

  public struct Inverse: Sendable {
    public let relationship: Relationship
    public let declaringEntityName: String
    public var name: String { relationship.name }
    public var isToMany: Bool { relationship.isToMany }
  }

  public var name: String { relationship.name }
  public var destinationName: String { relationship.destinationName }
  public var isToMany: Bool { relationship.isToMany }
  /// A shared or moved graph ends at this relationship: either side may declare the boundary.
  public var isShareBoundary: Bool {
    relationship.userInfo.isSet(ReservedName.shareBoundaryKey)
      || inverse?.relationship.userInfo.isSet(ReservedName.shareBoundaryKey) == true
  }
  public var isMirrored: Bool { if case .none = storage { false } else { true } }
  /// The link's description; nil unless the relationship is many-to-many.
  public var link: LinkDescription? { if case .link(let link) = storage { link } else { nil } }
}

/// How the pairs of a many-to-many relationship are spelled, seen from one of its two sides (R13, R14).
public struct LinkDescription: Hashable, Sendable {
  /// `CD_entityNames`, such as `Item:Shelf`: the declaring entities in canonical order.
  public let entityNames: String
  /// `CD_relationships` in the same order, such as `shelves:items`.
  public let relationshipNames: String
  /// True if the source's record name comes first in `CD_recordNames`. Meaningless when `isSymmetric`.
  public let isSourceFirst: Bool
  /// The relationship is its own inverse: the two record names ascend instead.
  public let isSymmetric: Bool
  /// `CD_M2M_<rootEntity>_<rel>`, before `:<recA>:<recB>` in the pair's identity key (R14).
  public let keyPrefix: String
  /// True if the source's record name comes first in the identity key. Meaningless when `isSymmetric`.
  public let isSourceFirstInKey: Bool

  /// `CD_recordNames` of the pair.
  public func recordNames(source: String, target: String) -> String {
    let sourceFirst = isSymmetric ? source <= target : isSourceFirst
    return sourceFirst ? "\(source):\(target)" : "\(target):\(source)"
  }

  /// The pair's identity key, equal from both sides, so that one pair is exported once.
  public func key(source: String, target: String) -> String {
    let sourceFirst = isSymmetric ? source <= target : isSourceFirstInKey
    return sourceFirst ? "\(keyPrefix):\(source):\(target)" : "\(keyPrefix):\(target):\(source)"
  }
}

extension AttributeType {
  /// The field of an attribute (docs/protocol/mirroring.md#attribute-types); nil for types that can't be mirrored.
  public var fieldType: FieldType? {
    switch self {
    case .boolean, .integer16, .integer32, .integer64: .int64
    case .float, .double, .decimal: .double
    case .date: .timestamp
    case .uuid, .string, .uri: .string
    case .binary, .transformable, .composite: .bytes
    case .undefined, .objectID: nil
    }
  }

  /// True if values may move to a `_ckAsset` companion field.
  public var isVariableLength: Bool {
    switch self {
    case .string, .uri, .binary, .transformable, .composite: true
    default: false
    }
  }
}

extension [String: String] {
  /// True if a user info value is true by the rules of `NSString.boolValue`: `YES`, `true`, `1` and the like.
  func isSet(_ key: String) -> Bool {
    guard let value = self[key] else { return false }
    let digits = value.utf8.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    let unsigned = digits.first == UInt8(ascii: "+") || digits.first == UInt8(ascii: "-") ? digits.dropFirst() : digits
    guard let first = unsigned.drop(while: { $0 == UInt8(ascii: "0") }).first else { return false }
    return "YyTt123456789".utf8.contains(first)
  }
}
