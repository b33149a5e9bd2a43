// The loss of a conflict, kept so that people can look it up and restore it (C3).

public import History
public import Records

/// The way in which something was lost. The raw value is stored: never renumber.
public enum ConflictKind: Int, Hashable, Sendable, CaseIterable {
  /// One edit of a property gave way to a concurrent one.
  case lostValue = 1
  /// An object was deleted and edited concurrently.
  case lostObject = 2
  /// Two values of a property with the policy `manual`: the server's stays until somebody decides.
  case undecided = 3
  /// A saved change that a purged zone or history removed before its export.
  case unexported = 4
  /// A saved change that was rolled back because the user may not make it.
  case reverted = 5

  public var name: String { "\(self)" }
}

/// The state of a conflict. The raw value is stored: never renumber.
public enum ConflictState: Int, Hashable, Sendable, CaseIterable {
  /// Somebody has to decide.
  case open = 0
  /// The loss can be brought back.
  case lost = 1
  /// The loss was brought back.
  case restored = 2
  /// Somebody has decided.
  case resolved = 3

  public var name: String { "\(self)" }

  public init?(name: String) {
    guard let state = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = state
  }
}

/// A value or object that a conflict lost.
public struct ConflictLoss: Hashable, Sendable {
  public let kind: ConflictKind
  public let objectID: String
  public let entity: String
  /// The changes that bring the loss back, in order; one update for `lostValue` and `undecided`.
  public let lost: [HistoryChange]
  /// The server's values of the same properties, as an update; nil if it has none.
  public let kept: HistoryChange?
  /// The values before both edits, as an update; nil if they are not known.
  public let ancestor: HistoryChange?
  /// The author of the lost edit, and its time in milliseconds since 1970 by that device's clock, as far as known.
  public let edit: Stamp

  public init(
    kind: ConflictKind, objectID: String, entity: String, lost: [HistoryChange], kept: HistoryChange? = nil,
    ancestor: HistoryChange? = nil, edit: Stamp
  ) {
    self.kind = kind
    self.objectID = objectID
    self.entity = entity
    self.lost = lost
    self.kept = kept
    self.ancestor = ancestor
    self.edit = edit
  }

  /// True if the loss is a device's edit of an object that was deleted before.
  public func isOfEdit(by device: String) -> Bool { kind == .lostObject && edit.deviceID == device }

  /// The state in which the journal records the loss.
  public var state: ConflictState { kind == .undecided ? .open : .lost }

  /// The journal's content besides its columns: the lost changes, then `kept`, then the ancestor. The transaction ID
  /// lists which of the last two are present.
  public var content: HistoryTransaction {
    let more = [("kept", kept), ("ancestor", ancestor)].compactMap { name, change in change.map { (name, $0) } }
    return HistoryTransaction(
      transactionID: more.map(\.0).joined(separator: " "), timestamp: edit.timestamp, changes: lost + more.map(\.1))
  }

  /// - Parameters:
  ///   - content: a value of the property `content`.
  ///   - user, device: the author of the lost edit.
  public init(
    kind: ConflictKind, objectID: String, entity: String, content: HistoryTransaction, user: String, device: String
  ) {
    let names = content.transactionID.split(separator: " ")
    let lostCount = max(content.changes.count - names.count, 0)
    func change(_ name: String) -> HistoryChange? {
      names.firstIndex { $0 == name }.flatMap {
        content.changes.indices.contains(lostCount + $0) ? content.changes[lostCount + $0] : nil
      }
    }
    self.init(
      kind: kind, objectID: objectID, entity: entity, lost: Array(content.changes.prefix(lostCount)),
      kept: change("kept"), ancestor: change("ancestor"),
      edit: Stamp(timestamp: content.timestamp, userRecordName: user, deviceID: device))
  }

  /// The same loss in as few changes as possible: a thousand edits of one object that were never exported become two.
  public var compacted: ConflictLoss {
    var order: [String] = []
    var byObject: [String: [HistoryChange]] = [:]
    for change in lost {
      if byObject[change.objectID] == nil { order.append(change.objectID) }
      byObject[change.objectID, default: []].append(change)
    }
    return with(lost: order.flatMap { HeldChanges.compacted(byObject[$0] ?? []) })
  }

  /// The loss split in two; nil if it is a single change.
  public var halves: (ConflictLoss, ConflictLoss)? {
    if lost.count < 2 { return nil }
    return (with(lost: Array(lost.prefix(lost.count / 2))), with(lost: Array(lost.dropFirst(lost.count / 2))))
  }

  private func with(lost: [HistoryChange]) -> ConflictLoss {
    ConflictLoss(kind: kind, objectID: objectID, entity: entity, lost: lost, kept: kept, ancestor: ancestor, edit: edit)
  }
}
