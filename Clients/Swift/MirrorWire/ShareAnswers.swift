// Shares, participants and moves: what the sharing calls take and answer.

/// A share's record as CloudKit Web Services write it.
public struct ShareRecord: Hashable, Sendable, Codable {
  public struct Field: Hashable, Sendable, Codable {
    public let value: AttributeValue
  }

  public let recordName: String
  public let recordChangeTag: String?
  public let zoneID: ZoneID
  public let shortGUID: String?
  public let publicPermission: String?
  public let participants: [ParticipantRecord]
  public let owner: ParticipantRecord?
  public let currentUserParticipant: ParticipantRecord?
  public let fields: [String: Field]?

  /// `cloudkit.title`
  public var title: String? {
    guard case .string(let title)? = fields?["cloudkit.title"]?.value else { return nil }
    return title
  }
}

/// A participant of a share.
public struct ParticipantRecord: Hashable, Sendable, Codable {
  public struct Identity: Hashable, Sendable, Codable {
    public struct Names: Hashable, Sendable, Codable {
      public var givenName: String?
      public var familyName: String?
    }

    public var userRecordName: String?
    public var nameComponents: Names?
    public var lookupInfo: LookUp?

    public init(userRecordName: String? = nil, nameComponents: Names? = nil, lookupInfo: LookUp? = nil) {
      self.userRecordName = userRecordName
      self.nameComponents = nameComponents
      self.lookupInfo = lookupInfo
    }
  }

  /// nil for somebody who is not in the share yet.
  public var participantId: String?
  public var userIdentity: Identity
  /// `OWNER`, `ADMINISTRATOR`, `USER` or `PUBLIC_USER`.
  public var type: String
  /// `INVITED`, `ACCEPTED` or `REMOVED`.
  public var acceptanceStatus: String?
  /// `NONE`, `READ_ONLY` or `READ_WRITE`.
  public var permission: String
  public var oneTimeShortGUID: String?

  public init(
    participantId: String? = nil, userIdentity: Identity, type: String = "USER", acceptanceStatus: String? = nil,
    permission: String
  ) {
    self.participantId = participantId
    self.userIdentity = userIdentity
    self.type = type
    self.acceptanceStatus = acceptanceStatus
    self.permission = permission
  }
}

/// One way to name a person.
public struct LookUp: Hashable, Sendable, Codable {
  public var emailAddress: String?
  public var phoneNumber: String?
  public var userRecordName: String?

  public init(emailAddress: String? = nil, phoneNumber: String? = nil, userRecordName: String? = nil) {
    self.emailAddress = emailAddress
    self.phoneNumber = phoneNumber
    self.userRecordName = userRecordName
  }
}

/// `POST shares`
public struct ShareRequest: Hashable, Sendable, Codable {
  public var objectIDs: [String]
  /// The zone of the share to join; nil: the objects' own share, or a new one.
  public var to: ZoneID?
  public var title: String?
  public var publicPermission: String?
  public var participants: [ParticipantRecord]?

  public init(
    objectIDs: [String], to: ZoneID? = nil, title: String? = nil, publicPermission: String? = nil,
    participants: [ParticipantRecord]? = nil
  ) {
    self.objectIDs = objectIDs
    self.to = to
    self.title = title
    self.publicPermission = publicPermission
    self.participants = participants
  }
}

public struct ShareAnswer: Hashable, Sendable, Codable {
  public let share: ShareRecord
  public let zoneID: ZoneID
  public let moved: [String]
}

/// `GET shares`
public struct SharesAnswer: Hashable, Sendable, Codable { public let shares: [ShareRecord] }

/// `POST move`; nil means the store's default zone.
public struct MoveRequest: Hashable, Sendable, Codable {
  public var objectIDs: [String]
  public var to: ZoneID?

  public init(objectIDs: [String], to: ZoneID?) {
    self.objectIDs = objectIDs
    self.to = to
  }
}

public struct MoveAnswer: Hashable, Sendable, Codable {
  public let zoneID: ZoneID
  public let moved: [String]
}

/// `POST purge`
public struct PurgeRequest: Hashable, Sendable, Codable {
  public var zoneID: ZoneID
  public var keepCopy: Bool

  public init(zoneID: ZoneID, keepCopy: Bool) {
    self.zoneID = zoneID
    self.keepCopy = keepCopy
  }
}

public struct PurgeAnswer: Hashable, Sendable, Codable {
  public struct Copy: Hashable, Sendable, Codable {
    public let objectID: String
    public let copyID: String
  }

  /// Records.
  public let purged: Int
  public let copies: [Copy]?
}

/// `POST accept`
public struct AcceptRequest: Hashable, Sendable, Codable {
  public struct ShortGUID: Hashable, Sendable, Codable {
    public let value: String
  }

  public var shortGUIDs: [ShortGUID]

  public init(shortGUIDs: [String]) { self.shortGUIDs = shortGUIDs.map(ShortGUID.init) }
}

public struct AcceptAnswer: Hashable, Sendable, Codable {
  /// A share that was joined, or the error of its short GUID.
  public struct Result: Hashable, Sendable, Codable {
    public let shortGUID: AcceptRequest.ShortGUID
    public let zoneID: ZoneID?
    public let participantStatus: String?
    public let participantPermission: String?
    public let serverErrorCode: String?
    public let reason: String?
  }

  public let results: [Result]
}

/// `POST records` and `POST permissions`, at most 200.
public struct ObjectIDsRequest: Hashable, Sendable, Codable {
  public var objectIDs: [String]

  public init(_ objectIDs: [String]) { self.objectIDs = objectIDs }
}

/// `POST users/discover` of the record plane.
public struct DiscoverRequest: Hashable, Sendable, Codable {
  public var lookupInfos: [LookUp]

  public init(_ lookupInfos: [LookUp]) { self.lookupInfos = lookupInfos }
}

public struct DiscoverAnswer: Hashable, Sendable, Codable { public let users: [ParticipantRecord.Identity] }
