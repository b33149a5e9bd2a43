// Changes to a share: its state and a request give the next state and the memberships that begin, change or end; or an
// error.

public import Records

/// A change of one user's access to the share.
public struct MembershipChange: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// Also for a user whose earlier access ended: access begins anew.
    case begins(ParticipantRole, SharePermission)
    case changes(ParticipantRole, SharePermission)
    case ends
  }

  public let userRecordName: String
  public let kind: Kind

  public init(userRecordName: String, kind: Kind) {
    self.userRecordName = userRecordName
    self.kind = kind
  }
}

/// A share after a change.
public struct ShareDecision: Hashable, Sendable {
  /// nil ends the share.
  public let state: ShareState?
  /// By ascending user record name.
  public let memberships: [MembershipChange]
  /// The state differs from the earlier one: the share's record gets another change tag.
  public let isChanged: Bool

  public init(from earlier: ShareState?, to state: ShareState?) {
    self.state = state
    isChanged = earlier != state
    memberships = Self.changes(from: earlier?.members ?? [], to: state?.members ?? [])
  }

  private static func changes(from earlier: [Participant], to later: [Participant]) -> [MembershipChange] {
    let before = byUser(earlier)
    let after = byUser(later)
    return Set(before.keys).union(after.keys).sorted().compactMap { user in
      switch (before[user], after[user]) {
      case (nil, let new?): MembershipChange(userRecordName: user, kind: .begins(new.role, new.permission))
      case (_?, nil): MembershipChange(userRecordName: user, kind: .ends)
      case (let old?, let new?)
      where old.participantID != new.participantID || old.role != new.role || old.permission != new.permission:
        MembershipChange(userRecordName: user, kind: .changes(new.role, new.permission))
      default: nil
      }
    }
  }

  private static func byUser(_ participants: [Participant]) -> [String: Participant] {
    Dictionary(
      participants.compactMap { one in one.identity.userRecordName.map { ($0, one) } },
      uniquingKeysWith: { first, _ in first })
  }
}

extension ShareState {
  /// The time, identifiers and random values for participants that a change creates.
  public struct Making: Sendable {
    /// Milliseconds since 1970.
    public let time: Int64
    /// Makes an upper-case UUID.
    public let participantID: @Sendable () -> String
    /// Makes an unguessable short GUID that leads to the shard.
    public let shortGUID: @Sendable () -> String

    public init(
      time: Int64, participantID: @escaping @Sendable () -> String, shortGUID: @escaping @Sendable () -> String
    ) {
      self.time = time
      self.participantID = participantID
      self.shortGUID = shortGUID
    }
  }

  /// The share after a request of somebody who sees the zone.
  /// - Throws: `ACCESS_DENIED`; 29 for too many participants; 37 for a person who is in the list twice; `BAD_REQUEST`
  ///   for participants that are added to a share that is open to everybody with the link.
  ///   share that is open to everybody who has the link.
  public func applying(_ patch: SharePatch, by standing: ShareStanding, as user: KnownUser? = nil, _ making: Making)
    throws(RecordError) -> ShareDecision
  {
    var state = self
    if patch.publicPermission ?? publicPermission != publicPermission
      || patch.allowsAccessRequests ?? allowsAccessRequests != allowsAccessRequests
    {
      try AccessMatrix.require(.changePublicPermission, standing, orElse: .shareAccessDenied)
      state.allowsAccessRequests = patch.allowsAccessRequests ?? allowsAccessRequests
      if let permission = patch.publicPermission { state.open(to: permission) }
      if !state.allowsAccessRequests { state.requesters = [] }
    }
    if let entries = patch.participants {
      state.participants = try state.participants(as: entries, leaving: self, making)
    }
    if let waiting = patch.requesters {
      state.requesters.removeAll { one in !waiting.contains { $0.isSamePerson(as: one.identity) } }
    }
    if let blocked = patch.blocked { try state.block(blocked) } else { state.unblockAdded(since: self) }
    state.requesters.removeAll { one in state.participants.contains { $0.identity.isSamePerson(as: one.identity) } }
    if state.participants.count - 1 > Limit.participantsPerShare, state.participants.count > participants.count {
      throw .tooManyParticipants
    }
    // A client that changes nothing may have sent the whole share as it knows it.
    if state != self { try state.checkChange(from: self, by: standing, user.flatMap(participant)) }
    return ShareDecision(from: self, to: state)
  }

  /// Checks that a person of this standing may make the change.
  private func checkChange(from earlier: ShareState, by standing: ShareStanding, _ own: Participant?)
    throws(RecordError)
  {
    try AccessMatrix.require(.changeParticipants, standing, orElse: .shareAccessDenied)
    if standing == .owner { return }
    // Only the owner makes and unmakes administrators; an administrator may remove any participant, themselves
    // included.
    for participant in participants {
      let role = earlier.participants.first { $0.participantID == participant.participantID }?.role
      if (role == .administrator) != (participant.role == .administrator) { throw .shareAccessDenied }
      // Administrators cannot raise their own permission.
      if let own, participant.participantID == own.participantID, participant.permission > own.permission {
        throw .shareAccessDenied
      }
    }
  }

  /// Opening a closed share voids pending invitations; closing an open one removes everybody but the owner.
  private mutating func open(to permission: SharePermission) {
    if publicPermission == .none, permission > .none { participants.removeAll { $0.acceptance == .pending } }
    if publicPermission > .none, permission == .none { participants.removeAll { $0.role != .owner } }
    for index in participants.indices where participants[index].role == .publicUser {
      participants[index].permission = permission
    }
    publicPermission = permission
  }

  private func participants(as entries: [SharePatch.Entry], leaving earlier: ShareState, _ making: Making)
    throws(RecordError) -> [Participant]
  {
    var kept: [String: Participant] = [:]
    var added: [Participant] = []
    for entry in entries {
      if let known = participants.first(where: { entry.participantID == $0.participantID })
        ?? participants.first(where: entry.means)
      {
        // A list cannot change the owner.
        if known.role == .owner { continue }
        guard kept[known.participantID] == nil else { throw .participantAlreadyInvited }
        if !entry.isRemoved { kept[known.participantID] = known.changed(as: entry) }
      } else if entry.isRemoved || earlier.participants.contains(where: entry.means) {
        // A list from before the share was opened or closed still names the people whom that removed.
        continue
      } else {
        let participant = participant(entry, making)
        if added.contains(where: { $0.identity.isSamePerson(as: participant.identity) }) {
          throw .participantAlreadyInvited
        }
        added.append(participant)
      }
    }
    if publicPermission > .none, !added.isEmpty {
      throw RecordError(.badRequest, "Participants can't be added to a share whose publicPermission is not NONE")
    }
    return participants.compactMap { $0.role == .owner ? $0 : kept[$0.participantID] } + added
  }

  private func participant(_ entry: SharePatch.Entry, _ making: Making) -> Participant {
    Participant(
      participantID: making.participantID(), identity: entry.identity,
      role: entry.role == .administrator ? .administrator : .privateUser,
      permission: entry.permission ?? .readOnly, acceptance: .pending, dateAdded: making.time,
      isApprovedRequester: requesters.contains { $0.identity.isSamePerson(as: entry.identity) },
      oneTimeGUID: entry.identity.isNobody ? making.shortGUID() : nil)
  }

  /// An invitation lifts a block.
  private mutating func unblockAdded(since earlier: ShareState) {
    let known = Set(earlier.participants.map(\.participantID))
    let added = participants.filter { !known.contains($0.participantID) }
    if !added.isEmpty { blocked.removeAll { one in added.contains { $0.identity.isSamePerson(as: one) } } }
  }

  private mutating func block(_ identities: [UserIdentity]) throws(RecordError) {
    let list = identities.filter { one in !one.isNobody && owner?.identity.isSamePerson(as: one) != true }
    guard list.count <= Limit.blockedPerShare || list.count <= blocked.count else {
      throw RecordError(.badRequest, "A share keeps at most \(Limit.blockedPerShare) blocked identities")
    }
    blocked = list
    participants.removeAll { participant in list.contains { $0.isSamePerson(as: participant.identity) } }
    requesters.removeAll { requester in list.contains { $0.isSamePerson(as: requester.identity) } }
  }
}

extension Participant {
  /// The participant with an entry's permission and role. Only the link changes a participant who joined by the link.
  fileprivate func changed(as entry: SharePatch.Entry) -> Participant {
    guard role != .publicUser else { return self }
    var participant = self
    participant.permission = entry.permission ?? permission
    if let role = entry.role { participant.role = role == .administrator ? .administrator : .privateUser }
    return participant
  }
}
