// Transactions into record changes: the heart of the export (E2, E6, H9, R11–R15).

public import History
public import ObjectModel
public import Records

/// Applies a store's transactions, in order, to the zone of its objects, and plans the writes.
///
/// An exporter serves one run: it sees the zone in one state, keeps changes on top, and compares the two at the end. It
/// collects errors of single objects and throws only errors of its source.
public struct Exporter {
  let model: ModelIndex
  let links: LinkResolver
  /// Names of the entities of the store's configuration; nil means all.
  let entityNames: Set<String>?
  let serializer: Serializer
  let stamp: Stamp
  let makeRecordName: () -> String
  /// Finds objects outside the exporter's zone; nil if there are none.
  let elsewhere: Elsewhere?
  /// Objects whose changes are undone in the store that made them.
  let reverting: Set<String>
  /// Records that the store is told are deleted, though the zone never had them.
  var withdrawn: [Record] = []
  /// Objects that the store deleted and the zone never had.
  var buried: [Record] = []
  var overlay: ExportOverlay
  /// Settles concurrent edits; nil: the last arrival wins, and no loss is noted.
  var judge: ConflictJudge?
  /// Link records by the pair's key, for the pairs that were looked up.
  var pairs: [String: [String]] = [:]
  var leftOut: [LeftOutChange] = []
  /// The number of changes ever added to `leftOut`.
  var leftOutTotal = 0
  /// True leaves out a change that meets unreadable data, instead of failing the run; every change costs more then.
  let isolatesErrors: Bool
  /// Milliseconds since 1970: the time when the store last began or ended an import. If the store deletes a duplicate
  /// without having imported the merge, the survivor is deleted too.
  public var importedAt: Int64 = 0
  /// Objects that a slice's transaction makes and deletes: an earlier slice may have done both and left nothing of
  /// them.
  var passing: Set<String> = []
  /// Changes that slices went through for the order of deletions, so that tests see the cost of many slices.
  package private(set) var orderedChangeCount = 0
  /// Survivors that changes named by the names of their duplicates.
  var standIns: Set<String> = []
  /// Objects that an edit brought back (T-C06): their device may have let go of them.
  var broughtBack: Set<String> = []
  /// The origin of the current transaction's changes.
  var origin = ChangeOrigin()
  /// Objects that the store imports again because of replaced names.
  var toldAgain: [String] = []

  /// - Parameters:
  ///   - stamp: the user and device that export, and the time.
  ///   - elsewhere: finds an object outside the exporter's zone: another exporter handles its changes, and nothing here
  ///     points to it.
  ///   - reverting: objects that the store's user may not write (E5): their changes are not made, and the plan undoes
  ///   them in the store.
  ///   - judge: settles conflicts.
  ///   - makeRecordName: a fresh upper-case UUID for every link record (R13).
  public init(
    model: ModelIndex, links: LinkResolver, entityNames: Set<String>? = nil, source: any RecordSource,
    serializer: Serializer, stamp: Stamp,
    isolatesErrors: Bool = false, elsewhere: Elsewhere? = nil, reverting: Set<String> = [], judge: ConflictJudge? = nil,
    makeRecordName: @escaping () -> String
  ) {
    self.model = model
    self.links = links
    self.entityNames = entityNames
    self.serializer = serializer
    self.stamp = stamp
    self.isolatesErrors = isolatesErrors
    self.elsewhere = elsewhere
    self.reverting = reverting
    self.judge = judge
    self.makeRecordName = makeRecordName
    overlay = ExportOverlay(source: source)
  }

  /// Maps an object's name to its other zone; nil for objects of the exporter's zone.
  public typealias Elsewhere = (String) throws -> OtherZone?

  /// The state of an object in another zone.
  public enum OtherZone: Hashable, Sendable {
    /// The object exists in the zone, or was assigned to it.
    case alive(zoneName: String)
    case tombstone
    /// Nobody knows the object; it will be made in that zone.
    case unknown
  }

  /// The treatment of a transaction by its author (H9).
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

  /// True if a transaction's changes are exported: the mirroring's own are not.
  public static func exports(author: String?) -> Bool { Treatment(author: author) == .export }

  /// Adds a transaction.
  ///
  /// Its objects are made, changed and deleted first, in their order; then its relationships are set, in their order.
  /// An object may therefore point to one that is inserted further down.
  /// - Throws: errors of the source and of assets, unless errors are isolated; the exporter is of no use afterwards.
  public mutating func apply(_ transaction: HistoryTransaction) throws {
    switch Treatment(author: transaction.author) {
    case .skip: return
    case .deletionsOnly:
      for change in transaction.changes { try dropIfDeleted(change) }
    case .export:
      judge?.edit = transaction.edit
      origin = ChangeOrigin(transaction)
      try applyChanges(try redirected(transaction.inWords(of: model)).changes)
      try tellOfStandIns()
    }
  }

  private mutating func dropIfDeleted(_ change: HistoryChange) throws {
    guard try change.changeType == .delete && isOurs(change) else { return }
    forgetLeftOut(of: change.objectID)
    try isolating(change) { exporter in try exporter.dropState(of: change.objectID) }
  }

  private mutating func applyChanges(_ original: [HistoryChange]) throws {
    overlay.reserve(original.count)
    var changes = original
    var refused: Set<Int> = []
    var lastDeletion: [String: Int] = [:]
    for (index, change) in original.enumerated() {
      guard try isOurs(change) else { continue }
      if change.changeType == .insert, !leftOut.isEmpty { changes[index] = try absorbing(change) }
      if reverting.contains(change.objectID) {
        refused.insert(index)
        try isolating(change) { exporter in try exporter.revert(change) }
      } else if try !applyObject(changes[index]) {
        refused.insert(index)
      } else if change.changeType == .delete {
        lastDeletion[change.objectID] = index
      }
    }
    for (index, change) in changes.enumerated() where !change.relationships.isEmpty {
      guard try isOurs(change) else {
        if elsewhere != nil { try tellAgainElsewhere(change) }
        continue
      }
      guard change.changeType != .delete, index > lastDeletion[change.objectID] ?? -1 else { continue }
      if refused.contains(index) {
        // In order with the others: the store has set inverses in that order.
        if change.changeType == .update, !reverting.contains(change.objectID) {
          try isolating(change) { exporter in try exporter.tellAgain(change) }
        }
        continue
      }
      try setRelationships(
        HistoryChange(
          changeType: .update, entity: change.entity, objectID: change.objectID, relationships: change.relationships)
      ) { exporter in try exporter.setRelationships(of: change) }
    }
  }

  /// - Parameter change: the relationships that are set; they supersede earlier ones that were left out.
  private mutating func setRelationships(
    _ change: @autoclosure () -> HistoryChange, _ step: (inout Exporter) throws -> Void
  ) throws {
    let total = leftOutTotal
    guard try isolating(change(), step) else { return }
    let count = leftOut.count - (leftOutTotal - total)
    if count > 0 { try supersede(by: change(), before: count) }
  }

  /// Removes the parts of earlier left-out changes that a later, applied change overwrites. What is sent again
  /// overwrites nothing of an object that others have.
  private mutating func supersede(by change: HistoryChange, before count: Int) throws {
    if try isOthers(change.objectID) { return }
    let later = leftOut[count...]
    leftOut =
      leftOut[..<count].compactMap { item in
        guard item.change.objectID == change.objectID else { return item }
        return item.change.superseded(by: change).map(item.with)
      } + later
  }

  /// Removes a waiting pointer to `parent`.
  mutating func forgetPointer(of child: String, _ name: String, to parent: String) {
    if leftOut.isEmpty { return }
    let pointer = NamedValue(name: name, value: RelationshipValue.toOne(parent))
    leftOut = leftOut.compactMap { item in
      guard item.change.objectID == child, item.change.relationships.contains(pointer) else { return item }
      return item.change.without(pointer).map(item.with)
    }
  }

  /// Adds a slice of a transaction's steps (`ExportSteps`); the slices before it are exported already.
  ///
  /// If an object's own step is left out, so is its whole change: later slices find no object whose relationships they
  /// could set. Each call goes through all changes of the transaction once.
  /// - Parameter goesOn: asked before each step; the first false ends the slice there.
  /// - Throws: like `apply(_:)`.
  public mutating func apply(
    _ slice: ArraySlice<ExportStep>, of transaction: HistoryTransaction, while goesOn: () -> Bool = { true }
  ) throws {
    switch Treatment(author: transaction.author) {
    case .skip: return
    case .deletionsOnly:
      for step in slice where step.work == .object {
        guard goesOn() else { return }
        try dropIfDeleted(transaction.changes[step.change])
      }
    case .export:
      judge?.edit = transaction.edit
      origin = ChangeOrigin(transaction)
      let places = Set(slice.map(\.change))
      let transaction = try redirected(transaction.inWords(of: model, only: places), only: places)
      var lastDeletion: [String: Int] = [:]
      for (index, change) in transaction.changes.enumerated() {
        orderedChangeCount += 1
        switch change.changeType {
        case .delete:
          lastDeletion[change.objectID] = index
          passing.insert(change.objectID)
        case .insert: passing.remove(change.objectID)
        case .update: break
        }
      }
      defer { passing = [] }
      for step in slice {
        guard goesOn() else { break }
        let change = transaction.changes[step.change]
        guard try isOurs(change) else {
          if elsewhere != nil, case .relationship(let place, _) = step.work {
            let named = change.relationships[place]
            try tellAgainElsewhere(change.only(named.name, step.value(of: named.value) ?? named.value))
          }
          continue
        }
        if reverting.contains(change.objectID) {
          if step.work == .object { try isolating(change) { exporter in try exporter.revert(change) } }
          continue
        }
        switch step.work {
        case .object: try applyObjectStep(change)
        case .relationship(let place, _):
          guard change.changeType != .delete, step.change > lastDeletion[change.objectID] ?? -1 else { continue }
          let relationship = change.relationships[place]
          let whole = change.only(relationship.name, relationship.value)
          let part = change.only(relationship.name, step.value(of: relationship.value) ?? relationship.value)
          try setRelationships(part) { exporter in
            let value = try step.value(of: relationship.value) ?? exporter.removals(of: whole, relationship)
            try exporter.setRelationships(of: change.only(relationship.name, value))
          }
        }
      }
      try tellOfStandIns()
    }
  }

  private mutating func applyObjectStep(_ change: HistoryChange) throws {
    let whole = try change.changeType == .insert && !leftOut.isEmpty ? absorbing(change) : change
    guard try applyObject(whole), whole.relationships.count > change.relationships.count else { return }
    let named = Set(change.relationships.map(\.name))
    let absorbed = HistoryChange(
      changeType: .update, entity: change.entity, objectID: change.objectID,
      relationships: whole.relationships.filter { !named.contains($0.name) })
    try setRelationships(absorbed) { exporter in try exporter.setRelationships(of: absorbed) }
  }

  /// - Returns: false if the change is left out.
  private mutating func applyObject(_ change: HistoryChange) throws -> Bool {
    let total = leftOutTotal
    let isDone = try isolating(change) { exporter in
      switch change.changeType {
      case .insert: try exporter.insert(change)
      case .update: try exporter.update(change)
      case .delete: try exporter.delete(change)
      }
    }
    if !isDone { return false }
    if change.changeType == .delete {
      forgetLeftOut(of: change.objectID)
      judge?.withdraw(change.objectID)
    } else if !leftOut.isEmpty {
      let attributes = HistoryChange(
        changeType: .update, entity: change.entity, objectID: change.objectID, attributes: change.attributes)
      let count = leftOut.count - (leftOutTotal - total)
      if count > 0 { try supersede(by: attributes, before: count) }
    }
    return true
  }

  /// Runs one step. If it fails, the step leaves no trace and `change` is left out.
  /// - Parameter change: evaluated only if it is left out.
  @discardableResult mutating func isolating(
    _ change: @autoclosure () -> HistoryChange, _ step: (inout Exporter) throws -> Void
  ) throws -> Bool {
    let before = isolatesErrors ? self : nil
    do {
      try step(&self)
      return true
    } catch let problem as MirroringProblem {
      leaveOut(change(), problem)
    } catch {
      guard let before else { throw error }
      self = before
      let change = change()
      leaveOut(change, .damaged(change.objectID, change.entity))
    }
    return false
  }

  mutating func leaveOut(_ change: HistoryChange, _ problem: MirroringProblem) {
    leftOut.append(LeftOutChange(change, problem, of: origin))
    leftOutTotal += 1
  }

  private mutating func forgetLeftOut(of objectID: String) {
    if !leftOut.isEmpty { leftOut.removeAll { $0.change.objectID == objectID } }
  }

  /// The insert with what was left out before because there was no such object: it is newer than those, and there is
  /// one now (T-R01).
  private mutating func absorbing(_ insert: HistoryChange) throws -> HistoryChange {
    // What is sent again does not bring back an object that others deleted, so the edits stay lost to that.
    if try isOthers(insert.objectID) { return insert }
    let earlier = leftOut.filter { $0.change.objectID == insert.objectID }
    guard !earlier.isEmpty, earlier.allSatisfy({ $0.change.changeType == .update && $0.problem.cause.isAbsence }) else {
      return insert
    }
    forgetLeftOut(of: insert.objectID)
    judge?.withdraw(insert.objectID)
    return earlier.reversed().reduce(insert) { $0.adding($1.change) }
  }

  /// True if the change is of an object of this zone and of a mirrored entity.
  private func isOurs(_ change: HistoryChange) throws -> Bool {
    if let elsewhere, try elsewhere(change.objectID) != nil { return false }
    return entityNames?.contains(change.entity) ?? true
  }

  /// Leaves out one relationship of a change.
  mutating func leaveOut(
    _ relationship: String, _ value: RelationshipValue, of change: HistoryChange, _ reason: String,
    _ cocoaErrorCode: CocoaErrorCode? = nil
  ) {
    leaveOut(
      change.only(relationship, value),
      MirroringProblem(
        recordName: change.objectID, entity: change.entity, code: .badRequest, cocoaErrorCode: cocoaErrorCode,
        reason: reason))
  }

  /// Leaves out what would cross zones (R16). Saves that say so are refused; this one's objects came together behind
  /// its back.
  mutating func leaveOut(
    _ relationship: RelationshipDescription, _ value: RelationshipValue, of change: HistoryChange,
    across zoneName: String
  ) {
    leaveOut(
      relationship.name, value, of: change,
      "\(change.entity).\(relationship.name) names an object of the zone '\(zoneName)'", .mirroring)
  }
}
