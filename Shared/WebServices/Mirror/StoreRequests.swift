// The smaller request bodies of the mirror API's store calls.

public import JSON
public import Mirroring
public import Records

/// `PUT stores/{id}`
public struct SetUpStoreRequest: Hashable, Sendable {
  public let modelHash: String
  public let configuration: String?
  public let deviceName: String?
  /// The policies for the store's objects when their zone ends; nil keeps the earlier policies.
  public let zonePolicies: [ZoneEnd: ZonePolicy]?
  /// The owner of the objects in the client's store; nil if the client does not tell.
  public let account: Account?
  public let lease: Lease?

  /// The owner of the objects in a client's store.
  public enum Account: Hashable, Sendable {
    /// No user: the store was made without an account.
    case none
    case user(recordName: String)
  }

  /// A request for a lease.
  public struct Lease: Hashable, Sendable {
    /// The lease's duration, unless the client renews it with its token.
    public let seconds: Int64
    /// The token of the lease that the client has; nil for a first request.
    public let token: String?
    /// The token of the lease if it begins now, chosen by the client at random: it may ask again when no answer came.
    /// nil: the server chooses.
    public let newToken: Int64?
    /// True to take the lease from another process.
    public let takesOver: Bool

    static let secondsRange: ClosedRange<Int64> = 1...3600
    static let standardSeconds: Int64 = 60
    /// Whole numbers of JSON.
    static let newTokenRange: ClosedRange<Int64> = 1...(1 << 53) - 1
  }

  /// - Throws: `BAD_REQUEST` with the key.
  public init(_ body: JSONValue) throws(RecordError) {
    modelHash = try body.requiredString("modelHash")
    configuration = try body.optionalString("configuration")
    deviceName = try body.optionalObject("device")?.optionalString("name")
    zonePolicies = try Self.zonePolicies(of: body)
    account =
      body["account"].map { $0.isNull } == true
      ? Account.none : try body.optionalString("account").map { .user(recordName: $0) }
    lease = try Self.lease(of: body)
    for (key, value) in [("configuration", configuration), ("device.name", deviceName)] {
      guard let value, value.utf8.count > Limit.nameByteCount else { continue }
      throw RecordError(.badRequest, "\(key) has more than \(Limit.nameByteCount) bytes")
    }
  }

  /// `"zonePolicy": {"purged": "keep-and-pause"}`: ways that are not named keep their standard policy (P4).
  private static func zonePolicies(of body: JSONValue) throws(RecordError) -> [ZoneEnd: ZonePolicy]? {
    guard let object = try body.optionalObject("zonePolicy") else { return nil }
    var policies: [ZoneEnd: ZonePolicy] = [:]
    for (name, value) in object.members {
      guard let end = ZoneEnd(name: name) else {
        throw RecordError(.badRequest, "zonePolicy: '\(name.prefix(40))' is not a way in which a zone ends")
      }
      guard let policy = value.string.flatMap(ZonePolicy.init(name:)) else {
        throw RecordError(
          .badRequest, "zonePolicy.\(name) must be one of \(ZonePolicy.allCases.map(\.name).joined(separator: ", "))")
      }
      policies[end] = policy
    }
    return policies
  }

  /// Reads `"lease": true`, or a number of seconds.
  private static func lease(of body: JSONValue) throws(RecordError) -> Lease? {
    guard let value = body["lease"], !value.isNull, value.bool != false else { return nil }
    guard let seconds = value.bool == true ? Lease.standardSeconds : value.int64, Lease.secondsRange.contains(seconds)
    else {
      throw RecordError(
        .badRequest,
        """
        lease must be true, or a number of seconds from \(Lease.secondsRange.lowerBound) to \
        \(Lease.secondsRange.upperBound)
        """
      )
    }
    let newToken = try body.optionalInteger("newLeaseToken")
    if let newToken, !Lease.newTokenRange.contains(newToken) {
      throw RecordError(
        .badRequest, "newLeaseToken must be a number from 1 to \(Lease.newTokenRange.upperBound)")
    }
    return Lease(
      seconds: seconds, token: try body.optionalString("leaseToken"), newToken: newToken,
      takesOver: try body.optionalBool("takeOver") ?? false)
  }
}

/// `POST purge`
public struct PurgeZoneRequest: Hashable, Sendable {
  public let zone: ZoneReference
  /// True if the zone's objects are first copied to the zone of the store's unconnected objects.
  public let keepsCopy: Bool

  public init(_ body: JSONValue) throws(RecordError) {
    guard let value = body["zoneID"] else { throw RecordError(.badRequest, "zoneID is missing") }
    zone = try ZoneReference(value)
    keepsCopy = try body.optionalBool("keepCopy") ?? false
  }
}

/// `POST end` of a zone
public struct EndZoneRequest: Hashable, Sendable {
  public let end: ZoneEnd

  public init(_ body: JSONValue) throws(RecordError) {
    guard let end = ZoneEnd(name: try body.requiredString("reason")) else {
      throw RecordError(.badRequest, "reason must be one of \(ZoneEnd.allCases.map(\.name).joined(separator: ", "))")
    }
    self.end = end
  }
}

/// `POST zones/{zoneName}/resume`
public struct ResumeZoneRequest: Hashable, Sendable {
  public let decision: ZonePolicy

  public init(_ body: JSONValue) throws(RecordError) {
    guard let decision = ZonePolicy(decision: try body.requiredString("action")) else {
      throw RecordError(.badRequest, "action must be delete or reupload")
    }
    self.decision = decision
  }
}

/// `POST records` and `POST permissions`
public struct ObjectIDsRequest: Hashable, Sendable {
  /// At most 200, in the order of the request.
  public let objectIDs: [String]

  public init(_ body: JSONValue) throws(RecordError) {
    guard let objectIDs = try body.optionalStrings("objectIDs") else {
      throw RecordError(.badRequest, "objectIDs is missing")
    }
    guard objectIDs.count <= Limit.operationsPerRequest else {
      throw RecordError(
        .badRequest, "objectIDs has \(objectIDs.count) items, the limit is \(Limit.operationsPerRequest)")
    }
    self.objectIDs = objectIDs
  }
}

/// `POST reset`
public struct ResetStoreRequest: Hashable, Sendable {
  public let reason: ResetReason

  /// True if objects of the history that the zone lacks are exported again before (H10).
  public let rescansHistory: Bool

  public init(_ body: JSONValue) throws(RecordError) {
    reason = ResetReason(name: try body.optionalString("reason"))
    rescansHistory = try body.optionalBool("rescan") ?? false
  }
}

/// `POST move`
public struct MoveObjectsRequest: Hashable, Sendable {
  /// Each object once, in the order of the request; at least one.
  public let objectIDs: [String]
  /// nil means the zone of the store's unconnected objects.
  public let zone: ZoneReference?

  /// - Throws: `BAD_REQUEST` with the key.
  public init(_ body: JSONValue) throws(RecordError) {
    objectIDs = try Self.objectIDs(of: body)
    zone = try body.member("to").map { value throws(RecordError) in try ZoneReference(value) }
  }

  static func objectIDs(of body: JSONValue) throws(RecordError) -> [String] {
    guard let sent = try body.optionalStrings("objectIDs"), !sent.isEmpty else {
      throw RecordError(.badRequest, "objectIDs is missing")
    }
    guard sent.count <= Limit.moveCount else {
      throw RecordError(.badRequest, "objectIDs has \(sent.count) items, the limit is \(Limit.moveCount)")
    }
    var seen: Set<String> = []
    return sent.filter { seen.insert($0).inserted }
  }
}
