// A save: what an app did in one commit, as `POST transactions` takes it.

/// One save of an app.
public struct Transaction: Hashable, Sendable, Codable {
  /// 1 to 255 bytes, and never used for another save.
  public var transactionID: String
  /// RFC 3339 with milliseconds (`WireDate`).
  public var timestamp: String
  public var author: String?
  public var contextName: String?
  public var bundleID: String?
  public var processID: String?
  /// The position up to which the store had imported when the edit was made.
  public var importToken: String?
  public var changes: [ObjectChange]

  public init(
    transactionID: String, timestamp: String, author: String? = nil, contextName: String? = nil,
    bundleID: String? = nil, processID: String? = nil, importToken: String? = nil, changes: [ObjectChange]
  ) {
    self.transactionID = transactionID
    self.timestamp = timestamp
    self.author = author
    self.contextName = contextName
    self.bundleID = bundleID
    self.processID = processID
    self.importToken = importToken
    self.changes = changes
  }
}

/// The change of one object within a save.
public struct ObjectChange: Hashable, Sendable, Codable {
  public enum ChangeType: String, Hashable, Sendable, Codable { case insert, update, delete }

  public var changeType: ChangeType
  public var entity: String
  public var objectID: String
  public var attributes: [String: AttributeValue]?
  public var relationships: [String: RelationshipValue]?
  /// Of a deletion: the attributes that the model preserves.
  public var tombstone: [String: AttributeValue]?

  public init(
    _ changeType: ChangeType, entity: String, objectID: String, attributes: [String: AttributeValue]? = nil,
    relationships: [String: RelationshipValue]? = nil, tombstone: [String: AttributeValue]? = nil
  ) {
    self.changeType = changeType
    self.entity = entity
    self.objectID = objectID
    self.attributes = attributes
    self.relationships = relationships
    self.tombstone = tombstone
  }
}

/// The body of `POST transactions`.
public enum SaveRequest {
  /// The most transactions of one request.
  public static let transactionLimit = 1000
  /// The most bytes of one body.
  public static let byteLimit = 8 * 1024 * 1024

  /// - Parameter transactions: each as JSON, in the order in which they were saved.
  public static func body(_ transactions: some Sequence<[UInt8]>) -> [UInt8] {
    var body = Array(#"{"transactions":["#.utf8)
    for (place, transaction) in transactions.enumerated() {
      if place > 0 { body.append(UInt8(ascii: ",")) }
      body.append(contentsOf: transaction)
    }
    body.append(contentsOf: "]}".utf8)
    return body
  }
}

/// The answer to a save.
public struct SaveAnswer: Hashable, Sendable, Codable {
  public struct Saved: Hashable, Sendable, Codable {
    public let transactionID: String
    public let transactionNumber: Int64
  }

  public let historyToken: String
  public let transactions: [Saved]
  /// Of the export, if the request waited for it.
  public let event: StoreEvent?
  public let syncToken: String?
}
