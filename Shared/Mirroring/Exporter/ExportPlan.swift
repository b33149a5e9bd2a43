// The writes of an export run, in their order (E4).

public import Records

/// The change of one record.
public enum ExportItem: Hashable, Sendable {
  /// The record's new state, and the fields that differ from the stored one, ascending (E6).
  case save(Record, changedKeys: [String])
  /// Leaves a tombstone of the record given here, which is the stored one unless the zone lacks it.
  case delete(Record)

  public var recordName: String {
    switch self {
    case .save(let record, _), .delete(let record): record.recordName
    }
  }
}

/// An item, and whether the client or the server caused it.
public struct PlannedWrite: Hashable, Sendable {
  public let item: ExportItem
  /// The store must import the write too: the server decided a part of it, or the store has to hear of the record
  /// again.
  public let isServersOwn: Bool
  /// The server decided all of it, so that no user's permission is checked.
  public let isServersAlone: Bool

  public init(item: ExportItem, isServersOwn: Bool, isServersAlone: Bool = false) {
    self.item = item
    self.isServersOwn = isServersOwn
    self.isServersAlone = isServersAlone
  }
}

/// Everything that an export run writes to one zone.
public struct ExportPlan: Hashable, Sendable {
  /// Objects in the order in which they were first touched, then links in theirs; each record once.
  public let writes: [PlannedWrite]
  /// Changes that were left out, in the order in which they came.
  public let leftOut: [LeftOutChange]
  /// Records that exist only in the store and may not exist: the store is told that they are deleted.
  public let withdrawn: [Record]
  /// The losses that the writes cause, in the order in which they were found.
  public let losses: [ConflictLoss]

  public init(
    writes: [PlannedWrite], leftOut: [LeftOutChange] = [], withdrawn: [Record] = [], losses: [ConflictLoss] = []
  ) {
    self.losses = losses
    self.writes = writes
    self.leftOut = leftOut
    self.withdrawn = withdrawn
  }

  public var problems: [MirroringProblem] { leftOut.map(\.problem) }

  public var savedCount: Int { writes.count { if case .save = $0.item { true } else { false } } }
  public var deletedCount: Int { writes.count - savedCount }
}
