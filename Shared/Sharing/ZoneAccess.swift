// What one user may do in one zone of another's, from his memberships there.

/// A user's part in a share as the store keeps it by user: what every read and write of his asks for.
public struct ShareMember: Hashable, Sendable {
  public let zoneName: String
  public let userRecordName: String
  /// The share's record.
  public let shareName: String
  /// The record on top of what he sees; nil: the whole zone.
  public let rootRecordName: String?
  public var role: ParticipantRole
  public var permission: SharePermission
  /// The database's sequence number that was taken when his access began.
  public var since: Int64
  /// The one that was taken when it ended; nil: it has not.
  public var until: Int64?

  public init(
    zoneName: String, userRecordName: String, shareName: String, rootRecordName: String?, role: ParticipantRole, permission: SharePermission, since: Int64,
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

/// What a user may do in a zone, by the memberships he has there.
public struct ZoneAccess: Hashable, Sendable {
  /// Active ones that let him read, ascending by share.
  public let members: [ShareMember]

  public static let none = ZoneAccess([])

  /// - Parameter members: all rows of the user in the zone, ended ones too.
  public init(_ members: [ShareMember]) {
    self.members = members.filter { AccessMatrix.verdict(.readRecords, $0.standing) == .allowed }.sorted { $0.shareName < $1.shareName }
  }

  /// Whether there is such a zone for him.
  public var mayRead: Bool { !members.isEmpty }

  /// The membership of the whole zone; a zone that is shared as a whole has no hierarchies that are shared.
  public var zoneWide: ShareMember? { members.first { $0.rootRecordName == nil } }
  /// The names of the records on top of what he sees; nil: he sees the whole zone. Ascending by share.
  public var roots: [String]? { zoneWide == nil ? members.compactMap(\.rootRecordName) : nil }

  /// Where access began that he has now: what a feed has told before that it has not told to him.
  public var since: Int64 { members.map(\.since).max() ?? 0 }

  /// His part in the share whose hierarchy a record belongs to.
  /// - Parameter root: the top of the record's hierarchy, or what `roots` contains of its ancestors and itself.
  public func member(ofRoot root: String?) -> ShareMember? { zoneWide ?? members.first { $0.rootRecordName != nil && $0.rootRecordName == root } }

  /// His part in one share.
  public func member(ofShare name: String) -> ShareMember? { members.first { $0.shareName == name } }

  /// Whether he may write to what hangs below `root`.
  public func mayWrite(root: String?) -> Bool {
    member(ofRoot: root).map { AccessMatrix.verdict(.writeRecords, $0.standing) == .allowed } ?? false
  }

  /// Whether he may write anything there.
  public var mayWriteSomewhere: Bool { members.contains { AccessMatrix.verdict(.writeRecords, $0.standing) == .allowed } }
}
