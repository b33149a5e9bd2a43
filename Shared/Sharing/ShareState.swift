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

  /// The record at the top of the shared hierarchy; nil: the whole zone is shared.
  public var rootRecordName: String?
  /// The owner first, then the others in the order in which they were added.
  public var participants: [Participant]
  /// The permission of everybody who has the link.
  public var publicPermission: SharePermission
  /// True if people who have the link and no access may ask for it, and so learn that the share exists.
  public var allowsAccessRequests: Bool
  /// In the order in which they asked.
  public var requesters: [Requester]
  /// People who can neither join nor ask for access.
  public var blocked: [UserIdentity]

  public init(
    rootRecordName: String?, participants: [Participant], publicPermission: SharePermission = .none,
    allowsAccessRequests: Bool = false,
    requesters: [Requester] = [], blocked: [UserIdentity] = []
  ) {
    self.rootRecordName = rootRecordName
    self.participants = participants
    self.publicPermission = publicPermission
    self.allowsAccessRequests = allowsAccessRequests
    self.requesters = requesters
    self.blocked = blocked
  }

  /// A share in which only its owner takes part.
  /// - Parameter time: milliseconds since 1970.
  public init(of owner: KnownUser, rootRecordName: String?, participantID: String, at time: Int64) {
    self.init(
      rootRecordName: rootRecordName,
      participants: [
        Participant(
          participantID: participantID, identity: owner.identity(), role: .owner, permission: .readWrite,
          acceptance: .accepted, dateAdded: time)
      ])
  }

  public var isZoneWide: Bool { rootRecordName == nil }
  public var owner: Participant? { participants.first { $0.role == .owner } }

  /// Participants other than the owner who may read the share's records.
  public var members: [Participant] { participants.filter(\.isMember) }
  /// People with an e-mail address or telephone number that was no user's when they were invited.
  public var waiting: [Participant] {
    participants.filter { participant in
      guard participant.acceptance == .pending, participant.identity.userRecordName == nil else { return false }
      switch participant.identity.lookupInfo {
      case .email, .phone: return true
      case .recordName, nil: return false
      }
    }
  }
  /// Short GUIDs of one-time URLs: they lead to the share beside its own short GUID.
  public var oneTimeGUIDs: [String] { participants.compactMap(\.oneTimeGUID) }

  public func participant(for user: KnownUser) -> Participant? {
    let found =
      participants.first { $0.identity.userRecordName == user.userRecordName }
      ?? participants.first { user.matches($0.identity) }
    // A share may have invited an address before the directory knew it as this user's: a block voids that invitation.
    return found?.acceptance == .pending && isBlocked(user) ? nil : found
  }

  public func isBlocked(_ user: KnownUser) -> Bool { blocked.contains { user.matches($0) } }

  /// The user's standing.
  /// - Parameter shortGUID: the short GUID of the URL that led to this share; nil for a user who addresses the zone.
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
    if let invitation = participants.first(where: { $0.oneTimeGUID == shortGUID }) {
      return invitation.isUnclaimed ? .invited : .stranger
    }
    return publicPermission > .none ? .linkHolder : .stranger
  }

  /// True if a user who comes by the share's own short GUID may ask for access.
  public func mayRequest(_ user: KnownUser) -> Bool {
    allowsAccessRequests && !isBlocked(user) && participant(for: user) == nil
  }
}

/// The stored form: a MessagePack map. New keys are optional, so that maps of earlier releases stay readable.
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

  /// The stored bytes; equal states have equal bytes.
  /// - Throws: only what `MessagePackEncoder` may throw; every state can be encoded.
  public func encoded() throws -> [UInt8] { try MessagePackEncoder().encode(self) }

  /// Reads the bytes that `encoded` wrote.
  /// - Throws: `StoredFormatError` for any other bytes.
  public init(decoding bytes: [UInt8]) throws(StoredFormatError) {
    do throws(MessagePackError) {
      self = try MessagePackDecoder().decode(ShareState.self, from: bytes)
    } catch {
      throw StoredFormatError(error)
    }
  }
}
