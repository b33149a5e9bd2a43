// A page of an import: what `GET changes` tells.

/// A page of changes, which a store applies in one commit together with the token (I2).
public struct ImportPage: Hashable, Sendable {
  /// Steps of the database's sequence.
  public struct Progress: Hashable, Sendable, Codable {
    public let done: Int64
    public let total: Int64

    public init(done: Int64, total: Int64) {
      self.done = done
      self.total = total
    }
  }

  /// A reset under way: the pages go into a second copy, which replaces the first when `done` is true (P5).
  public struct Reset: Hashable, Sendable, Codable {
    public let reason: String
    public let done: Bool

    public init(reason: String, done: Bool) {
      self.reason = reason
      self.done = done
    }
  }

  public var changes: [ImportedChange]
  public var importToken: String
  public var moreComing: Bool
  public var caughtUp: Bool
  public var progress: Progress?
  /// The server has once told the store everything.
  public var isInitialImportDone: Bool
  public var reset: Reset?
  /// Records that were left out (R10).
  public var quarantined: [ObjectProblem]
  /// Conflicts that wait for a decision.
  public var openConflictCount = 0

  public init(
    changes: [ImportedChange], importToken: String, moreComing: Bool = false, caughtUp: Bool = true,
    progress: Progress? = nil, isInitialImportDone: Bool = true, reset: Reset? = nil, quarantined: [ObjectProblem] = []
  ) {
    self.changes = changes
    self.importToken = importToken
    self.moreComing = moreComing
    self.caughtUp = caughtUp
    self.progress = progress
    self.isInitialImportDone = isInitialImportDone
    self.reset = reset
    self.quarantined = quarantined
  }
}

/// What somebody else did, as a page tells it.
public enum ImportedChange: Hashable, Sendable {
  case save(ImportedObject)
  case delete(entity: String, objectID: String, zoneID: ZoneID)
  /// A pair of a many-to-many relationship that is made, and one that ended.
  case link(Link)
  case unlink(Link)
  /// An object lies in another zone; its `save` follows.
  case move(objectID: String, from: ZoneID, to: ZoneID)
  case zone(EndedZone)
  /// The share of the zone is new, changed or ended; `GET shares` has its state.
  case share(ZoneID)
}

/// An object as the server has it: every mirrored attribute, and every to-one relationship.
public struct ImportedObject: Hashable, Sendable {
  public var entity: String
  public var objectID: String
  public var zoneID: ZoneID
  public var attributes: [String: AttributeValue]
  /// To-one relationships; nil clears one (I5).
  public var relationships: [String: String?]
  public var recordChangeTag: String
  public var modified: Stamp?
  /// The store was told this state before, with an earlier model or before a reset (I8).
  public var redelivered: Bool

  public init(
    entity: String, objectID: String, zoneID: ZoneID, attributes: [String: AttributeValue] = [:],
    relationships: [String: String?] = [:], recordChangeTag: String, modified: Stamp? = nil, redelivered: Bool = false
  ) {
    self.entity = entity
    self.objectID = objectID
    self.zoneID = zoneID
    self.attributes = attributes
    self.relationships = relationships
    self.recordChangeTag = recordChangeTag
    self.modified = modified
    self.redelivered = redelivered
  }
}

/// When a record was written, and by whom.
public struct Stamp: Hashable, Sendable, Codable {
  /// Milliseconds since 1970.
  public let timestamp: Int64
  public let userRecordName: String
  public let deviceID: String?

  public init(timestamp: Int64, userRecordName: String, deviceID: String?) {
    self.timestamp = timestamp
    self.userRecordName = userRecordName
    self.deviceID = deviceID
  }
}

/// A pair of a many-to-many relationship, told from one end.
public struct Link: Hashable, Sendable {
  public var relationship: String
  public var entity: String
  public var objectID: String
  public var targetEntity: String
  public var targetID: String

  public init(relationship: String, entity: String, objectID: String, targetEntity: String, targetID: String) {
    self.relationship = relationship
    self.entity = entity
    self.objectID = objectID
    self.targetEntity = targetEntity
    self.targetID = targetID
  }
}

/// A zone that is gone, and what becomes of its objects (P4).
public struct EndedZone: Hashable, Sendable {
  public enum Action: String, Hashable, Sendable, Codable { case delete, reupload, pause }

  public var zoneID: ZoneID
  /// `deleted`, `purged`, `encryptedDataReset` or `left`.
  public var reason: String
  public var action: Action
  /// A sum of the steps of P6.
  public var recovery: Int?

  public init(zoneID: ZoneID, reason: String, action: Action, recovery: Int? = nil) {
    self.zoneID = zoneID
    self.reason = reason
    self.action = action
    self.recovery = recovery
  }
}
