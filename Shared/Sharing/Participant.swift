// The people who take part in a share, and the terms that were agreed with each of them (A1).

import Records

/// What a participant is in a share. The raw value is CloudKit's, and stored: never renumber.
public enum ParticipantRole: Int, Hashable, Sendable, Codable, CaseIterable {
  case owner = 1
  /// May add and remove participants and change what they may do.
  case administrator = 2
  case privateUser = 3
  /// Joined by the link of a share that is open to everybody who has it.
  case publicUser = 4
}

/// What somebody may do with the records of a share. The raw value is CloudKit's, and stored: never renumber.
public enum SharePermission: Int, Hashable, Sendable, Codable, CaseIterable, Comparable {
  case none = 1
  case readOnly = 2
  case readWrite = 3

  public static func < (one: SharePermission, other: SharePermission) -> Bool { one.rawValue < other.rawValue }
}

/// How far an invitation has come. The raw value is CloudKit's, and stored: never renumber.
public enum AcceptanceStatus: Int, Hashable, Sendable, Codable, CaseIterable {
  case pending = 1
  case accepted = 2
  case removed = 3
}

/// By what an invitation finds its person.
public enum LookupInfo: Hashable, Sendable, Codable {
  /// In lower case.
  case email(String)
  /// As `PhoneNumber` writes it.
  case phone(String)
  case recordName(String)

  /// An address however it was typed; nil for what is none.
  public init?(emailAddress text: String) {
    let address = text.lowercased()
    guard (3...254).contains(address.utf8.count), address.contains("@"), !address.contains(where: \.isWhitespace) else { return nil }
    self = .email(address)
  }

  /// A number however it was typed; nil for what is none.
  public init?(phoneNumber text: String) {
    guard let number = PhoneNumber(text) else { return nil }
    self = .phone(number.description)
  }
}

/// A person as a share knows him; everything is nil for whoever is to claim a one-time invitation.
public struct UserIdentity: Hashable, Sendable, Codable {
  /// nil until the person is known to this installation.
  public var userRecordName: String?
  public var givenName: String?
  public var familyName: String?
  /// As he was invited, or asked for access.
  public var lookupInfo: LookupInfo?
  /// Whether whoever looks for him may be told that he is there, and what he is called; nil: nobody said so, he may not.
  public var isDiscoverable: Bool?

  public init(
    userRecordName: String? = nil, givenName: String? = nil, familyName: String? = nil, lookupInfo: LookupInfo? = nil, isDiscoverable: Bool? = nil
  ) {
    self.userRecordName = userRecordName
    self.givenName = givenName
    self.familyName = familyName
    self.lookupInfo = lookupInfo
    self.isDiscoverable = isDiscoverable
  }

  /// What somebody learns of him who has only named him: nothing but what was said, unless he lets himself be found. Whether there is such a user does
  /// not show.
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

  /// Whether both are the same person: an equal record name, or an equal address.
  public func isSamePerson(as other: UserIdentity) -> Bool {
    if let name = recordName, name == other.recordName { return true }
    return lookupInfo != nil && lookupInfo == other.lookupInfo
  }

  /// The record name, also where it is only what was looked up.
  private var recordName: String? {
    if let userRecordName { return userRecordName }
    if case .recordName(let name)? = lookupInfo { return name }
    return nil
  }
}

/// A user of this installation, with all by which invitations find him.
public struct KnownUser: Hashable, Sendable {
  public let userRecordName: String
  public var givenName: String?
  public var familyName: String?
  public var emailAddress: String?
  public var phoneNumber: String?
  /// Whether whoever looks for him may be told that he is there, and what he is called.
  public var isDiscoverable: Bool

  public init(
    userRecordName: String, givenName: String? = nil, familyName: String? = nil, emailAddress: String? = nil, phoneNumber: String? = nil,
    isDiscoverable: Bool = false
  ) {
    self.userRecordName = userRecordName
    self.givenName = givenName
    self.familyName = familyName
    self.emailAddress = emailAddress
    self.phoneNumber = phoneNumber
    self.isDiscoverable = isDiscoverable
  }

  /// Whether a share means this user.
  public func matches(_ identity: UserIdentity) -> Bool {
    if let name = identity.userRecordName { return name == userRecordName }
    return switch identity.lookupInfo {
    case .email(let address): emailAddress.flatMap { LookupInfo(emailAddress: $0) } == .email(address)
    case .phone(let number): phoneNumber.flatMap { LookupInfo(phoneNumber: $0) } == .phone(number)
    case .recordName(let name): name == userRecordName
    case nil: false
    }
  }

  /// As a share notes the user, who was invited by `lookupInfo`.
  public func identity(invitedBy lookupInfo: LookupInfo? = nil) -> UserIdentity {
    UserIdentity(
      userRecordName: userRecordName, givenName: givenName, familyName: familyName, lookupInfo: lookupInfo, isDiscoverable: isDiscoverable ? true : nil)
  }
}

/// Somebody's part in a share.
public struct Participant: Hashable, Sendable {
  /// An upper-case UUID.
  public let participantID: String
  public var identity: UserIdentity
  public var role: ParticipantRole
  public var permission: SharePermission
  public var acceptance: AcceptanceStatus
  /// Milliseconds since 1970.
  public var dateAdded: Int64
  /// He asked for access before he was added.
  public var isApprovedRequester: Bool
  /// What follows the last slash of the URL that was made for him alone; the first who opens it becomes this participant. It leads on to the
  /// share afterwards, for him.
  public var oneTimeGUID: String?

  public init(
    participantID: String, identity: UserIdentity, role: ParticipantRole, permission: SharePermission, acceptance: AcceptanceStatus, dateAdded: Int64,
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

  /// Whether he has access to the share's records; the owner needs none.
  public var isMember: Bool { role != .owner && acceptance == .accepted && permission > .none && identity.userRecordName != nil }
  /// What a reader of the share learns of the person: of who has not accepted only what he was invited by.
  public var shownIdentity: UserIdentity { acceptance == .accepted ? identity : identity.asNamed }
  /// Nobody has claimed his URL yet.
  public var isUnclaimed: Bool { oneTimeGUID != nil && acceptance == .pending && identity.isNobody }
}

/// Keys are stored: new ones are optional, so that what an earlier release wrote can be read.
extension Participant: Codable {
  private enum Key: String, CodingKey {
    case participantID, identity, role, permission, acceptance, dateAdded, isApprovedRequester, oneTimeGUID
  }

  public init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: Key.self)
    self.init(
      participantID: try values.decode(String.self, forKey: .participantID), identity: try values.decode(UserIdentity.self, forKey: .identity),
      role: try values.decode(ParticipantRole.self, forKey: .role), permission: try values.decode(SharePermission.self, forKey: .permission),
      acceptance: try values.decode(AcceptanceStatus.self, forKey: .acceptance), dateAdded: try values.decode(Int64.self, forKey: .dateAdded),
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
