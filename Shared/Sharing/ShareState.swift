// The state of a share beside its record: participants, public permission and requests (A1, A2, A5).

import MessagePack
public import Records

/// A share's state, kept in the row beside its record.
public struct ShareState: Hashable, Sendable {
  /// Somebody who asked for access.
  public struct Requester: Hashable, Sendable, Codable {
    public var identity: UserIdentity
    /// Milliseconds since 1970.
    public var requestedAt: Int64

    public init(identity: UserIdentity, requestedAt: Int64) {
      self.identity = identity
      self.requestedAt = requestedAt
    }
  }

  /// The record on top of the hierarchy that is shared; nil: the whole zone is.
  public var rootRecordName: String?
  /// The owner first, then in the order in which they were added.
  public var participants: [Participant]
  /// Of everybody who has the link.
  public var publicPermission: SharePermission
  /// Whether somebody who has the link and no access may ask for it, and so learns that there is a share.
  public var allowsAccessRequests: Bool
  /// In the order in which they asked.
  public var requesters: [Requester]
  /// Who can neither join nor ask.
  public var blocked: [UserIdentity]

  public init(
    rootRecordName: String?, participants: [Participant], publicPermission: SharePermission = .none, allowsAccessRequests: Bool = false,
    requesters: [Requester] = [], blocked: [UserIdentity] = []
  ) {
    self.rootRecordName = rootRecordName
    self.participants = participants
    self.publicPermission = publicPermission
    self.allowsAccessRequests = allowsAccessRequests
    self.requesters = requesters
    self.blocked = blocked
  }

  /// A share that nobody but its owner takes part in yet.
  /// - Parameter time: milliseconds since 1970.
  public init(of owner: KnownUser, rootRecordName: String?, participantID: String, at time: Int64) {
    self.init(
      rootRecordName: rootRecordName,
      participants: [
        Participant(
          participantID: participantID, identity: owner.identity(), role: .owner, permission: .readWrite, acceptance: .accepted, dateAdded: time)
      ])
  }

  public var isZoneWide: Bool { rootRecordName == nil }
  public var owner: Participant? { participants.first { $0.role == .owner } }

  /// Those besides the owner who may read the share's records.
  public var members: [Participant] { participants.filter(\.isMember) }
  /// What leads to the share beside its own short GUID.
  public var oneTimeGUIDs: [String] { participants.compactMap(\.oneTimeGUID) }

  public func participant(for user: KnownUser) -> Participant? {
    let found = participants.first { $0.identity.userRecordName == user.userRecordName } ?? participants.first { user.matches($0.identity) }
    // He may have been invited by an address before anybody knew that it is his: who is kept out has no invitation.
    return found?.acceptance == .pending && isBlocked(user) ? nil : found
  }

  public func isBlocked(_ user: KnownUser) -> Bool { blocked.contains { user.matches($0) } }

  /// Of somebody who comes by `shortGUID`, which led to this share; nil: who addresses the zone.
  public func standing(of user: KnownUser, comingBy shortGUID: String? = nil) -> ShareStanding {
    if let participant = participant(for: user) {
      switch (participant.role, participant.acceptance) {
      case (.owner, _): return .owner
      case (_, .pending): return .invited
      case (.administrator, .accepted): return .administrator(participant.permission)
      case (_, .accepted): return .participant(participant.permission)
      case (_, .removed): break
      }
    }
    guard let shortGUID, !isBlocked(user) else { return .stranger }
    if let invitation = participants.first(where: { $0.oneTimeGUID == shortGUID }) { return invitation.isUnclaimed ? .invited : .stranger }
    return publicPermission > .none ? .linkHolder : .stranger
  }

  /// Whether whoever comes by the share's own short GUID may ask for access.
  public func mayRequest(_ user: KnownUser) -> Bool { allowsAccessRequests && !isBlocked(user) && participant(for: user) == nil }
}

/// The stored form: a MessagePack map. New keys are optional, so that what an earlier release wrote can be read.
extension ShareState: Codable {
  private enum Key: String, CodingKey {
    case rootRecordName, participants, publicPermission, allowsAccessRequests, requesters, blocked
  }

  public init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: Key.self)
    self.init(
      rootRecordName: try values.decodeIfPresent(String.self, forKey: .rootRecordName),
      participants: try values.decode([Participant].self, forKey: .participants),
      publicPermission: try values.decode(SharePermission.self, forKey: .publicPermission),
      allowsAccessRequests: try values.decodeIfPresent(Bool.self, forKey: .allowsAccessRequests) ?? false,
      requesters: try values.decodeIfPresent([Requester].self, forKey: .requesters) ?? [],
      blocked: try values.decodeIfPresent([UserIdentity].self, forKey: .blocked) ?? [])
  }

  public func encode(to encoder: any Encoder) throws {
    var values = encoder.container(keyedBy: Key.self)
    try values.encodeIfPresent(rootRecordName, forKey: .rootRecordName)
    try values.encode(participants, forKey: .participants)
    try values.encode(publicPermission, forKey: .publicPermission)
    if allowsAccessRequests { try values.encode(true, forKey: .allowsAccessRequests) }
    if !requesters.isEmpty { try values.encode(requesters, forKey: .requesters) }
    if !blocked.isEmpty { try values.encode(blocked, forKey: .blocked) }
  }

  /// Equal states have equal bytes.
  /// - Throws: nothing for a state; what encoding anything may.
  public func encoded() throws -> [UInt8] { try MessagePackEncoder().encode(self) }

  /// Reads what `encoded` wrote.
  /// - Throws: `StoredFormatError` for any other bytes.
  public init(decoding bytes: [UInt8]) throws(StoredFormatError) {
    do throws(MessagePackError) {
      self = try MessagePackDecoder().decode(ShareState.self, from: bytes)
    } catch {
      throw StoredFormatError(error)
    }
  }
}
