// Executes what a modification decided, unit by unit: an atomic batch is one unit, else every operation is one.

import RecordStore
import Records
import ServiceBus
import WebServices

/// Writes a request's operations, with what goes with them.
struct RecordExecution {
  /// An operation, the row it meets, and what shall become of that.
  struct Step {
    let operation: RecordOperation
    let existing: StoredRecord?
    var decision: Result<OperationDecision, RecordError>

    var isFailure: Bool { if case .failure = decision { true } else { false } }
  }

  private let modification: RecordModification
  private let transaction: any ShardTransaction
  /// nil where nothing of the zone is shared.
  private let sharing: ZoneSharing?
  private var result: RecordModification.Result
  private var writer: ZoneWriter?
  private var rules: ReferenceRules
  /// What earlier units of the request deleted by references, or wrote again for shares, as it is now.
  private var tombstones: [String: StoredRecord] = [:]
  /// What was written, in order, while duplicates are of any interest.
  private var touched: [DuplicateMerge.Touched]?

  init(_ modification: RecordModification, zone: StoredZone?, _ sharing: ZoneSharing?, _ transaction: any ShardTransaction) throws {
    self.sharing = sharing
    self.modification = modification
    self.transaction = transaction
    result = RecordModification.Result(zone: zone, items: [], didChange: false)
    result.items.reserveCapacity(modification.operations.count)
    writer = try zone.map { try modification.writer($0, transaction) }
    rules = ReferenceRules(transaction: transaction, zone: zone?.key)
    if let permissions = modification.permissions { rules.isVisible = permissions.mayRead }
    if let visible = sharing?.visible, !visible.seesEverything { rules.isVisible = visible.isVisible }
    let mayHaveDuplicates = try modification.schema.uniqueRules != nil || zone.map { try transaction.hasRedirects(in: $0.databaseKey) } ?? false
    touched = mayHaveDuplicates ? [] : nil
  }

  /// To be called after the last unit.
  func finish() throws -> RecordModification.Result {
    var result = result
    if let writer, let touched, !touched.isEmpty { try merge(touched, by: writer, &result) }
    result.fired = try writer?.firing?.finish()
    if let sharing { result.sharedUsers = sharing.touchedUsers.sorted() }
    return result
  }

  /// Merges duplicates among what was written. Records that this changes are answered as they are then, so that their tags hold.
  private func merge(_ touched: [DuplicateMerge.Touched], by writer: ZoneWriter, _ result: inout RecordModification.Result) throws {
    var merge = DuplicateMerge(
      transaction: transaction, zone: writer.zone, schema: modification.schema,
      writer: ZoneWriter(serverOf: writer.zone, modification.schema, writer.firing, in: transaction), stamp: modification.stamp,
      random: modification.context.random)
    if let permissions = modification.permissions { merge.mayWrite = permissions.mayWrite }
    if let sharing, !sharing.visible.seesEverything { merge.mayWrite = sharing.mayMerge }
    let outcome = try merge.run(touched.lastOfEach)
    if outcome.isUnfinished { modification.context.duplicates.note(modification.shard) }
    if outcome.writes.isEmpty { return }
    result.zone = try transaction.zone(key: writer.zone.key) ?? result.zone
    for (index, item) in result.items.enumerated() {
      if case .saved(let stored) = item, let later = outcome.stored[stored.record.recordName], !later.isDeleted { result.items[index] = .saved(later) }
    }
  }

  /// The row that an operation meets, after the units before it.
  func current(_ name: String, _ existing: StoredRecord?) -> StoredRecord? { tombstones.isEmpty ? existing : tombstones[name] ?? existing }

  /// Whether an earlier unit of this request has deleted the record: its own deletion finds the work done.
  func isGone(_ name: String) -> Bool { tombstones[name]?.isDeleted == true }

  /// Executes the steps of a unit, or none of them when one fails; appends their items.
  mutating func execute(_ steps: [Step]) throws {
    var steps = steps
    var cascade: [String] = []
    if let sharing, !steps.contains(where: \.isFailure) { try sharing.judge(&steps) }
    if !steps.contains(where: \.isFailure) { cascade = try judge(&steps) }
    if steps.contains(where: \.isFailure) {
      sharing?.forget(steps)
      for step in steps { result.items.append(Self.rolledBack(step.decision)) }
      return
    }
    let going = Set(cascade)
    for step in steps { try write(step, isGoing: !going.isEmpty && going.contains(step.operation.recordName)) }
    for name in cascade { try deleteAlong(name, among: steps) }
    if let sharing, let writer { try settle(sharing, by: writer) }
    rules.cascadeRoom -= cascade.count
  }

  /// Settles what a unit did to shares. Records that this writes again are answered as they are then, so that their tags hold.
  private mutating func settle(_ sharing: ZoneSharing, by writer: ZoneWriter) throws {
    // What a later unit meets is as it is now.
    for (name, stored) in try sharing.finishUnit(writer) { tombstones[name] = stored }
    for (index, item) in result.items.enumerated() {
      guard case .saved(let stored) = item, let later = try transaction.record(named: stored.record.recordName, in: writer.zone.key),
        !later.isDeleted, later.sequence != stored.sequence
      else { continue }
      result.items[index] = .saved(later)
      tombstones[stored.record.recordName] = later
    }
    result.zone = try transaction.zone(key: writer.zone.key) ?? result.zone
  }

  /// An item of a unit that fails: its own error, or its siblings'.
  private static func rolledBack(_ decision: Result<OperationDecision, RecordError>) -> RecordModification.Item {
    if case .failure(let error) = decision { .failed(error) } else { .failed(RecordError(.atomicError, "Atomic failure")) }
  }

  // MARK: References

  /// Turns steps that references forbid into failures.
  /// - Returns: the names of the records that go with those deleted.
  private func judge(_ steps: inout [Step]) throws -> [String] {
    var saves: [ReferenceRules.Save] = []
    var deletions: [String] = []
    saves.reserveCapacity(steps.count)
    for step in steps {
      switch step.decision {
      case .success(.save(let record)): saves.append(ReferenceRules.Save(record: record, existing: step.existing))
      case .success(.delete): deletions.append(step.operation.recordName)
      case .success(.nothing), .failure: break
      }
    }
    if let unique = modification.schema.uniqueRules, !unique.rejecting.isEmpty, try refuse(&steps, by: unique) { return [] }
    let verdict = try rules.verdict(on: saves, deleting: deletions)
    if !verdict.problems.isEmpty {
      for index in steps.indices {
        if let problem = verdict.problems[steps[index].operation.recordName] { steps[index].decision = .failure(problem) }
      }
    }
    if let sharing, verdict.problems.isEmpty { try sharing.judge(&steps, alongWith: verdict.causes) }
    if verdict.problems.isEmpty, !saves.isEmpty, let quota = modification.quota { try refuse(&steps, over: quota, besides: Set(verdict.cascade)) }
    return verdict.cascade
  }

  /// Turns saves that would make duplicates into failures, where the rules say so.
  /// - Returns: whether there are any.
  private func refuse(_ steps: inout [Step], by unique: UniqueRules) throws -> Bool {
    guard steps.contains(where: { if case .success(.save(let record)) = $0.decision { unique.rejecting.contains(record.recordType) } else { false } }) else {
      return false
    }
    var planned: [String: Record?] = [:]
    for step in steps {
      switch step.decision {
      case .success(.save(let record)): planned[record.recordName] = record
      case .success(.delete): planned[step.operation.recordName] = .some(nil)
      case .success(.nothing), .failure: break
      }
    }
    var check = UniqueCheck(unique, planned: planned, in: writer?.zone, transaction)
    if let permissions = modification.permissions { check.mayName = permissions.mayRead }
    if let visible = sharing?.visible, !visible.seesEverything { check.mayName = visible.isVisible }
    var isRefused = false
    for (index, step) in steps.enumerated() {
      guard case .success(.save(let record)) = step.decision,
        let conflict = try check.conflict(of: record, replacing: step.existing.flatMap { $0.isDeleted ? nil : $0.record })
      else { continue }
      steps[index].decision = .failure(conflict.error)
      isRefused = true
    }
    return isRefused
  }

  /// Turns saves that grow into failures when the unit as a whole makes the database larger than it may be.
  private func refuse(_ steps: inout [Step], over quota: StorageQuota, besides cascade: Set<String>) throws {
    var growths: [Int64] = []
    for step in steps {
      let earlier = step.existing?.countedByteCount ?? 0
      switch step.decision {
      case .success(.save(let record)): growths.append((cascade.contains(record.recordName) ? 0 : record.countedByteCount) - earlier)
      case .success(.delete): growths.append(-earlier)
      case .success(.nothing), .failure: growths.append(0)
      }
    }
    guard let problem = quota.problem(growth: growths.reduce(0, +), of: try transaction.database(modification.database)) else { return }
    for (index, growth) in growths.enumerated() where growth > 0 { steps[index].decision = .failure(problem) }
  }

  /// Deletes a record whose target goes; one that the unit made itself was never stored.
  private mutating func deleteAlong(_ name: String, among steps: [Step]) throws {
    guard let zone = writer?.zone, let stored = try transaction.record(named: name, in: zone.key), !stored.isDeleted else { return }
    tombstones[name] = try delete(stored)
  }

  // MARK: Writing

  private mutating func write(_ step: Step, isGoing: Bool) throws {
    switch step.decision {
    case .success(.nothing): result.items.append(.deleted)
    case .success(.save) where isGoing: result.items.append(.deleted)
    case .success(.save(let record)):
      // The default zone is made by its first record.
      let opened = try writer ?? modification.writer(makeZone(), transaction)
      if touched?.isEmpty == true { try DuplicateMerge.prepare(opened.zone.databaseKey, modification.schema, in: transaction) }
      writer = opened
      rules.zone = opened.zone.key
      let stored = try opened.save(record, replacing: step.existing)
      touched?.append(DuplicateMerge.Touched(earlier: step.existing.flatMap { $0.isDeleted ? nil : $0.record }, later: record))
      tombstones[record.recordName] = nil
      sharing?.wrote(stored, replacing: step.existing)
      result.items.append(sharing?.isLeaving(record.recordName) == true ? .deleted : .saved(stored))
      advance(to: stored)
    case .success(.delete):
      guard let existing = step.existing else { throw StoreError.corrupt("a record was found in no zone") }
      _ = try delete(existing)
      result.items.append(.deleted)
    case .failure: throw StoreError.corrupt("a failed operation was to be executed")
    }
  }

  private func makeZone() throws -> StoredZone {
    try transaction.makeZone(named: modification.zone.zoneName, in: try transaction.makeDatabase(modification.database).key)
  }

  private mutating func delete(_ existing: StoredRecord) throws -> StoredRecord {
    guard let writer else { throw StoreError.corrupt("a record was found in no zone") }
    let tombstone = try writer.delete(existing, modified: modification.stamp)
    sharing?.wrote(tombstone, replacing: existing)
    touched?.append(DuplicateMerge.Touched(earlier: existing.record, later: nil))
    advance(to: tombstone)
    return tombstone
  }

  private mutating func advance(to stored: StoredRecord) {
    result.zone = writer?.zone.advanced(to: stored.sequence)
    result.didChange = true
  }
}

extension [DuplicateMerge.Touched] {
  /// A record that was written more than once, as it was before the first time and after the last.
  fileprivate var lastOfEach: [DuplicateMerge.Touched] {
    var places: [String: Int] = [:]
    var merged: [DuplicateMerge.Touched] = []
    for item in self {
      if let place = places[item.recordName] {
        merged[place] = DuplicateMerge.Touched(earlier: merged[place].earlier, later: item.later)
      } else {
        places[item.recordName] = merged.count
        merged.append(item)
      }
    }
    return merged
  }
}
