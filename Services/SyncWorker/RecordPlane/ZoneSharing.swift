// The shares of a zone within one commit of records/modify: decides the caller's operations and writes their effects.

import RecordStore
import Records
import Sharing
import WebServices
import ZoneCommit

/// Decides and follows the operations of one commit in a zone that is shared, becomes shared or belongs to another
/// user.
final class ZoneSharing {
  /// The fate of a share when its record is written.
  private enum Plan {
    /// The share is new.
    case create(StoredShare, ShareDecision)
    case save(StoredShare, ShareDecision)
    /// The caller leaves: the deletion changes the record's tag, and nothing else in the record.
    case leave(StoredShare, ShareDecision)
    case stop(StoredShare)
  }

  private struct Write {
    let earlier: StoredRecord?
    let later: StoredRecord
  }

  private let transaction: any ShardTransaction
  private let view: ZoneView
  private let people: SharePeople
  private let stamp: Stamp
  private let making: ShareState.Making
  let visible: VisibleRecords
  private let walk = HierarchyWalk()
  private var plans: [String: Plan] = [:]
  /// Names of creations that hidden records already have.
  private var taken: Set<String> = []
  /// Of the unit that is being executed.
  private var writes: [Write] = []
  /// The shares that were written, by name.
  private(set) var settled: [String: StoredShare] = [:]

  private var zone: StoredZone { view.row }
  /// nil: the caller is the owner.
  private var access: ZoneAccess? { view.access }

  init(
    _ view: ZoneView, _ people: SharePeople, stamp: Stamp, _ making: ShareState.Making,
    in transaction: any ShardTransaction
  ) {
    self.transaction = transaction
    self.view = view
    self.people = people
    self.stamp = stamp
    self.making = making
    visible = VisibleRecords(view, in: transaction)
    visible.walk = walk
  }

  private static let notThere = RecordError(.notFound, "Cannot share - no such record exists to share")

  /// For a record that would be outside the caller's sight, whether or not one of that name exists.
  private static let outside = RecordError(
    .accessDenied, "The record must be below a record that is shared with the caller for writing")

  // MARK: Deciding

  /// Decides an operation on a record hidden from the caller, as if there were none. Where the caller could make a new
  /// one, `judge` answers that the name is taken.
  func decision(onHidden operation: RecordOperation, _ missing: () -> Result<OperationDecision, RecordError>) -> Result<
    OperationDecision, RecordError
  > {
    if operation.kind.needsTag || operation.kind.isDelete { return missing() }
    guard operation.kind == .create else { return .failure(Self.outside) }
    taken.insert(operation.recordName)
    return missing()
  }

  /// Decides an operation on a share; nil for an operation on another record.
  func decision(on operation: RecordOperation, _ stored: StoredRecord?) throws -> Result<
    OperationDecision, RecordError
  >? {
    let live = stored.flatMap { $0.isDeleted ? nil : $0 }
    let isShare = live?.record.recordType == ReservedName.shareRecordType
    guard isShare || operation.shareRequest != nil else { return nil }
    do {
      if let live, isShare { return .success(try change(operation, live)) }
      return .success(try create(operation, live))
    } catch let error as RecordError {
      return .failure(error)
    }
  }

  private func change(_ operation: RecordOperation, _ live: StoredRecord) throws -> OperationDecision {
    let name = operation.recordName
    if operation.kind == .create { throw RecordError(.conflict, "record to insert already exists") }
    let patch = try operation.patch.get()
    if operation.kind.isDelete { return try end(operation, live) }
    if patch.recordType == nil { throw RecordTypeUnknown() }
    guard let request = operation.shareRequest else {
      throw RecordError(
        .badRequest, "record '\(name)' is of type \(live.record.recordType), not \(patch.recordType ?? "")")
    }
    // A share is never saved over a version that its writer has not seen (T-C15).
    guard let tag = operation.recordChangeTag else {
      throw RecordError(.conflict, "record to update already exists with a different change tag")
    }
    guard tag.sequence == live.sequence else { throw RecordError(.conflict, "client oplock error updating record") }
    guard let share = try transaction.share(named: name, in: zone.key), let state = share.state else {
      throw Self.notThere
    }
    if let root = request.root, root.recordName != share.rootRecordName {
      throw RecordError.alreadyShared("The share '\(name)' belongs to another record")
    }
    let standing = standing(in: share)
    try AccessMatrix.require(.changeParticipants, standing, orElse: Self.notThere)
    guard people.isComplete else { throw PeopleUnknown() }
    let decision = try state.applying(
      request.patch.identified(by: people.found), by: standing, as: people.caller, making)
    plans[name] = .save(share, decision)
    return .save(try patch.applied(to: live.record, merging: operation.kind.merges, stamp: stamp))
  }

  private func end(_ operation: RecordOperation, _ live: StoredRecord) throws -> OperationDecision {
    let decision = try operation.decision(
      meeting: RecordOperation.Existing(record: live.record, sequence: live.sequence), stamp: stamp)
    guard let share = try transaction.share(named: operation.recordName, in: zone.key), let state = share.state else {
      return decision
    }
    if access == nil {
      plans[operation.recordName] = .stop(share)
      return decision
    }
    // A participant who deletes a share only leaves it, whatever the participant's rights.
    try AccessMatrix.require(.endOwnParticipation, standing(in: share), orElse: Self.notThere)
    guard let leaving = state.leaving(people.caller) else { throw Self.notThere }
    plans[operation.recordName] = .leave(share, leaving)
    var record = live.record
    record.modified = stamp
    return .save(record)
  }

  private func create(_ operation: RecordOperation, _ live: StoredRecord?) throws -> OperationDecision {
    let name = operation.recordName
    let patch = try operation.patch.get()
    guard let request = operation.shareRequest else { throw Self.notThere }
    if let live {
      if operation.kind == .create { throw RecordError(.conflict, "record to insert already exists") }
      throw RecordError(
        .badRequest, "record '\(name)' is of type \(live.record.recordType), not \(ReservedName.shareRecordType)")
    }
    if operation.kind.needsTag { throw RecordError(.notFound, "Record not found") }
    if access != nil { throw RecordError.shareAccessDenied }
    guard people.isComplete else { throw PeopleUnknown() }
    if zone.zoneName == ReservedName.defaultZone {
      throw RecordError(.badRequest, "Cannot share - records of the default zone can't be shared")
    }
    guard (name == ReservedName.zoneShareRecordName) == (request.root == nil) else { throw Self.notThere }
    let root = request.root?.recordName
    try checkNotShared(root)
    let earlier = try transaction.share(named: name, in: zone.key)
    let guid = try earlierGUID(of: root, earlier) ?? making.shortGUID()
    let state = ShareState(
      of: people.owner, rootRecordName: root, participantID: making.participantID(), at: making.time)
    let decision = try state.applying(request.patch.identified(by: people.found), by: .owner, making)
    plans[name] = .create(
      StoredShare(name: name, rootRecordName: root, shortGUID: guid, state: nil),
      ShareDecision(from: nil, to: decision.state))
    var record = Record(
      recordName: name, recordType: ReservedName.shareRecordType, fields: Fields(), created: stamp, modified: stamp)
    // The short GUID of a hierarchy is on its root record.
    record.shortGUID = root == nil ? guid : nil
    return .save(try patch.applied(to: record, merging: true, stamp: stamp))
  }

  /// The short GUID of an earlier share of the same root or zone.
  private func earlierGUID(of root: String?, _ earlier: StoredShare?) throws -> String? {
    guard let root else { return earlier?.shortGUID }
    if let known = visible.planned[root]?.shortGUID { return known }
    return try transaction.record(named: root, in: zone.key).flatMap { $0.isDeleted ? nil : $0.record.shortGUID }
  }

  /// A zone is shared either as a whole or by hierarchies, and each of them once.
  private func checkNotShared(_ root: String?) throws {
    var shared: [String?] = []
    for case .create(let share, _) in plans.values { shared.append(share.rootRecordName) }
    if let zoneWide = try transaction.share(named: ReservedName.zoneShareRecordName, in: zone.key),
      zoneWide.state != nil
    {
      shared.append(nil)
    }
    if shared.contains(nil) { throw RecordError.alreadyShared("The zone is shared already") }
    guard let root else {
      if try !shared.isEmpty || !transaction.shares(in: zone.key, afterName: nil, limit: 1).isEmpty {
        throw RecordError.alreadyShared("Records of the zone are shared already: the zone can't be shared as a whole")
      }
      return
    }
    if try shared.contains(root) || transaction.share(ofRoot: root, in: zone.key) != nil {
      throw RecordError.alreadyShared("The record is shared already")
    }
  }

  private func standing(in share: StoredShare) -> ShareStanding {
    access == nil ? .owner : share.state?.standing(of: people.caller) ?? .stranger
  }

  /// Refuses steps that the caller may not make, or that share a missing record.
  func judge(_ steps: inout [RecordExecution.Step]) throws {
    let limits = access == nil ? nil : HierarchyLimits(view, walk, in: transaction)
    for (index, step) in steps.enumerated() {
      if let limits { steps[index].decision = try limits.keepingRoot(in: step) }
    }
    var planned: [String: Record] = [:]
    var going: Set<String> = []
    for step in steps {
      switch step.decision {
      case .success(.save(let record)): planned[record.recordName] = record
      case .success(.delete): going.insert(step.operation.recordName)
      case .success(.nothing), .failure: break
      }
    }
    visible.planned = planned
    for (index, step) in steps.enumerated() {
      if let error = try sharingProblem(of: step, planned, going) { steps[index].decision = .failure(error) }
      if plans[step.operation.recordName] == nil, let limits, let error = try problem(of: step, limits) {
        steps[index].decision = .failure(error)
      }
    }
  }

  /// Refuses steps whose deletions cascade to records that the caller may not delete, or to roots that the unit shares.
  /// - Parameter causes: the unit's deletions, by the records that they take along.
  func judge(_ steps: inout [RecordExecution.Step], alongWith causes: [String: String]) throws {
    if causes.isEmpty { return }
    let limits = access == nil ? nil : HierarchyLimits(view, walk, in: transaction)
    let refused = Set(
      try causes.keys.sorted().filter { try limits?.mayDeleteAlong($0) == false }.compactMap { causes[$0] })
    let going = Set(causes.keys)
    for (index, step) in steps.enumerated() {
      if refused.contains(step.operation.recordName) { steps[index].decision = .failure(RecordError.shareAccessDenied) }
      if let error = try sharingProblem(of: step, [:], going) { steps[index].decision = .failure(error) }
    }
  }

  /// The error in sharing a record.
  /// - Parameter going: the records that the unit deletes.
  private func sharingProblem(of step: RecordExecution.Step, _ planned: [String: Record], _ going: Set<String>) throws
    -> RecordError?
  {
    let share: StoredShare
    switch plans[step.operation.recordName] {
    case .create(let new, _)?: share = new
    case .save(let known, _)?: share = known
    case .leave?, .stop?, nil: return nil
    }
    guard let root = share.rootRecordName else { return nil }
    if going.contains(root) { return Self.notThere }
    guard case .create? = plans[step.operation.recordName], !planned.isEmpty else { return nil }
    return try problem(ofRoot: root, step.operation, planned)
  }

  /// The error for a step that a participant may not make.
  private func problem(of step: RecordExecution.Step, _ limits: HierarchyLimits) throws -> RecordError? {
    let name = step.operation.recordName
    switch step.decision {
    // A record that the caller does not see can't be deleted.
    case .success(.nothing), .failure: return nil
    case .success(.delete):
      guard let earlier = step.existing?.record, try limits.now.mayWrite(earlier), try !limits.isRoot(name) else {
        return RecordError.shareAccessDenied
      }
      return nil
    case .success(.save(let record)):
      let denied = visible.seesEverything ? RecordError.shareAccessDenied : Self.outside
      if taken.contains(name) {
        return try visible.mayWrite(record) ? RecordError(.conflict, "record to insert already exists") : denied
      }
      if let earlier = step.existing, !earlier.isDeleted {
        guard try limits.now.mayWrite(earlier.record) else { return RecordError.shareAccessDenied }
      } else if try !limits.isFree(name, step.existing) {
        return denied
      }
      return try visible.mayWrite(record) ? nil : denied
    }
  }

  private func problem(ofRoot root: String, _ operation: RecordOperation, _ planned: [String: Record]) throws
    -> RecordError?
  {
    let stored = try transaction.record(named: root, in: zone.key).flatMap { $0.isDeleted ? nil : $0 }
    let record = planned[root] ?? stored?.record
    guard let record, record.recordType != ReservedName.shareRecordType else { return Self.notThere }
    // A root that is made together with its share has no tag yet.
    if planned[root] != nil, operation.shareRequest?.root?.recordChangeTag == nil { return nil }
    guard let tag = operation.shareRequest?.root?.recordChangeTag, tag.sequence == stored?.sequence else {
      return RecordError(.conflict, "The record to share has a different change tag")
    }
    return nil
  }

  /// Drops the plans of a failed unit.
  func forget(_ steps: [RecordExecution.Step]) {
    for step in steps { plans[step.operation.recordName] = nil }
    visible.planned = [:]
  }

  /// True when a participant's batch may merge a record with its duplicates; a share's root never merges.
  func mayMerge(_ record: Record) -> Bool {
    // Dropped because the code that reads the row itself meets the error again.
    (try? visible.mayWrite(record) && transaction.share(ofRoot: record.recordName, in: zone.key) == nil) ?? false
  }

  // MARK: Following

  /// True when a saved share record is the answer to a participant's deletion.
  func isLeaving(_ name: String) -> Bool { if case .leave = plans[name] { true } else { false } }

  func wrote(_ later: StoredRecord, replacing earlier: StoredRecord?) {
    writes.append(Write(earlier: earlier, later: later))
  }

  /// Settles the shares that a unit wrote, after all of its records.
  /// - Returns: the root records that were written again, by name.
  func finishUnit(_ writer: ZoneWriter) throws -> [String: StoredRecord] {
    let shares = ShareWriter(writer: writer)
    var again: [String: StoredRecord] = [:]
    let writes = writes
    self.writes = []
    visible.planned = [:]
    for write in writes {
      let name = write.later.record.recordName
      switch plans[name] {
      case .create(let share, let decision)?:
        let root = try share.rootRecordName.flatMap {
          try shares.touchRoot($0, shortGUID: share.shortGUID, stamp: stamp)
        }
        if let root { again[root.record.recordName] = root }
        let settled = StoredShare(
          name: name, rootRecordName: share.rootRecordName, shortGUID: root?.record.shortGUID ?? share.shortGUID,
          state: decision.state)
        try settle(settled, decision.memberships, write.later, by: shares)
      case .save(var share, let decision)?, .leave(var share, let decision)?:
        share.state = decision.state
        try settle(share, decision.memberships, write.later, by: shares)
      case .stop(let share)?:
        var ended = share
        ended.state = nil
        try settle(ended, share.state?.stopping.memberships ?? [], write.later, by: shares)
        if let root = try share.rootRecordName.flatMap({
          try shares.touchRoot($0, shortGUID: share.shortGUID, stamp: stamp)
        }) {
          again[root.record.recordName] = root
        }
      case nil: continue
      }
    }
    return again
  }

  private func settle(
    _ share: StoredShare, _ memberships: [MembershipChange], _ record: StoredRecord, by shares: ShareWriter
  ) throws {
    try shares.settle(share, memberships, with: record)
    settled[share.name] = share
  }
}
