// The smaller request bodies of the mirror API's store calls.

public import JSON
public import Records

/// `PUT stores/{id}`
public struct SetUpStoreRequest: Hashable, Sendable {
  public let modelHash: String
  public let configuration: String?
  public let deviceName: String?

  /// - Throws: `BAD_REQUEST` naming the key.
  public init(_ body: JSONValue) throws(RecordError) {
    modelHash = try body.requiredString("modelHash")
    configuration = try body.optionalString("configuration")
    deviceName = try body.optionalObject("device")?.optionalString("name")
    for (key, value) in [("configuration", configuration), ("device.name", deviceName)] {
      guard let value, value.utf8.count > Limit.nameByteCount else { continue }
      throw RecordError(.badRequest, "\(key) has more than \(Limit.nameByteCount) bytes")
    }
  }
}

/// `POST records` and `POST permissions`
public struct ObjectIDsRequest: Hashable, Sendable {
  /// At most 200, in the order they were sent.
  public let objectIDs: [String]

  public init(_ body: JSONValue) throws(RecordError) {
    guard let objectIDs = try body.optionalStrings("objectIDs") else { throw RecordError(.badRequest, "objectIDs is missing") }
    guard objectIDs.count <= Limit.operationsPerRequest else {
      throw RecordError(.badRequest, "objectIDs has \(objectIDs.count) items, the limit is \(Limit.operationsPerRequest)")
    }
    self.objectIDs = objectIDs
  }
}

/// `POST reset`
public struct ResetStoreRequest: Hashable, Sendable {
  /// For the log.
  public let reason: String?

  /// Whether objects of the history that the zone lacks are exported again before (H10).
  public let rescansHistory: Bool

  public init(_ body: JSONValue) throws(RecordError) {
    reason = try body.optionalString("reason")
    rescansHistory = try body.optionalBool("rescan") ?? false
  }
}
