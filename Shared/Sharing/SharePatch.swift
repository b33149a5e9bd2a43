// What a request says a share should be.

/// The members of a share's dictionary that a request has; what it leaves out stays as it is.
public struct SharePatch: Hashable, Sendable {
  /// One element of `participants`.
  public struct Entry: Hashable, Sendable {
    /// nil, or unknown to the share: somebody new, unless the identity tells.
    public var participantID: String?
    /// Nobody: a one-time invitation.
    public var identity: UserIdentity
    /// nil: as it is, or a private user.
    public var role: ParticipantRole?
    /// nil: as it is, or to read only.
    public var permission: SharePermission?
    /// The list says that he is to go.
    public var isRemoved: Bool

    public init(
      participantID: String? = nil, identity: UserIdentity = UserIdentity(), role: ParticipantRole? = nil, permission: SharePermission? = nil,
      isRemoved: Bool = false
    ) {
      self.participantID = participantID
      self.identity = identity
      self.role = role
      self.permission = permission
      self.isRemoved = isRemoved
    }

    /// Whether this is that participant: an equal identifier, record name or address.
    func means(_ participant: Participant) -> Bool { participantID == participant.participantID || identity.isSamePerson(as: participant.identity) }
  }

  /// The whole list: who is not in it is removed, but for the owner, whom nobody changes.
  public var participants: [Entry]?
  public var publicPermission: SharePermission?
  public var allowsAccessRequests: Bool?
  /// Who of those who asked still waits; the others are denied, and may ask again. Nobody is added.
  public var requesters: [UserIdentity]?
  /// The whole list: who comes into it is removed, too, and who is not in it any more may ask again.
  public var blocked: [UserIdentity]?

  public init(
    participants: [Entry]? = nil, publicPermission: SharePermission? = nil, allowsAccessRequests: Bool? = nil, requesters: [UserIdentity]? = nil,
    blocked: [UserIdentity]? = nil
  ) {
    self.participants = participants
    self.publicPermission = publicPermission
    self.allowsAccessRequests = allowsAccessRequests
    self.requesters = requesters
    self.blocked = blocked
  }

  public var isEmpty: Bool { self == SharePatch() }

  /// By whom to look for users before the decision: everybody who is not known by his record name.
  public var lookups: [LookupInfo] {
    let people = (participants ?? []).map(\.identity) + (blocked ?? [])
    return people.compactMap { $0.lookupInfo ?? $0.userRecordName.map { .recordName($0) } }
  }

  /// The same with what the directory knows of people.
  public func identified(by users: [LookupInfo: KnownUser]) -> SharePatch {
    func known(_ identity: UserIdentity) -> UserIdentity {
      guard let lookup = identity.lookupInfo ?? identity.userRecordName.map({ .recordName($0) }), let user = users[lookup] else { return identity }
      return user.identity(invitedBy: identity.lookupInfo)
    }
    var patch = self
    patch.participants = participants?.map { entry in
      var entry = entry
      entry.identity = known(entry.identity)
      return entry
    }
    patch.blocked = blocked?.map(known)
    return patch
  }
}
