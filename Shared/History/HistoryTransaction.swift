// Persistent history: the saves of a client, transaction by transaction (H1).

public import Records

/// An attribute's value on the object plane, before and after mirroring.
public enum AttributeValue: Hashable, Sendable {
  case null
  case integer(Int64)
  case double(Double)
  /// Decimal text, exactly as the client sent it.
  case decimal(String)
  case string(String)
  case boolean(Bool)
  /// Milliseconds since 1970.
  case date(Int64)
  /// Upper-case UUID text.
  case uuid(String)
  case uri(String)
  /// The value of a Binary or Transformable attribute.
  case binary([UInt8])
  /// Binary or text that the client uploaded, or that is too large to send inline.
  case asset(Asset)
  /// A composite: its elements, by ascending name.
  case composite([CompositeElement])

  public struct CompositeElement: Hashable, Sendable {
    public let name: String
    public let value: AttributeValue

    public init(name: String, value: AttributeValue) {
      self.name = name
      self.value = value
    }
  }
}

/// One relationship's new value in a change. Targets are object IDs.
public enum RelationshipValue: Hashable, Sendable {
  /// The target's object ID; nil clears the relationship.
  case toOne(String?)
  /// The whole set of targets; it replaces the earlier one.
  case toMany([String])
  case toManyDelta(add: [String], remove: [String])

  /// The objects that the value adds.
  public var added: [String] {
    switch self {
    case .toOne(let target): target.map { [$0] } ?? []
    case .toMany(let targets): targets
    case .toManyDelta(let added, _): added
    }
  }
}

/// A property and its new value.
public struct NamedValue<Value: Hashable & Sendable>: Hashable, Sendable {
  public let name: String
  public let value: Value

  public init(name: String, value: Value) {
    self.name = name
    self.value = value
  }
}

/// One object's change within a transaction.
public struct HistoryChange: Hashable, Sendable {
  /// The raw value is `NSPersistentHistoryChangeType`'s.
  public enum ChangeType: Int, Hashable, Sendable {
    case insert = 0
    case update = 1
    case delete = 2

    public var wireName: String {
      switch self {
      case .insert: "insert"
      case .update: "update"
      case .delete: "delete"
      }
    }

    public init?(wireName: String) {
      switch wireName {
      case "insert": self = .insert
      case "update": self = .update
      case "delete": self = .delete
      default: return nil
      }
    }
  }

  public let changeType: ChangeType
  /// The concrete entity's name.
  public let entity: String
  /// The record name of the object's record.
  public let objectID: String
  /// By ascending name; for an update only the attributes that changed.
  public let attributes: [NamedValue<AttributeValue>]
  public let relationships: [NamedValue<RelationshipValue>]
  /// Values preserved on deletion, for a delete (T-H05).
  public let tombstone: [NamedValue<AttributeValue>]

  public init(
    changeType: ChangeType, entity: String, objectID: String, attributes: [NamedValue<AttributeValue>] = [],
    relationships: [NamedValue<RelationshipValue>] = [], tombstone: [NamedValue<AttributeValue>] = []
  ) {
    self.changeType = changeType
    self.entity = entity
    self.objectID = objectID
    self.attributes = attributes
    self.relationships = relationships
    self.tombstone = tombstone
  }

  /// Names of the attributes and relationships that an update sets, ascending; empty for other changes.
  public var updatedProperties: [String] {
    changeType == .update ? (attributes.map(\.name) + relationships.map(\.name)).sorted() : []
  }
}

/// One save of a client: a history transaction.
public struct HistoryTransaction: Hashable, Sendable {
  /// The client's idempotency key: a transaction that arrives twice is stored once.
  public var transactionID: String
  /// Milliseconds since 1970, by the client's clock.
  public var timestamp: Int64
  public var author: String?
  public var contextName: String?
  public var bundleID: String?
  public var processID: String?
  /// In the order in which the client made them.
  public var changes: [HistoryChange]
  /// The edit's place and time, for conflicts; nil: neither is known, and the last edit to arrive wins.
  public var edit: Edit?

  /// The time of the edits, and the state that they knew (C1).
  public struct Edit: Hashable, Sendable {
    /// The database's sequence number up to which the store had imported when the edit was made.
    public let base: Int64
    /// Milliseconds since 1970: the client's clock, within the bounds of `EditTime` in Mirroring.
    public let time: Int64

    public init(base: Int64, time: Int64) {
      self.base = base
      self.time = time
    }
  }

  public init(
    transactionID: String, timestamp: Int64, author: String? = nil, contextName: String? = nil, bundleID: String? = nil,
    processID: String? = nil, changes: [HistoryChange]
  ) {
    self.transactionID = transactionID
    self.timestamp = timestamp
    self.author = author
    self.contextName = contextName
    self.bundleID = bundleID
    self.processID = processID
    self.changes = changes
  }

  /// The assets that attributes and tombstones name, composites included, in no particular order.
  public var assets: [Asset] {
    var assets: [Asset] = []
    for change in changes {
      for value in change.attributes { value.value.appendAssets(to: &assets) }
      for value in change.tombstone { value.value.appendAssets(to: &assets) }
    }
    return assets
  }
}

extension AttributeValue {
  fileprivate func appendAssets(to assets: inout [Asset]) {
    switch self {
    case .asset(let asset): assets.append(asset)
    case .composite(let elements): for element in elements { element.value.appendAssets(to: &assets) }
    default: break
    }
  }
}
