// The people who take part in a share, and the terms that were agreed with each of them (A1).

import Records

/// A participant's role in a share. The raw value is CloudKit's, and stored: never renumber.
public enum ParticipantRole: Int, Hashable, Sendable, Codable, CaseIterable {
  case owner = 1
  /// May add and remove participants and change what they may do.
  case administrator = 2
  case privateUser = 3
  /// Has joined by the link of a share that is open to everybody with the link.
  case publicUser = 4
}

/// A participant's permission for the share's records. The raw value is CloudKit's, and stored: never renumber.
public enum SharePermission: Int, Hashable, Sendable, Codable, CaseIterable, Comparable {
  case none = 1
  case readOnly = 2
  case readWrite = 3

  public static func < (one: SharePermission, other: SharePermission) -> Bool { one.rawValue < other.rawValue }
}

/// How far a participation has come. The raw value is CloudKit's, and stored: never renumber.
public enum AcceptanceStatus: Int, Hashable, Sendable, Codable, CaseIterable {
  case pending = 1
  case accepted = 2
  case removed = 3
}

/// The address or record name by which an invitation finds its person.
public enum LookupInfo: Hashable, Sendable, Codable {
  /// An address in lower case.
  case email(String)
  /// A number in the form that `PhoneNumber` writes.
  case phone(String)
  case recordName(String)

  /// An address in any case; nil if the text is not an address.
  public init?(emailAddress text: String) {
    let address = text.lowercased()
    guard (3...254).contains(address.utf8.count), address.contains("@"), !address.contains(where: \.isWhitespace) else {
      return nil
    }
    self = .email(address)
  }

  /// A number in any notation; nil if the text is not a phone number.
  public init?(phoneNumber text: String) {
    guard let number = PhoneNumber(text) else { return nil }
    self = .phone(number.description)
  }
}

/// A person, as far as a share knows them; all nil for a one-time invitation that nobody has claimed.
public struct UserIdentity: Hashable, Sendable, Codable {
  /// nil while the person is unknown to this installation.
  public var userRecordName: String?
  public var givenName: String?
  public var familyName: String?
  /// The address or record name by which the person was invited or asked for access.
  public var lookupInfo: LookupInfo?
  /// True if other people may find this person by an address and see their name; nil counts as false.
  public var isDiscoverable: Bool?

  public init(
    userRecordName: String? = nil, givenName: String? = nil, familyName: String? = nil, lookupInfo: LookupInfo? = nil,
    isDiscoverable: Bool? = nil
  ) {
    self.userRecordName = userRecordName
    self.givenName = givenName
    self.familyName = familyName
    self.lookupInfo = lookupInfo
    self.isDiscoverable = isDiscoverable
  }

  /// The part of the identity that a person who named it may see: only what they named, unless the identity is
  /// discoverable.
  /// It shows nothing about whether such a user exists.
  public var asNamed: UserIdentity {
    if isDiscoverable == true { return self }
    var named = UserIdentity(lookupInfo: lookupInfo)
    switch lookupInfo {
    case .email, .phone: break
    case .recordName(let name): named.userRecordName = name
    case nil: named.userRecordName = userRecordName
    }
    return named
  }

  public var isNobody: Bool { userRecordName == nil && lookupInfo == nil }

  /// True if the two are the same person: equal record names, or equal addresses.
  public func isSamePerson(as other: UserIdentity) -> Bool {
    if let name = recordName, name == other.recordName { return true }
    return lookupInfo != nil && lookupInfo == other.lookupInfo
  }

  /// The record name, or the one by which the person was looked up.
  private var recordName: String? {
    if let userRecordName { return userRecordName }
    if case .recordName(let name)? = lookupInfo { return name }
    return nil
  }
}

/// A user of this installation, with every address by which invitations find them.
public struct KnownUser: Hashable, Sendable {
  public let userRecordName: String
  public var givenName: String?
  public var familyName: String?
  public var emailAddress: String?
  public var phoneNumber: String?
  /// True if other people may find this user by an address and see their name.
  public var isDiscoverable: Bool

  public init(
    userRecordName: String, givenName: String? = nil, familyName: String? = nil, emailAddress: String? = nil,
    phoneNumber: String? = nil,
    isDiscoverable: Bool = false
  ) {
    self.userRecordName = userRecordName
    self.givenName = givenName
    self.familyName = familyName
    self.emailAddress = emailAddress
    self.phoneNumber = phoneNumber
    self.isDiscoverable = isDiscoverable
  }

  /// True if the identity stands for this user: by record name, or else by the address of its invitation.
  public func matches(_ identity: UserIdentity) -> Bool {
    if let name = identity.userRecordName { return name == userRecordName }
    return switch identity.lookupInfo {
    case .email(let address): emailAddress.flatMap { LookupInfo(emailAddress: $0) } == .email(address)
    case .phone(let number): phoneNumber.flatMap { LookupInfo(phoneNumber: $0) } == .phone(number)
    case .recordName(let name): name == userRecordName
    case nil: false
    }
  }

  /// The identity that a share keeps of this user.
  /// - Parameter lookupInfo: the address or record name by which the user was invited; nil for none.
  public func identity(invitedBy lookupInfo: LookupInfo? = nil) -> UserIdentity {
    UserIdentity(
      userRecordName: userRecordName, givenName: givenName, familyName: familyName, lookupInfo: lookupInfo,
      isDiscoverable: isDiscoverable ? true : nil)
  }
}

/// One person's participation in a share.
public struct Participant: Hashable, Sendable {
  /// An upper-case UUID.
  public let participantID: String
  public var identity: UserIdentity
  public var role: ParticipantRole
  public var permission: SharePermission
  public var acceptance: AcceptanceStatus
  /// Milliseconds since 1970.
  public var dateAdded: Int64
  /// The person asked for access before a manager added them.
  public var isApprovedRequester: Bool
  /// The last path component of a one-time URL. The first person to open the URL becomes this participant, and for them
  /// it goes on leading to the share.
  public var oneTimeGUID: String?

  public init(
    participantID: String, identity: UserIdentity, role: ParticipantRole, permission: SharePermission,
    acceptance: AcceptanceStatus, dateAdded: Int64,
    isApprovedRequester: Bool = false, oneTimeGUID: String? = nil
  ) {
    self.participantID = participantID
    self.identity = identity
    self.role = role
    self.permission = permission
    self.acceptance = acceptance
    self.dateAdded = dateAdded
    self.isApprovedRequester = isApprovedRequester
    self.oneTimeGUID = oneTimeGUID
  }

  /// True if the participant has access to the share's records as a member; the owner is no member.
  public var isMember: Bool {
    role != .owner && acceptance == .accepted && permission > .none && identity.userRecordName != nil
  }
  /// The identity as readers of the share see it: until the participant accepts, only what the inviter named.
  public var shownIdentity: UserIdentity { acceptance == .accepted ? identity : identity.asNamed }
  /// Nobody has claimed the one-time URL yet.
  public var isUnclaimed: Bool { oneTimeGUID != nil && acceptance == .pending && identity.isNobody }
}

/// Keys are stored: new keys are optional, so that values of earlier releases stay readable.
extension Participant: Codable {
  private enum Key: String, CodingKey {
    case participantID, identity, role, permission, acceptance, dateAdded, isApprovedRequester, oneTimeGUID
  }

  public init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: Key.self)
    self.init(
      participantID: try values.decode(String.self, forKey: .participantID),
      identity: try values.decode(UserIdentity.self, forKey: .identity),
      role: try values.decode(ParticipantRole.self, forKey: .role),
      permission: try values.decode(SharePermission.self, forKey: .permission),
      acceptance: try values.decode(AcceptanceStatus.self, forKey: .acceptance),
      dateAdded: try values.decode(Int64.self, forKey: .dateAdded),
      isApprovedRequester: try values.decodeIfPresent(Bool.self, forKey: .isApprovedRequester) ?? false,
      oneTimeGUID: try values.decodeIfPresent(String.self, forKey: .oneTimeGUID))
  }

  public func encode(to encoder: any Encoder) throws {
    var values = encoder.container(keyedBy: Key.self)
    try values.encode(participantID, forKey: .participantID)
    try values.encode(identity, forKey: .identity)
    try values.encode(role, forKey: .role)
    try values.encode(permission, forKey: .permission)
    try values.encode(acceptance, forKey: .acceptance)
    try values.encode(dateAdded, forKey: .dateAdded)
    if isApprovedRequester { try values.encode(true, forKey: .isApprovedRequester) }
    try values.encodeIfPresent(oneTimeGUID, forKey: .oneTimeGUID)
  }
}
