// What the server tells of a store: events, state, held-back objects, single objects.

/// An event of the server's (V1).
public struct StoreEvent: Hashable, Sendable, Codable {
  public enum EventType: String, Hashable, Sendable, Codable { case setup, `import`, export }

  public struct Counts: Hashable, Sendable, Codable {
    public let saved: Int
    public let deleted: Int
  }

  public struct Failure: Hashable, Sendable, Codable {
    public let ckErrorCode: Int?
    public let cocoaErrorCode: Int?
    public let serverErrorCode: String?
    public let reason: String?
    /// Each object's own.
    public let partialErrors: [ObjectProblem]?
  }

  public let identifier: String
  public let type: EventType
  public let storeIdentifier: String
  public let startDate: String
  public let endDate: String?
  public let succeeded: Bool
  public let error: Failure?
  public let counts: Counts
}

/// The answer to `GET events`.
public struct EventsAnswer: Hashable, Sendable, Codable {
  public let events: [StoreEvent]
  public let lastEvent: String
  public let moreComing: Bool
}

/// The answer to `GET status` (V3).
public struct StatusAnswer: Hashable, Sendable, Codable {
  public struct Pending: Hashable, Sendable, Codable {
    public let uploads: Int64
    public let objects: Int
    public let downloads: Int
    public let quarantined: Int
    public let notImported: Int
    public let conflicts: Int
    public let bytes: Int64
    public let isPartial: Bool
  }

  public struct HeldZone: Hashable, Sendable, Codable {
    public let zoneID: ZoneID
    public let reason: String
    public let since: String
  }

  public let pending: Pending
  public let idle: String
  public let throttledUntil: String?
  public let lastExport: StoreEvent?
  public let lastImport: StoreEvent?
  public let reset: String?
  public let heldZones: [HeldZone]
  public let caughtUp: Bool
}

/// The answer to `GET quarantine`.
public struct QuarantineAnswer: Hashable, Sendable, Codable {
  public struct Entry: Hashable, Sendable, Codable {
    public let objectID: String
    public let entity: String
    public let ckErrorCode: Int
    public let serverErrorCode: String
    public let reason: String
    public let cause: String
    public let attempts: Int
    public let retryDate: String?
    public let zoneID: ZoneID?
  }

  public let quarantined: [Entry]
  public let lastQuarantined: String
  public let moreComing: Bool
}

/// The answer to `GET objects/{objectID}`, without its record.
public struct ObjectAnswer: Hashable, Sendable, Codable {
  public let entity: String
  public let objectID: String
  public let zoneID: ZoneID
  public let attributes: [String: AttributeValue]
  /// To-one and to-many.
  public let relationships: [String: RelationshipValue]
  public let syncState: String
  public let lastError: ObjectProblem?
}

/// The answer to `GET objects/{objectID}/explain`.
public struct ExplainAnswer: Hashable, Sendable, Codable {
  public struct Reason: Hashable, Sendable, Codable {
    public let code: String
    public let text: String
  }

  public let syncState: String
  public let reasons: [Reason]
  public let pendingTransactions: [Int64]
}

/// The answer to `POST permissions` (A12).
public struct PermissionsAnswer: Hashable, Sendable, Codable {
  public struct Permission: Hashable, Sendable, Codable {
    public let objectID: String
    public let canUpdate: Bool
    public let canDelete: Bool
  }

  public let canModify: Bool
  public let objects: [Permission]
}

/// A silent ping: a zone has changed.
public struct Ping: Hashable, Sendable, Decodable {
  public enum Scope: Int, Hashable, Sendable, Decodable { case `public`, `private`, shared }

  public let scope: Scope
  public let zoneID: ZoneID
  /// Equal to what a store has if the store knows the change.
  public let token: String?

  private enum Key: String, CodingKey { case ck, met, dbs, zid, zoid, tok }

  public init(from decoder: any Decoder) throws {
    let met = try decoder.container(keyedBy: Key.self).nestedContainer(keyedBy: Key.self, forKey: .ck)
      .nestedContainer(keyedBy: Key.self, forKey: .met)
    scope = try met.decode(Scope.self, forKey: .dbs)
    zoneID = ZoneID(
      zoneName: try met.decode(String.self, forKey: .zid), ownerRecordName: try met.decode(String.self, forKey: .zoid))
    token = try met.decodeIfPresent(String.self, forKey: .tok)
  }
}
