// Transactions into record changes: the heart of the export (E2, E6, H9, R11–R15).

public import History
public import ObjectModel
public import Records

/// Applies a store's transactions, in order, to the zone its objects live in, and tells what is to be written.
///
/// An exporter is used for one run and thrown away: it sees the zone in one state, keeps what it changes on top, and at the end compares
/// the two. Errors of single objects are collected; only the source's own errors are thrown.
public struct Exporter {
  let model: ModelIndex
  let links: LinkResolver
  /// Names of the entities of the store's configuration; nil: all.
  let entityNames: Set<String>?
  let serializer: Serializer
  let stamp: Stamp
  let makeRecordName: () -> String
  var overlay: ExportOverlay
  /// Link records by the pair's key, once the pair was looked at.
  var pairs: [String: [String]] = [:]
  private(set) var problems: [MirroringProblem] = []

  /// - Parameters:
  ///   - stamp: who exports, from which device, and when.
  ///   - makeRecordName: a fresh upper-case UUID for every link record (R13).
  public init(
    model: ModelIndex, links: LinkResolver, entityNames: Set<String>? = nil, source: any RecordSource, serializer: Serializer, stamp: Stamp,
    makeRecordName: @escaping () -> String
  ) {
    self.model = model
    self.links = links
    self.entityNames = entityNames
    self.serializer = serializer
    self.stamp = stamp
    self.makeRecordName = makeRecordName
    overlay = ExportOverlay(source: source)
  }

  /// What H9 makes of a transaction by its author.
  enum Treatment: Equatable {
    case export, deletionsOnly, skip

    init(author: String?) {
      guard let author, author.hasPrefix(ReservedName.mirroringAuthorPrefix) else {
        self = .export
        return
      }
      switch author.dropFirst(ReservedName.mirroringAuthorPrefix.count) {
      case "import", "reset": self = .deletionsOnly
      default: self = .skip
      }
    }
  }

  /// Adds a transaction.
  ///
  /// Within it, objects are made, changed and deleted first, in their order, and then relationships are set, in their order: an object
  /// may point to one that is inserted further down.
  /// - Throws: what the source or the assets throw; the exporter is then of no more use.
  public mutating func apply(_ transaction: HistoryTransaction) throws {
    switch Treatment(author: transaction.author) {
    case .skip: return
    case .deletionsOnly:
      for change in transaction.changes where change.changeType == .delete { try dropState(of: change.objectID) }
    case .export:
      try applyChanges(transaction.changes)
    }
  }

  private mutating func applyChanges(_ changes: [HistoryChange]) throws {
    var refused: Set<Int> = []
    var lastDeletion: [String: Int] = [:]
    for (index, change) in changes.enumerated() {
      guard isMirrored(change.entity) else { continue }
      do {
        switch change.changeType {
        case .insert: try insert(change)
        case .update: try update(change)
        case .delete:
          try delete(change)
          lastDeletion[change.objectID] = index
        }
      } catch let problem as MirroringProblem {
        problems.append(problem)
        refused.insert(index)
      }
    }
    for (index, change) in changes.enumerated() where !change.relationships.isEmpty {
      guard change.changeType != .delete, isMirrored(change.entity), !refused.contains(index), index > lastDeletion[change.objectID] ?? -1 else { continue }
      try setRelationships(of: change)
    }
  }

  private func isMirrored(_ entity: String) -> Bool { entityNames?.contains(entity) ?? true }

  mutating func note(_ objectID: String, _ entity: String, _ code: ServerErrorCode, _ reason: String) {
    problems.append(MirroringProblem(recordName: objectID, entity: entity, code: code, reason: reason))
  }

  /// Everything that differs now from the zone as it is stored.
  public consuming func plan() -> ExportPlan {
    var objects: [PlannedWrite] = []
    var links: [PlannedWrite] = []
    for name in overlay.order {
      guard let entry = overlay.entries[name], let write = Self.write(of: entry, stamp: stamp) else { continue }
      let isLink = LinkRecord.isLink(recordType: (entry.record ?? entry.baseRecord)?.recordType ?? "")
      if isLink { links.append(write) } else { objects.append(write) }
    }
    return ExportPlan(writes: objects + links, problems: problems)
  }

  /// The object's record as it is now, whether or not it will be written; nil when there is none alive.
  public mutating func currentRecord(named recordName: String) throws -> Record? { try overlay.entry(recordName).record }

  private static func write(of entry: OverlayEntry, stamp: Stamp) -> PlannedWrite? {
    switch (entry.baseRecord, entry.record) {
    case (nil, nil): return nil
    case (let base?, nil): return PlannedWrite(item: .delete(base), isServersOwn: entry.isServersDeletion)
    case (let base, var record?):
      let changedKeys = changedKeys(from: base, to: record)
      if base != nil, changedKeys.isEmpty { return nil }
      record.modified = stamp
      return PlannedWrite(item: .save(record, changedKeys: changedKeys), isServersOwn: changedKeys.contains { entry.serverFields.contains($0) })
    }
  }

  /// Names of fields that differ, ascending.
  private static func changedKeys(from base: Record?, to record: Record) -> [String] {
    guard let base else { return record.fields.map(\.name) }
    var changed: [String] = []
    var (old, new) = (base.fields.elements[...], record.fields.elements[...])
    while let first = [old.first?.name, new.first?.name].compactMap({ $0 }).min() {
      let before = old.first?.name == first ? old.removeFirst().field : nil
      let after = new.first?.name == first ? new.removeFirst().field : nil
      if before != after { changed.append(first) }
    }
    return changed
  }
}
