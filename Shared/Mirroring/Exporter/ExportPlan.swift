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

  public init(item: ExportItem, isServersOwn: Bool) {
    self.item = item
    self.isServersOwn = isServersOwn
  }

  /// Bytes of the item in a modify request (section 1, E4).
  func byteCount(zoneName: String) -> Int {
    switch item {
    case .save(let record, let changedKeys):
      changedKeys.reduce(record.recordName.utf8.count + record.recordType.utf8.count) { sum, key in
        sum + key.utf8.count + (record.fields[key]?.value.byteCount ?? 0)
      }
    case .delete(let record): zoneName.utf8.count + record.recordName.utf8.count + Self.deleteOverhead
    }
  }

  private static let deleteOverhead = 24
}

/// Everything an export run writes to one zone.
public struct ExportPlan: Hashable, Sendable {
  /// Objects in the order they were first touched, then links in theirs; each record once.
  public let writes: [PlannedWrite]
  /// Changes that were left out, in the order they came.
  public let leftOut: [LeftOutChange]
  /// Records that the store made and that are not to be: it is to hear of them as deleted.
  public let withdrawn: [Record]

  public init(writes: [PlannedWrite], leftOut: [LeftOutChange] = [], withdrawn: [Record] = []) {
    self.writes = writes
    self.leftOut = leftOut
    self.withdrawn = withdrawn
  }

  public var problems: [MirroringProblem] { leftOut.map(\.problem) }

  public var savedCount: Int { writes.count { if case .save = $0.item { true } else { false } } }
  public var deletedCount: Int { writes.count - savedCount }

  /// The writes in batches of at most 400 items and 1 572 864 bytes, in order (T-E01); an item that is larger alone has a batch of its own.
  public func batches(zoneName: String, itemLimit: Int = Limit.exportItemCount, byteLimit: Int = Limit.exportByteCount) -> [ArraySlice<PlannedWrite>] {
    var batches: [ArraySlice<PlannedWrite>] = []
    var start = 0
    var byteCount = 0
    for (index, write) in writes.enumerated() {
      let added = write.byteCount(zoneName: zoneName)
      if index > start, index - start >= itemLimit || byteCount + added > byteLimit {
        batches.append(writes[start..<index])
        start = index
        byteCount = 0
      }
      byteCount += added
    }
    if start < writes.count { batches.append(writes[start...]) }
    return batches
  }
}
