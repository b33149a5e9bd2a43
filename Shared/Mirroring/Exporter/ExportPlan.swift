// What an export run is going to write, in the order it is written (E4).

public import Records

/// One record that changes.
public enum ExportItem: Hashable, Sendable {
  /// The record's new state, and the fields that differ from the stored one, ascending (E6).
  case save(Record, changedKeys: [String])
  /// Leaves a tombstone of the stored record, which is given.
  case delete(Record)

  public var recordName: String {
    switch self {
    case .save(let record, _), .delete(let record): record.recordName
    }
  }
}

/// An item and whose doing it is.
public struct PlannedWrite: Hashable, Sendable {
  public let item: ExportItem
  /// The server cleared something here that the client did not name: the client is to learn of it, too.
  public let isServersOwn: Bool
  /// All of it is the server's doing: nobody's permission is asked for it.
  public let isServersAlone: Bool

  public init(item: ExportItem, isServersOwn: Bool, isServersAlone: Bool = false) {
    self.item = item
    self.isServersOwn = isServersOwn
    self.isServersAlone = isServersAlone
  }
}

/// Everything an export run writes to one zone.
public struct ExportPlan: Hashable, Sendable {
  /// Objects in the order they were first touched, then links in theirs; each record once.
  public let writes: [PlannedWrite]
  /// Changes that were left out, in the order they came.
  public let leftOut: [LeftOutChange]
  /// Records that the store made and that are not to be: it is to hear of them as deleted.
  public let withdrawn: [Record]
  /// What somebody loses by it, in the order it was found.
  public let losses: [ConflictLoss]

  public init(writes: [PlannedWrite], leftOut: [LeftOutChange] = [], withdrawn: [Record] = [], losses: [ConflictLoss] = []) {
    self.losses = losses
    self.writes = writes
    self.leftOut = leftOut
    self.withdrawn = withdrawn
  }

  public var problems: [MirroringProblem] { leftOut.map(\.problem) }

  public var savedCount: Int { writes.count { if case .save = $0.item { true } else { false } } }
  public var deletedCount: Int { writes.count - savedCount }
}
