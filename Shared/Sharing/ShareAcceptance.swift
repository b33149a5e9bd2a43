// Coming to a share by its URL, and going from it.

public import Records

extension ShareState {
  /// The share after `user` accepted what `shortGUID` offers him; accepting twice is accepting once.
  ///
  /// An invitation that means him is accepted by the share's own URL. A one-time URL is claimed by the first who opens it. Who only has the link
  /// of a share that is open joins it.
  /// - Returns: nil where the URL leads nowhere for him.
  /// - Throws: 37 for a one-time URL in the hand of somebody who is invited already, which stays unclaimed; 29 for one too many.
  public func accepting(_ user: KnownUser, by shortGUID: String, _ making: Making) throws(RecordError) -> ShareDecision? {
    var state = self
    let invitation = participants.firstIndex { $0.oneTimeGUID == shortGUID }
    if let own = participant(for: user), let index = participants.firstIndex(of: own) {
      if own.acceptance == .pending {
        if let invitation, invitation != index, participants[invitation].isUnclaimed { throw .participantAlreadyInvited }
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
          participantID: making.participantID(), identity: user.identity(), role: .publicUser, permission: publicPermission, acceptance: .accepted,
          dateAdded: making.time))
    }
    state.requesters.removeAll { user.matches($0.identity) }
    return ShareDecision(from: self, to: state)
  }

  /// The share after `user` asked for access; asking twice is asking once.
  /// - Returns: nil where he must not learn that there is a share.
  /// - Throws: 37 for somebody who is invited, or has access; 29 when too many wait.
  public func requesting(_ user: KnownUser, at time: Int64) throws(RecordError) -> ShareDecision? {
    if participant(for: user) != nil { throw .participantAlreadyInvited }
    guard mayRequest(user) else { return nil }
    if requesters.contains(where: { user.matches($0.identity) }) { return ShareDecision(from: self, to: self) }
    if requesters.count >= Limit.requestersPerShare { throw .tooManyParticipants }
    var state = self
    state.requesters.append(
      Requester(identity: user.identity(invitedBy: user.emailAddress.flatMap { LookupInfo(emailAddress: $0) }), requestedAt: time))
    return ShareDecision(from: self, to: state)
  }

  /// The share after `user` left it, or declined.
  /// - Returns: nil where he has no part in it.
  public func leaving(_ user: KnownUser) -> ShareDecision? {
    guard let own = participant(for: user), own.role != .owner else { return nil }
    var state = self
    state.participants.removeAll { $0.participantID == own.participantID }
    return ShareDecision(from: self, to: state)
  }

  /// What the share is without a user who is no more, in whatever part of it: participant, requester or blocked; nil where he is in none, or its owner.
  public func forgetting(_ user: KnownUser) -> ShareDecision? {
    if participant(for: user)?.role == .owner { return nil }
    var state = self
    state.participants.removeAll { user.matches($0.identity) }
    state.requesters.removeAll { user.matches($0.identity) }
    state.blocked.removeAll { user.matches($0) }
    return state == self ? nil : ShareDecision(from: self, to: state)
  }

  /// The end of the share for everybody but its owner.
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
    case (.privateUser?, .accepted?): return participants.filter { $0.role == .owner || $0.acceptance == .accepted || $0.participantID == own?.participantID }
    default: return participants.filter { $0.role == .owner || $0.participantID == own?.participantID }
    }
  }

  /// Whether `user` learns who asks, who is kept out, and everybody's addresses.
  public func isManaged(by user: KnownUser) -> Bool { AccessMatrix.verdict(.changeParticipants, standing(of: user)) == .allowed }
}
