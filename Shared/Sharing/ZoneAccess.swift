// One user's access to one zone of another user, derived from their memberships there.

/// A user's membership in a share, as the store keeps it by user: every read and write of that user needs it.
public struct ShareMember: Hashable, Sendable {
  public let zoneName: String
  public let userRecordName: String
  /// The name of the share's record.
  public let shareName: String
  /// The record at the top of the hierarchy that the user sees; nil: the whole zone.
  public let rootRecordName: String?
  public var role: ParticipantRole
  public var permission: SharePermission
  /// The database's sequence number at which the access began.
  public var since: Int64
  /// The sequence number at which the access ended; nil while it lasts.
  public var until: Int64?

  public init(
    zoneName: String, userRecordName: String, shareName: String, rootRecordName: String?, role: ParticipantRole,
    permission: SharePermission, since: Int64,
    until: Int64? = nil
  ) {
    self.zoneName = zoneName
    self.userRecordName = userRecordName
    self.shareName = shareName
    self.rootRecordName = rootRecordName
    self.role = role
    self.permission = permission
    self.since = since
    self.until = until
  }

  public var isActive: Bool { until == nil }

  public var standing: ShareStanding {
    if !isActive { return .stranger }
    return role == .administrator ? .administrator(permission) : .participant(permission)
  }
}

/// A user's access to a zone, by their memberships there.
public struct ZoneAccess: Hashable, Sendable {
  /// Active memberships that allow reading, by ascending share name.
  public let members: [ShareMember]

  public static let none = ZoneAccess([])

  /// - Parameter members: all rows of the user in the zone, ended ones included.
  public init(_ members: [ShareMember]) {
    self.members = members.filter { AccessMatrix.verdict(.readRecords, $0.standing) == .allowed }.sorted {
      $0.shareName < $1.shareName
    }
  }

  /// True if the zone exists for the user.
  public var mayRead: Bool { !members.isEmpty }

  /// The membership of the whole zone; a zone that is shared as a whole has no shared hierarchies.
  public var zoneWide: ShareMember? { members.first { $0.rootRecordName == nil } }
  /// The names of the records at the top of the hierarchies that the user sees; nil: the user sees the whole zone.
  /// Ordered by share name.
  public var roots: [String]? { zoneWide == nil ? members.compactMap(\.rootRecordName) : nil }

  /// The sequence number at which the user's present access began: a feed's entries up to it were not for this user.
  public var since: Int64 { members.map(\.since).max() ?? 0 }

  /// The membership in the share whose hierarchy a record belongs to.
  /// - Parameter root: the top of the record's hierarchy, or the entry of `roots` among the record and its ancestors.
  public func member(ofRoot root: String?) -> ShareMember? {
    zoneWide ?? members.first { $0.rootRecordName != nil && $0.rootRecordName == root }
  }

  /// The membership in one share.
  public func member(ofShare name: String) -> ShareMember? { members.first { $0.shareName == name } }

  /// True if the user may write records of the hierarchy below `root`.
  public func mayWrite(root: String?) -> Bool {
    member(ofRoot: root).map { AccessMatrix.verdict(.writeRecords, $0.standing) == .allowed } ?? false
  }

  /// True if the user may write anything in the zone.
  public var mayWriteSomewhere: Bool {
    members.contains { AccessMatrix.verdict(.writeRecords, $0.standing) == .allowed }
  }
}
