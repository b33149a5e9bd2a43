// Core Data's model as values: entities, attributes, relationships.

/// A managed object model, as an `.xcdatamodel` describes it. Codable, because the directory sends it to the workers.
public struct ManagedObjectModel: Hashable, Sendable, Codable {
  /// Ascending by name.
  public var entities: [Entity]
  /// Configuration name → names of its entities, ascending. The default configuration has all entities and is not
  /// listed.
  public var configurations: [String: [String]]

  public init(entities: [Entity], configurations: [String: [String]] = [:]) {
    self.entities = entities.sorted { $0.name < $1.name }
    self.configurations = configurations
  }

  public func entity(named name: String) -> Entity? { entities.first { $0.name == name } }
}

public struct Entity: Hashable, Sendable, Codable {
  public var name: String
  public var parentName: String?
  public var isAbstract: Bool
  /// The file's value. Mirroring ignores it: it is a relic of Sync Services.
  public var isSyncable: Bool
  /// Attributes that this entity declares; its parents have the inherited ones.
  public var attributes: [Attribute]
  public var relationships: [Relationship]
  /// Each constraint is a list of attribute names.
  public var uniquenessConstraints: [[String]]
  public var fetchIndexes: [String]
  public var userInfo: [String: String]
  /// The entity's name in earlier versions of the model (`elementID` in the file); nil if the name never changed.
  public var renamingIdentifier: String?

  public init(
    name: String, parentName: String? = nil, isAbstract: Bool = false, isSyncable: Bool = true,
    attributes: [Attribute] = [],
    relationships: [Relationship] = [], uniquenessConstraints: [[String]] = [], fetchIndexes: [String] = [],
    userInfo: [String: String] = [:]
  ) {
    self.name = name
    self.parentName = parentName
    self.isAbstract = isAbstract
    self.isSyncable = isSyncable
    self.attributes = attributes
    self.relationships = relationships
    self.uniquenessConstraints = uniquenessConstraints
    self.fetchIndexes = fetchIndexes
    self.userInfo = userInfo
  }
}

/// An attribute's type. The raw value is `attributeType` in the model file.
public enum AttributeType: String, Hashable, Sendable, Codable, CaseIterable {
  case undefined = "Undefined"
  case integer16 = "Integer 16"
  case integer32 = "Integer 32"
  case integer64 = "Integer 64"
  case decimal = "Decimal"
  case double = "Double"
  case float = "Float"
  case string = "String"
  case boolean = "Boolean"
  case date = "Date"
  case binary = "Binary"
  case uuid = "UUID"
  case uri = "URI"
  case transformable = "Transformable"
  case objectID = "ObjectID"
  case composite = "Composite"
}

public struct Attribute: Hashable, Sendable, Codable {
  public var name: String
  public var type: AttributeType
  public var isOptional: Bool
  public var isTransient: Bool
  public var isDerived: Bool
  /// The default in the model file's notation; nil if there is none.
  public var defaultValue: String?
  public var allowsCloudEncryption: Bool
  public var allowsExternalBinaryDataStorage: Bool
  public var preservesValueOnDeletion: Bool
  public var usesMergeableStorage: Bool
  public var valueTransformerName: String?
  /// The elements of a composite attribute; empty for other types.
  public var elements: [Attribute]
  public var userInfo: [String: String]
  /// The attribute's name in earlier versions of the model (`elementID` in the file); nil if the name never changed.
  public var renamingIdentifier: String?

  public init(
    name: String, type: AttributeType, isOptional: Bool = true, isTransient: Bool = false, isDerived: Bool = false,
    defaultValue: String? = nil,
    allowsCloudEncryption: Bool = false, allowsExternalBinaryDataStorage: Bool = false,
    preservesValueOnDeletion: Bool = false,
    usesMergeableStorage: Bool = false, valueTransformerName: String? = nil, elements: [Attribute] = [],
    userInfo: [String: String] = [:]
  ) {
    self.name = name
    self.type = type
    self.isOptional = isOptional
    self.isTransient = isTransient
    self.isDerived = isDerived
    self.defaultValue = defaultValue
    self.allowsCloudEncryption = allowsCloudEncryption
    self.allowsExternalBinaryDataStorage = allowsExternalBinaryDataStorage
    self.preservesValueOnDeletion = preservesValueOnDeletion
    self.usesMergeableStorage = usesMergeableStorage
    self.valueTransformerName = valueTransformerName
    self.elements = elements
    self.userInfo = userInfo
  }
}

public enum DeleteRule: String, Hashable, Sendable, Codable, CaseIterable {
  case noAction = "No Action"
  case nullify = "Nullify"
  case cascade = "Cascade"
  case deny = "Deny"
}

public struct Relationship: Hashable, Sendable, Codable {
  public var name: String
  public var destinationName: String
  public var inverseName: String?
  public var inverseEntityName: String?
  public var isToMany: Bool
  /// 0 requires no target.
  public var minCount: Int
  /// 1 for a to-one relationship; 0 means no limit.
  public var maxCount: Int
  public var isOrdered: Bool
  public var isOptional: Bool
  public var isTransient: Bool
  public var deleteRule: DeleteRule
  public var userInfo: [String: String]
  /// The relationship's name in earlier versions of the model (`elementID` in the file); nil if the name never changed.
  public var renamingIdentifier: String?

  public init(
    name: String, destinationName: String, inverseName: String?, inverseEntityName: String?, isToMany: Bool,
    minCount: Int = 0,
    maxCount: Int? = nil, isOrdered: Bool = false, isOptional: Bool = true, isTransient: Bool = false,
    deleteRule: DeleteRule = .nullify, userInfo: [String: String] = [:]
  ) {
    self.name = name
    self.destinationName = destinationName
    self.inverseName = inverseName
    self.inverseEntityName = inverseEntityName
    self.isToMany = isToMany
    self.minCount = minCount
    self.maxCount = maxCount ?? (isToMany ? 0 : 1)
    self.isOrdered = isOrdered
    self.isOptional = isOptional
    self.isTransient = isTransient
    self.deleteRule = deleteRule
    self.userInfo = userInfo
  }
}
