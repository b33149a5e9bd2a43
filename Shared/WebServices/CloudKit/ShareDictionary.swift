// The parts of a share that records' dictionaries show (docs/protocol/record-plane.md#sharing).

public import JSON
public import Sharing

/// The shares of the records in an answer, and the user who sees the answer.
public struct ShownShares: Sendable {
  /// A share, as the store has it.
  public struct Share: Hashable, Sendable {
    public let shortGUID: String
    public let state: ShareState

    public init(shortGUID: String, state: ShareState) {
      self.shortGUID = shortGUID
      self.state = state
    }
  }

  public let viewer: KnownUser
  /// Shares by the names of their records.
  public var shares: [String: Share] = [:]
  /// Names of shares' records, by the names of the records at the top of the shared hierarchies.
  public var roots: [String: String] = [:]

  public init(to viewer: KnownUser) { self.viewer = viewer }

  public var isEmpty: Bool { shares.isEmpty && roots.isEmpty }
}

extension ParticipantRole {
  /// The word in Apple's documents.
  public var wireName: String {
    switch self {
    case .owner: "OWNER"
    case .administrator: "ADMINISTRATOR"
    case .privateUser: "USER"
    case .publicUser: "PUBLIC_USER"
    }
  }
}

extension SharePermission {
  public var wireName: String {
    switch self {
    case .none: "NONE"
    case .readOnly: "READ_ONLY"
    case .readWrite: "READ_WRITE"
    }
  }
}

extension AcceptanceStatus {
  /// The word in Apple's documents.
  public var wireName: String {
    switch self {
    case .pending: "INVITED"
    case .accepted: "ACCEPTED"
    case .removed: "REMOVED"
    }
  }
}

extension UserIdentity {
  /// - Parameter showsAddress: whether the reader may see the address by which the person was invited.
  public func write(showsAddress: Bool, to writer: inout JSONWriter) {
    writer.beginObject()
    if let userRecordName { writer.member("userRecordName", userRecordName) }
    writer.key("nameComponents")
    writer.beginObject()
    if let givenName { writer.member("givenName", givenName) }
    if let familyName { writer.member("familyName", familyName) }
    writer.endObject()
    if showsAddress, let lookupInfo {
      writer.key("lookupInfo")
      writer.beginObject()
      switch lookupInfo {
      case .email(let address): writer.member("emailAddress", address)
      case .phone(let number): writer.member("phoneNumber", number)
      case .recordName(let name): writer.member("userRecordName", name)
      }
      writer.endObject()
    }
    writer.endObject()
  }
}

extension Participant {
  /// - Parameters:
  ///   - showsAddress: whether the reader may see the address by which the participant was invited.
  ///   - showsInvitation: whether the reader may see the one-time URL made for this participant.
  ///   - isOwn: whether the reader is this participant.
  public func write(showsAddress: Bool, showsInvitation: Bool, isOwn: Bool, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("participantId", participantID)
    writer.key("userIdentity")
    (isOwn ? identity : shownIdentity).write(showsAddress: showsAddress, to: &writer)
    writer.member("type", role.wireName)
    writer.member("acceptanceStatus", acceptance.wireName)
    writer.member("permission", permission.wireName)
    writer.member("dateAddedToShare", dateAdded)
    if isApprovedRequester { writer.member("isApprovedRequester", true) }
    if showsInvitation, let oneTimeGUID { writer.member("oneTimeShortGUID", oneTimeGUID) }
    writer.endObject()
  }
}

extension ShownShares.Share {
  /// Writes the members that only a share's dictionary has into the current object.
  func writeMembers(for viewer: KnownUser, to writer: inout JSONWriter) {
    let isManager = state.isManaged(by: viewer)
    let own = state.participant(for: viewer)
    writer.member("shortGUID", shortGUID)
    writer.member("publicPermission", state.publicPermission.wireName)
    writer.member("allowsAccessRequests", state.allowsAccessRequests)
    func write(_ participant: Participant) {
      let isOwn = participant.participantID == own?.participantID
      participant.write(showsAddress: isManager || isOwn, showsInvitation: isManager, isOwn: isOwn, to: &writer)
    }
    writer.key("participants")
    writer.beginArray()
    for participant in state.participants(visibleTo: viewer) { write(participant) }
    writer.endArray()
    if let owner = state.owner {
      writer.key("owner")
      write(owner)
    }
    if let own {
      writer.key("currentUserParticipant")
      write(own)
    }
    guard isManager else { return }
    writer.key("requesters")
    writer.beginArray()
    for requester in state.requesters {
      writer.beginObject()
      writer.key("userIdentity")
      requester.identity.write(showsAddress: true, to: &writer)
      writer.member("requestedAt", requester.requestedAt)
      writer.endObject()
    }
    writer.endArray()
    writer.key("blocked")
    writer.beginArray()
    for identity in state.blocked { identity.asNamed.write(showsAddress: true, to: &writer) }
    writer.endArray()
  }
}

extension ShownShares {
  /// Writes the members about shares that belong to a record into its object.
  /// - Returns: true if they contain its short GUID.
  func writeMembers(of recordName: String, zoneJSON: [UInt8], to writer: inout JSONWriter) -> Bool {
    if let name = roots[recordName] {
      writer.key("share")
      writer.beginObject()
      writer.member("recordName", name)
      writer.key("zoneID")
      writer.raw(zoneJSON)
      writer.endObject()
    }
    guard let share = shares[recordName] else { return false }
    share.writeMembers(for: viewer, to: &writer)
    return true
  }
}
