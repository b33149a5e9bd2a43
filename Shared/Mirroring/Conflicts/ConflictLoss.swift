// What somebody loses by a conflict, so that it can be looked up and brought back (C3).

public import History
public import Records

/// How something came to be lost. The raw value is stored: never renumber.
public enum ConflictKind: Int, Hashable, Sendable, CaseIterable {
  /// One edit of a property gave way to another that did not know of it.
  case lostValue = 1
  /// An object was deleted that somebody edited without knowing, or the other way round.
  case lostObject = 2
  /// Two values of a property with the policy `manual`: the server's stays until somebody decides.
  case undecided = 3
  /// Saved, and gone before any export: with a purged zone or history.
  case unexported = 4
  /// Saved, and rolled back because it may not be.
  case reverted = 5

  public var name: String { "\(self)" }
}

/// What became of a conflict. The raw value is stored: never renumber.
public enum ConflictState: Int, Hashable, Sendable, CaseIterable {
  /// Somebody has to decide.
  case open = 0
  /// What was lost can be brought back.
  case lost = 1
  /// It was brought back.
  case restored = 2
  /// Somebody decided.
  case resolved = 3

  public var name: String { "\(self)" }

  public init?(name: String) {
    guard let state = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = state
  }
}

/// Something that is lost.
public struct ConflictLoss: Hashable, Sendable {
  public let kind: ConflictKind
  public let objectID: String
  public let entity: String
  /// What has to be done to have it again, in order: for `lostValue` and `undecided` one update.
  public let lost: [HistoryChange]
  /// What the server has in its place, as an update of the same properties; nil where that is nothing.
  public let kept: HistoryChange?
  /// What both edits began with, as far as it is known.
  public let ancestor: HistoryChange?
  /// Whose edit is lost: when it was made by that device's clock (milliseconds since 1970), as far as that is known.
  public let edit: Stamp

  public init(
    kind: ConflictKind, objectID: String, entity: String, lost: [HistoryChange], kept: HistoryChange? = nil, ancestor: HistoryChange? = nil, edit: Stamp
  ) {
    self.kind = kind
    self.objectID = objectID
    self.entity = entity
    self.lost = lost
    self.kept = kept
    self.ancestor = ancestor
    self.edit = edit
  }

  /// Whether it is an edit of a device, and of an object that was deleted before.
  public func isOfEdit(by device: String) -> Bool { kind == .lostObject && edit.deviceID == device }

  /// The state that the journal begins with.
  public var state: ConflictState { kind == .undecided ? .open : .lost }

  /// What the journal keeps of it besides its columns: what is lost, then what was kept, then the ancestor, and in place of the transaction's ID
  /// which of the two there are.
  public var content: HistoryTransaction {
    let more = [("kept", kept), ("ancestor", ancestor)].compactMap { name, change in change.map { (name, $0) } }
    return HistoryTransaction(
      transactionID: more.map(\.0).joined(separator: " "), timestamp: edit.timestamp, changes: lost + more.map(\.1))
  }

  /// - Parameters:
  ///   - content: as `content` gave it.
  ///   - user: whose edit is lost, and `device`: where it was made.
  public init(kind: ConflictKind, objectID: String, entity: String, content: HistoryTransaction, user: String, device: String) {
    let names = content.transactionID.split(separator: " ")
    let lostCount = max(content.changes.count - names.count, 0)
    func change(_ name: String) -> HistoryChange? {
      names.firstIndex { $0 == name }.flatMap { content.changes.indices.contains(lostCount + $0) ? content.changes[lostCount + $0] : nil }
    }
    self.init(
      kind: kind, objectID: objectID, entity: entity, lost: Array(content.changes.prefix(lostCount)), kept: change("kept"), ancestor: change("ancestor"),
      edit: Stamp(timestamp: content.timestamp, userRecordName: user, deviceID: device))
  }

  /// The same in as few changes as say it: a thousand edits of one object that were never exported are two.
  public var compacted: ConflictLoss {
    var order: [String] = []
    var byObject: [String: [HistoryChange]] = [:]
    for change in lost {
      if byObject[change.objectID] == nil { order.append(change.objectID) }
      byObject[change.objectID, default: []].append(change)
    }
    return with(lost: order.flatMap { HeldChanges.compacted(byObject[$0] ?? []) })
  }

  /// The loss as two; nil where it is one change.
  public var halves: (ConflictLoss, ConflictLoss)? {
    if lost.count < 2 { return nil }
    return (with(lost: Array(lost.prefix(lost.count / 2))), with(lost: Array(lost.dropFirst(lost.count / 2))))
  }

  private func with(lost: [HistoryChange]) -> ConflictLoss {
    ConflictLoss(kind: kind, objectID: objectID, entity: entity, lost: lost, kept: kept, ancestor: ancestor, edit: edit)
  }
}
