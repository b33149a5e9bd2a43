// The changes to a share that a request asks for.

/// The members of a share's dictionary that a request carries; the others stay as they are.
public struct SharePatch: Hashable, Sendable {
  /// One element of `participants`.
  public struct Entry: Hashable, Sendable {
    /// The share's participant; nil or unknown: `identity` finds the participant, or a participant is added.
    public var participantID: String?
    /// The person; an identity that names nobody makes a one-time invitation.
    public var identity: UserIdentity
    /// nil keeps the role; a participant who is added becomes a private user.
    public var role: ParticipantRole?
    /// nil keeps the permission; a participant who is added may only read.
    public var permission: SharePermission?
    /// The list marks the participant as removed.
    public var isRemoved: Bool

    public init(
      participantID: String? = nil, identity: UserIdentity = UserIdentity(), role: ParticipantRole? = nil,
      permission: SharePermission? = nil,
      isRemoved: Bool = false
    ) {
      self.participantID = participantID
      self.identity = identity
      self.role = role
      self.permission = permission
      self.isRemoved = isRemoved
    }

    /// True if the entry stands for that participant: an equal identifier, record name or address.
    func means(_ participant: Participant) -> Bool {
      participantID == participant.participantID || identity.isSamePerson(as: participant.identity)
    }
  }

  /// The whole list: participants that it lacks are removed, except for the owner, whom no list changes.
  public var participants: [Entry]?
  public var publicPermission: SharePermission?
  public var allowsAccessRequests: Bool?
  /// The requesters that still wait; the others are denied and may ask again. The list adds nobody.
  public var requesters: [UserIdentity]?
  /// The whole list: blocking removes participants and requesters; people that the list lacks may ask again.
  public var blocked: [UserIdentity]?

  public init(
    participants: [Entry]? = nil, publicPermission: SharePermission? = nil, allowsAccessRequests: Bool? = nil,
    requesters: [UserIdentity]? = nil,
    blocked: [UserIdentity]? = nil
  ) {
    self.participants = participants
    self.publicPermission = publicPermission
    self.allowsAccessRequests = allowsAccessRequests
    self.requesters = requesters
    self.blocked = blocked
  }

  public var isEmpty: Bool { self == SharePatch() }

  /// The keys by which to look users up before the decision: an address where the request has one, or else the record
  /// name.
  public var lookups: [LookupInfo] {
    let people = (participants ?? []).map(\.identity) + (blocked ?? [])
    return people.compactMap { $0.lookupInfo ?? $0.userRecordName.map { .recordName($0) } }
  }

  /// The patch with what the directory knows of the people it names.
  public func identified(by users: [LookupInfo: KnownUser]) -> SharePatch {
    func known(_ identity: UserIdentity) -> UserIdentity {
      guard let lookup = identity.lookupInfo ?? identity.userRecordName.map({ .recordName($0) }),
        let user = users[lookup]
      else { return identity }
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
