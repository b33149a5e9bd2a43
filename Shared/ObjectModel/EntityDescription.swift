// Entities, attributes and relationships as mirroring needs them: inheritance, inverses, field names and link order resolved once.

public import Records

/// An entity with everything it inherits. One instance per entity and `ModelIndex`.
public final class EntityDescription: Sendable {
  public let entity: Entity
  /// Position in `ModelIndex.entities`.
  public let ordinal: Int
  /// The entity at the top of its inheritance chain; itself when it has no parent.
  public let rootName: String
  /// `CD_<root>` (R1).
  public let recordType: String
  /// Nearest first.
  public let superentityNames: [String]
  /// Itself and everything below it, ascending.
  public let kindNames: [String]
  /// Own and inherited, ascending by name.
  public let attributes: [AttributeDescription]
  /// Own and inherited, ascending by name.
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

  public var name: String { entity.name }
  public var isAbstract: Bool { entity.isAbstract }

  init(
    entity: Entity, ordinal: Int, rootName: String, superentityNames: [String], kindNames: [String], attributes: [AttributeDescription],
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
      attributes.filter { $0.attribute.preservesValueOnDeletion && !$0.attribute.allowsExternalBinaryDataStorage }.map(\.name))
    attributesByName = Dictionary(attributes.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
    relationshipsByName = Dictionary(relationships.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
  }

  public func attribute(named name: String) -> AttributeDescription? { attributesByName[name].map { attributes[$0] } }

  /// The same for callers that ask for one after the other in ascending order of names, which then costs no search.
  /// - Parameter place: 0 at first.
  public func attribute(named name: String, near place: inout Int) -> AttributeDescription? {
    for index in place..<min(place + Self.nearCount, attributes.count) where attributes[index].name == name {
      place = index + 1
      return attributes[index]
    }
    return attribute(named: name)
  }

  private static let nearCount = 4

  public func relationship(named name: String) -> RelationshipDescription? { relationshipsByName[name].map { relationships[$0] } }

  /// Whether objects of this entity may stand where `other` is the destination: itself or one of its subentities.
  public func isKind(of other: EntityDescription) -> Bool { name == other.name || superentityNames.contains(other.name) }
}

extension Attribute {
  /// A Decimal whose model asks for all of its digits (user info `AquiferExactDecimal`).
  public var isExactDecimal: Bool { type == .decimal && userInfo.isSet(ReservedName.exactDecimalKey) }
}

/// An attribute with its place in the hierarchy and its field.
public final class AttributeDescription: Sendable {
  public let attribute: Attribute
  /// The entity that declares it: the owner or one of its superentities.
  public let declaringEntityName: String
  /// False for transient, derived, ignored and reserved attributes (R5), and for the two types without a field.
  public let isMirrored: Bool
  /// The value belongs in the record's encrypted bag (R7).
  public let isEncrypted: Bool
  /// `CD_<name>`.
  public let fieldName: String
  /// `CD_<name>_ckAsset` for variable-length types; nil for the others.
  public let assetFieldName: String?
  /// `CD_<name>_exact` for a Decimal whose digits are all kept (`AquiferExactDecimal`); nil for the others.
  public let exactFieldName: String?
  /// By the table of docs/protocol/mirroring.md#attribute-types; `.bytes` for the two types without a field.
  public let fieldType: FieldType

  public var name: String { attribute.name }
  public var type: AttributeType { attribute.type }
  /// The value may move to the asset companion when the record grows too large (R8).
  public var isVariableLength: Bool { assetFieldName != nil }

  init(_ attribute: Attribute, declaredBy entityName: String) {
    self.attribute = attribute
    declaringEntityName = entityName
    isMirrored =
      !attribute.isTransient && !attribute.isDerived && attribute.type.fieldType != nil
      && !attribute.userInfo.isSet(ReservedName.ignoredPropertyKey) && !ReservedName.reservedAttributes.contains(attribute.name)
    isEncrypted = attribute.allowsCloudEncryption || attribute.userInfo.isSet(ReservedName.encryptedAttributeKey)
    fieldName = ReservedName.fieldPrefix + attribute.name
    assetFieldName = attribute.type.isVariableLength ? fieldName + ReservedName.assetSuffix : nil
    exactFieldName = attribute.isExactDecimal ? fieldName + ReservedName.exactSuffix : nil
    fieldType = attribute.type.fieldType ?? .bytes
  }
}

/// A relationship with its place in the hierarchy, its inverse, and how it is written.
public final class RelationshipDescription: Sendable {
  /// How a relationship is kept in records.
  public enum Storage: Sendable {
    /// A STRING field with the target's record name (R11).
    case field(name: String)
    /// Nothing: the to-one inverse's field says it (R12).
    case inverseField(name: String)
    /// A record per pair (R13).
    case link(LinkDescription)
    /// Transient, ignored, or without an inverse or destination; the validator refuses all but the first.
    case none
  }

  public let relationship: Relationship
  /// The entity that declares it: the owner or one of its superentities.
  public let declaringEntityName: String
  /// The inverse, found on the destination or one of its superentities; nil when it dangles.
  public let inverse: Inverse?
  public let storage: Storage

  init(relationship: Relationship, declaringEntityName: String, inverse: Inverse?, storage: Storage) {
    self.relationship = relationship
    self.declaringEntityName = declaringEntityName
    self.inverse = inverse
    self.storage = storage
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
  /// What is shared or moved ends at it, whichever of the two sides says so.
  public var isShareBoundary: Bool {
    relationship.userInfo.isSet(ReservedName.shareBoundaryKey) || inverse?.relationship.userInfo.isSet(ReservedName.shareBoundaryKey) == true
  }
  public var isMirrored: Bool { if case .none = storage { false } else { true } }
  /// nil unless many-to-many.
  public var link: LinkDescription? { if case .link(let link) = storage { link } else { nil } }
}

/// How the pairs of a many-to-many relationship are spelled, seen from one of its two sides (R13, R14).
public struct LinkDescription: Hashable, Sendable {
  /// `CD_entityNames`, such as `Item:Shelf`: the declaring entities in canonical order.
  public let entityNames: String
  /// `CD_relationships` in the same order, such as `shelves:items`.
  public let relationshipNames: String
  /// Whether the source's record name comes first in `CD_recordNames`. Meaningless when `isSymmetric`.
  public let isSourceFirst: Bool
  /// The relationship is its own inverse: the two record names ascend instead.
  public let isSymmetric: Bool
  /// `CD_M2M_<rootEntity>_<rel>`, before `:<recA>:<recB>` in the pair's identity key (R14).
  public let keyPrefix: String
  /// Whether the source's record name comes first in the identity key. Meaningless when `isSymmetric`.
  public let isSourceFirstInKey: Bool

  /// `CD_recordNames` of a pair.
  public func recordNames(source: String, target: String) -> String {
    let sourceFirst = isSymmetric ? source <= target : isSourceFirst
    return sourceFirst ? "\(source):\(target)" : "\(target):\(source)"
  }

  /// The pair's identity key, equal from both sides, so that a pair is exported once.
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

  /// Whether there is a `_ckAsset` companion.
  public var isVariableLength: Bool {
    switch self {
    case .string, .uri, .binary, .transformable, .composite: true
    default: false
    }
  }
}

extension [String: String] {
  /// Whether a user info key is true, as `NSString.boolValue` reads it: `YES`, `true`, `1` and the like.
  func isSet(_ key: String) -> Bool {
    guard let value = self[key] else { return false }
    let digits = value.utf8.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    let unsigned = digits.first == UInt8(ascii: "+") || digits.first == UInt8(ascii: "-") ? digits.dropFirst() : digits
    guard let first = unsigned.drop(while: { $0 == UInt8(ascii: "0") }).first else { return false }
    return "YyTt123456789".utf8.contains(first)
  }
}
