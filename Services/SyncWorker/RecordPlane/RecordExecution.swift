// Executes the decisions of a modification unit by unit: an atomic batch is one unit, otherwise each operation is one.

import RecordStore
import Records
import ServiceBus
import WebServices
import ZoneCommit

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
  private var judge: ZoneJudge
  /// The present state of records that earlier units deleted by references or wrote again for shares.
  private var tombstones: [String: StoredRecord] = [:]

  init(
    _ modification: RecordModification, zone: StoredZone?, _ sharing: ZoneSharing?, _ transaction: any ShardTransaction
  ) throws {
    self.sharing = sharing
    self.modification = modification
    self.transaction = transaction
    result = RecordModification.Result(zone: zone, items: [])
    result.items.reserveCapacity(modification.operations.count)
    var mayName: ((Record) throws -> Bool)?
    if let permissions = modification.permissions { mayName = permissions.mayRead }
    if let visible = sharing?.visible, !visible.seesEverything { mayName = visible.isVisible }
    judge = ZoneJudge(
      .edit, in: zone, of: modification.database, modification.schema, quota: modification.terms.quota, .allThatGrow,
      mayName: mayName, transaction)
    writer = try zone.map { try open($0) }
  }

  /// A commit's writer to the zone.
  /// - Parameter zone: nil: the zone is made.
  private func open(_ zone: StoredZone?) throws -> ZoneWriter {
    let database =
      try zone.map { try transaction.row(ofDatabase: $0.databaseKey) }
      ?? transaction.makeDatabase(modification.database)
    let commit = try modification.terms.begin(in: database, transaction)
    if let permissions = modification.permissions { commit.mayMerge = permissions.mayWrite }
    if let sharing, !sharing.visible.seesEverything { commit.mayMerge = sharing.mayMerge }
    return commit.writer(to: try zone ?? commit.makeZone(named: modification.zone.zoneName))
  }

  /// To be called after the last unit.
  func finish() throws -> RecordModification.Result {
    var result = result
    guard let writer else { return result }
    let merged = try writer.commit.mergeDuplicates(in: writer.zone)
    if !merged.writes.isEmpty {
      // Records that this changes are answered as they are then, so that their tags hold.
      for (index, item) in result.items.enumerated() {
        if case .saved(let stored) = item, let later = merged.stored[stored.record.recordName], !later.isDeleted {
          result.items[index] = .saved(later)
        }
      }
    }
    if writer.commit.hasWritten { result.zone = writer.commit.current(writer.zone) }
    result.effects = try writer.commit.finish()
    return result
  }

  /// The row that an operation meets, after the units before it.
  func current(_ name: String, _ existing: StoredRecord?) -> StoredRecord? {
    tombstones.isEmpty ? existing : tombstones[name] ?? existing
  }

  /// True when an earlier unit of this request has deleted the record: its own deletion succeeds.
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
    judge.spend(cascade: cascade.count)
  }

  /// Writes a unit's effects on shares. Rewritten records are answered in their final state, so that their tags hold.
  private mutating func settle(_ sharing: ZoneSharing, by writer: ZoneWriter) throws {
    let settled = try sharing.finishUnit(writer)
    // Later units meet the present state.
    for (name, stored) in settled { tombstones[name] = stored }
    let again = writer.commit.takeRewritten().union(settled.keys)
    for (index, item) in result.items.enumerated() {
      guard case .saved(let stored) = item, again.contains(stored.record.recordName),
        let later = try transaction.record(named: stored.record.recordName, in: writer.zone.key), !later.isDeleted,
        later.sequence != stored.sequence
      else { continue }
      result.items[index] = .saved(later)
      tombstones[stored.record.recordName] = later
    }
  }

  /// An item of a unit that fails: its own error, or its siblings'.
  private static func rolledBack(_ decision: Result<OperationDecision, RecordError>) -> RecordModification.Item {
    if case .failure(let error) = decision {
      .failed(error)
    } else {
      .failed(RecordError(.atomicError, "Atomic failure"))
    }
  }

  // MARK: Rules

  /// Turns steps that the rules forbid into failures.
  /// - Returns: the names of the records that go with those deleted.
  private func judge(_ steps: inout [Step]) throws -> [String] {
    var writes: [JudgedWrite] = []
    writes.reserveCapacity(steps.count)
    for step in steps {
      switch step.decision {
      case .success(.save(let record)):
        writes.append(JudgedWrite(recordName: record.recordName, record: record, existing: step.existing))
      case .success(.delete):
        writes.append(JudgedWrite(recordName: step.operation.recordName, record: nil, existing: step.existing))
      case .success(.nothing), .failure: break
      }
    }
    let verdict = try judge.verdict(on: writes)
    if let refused = verdict.refused {
      for index in steps.indices {
        if let error = refused.errors[steps[index].operation.recordName] { steps[index].decision = .failure(error) }
      }
    } else if let sharing {
      try sharing.judge(&steps, alongWith: verdict.causes)
    }
    return verdict.cascade
  }

  /// Deletes a record together with its target; a record that the unit itself made was never stored.
  private mutating func deleteAlong(_ name: String, among steps: [Step]) throws {
    guard let zone = writer?.zone, let stored = try transaction.record(named: name, in: zone.key), !stored.isDeleted
    else { return }
    tombstones[name] = try delete(stored)
  }

  // MARK: Writing

  private mutating func write(_ step: Step, isGoing: Bool) throws {
    switch step.decision {
    case .success(.nothing): result.items.append(.deleted)
    case .success(.save) where isGoing: result.items.append(.deleted)
    case .success(.save(let record)):
      // The default zone is made by its first record.
      let opened = try writer ?? open(nil)
      if writer == nil { judge.open(opened.zone) }
      writer = opened
      let stored = try opened.save(record, replacing: step.existing)
      tombstones[record.recordName] = nil
      sharing?.wrote(stored, replacing: step.existing)
      result.items.append(sharing?.isLeaving(record.recordName) == true ? .deleted : .saved(stored))
    case .success(.delete):
      guard let existing = step.existing else { throw StoreError.corrupt("a record was found in no zone") }
      _ = try delete(existing)
      result.items.append(.deleted)
    case .failure: throw StoreError.corrupt("a failed operation was to be executed")
    }
  }

  private mutating func delete(_ existing: StoredRecord) throws -> StoredRecord {
    guard let writer else { throw StoreError.corrupt("a record was found in no zone") }
    let tombstone = try writer.delete(existing, modified: modification.terms.stamp)
    sharing?.wrote(tombstone, replacing: existing)
    return tombstone
  }
}
