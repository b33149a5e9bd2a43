// How people come into a share by its URL, and how they leave it.

public import Records

extension ShareState {
  /// The share after `user` accepted what `shortGUID` offers them; a second call changes nothing.
  ///
  /// The share's own URL accepts an invitation for this user. The first person to open a one-time URL claims it. On a
  /// share that is open to everybody with the link, anybody else joins.
  /// - Returns: nil where the URL leads nowhere for this user.
  /// - Throws: 37 when an invited user opens somebody else's one-time URL, which stays unclaimed; 29 when the share is
  ///   full.
  public func accepting(_ user: KnownUser, by shortGUID: String, _ making: Making) throws(RecordError) -> ShareDecision?
  {
    var state = self
    let invitation = participants.firstIndex { $0.oneTimeGUID == shortGUID }
    if let own = participant(for: user), let index = participants.firstIndex(of: own) {
      if own.acceptance == .pending {
        if let invitation, invitation != index, participants[invitation].isUnclaimed {
          throw .participantAlreadyInvited
        }
        state.participants[index].accept(user)
      }
      return ShareDecision(from: self, to: state)
    }
    if isBlocked(user) { return nil }
    if let invitation {
      guard participants[invitation].isUnclaimed else { return nil }
      state.participants[invitation].accept(user)
    } else {
      guard publicPermission > .none else { return nil }
      if participants.count > Limit.participantsPerShare { throw .tooManyParticipants }
      state.participants.append(
        Participant(
          participantID: making.participantID(), identity: user.identity(), role: .publicUser,
          permission: publicPermission, acceptance: .accepted,
          dateAdded: making.time))
    }
    state.requesters.removeAll { user.matches($0.identity) }
    return ShareDecision(from: self, to: state)
  }

  /// The share after `user` asked for access; a second call changes nothing.
  /// - Returns: nil where the user must not learn that the share exists.
  /// - Throws: 37 for a user who is invited or has access; 29 when too many people wait for access.
  public func requesting(_ user: KnownUser, at time: Int64) throws(RecordError) -> ShareDecision? {
    if participant(for: user) != nil { throw .participantAlreadyInvited }
    guard mayRequest(user) else { return nil }
    if requesters.contains(where: { user.matches($0.identity) }) { return ShareDecision(from: self, to: self) }
    if requesters.count >= Limit.requestersPerShare { throw .tooManyParticipants }
    var state = self
    state.requesters.append(
      Requester(
        identity: user.identity(invitedBy: user.emailAddress.flatMap { LookupInfo(emailAddress: $0) }),
        requestedAt: time))
    return ShareDecision(from: self, to: state)
  }

  /// The share after `user` left it or declined the invitation.
  /// - Returns: nil for the owner, and for a user who takes no part in the share.
  public func leaving(_ user: KnownUser) -> ShareDecision? {
    guard let own = participant(for: user), own.role != .owner else { return nil }
    var state = self
    state.participants.removeAll { $0.participantID == own.participantID }
    return ShareDecision(from: self, to: state)
  }

  /// The share without a deleted user, who may be a participant, a requester or blocked.
  /// - Returns: nil for the share's owner, and for a user whom the share does not mention.
  public func forgetting(_ user: KnownUser) -> ShareDecision? {
    if participant(for: user)?.role == .owner { return nil }
    var state = self
    state.participants.removeAll { user.matches($0.identity) }
    state.requesters.removeAll { user.matches($0.identity) }
    state.blocked.removeAll { user.matches($0) }
    return state == self ? nil : ShareDecision(from: self, to: state)
  }

  /// Ends the share for everybody but its owner.
  public var stopping: ShareDecision { ShareDecision(from: self, to: nil) }
}

extension Participant {
  fileprivate mutating func accept(_ user: KnownUser) {
    identity = user.identity(invitedBy: identity.lookupInfo)
    acceptance = .accepted
  }
}

extension ShareState {
  /// The participants that `user` sees (A6): managers see all; a private user who accepted sees those who accepted;
  /// anybody else sees the owner and themselves.
  public func participants(visibleTo user: KnownUser) -> [Participant] {
    let own = participant(for: user)
    switch (own?.role, own?.acceptance) {
    case (.owner?, _), (.administrator?, .accepted?): return participants
    case (.privateUser?, .accepted?):
      return participants.filter {
        $0.role == .owner || $0.acceptance == .accepted || $0.participantID == own?.participantID
      }
    default: return participants.filter { $0.role == .owner || $0.participantID == own?.participantID }
    }
  }

  /// True if `user` sees requesters, blocked people and everybody's addresses.
  public func isManaged(by user: KnownUser) -> Bool {
    AccessMatrix.verdict(.changeParticipants, standing(of: user)) == .allowed
  }
}
