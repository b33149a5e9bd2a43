// A managed object model as code: what a generator writes down, so that no XML is read at run time.

/// The entities of an app (`NSManagedObjectModel`).
public struct ManagedObjectModel: Sendable, Equatable, Codable {
  /// The hash that the server knows the model by; `aquifer model validate` prints it.
  public let hash: String
  public let entities: [EntityDescription]
  /// Names of entities by configuration. Without configurations, every store has every entity.
  public let configurations: [String: [String]]
  /// Earlier versions of the model, oldest first. A file keeps its own model, so migration reads them for staged steps
  /// only.
  public let earlierVersions: [ManagedObjectModel]

  public init(
    hash: String, entities: [EntityDescription], configurations: [String: [String]] = [:],
    earlierVersions: [ManagedObjectModel] = []
  ) {
    self.hash = hash
    self.entities = entities
    self.configurations = configurations
    self.earlierVersions = earlierVersions
  }
}

/// An entity with the properties that it declares itself.
public struct EntityDescription: Sendable, Equatable, Codable {
  public let name: String
  /// The superentity, whose properties the entity inherits.
  public let parentName: String?
  public let attributes: [AttributeDescription]
  public let relationships: [RelationshipDescription]
  /// An abstract entity has no objects of its own.
  public let isAbstract: Bool
  /// Properties of each fetch index, in order.
  public let fetchIndexes: [[String]]
  /// The entity's name in earlier versions, if it had another.
  public let renamingIdentifier: String?

  public init(
    _ name: String, parent: String? = nil, attributes: [AttributeDescription] = [],
    relationships: [RelationshipDescription] = [],
    isAbstract: Bool = false, fetchIndexes: [[String]] = [], renamingIdentifier: String? = nil
  ) {
    self.name = name
    parentName = parent
    self.attributes = attributes
    self.relationships = relationships
    self.isAbstract = isAbstract
    self.fetchIndexes = fetchIndexes
    self.renamingIdentifier = renamingIdentifier
  }
}

public enum AttributeType: String, Sendable, Codable {
  case integer16, integer32, integer64, double, float, decimal, boolean, date, uuid, uri, string, binary, transformable,
    composite
}

/// An attribute. Transient attributes are no columns; derived ones are columns that nobody writes.
public struct AttributeDescription: Sendable, Equatable, Codable {
  public struct Traits: OptionSet, Sendable, Codable {
    public let rawValue: Int

    public init(rawValue: Int) { self.rawValue = rawValue }

    public static let transient = Traits(rawValue: 1)
    public static let derived = Traits(rawValue: 2)
    /// The value is content in a file (`ExternalData`).
    public static let external = Traits(rawValue: 4)
    public static let encrypted = Traits(rawValue: 8)
    /// A deletion's tombstone keeps the value.
    public static let preservedOnDeletion = Traits(rawValue: 16)
    /// The value stays on this device.
    public static let notMirrored = Traits(rawValue: 32)
    /// Saving an object without a value fails.
    public static let required = Traits(rawValue: 64)
  }

  public let name: String
  public let type: AttributeType
  public let traits: Traits
  /// The default as the model spells it: `0`, `YES`, `text`.
  public let defaultValue: String?
  /// The attribute's name in earlier versions, if it had another.
  public let renamingIdentifier: String?
  /// How a derived attribute is computed: `tags.@count`, `ratings.value.@sum`, `photo.displayName`,
  /// `canonical:(name)`, `uppercase:(name)`, `lowercase:(name)` or `now()`.
  public let derivation: String?
  /// The smallest and largest number, or length of a string.
  public let minimum: Double?
  public let maximum: Double?

  public init(
    _ name: String, _ type: AttributeType, _ traits: Traits = [], defaultValue: String? = nil,
    renamingIdentifier: String? = nil,
    derivation: String? = nil, minimum: Double? = nil, maximum: Double? = nil
  ) {
    self.name = name
    self.type = type
    self.traits = traits
    self.defaultValue = defaultValue
    self.renamingIdentifier = renamingIdentifier
    self.derivation = derivation
    self.minimum = minimum
    self.maximum = maximum
  }
}

public enum DeleteRule: String, Sendable, Codable { case nullify, cascade, noAction }

/// A relationship; mirrored relationships have inverses.
public struct RelationshipDescription: Sendable, Equatable, Codable {
  public let name: String
  public let destination: String
  public let inverse: String
  public let isToMany: Bool
  public let deleteRule: DeleteRule
  /// The relationship's name in earlier versions, if it had another.
  public let renamingIdentifier: String?

  public init(
    _ name: String, to destination: String, inverse: String, isToMany: Bool, _ deleteRule: DeleteRule = .nullify,
    renamingIdentifier: String? = nil
  ) {
    self.name = name
    self.destination = destination
    self.inverse = inverse
    self.isToMany = isToMany
    self.deleteRule = deleteRule
    self.renamingIdentifier = renamingIdentifier
  }
}
