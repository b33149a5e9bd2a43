// The access matrix, cell by cell (docs/protocol/mirroring.md#access-matrix). Nothing else decides it.

public import Records

/// A row of the matrix.
public enum ShareAction: String, Hashable, Sendable, CaseIterable {
  case seeMetadata, readRecords, writeRecords
  /// Also changes the share's title.
  case changeParticipants
  /// Also sets whether people may ask for access: the owner alone decides who can reach the share.
  case changePublicPermission
  case deleteShare, deleteZone
  /// Leaves the share, or declines an invitation to it.
  case endOwnParticipation
}

/// A column of the matrix: somebody's relation to the share, with the permission agreed with them.
public enum ShareStanding: Hashable, Sendable {
  case owner
  case administrator(SharePermission)
  /// Has accepted, by an invitation or by the link.
  case participant(SharePermission)
  /// Has not accepted yet.
  case invited
  /// Has the URL of a share that is open to everybody with the link, and has not joined.
  case linkHolder
  case stranger
}

/// A cell of the matrix.
public enum AccessVerdict: Hashable, Sendable {
  case allowed
  /// `ACCESS_DENIED` (10): the person may know that the share exists.
  case denied
  /// The share seems not to exist (`NOT_FOUND`, 11, or `ZONE_NOT_FOUND`, 26).
  case absent
}

public enum AccessMatrix {
  private enum Cell {
    case yes, no, gone
    /// `yes` with readWrite, `no` with any other permission.
    case perPermission
  }

  private enum Column: Int {
    case owner, administrator, readWrite, readOnly, invited, linkHolder, stranger
  }

  // Columns stand in the order of `Column`. Before people accept, the zone does not exist for them: `invited` and
  // `linkHolder` have the zone cells of a stranger, and accepting gives them another standing.
  private static func row(_ action: ShareAction) -> [Cell] {
    switch action {
    //                           owner administrator   readWrite readOnly invited link   stranger
    case .seeMetadata: [.yes, .yes, .yes, .yes, .yes, .yes, .gone]
    case .readRecords: [.yes, .yes, .yes, .yes, .gone, .gone, .gone]
    case .writeRecords: [.yes, .perPermission, .yes, .no, .gone, .gone, .gone]
    case .changeParticipants: [.yes, .yes, .no, .no, .gone, .gone, .gone]
    case .changePublicPermission: [.yes, .no, .no, .no, .gone, .gone, .gone]
    case .deleteShare: [.yes, .no, .no, .no, .gone, .gone, .gone]
    case .deleteZone: [.yes, .no, .no, .no, .gone, .gone, .gone]
    case .endOwnParticipation: [.no, .yes, .yes, .yes, .yes, .yes, .gone]
    }
  }

  /// The verdict for a standing. A participant whose permission is none sees the share and may leave it, but none of
  /// its records.
  public static func verdict(_ action: ShareAction, _ standing: ShareStanding) -> AccessVerdict {
    let column: Column
    let permission: SharePermission
    switch standing {
    case .owner: (column, permission) = (.owner, .readWrite)
    case .administrator(let granted): (column, permission) = (.administrator, granted)
    case .participant(let granted): (column, permission) = (granted == .readWrite ? .readWrite : .readOnly, granted)
    case .invited: (column, permission) = (.invited, .none)
    case .linkHolder: (column, permission) = (.linkHolder, .none)
    case .stranger: (column, permission) = (.stranger, .none)
    }
    if permission == .none, action == .readRecords || action == .writeRecords { return .absent }
    return switch row(action)[column.rawValue] {
    case .yes: .allowed
    case .no: .denied
    case .gone: .absent
    case .perPermission: permission == .readWrite ? .allowed : .denied
    }
  }

  /// The verdict as an error.
  /// - Parameter missing: the error to throw where the thing seems not to exist.
  /// - Throws: `RecordError.shareAccessDenied` for `denied`, `missing` for `absent`.
  public static func require(
    _ action: ShareAction, _ standing: ShareStanding, orElse missing: @autoclosure () -> RecordError
  ) throws(RecordError) {
    switch verdict(action, standing) {
    case .allowed: return
    case .denied: throw RecordError.shareAccessDenied
    case .absent: throw missing()
    }
  }
}
