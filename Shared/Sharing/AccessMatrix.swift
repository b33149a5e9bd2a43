// The access matrix, cell by cell (docs/protocol/mirroring.md#access-matrix). Nothing else decides it.

public import Records

/// A row of the matrix.
public enum ShareAction: String, Hashable, Sendable, CaseIterable {
  case seeMetadata, readRecords, writeRecords
  /// Also what the share is called.
  case changeParticipants
  /// Also whether access may be asked for: who can reach the share at all is the owner's business.
  case changePublicPermission
  case deleteShare, deleteZone
  /// To leave, or to decline an invitation.
  case endOwnParticipation
}

/// A column of the matrix, with what was agreed with the person.
public enum ShareStanding: Hashable, Sendable {
  case owner
  case administrator(SharePermission)
  /// Accepted, by an invitation or by the link.
  case participant(SharePermission)
  /// Has not accepted yet.
  case invited
  /// Has the URL of a share that is open to everybody who has it, and has not joined.
  case linkHolder
  case stranger
}

/// A cell of the matrix.
public enum AccessVerdict: Hashable, Sendable {
  case allowed
  /// `ACCESS_DENIED` (10): he may know that it is there.
  case denied
  /// As if there were no such thing (11, 26).
  case absent
}

public enum AccessMatrix {
  private enum Cell {
    case yes, no, gone
    /// `yes` for readWrite, `no` for less.
    case perPermission
  }

  private enum Column: Int {
    case owner, administrator, readWrite, readOnly, invited, linkHolder, stranger
  }

  // The order of columns is `Column`'s. A stranger's cells are all alike, and so is what an invited person and a link's holder may do with the
  // zone: before they accept there is no such zone for them. That one may read and write "after accept" is so because one has another
  // standing then.
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

  /// What `standing` may do. An accepted participant whose permission is none sees the share, and that he may leave it; its records are not there
  /// for him.
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

  /// The same as an error.
  /// - Parameter missing: what is thrown where the thing itself is missing.
  public static func require(_ action: ShareAction, _ standing: ShareStanding, orElse missing: @autoclosure () -> RecordError) throws(RecordError) {
    switch verdict(action, standing) {
    case .allowed: return
    case .denied: throw RecordError.shareAccessDenied
    case .absent: throw missing()
    }
  }
}
