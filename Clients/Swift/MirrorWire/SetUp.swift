// Setting a store up: what `PUT stores/{id}` takes and answers.

/// What a client says of its store.
public struct SetUpRequest: Hashable, Sendable, Encodable {
  /// Whose objects the client has.
  public enum Owner: Hashable, Sendable {
    /// The client does not tell.
    case untold
    /// Objects that were made without an account.
    case nobody
    case user(recordName: String)
  }

  public var modelHash: String
  public var configuration: String?
  public var deviceName: String?
  /// By the way a zone ends: `delete`, `keep-and-pause` or `keep-and-reupload`.
  public var zonePolicy: [String: String]?
  public var owner: Owner
  /// Seconds of the lease; nil: none.
  public var lease: Int?
  public var leaseToken: String?
  /// The token of a lease that begins with the request; 1 to 2⁵³ − 1. The same request again prolongs that lease.
  public var newLeaseToken: Int64?
  public var takesOver: Bool

  public init(
    modelHash: String, configuration: String? = nil, deviceName: String? = nil, zonePolicy: [String: String]? = nil,
    owner: Owner = .untold, lease: Int? = nil, leaseToken: String? = nil, takesOver: Bool = false
  ) {
    self.modelHash = modelHash
    self.configuration = configuration
    self.deviceName = deviceName
    self.zonePolicy = zonePolicy
    self.owner = owner
    self.lease = lease
    self.leaseToken = leaseToken
    self.takesOver = takesOver
  }

  private enum Key: String, CodingKey {
    case modelHash, configuration, device, zonePolicy, account, lease, leaseToken, newLeaseToken, takeOver
  }
  private struct Device: Encodable { let name: String }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: Key.self)
    try container.encode(modelHash, forKey: .modelHash)
    try container.encodeIfPresent(configuration, forKey: .configuration)
    try container.encodeIfPresent(deviceName.map(Device.init), forKey: .device)
    try container.encodeIfPresent(zonePolicy, forKey: .zonePolicy)
    switch owner {
    case .untold: break
    case .nobody: try container.encodeNil(forKey: .account)
    case .user(let recordName): try container.encode(recordName, forKey: .account)
    }
    try container.encodeIfPresent(lease, forKey: .lease)
    try container.encodeIfPresent(leaseToken, forKey: .leaseToken)
    try container.encodeIfPresent(newLeaseToken, forKey: .newLeaseToken)
    if takesOver { try container.encode(true, forKey: .takeOver) }
  }
}

/// The answer to a set-up.
public struct SetUpAnswer: Hashable, Sendable, Codable {
  /// The client's objects are another user's (P2).
  public struct AccountChange: Hashable, Sendable, Codable {
    /// `AccountLogin`, `AccountLogout` or `AccountChange`.
    public let reason: String
    public let action: String
    public let cocoaErrorCode: Int?
  }

  public let storeIdentifier: String
  public let historyToken: String
  public let leaseToken: String?
  public let leaseUntil: String?
  public let accountChange: AccountChange?
}

/// The answer to `POST reset`.
public struct ResetAnswer: Hashable, Sendable, Codable {
  public struct Reset: Hashable, Sendable, Codable {
    public let reason: String
    /// The position at which the new copy is complete.
    public let through: String
  }
  public let reset: Reset
}
