// Persistent history: the saves of a client, transaction by transaction (H1).

public import Records

/// An attribute's value as the object plane carries it, before and after mirroring.
public enum AttributeValue: Hashable, Sendable {
  case null
  case integer(Int64)
  case double(Double)
  /// Decimal text, kept as sent.
  case decimal(String)
  case string(String)
  case boolean(Bool)
  /// Milliseconds since 1970.
  case date(Int64)
  /// Upper-case UUID text.
  case uuid(String)
  case uri(String)
  /// Binary, Transformable.
  case binary([UInt8])
  /// Binary or text that was uploaded, or that is too large to send inline.
  case asset(Asset)
  /// Composite: names in ascending order.
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

/// What a change says of one relationship. Targets are object IDs.
public enum RelationshipValue: Hashable, Sendable {
  /// nil clears it.
  case toOne(String?)
  /// The whole set.
  case toMany([String])
  case toManyDelta(add: [String], remove: [String])
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
  /// The number is NSPersistentHistoryChangeType's.
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
  /// The record name.
  public let objectID: String
  /// In ascending order of names; for an update just what changed.
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

  /// Names of what an update touched, in ascending order; empty for other changes.
  public var updatedProperties: [String] {
    changeType == .update ? (attributes.map(\.name) + relationships.map(\.name)).sorted() : []
  }
}

/// One save of a client.
public struct HistoryTransaction: Hashable, Sendable {
  /// The client's idempotency key.
  public var transactionID: String
  /// The client's clock, milliseconds since 1970.
  public var timestamp: Int64
  public var author: String?
  public var contextName: String?
  public var bundleID: String?
  public var processID: String?
  /// In the order they were made.
  public var changes: [HistoryChange]
  /// What decides over conflicts; nil: nothing is known, and the last arrival wins.
  public var edit: Edit?

  /// The time of the edits, and the state that they knew (C1).
  public struct Edit: Hashable, Sendable {
    /// The sequence up to which the store had imported the database.
    public let base: Int64
    /// Milliseconds since 1970: the client's clock as far as it is believed (`EditTime` of Mirroring).
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

  /// The assets its values name, in no particular order.
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
