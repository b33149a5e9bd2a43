// The write of records/modify: everything that must be decided without another writer.

import RecordStore
import Records
import ServiceBus
import Sharing
import WebServices
import ZoneCommit

/// A record whose type the request left out turned out to have another one than it was read with.
struct RecordTypeUnknown: Error {}

/// The caller may change shares, but could not when the request's people were to be looked up.
struct PeopleUnknown: Error {}

/// A batch of operations on one zone, ready to be written. A class because it is handed on from step to step: a copy of
/// it retains sixty objects.
final class RecordModification: Sendable {
  enum Item: Sendable {
    case saved(StoredRecord)
    case deleted
    case failed(RecordError)
  }

  struct Result: Sendable {
    /// The zone after the write; nil for a default zone without any save.
    var zone: StoredZone?
    /// One per operation, in order.
    var items: [Item]
    /// To be published once the commit is durable: empty for a repetition, and for a batch that changed nothing.
    var effects = ZoneEffects()
    /// The share members of the records; nil when the database has no shares.
    var shares: ShownShares?
  }

  let database: DatabaseID
  let zone: Zone.ID
  let operations: [RecordOperation]
  let isAtomic: Bool
  let terms: CommitTerms
  /// nil in a private database.
  let permissions: RecordPermissions?
  let key: IdempotencyKey
  let finder: ZoneFinder
  let people: SharePeople

  /// The rows that `commit` looks up.
  var lookups: [ExpectedLookup] {
    [key.lookup] + operations.map { .record($0.recordName, zone: zone.zoneName, database: database) } + shareLookups
  }

  /// The look-ups of writes in shared zones, and of writes that share. A save of a share may name hundreds of people,
  /// but looks up only those whose access changes (`ShareWriter.settle`).
  private var shareLookups: [ExpectedLookup] {
    if database.isPublic { return [] }
    let zoneName = zone.zoneName
    var lookups: [ExpectedLookup] = []
    if let user = finder.participant { lookups.append(.members(user, zone: zoneName, database: database)) }
    for operation in operations {
      if let request = operation.shareRequest {
        lookups.append(.share(operation.recordName, zone: zoneName, database: database))
        if let root = request.root?.recordName {
          lookups.append(.record(root, zone: zoneName, database: database))
          lookups.append(.shareOfRoot(root, zone: zoneName, database: database))
        }
      } else if operation.kind.isDelete {
        lookups.append(.shareOfRoot(operation.recordName, zone: zoneName, database: database))
      }
    }
    return lookups
  }

  private var stamp: Stamp { terms.stamp }
  var schema: EnvironmentSchema { terms.schema }

  init(
    database: DatabaseID, zone: Zone.ID, operations: [RecordOperation], isAtomic: Bool, terms: CommitTerms,
    permissions: RecordPermissions?,
    key: IdempotencyKey, finder: ZoneFinder, people: SharePeople
  ) {
    self.database = database
    self.zone = zone
    self.operations = operations
    self.isAtomic = isAtomic
    self.terms = terms
    self.permissions = permissions
    self.key = key
    self.finder = finder
    self.people = people
  }

  /// Decides all operations, then executes the allowed ones.
  /// - Throws: `ZONE_NOT_FOUND`, `RecordTypeUnknown`, `PeopleUnknown`, or errors of the store; nothing is written then.
  func commit(in transaction: any ShardTransaction) throws -> Result {
    let view = try finder.find(zone, in: transaction)
    if view == nil, !zone.isDefault || finder.participant != nil {
      // A participant who has left no longer sees the zone when repeating the request to leave.
      guard let earlier = try key.outcome(in: transaction), earlier.items.allSatisfy({ $0 == .deleted }) else {
        throw RecordError.noZone(named: zone.zoneName)
      }
      return Result(zone: nil, items: earlier.items.map { _ in .deleted })
    }
    let row = view?.row
    let sharing = try view.flatMap { view in try self.sharing(of: view, in: transaction) }
    if let earlier = try key.outcome(in: transaction), earlier.items.count == operations.count {
      return try repeated(earlier, zone: row, sharing?.visible, in: transaction)
    }
    var existing: [StoredRecord?] = []
    existing.reserveCapacity(operations.count)
    for operation in operations {
      existing.append(try row.flatMap { try transaction.record(named: operation.recordName, in: $0.key) })
    }
    var result = try execute(existing, zone: row, sharing, in: transaction)
    result.shares = try shown(
      with: result.items.compactMap { if case .saved(let stored) = $0 { stored } else { nil } }, in: result.zone,
      knowing: sharing?.settled ?? [:], transaction)
    // Failures are kept too: a late second delivery must not do what its client was told has failed.
    try key.put(RequestOutcome(at: stamp.timestamp, items: result.items.map(\.outcome)), in: transaction)
    return result
  }

  /// nil when the zone has no shares and the request makes none.
  private func sharing(of view: ZoneView, in transaction: any ShardTransaction) throws -> ZoneSharing? {
    let isShared = try view.access != nil || transaction.database(key: view.row.databaseKey)?.hasShares == true
    guard !database.isPublic, isShared || operations.contains(where: { $0.shareRequest != nil }) else { return nil }
    return ZoneSharing(
      view, people, stamp: stamp, ShareState.Making(at: stamp.timestamp, shard: terms.shard, terms.random),
      in: transaction)
  }

  /// The share members of answered records.
  /// - Parameter settled: the shares that the commit wrote.
  private func shown(
    with records: [StoredRecord], in zone: StoredZone?, knowing settled: [String: StoredShare] = [:],
    _ transaction: any ShardTransaction
  ) throws -> ShownShares? {
    guard let zone, try transaction.database(key: zone.databaseKey)?.hasShares == true else { return nil }
    return try ShownShares.shown(with: records, in: zone, to: stamp.userRecordName, knowing: settled, transaction)
  }

  private func execute(
    _ existing: [StoredRecord?], zone row: StoredZone?, _ sharing: ZoneSharing?, in transaction: any ShardTransaction
  ) throws -> Result {
    var execution = try RecordExecution(self, zone: row, sharing, transaction)
    if isAtomic {
      try execution.execute(
        zip(operations, existing).map { operation, stored in
          RecordExecution.Step(
            operation: operation, existing: stored,
            decision: try AssetCheck.checked(decision(operation, stored, sharing), replacing: stored, in: transaction))
        })
      return try execution.finish()
    }
    for (operation, stored) in zip(operations, existing) {
      let stored = execution.current(operation.recordName, stored)
      let decision: Swift.Result<OperationDecision, RecordError> =
        operation.kind.isDelete && execution.isGone(operation.recordName)
        ? .success(.nothing)
        : try AssetCheck.checked(decision(operation, stored, sharing), replacing: stored, in: transaction)
      try execution.execute([RecordExecution.Step(operation: operation, existing: stored, decision: decision)])
    }
    return try execution.finish()
  }

  private func decision(
    _ operation: RecordOperation, _ stored: StoredRecord?, _ sharing: ZoneSharing?
  ) throws -> Swift.Result<OperationDecision, RecordError> {
    if let sharing {
      if let stored, !stored.isDeleted, try !sharing.visible.isVisible(stored.record) {
        return sharing.decision(onHidden: operation) { decide(operation, nil) }
      }
      if let decision = try sharing.decision(on: operation, stored) { return decision }
    } else if operation.shareRequest != nil {
      // Of a default zone that has no record yet, and of the public database.
      return .failure(RecordError(.badRequest, "Cannot share - records of the default zone can't be shared"))
    }
    guard let stored, !stored.isDeleted else {
      let decision = decide(operation, nil)
      if let permissions, case .success(.save(let record)) = decision, !permissions.mayCreate(record.recordType) {
        return .failure(RecordError(.accessDenied, "CREATE operation not permitted"))
      }
      return decision
    }
    // A creation gets its conflict whoever made the record: names are unique.
    if let permissions, operation.kind != .create, !permissions.mayWrite(stored.record) {
      return permissions.mayRead(stored.record) ? .failure(Self.notPermitted) : invisible(operation)
    }
    if case .success(let patch) = operation.patch, patch.recordType == nil, !patch.changes.isEmpty {
      throw RecordTypeUnknown()
    }
    return decide(operation, RecordOperation.Existing(record: stored.record, sequence: stored.sequence))
  }

  /// Decides an operation on a record hidden from the caller, as if there were none, except when it would replace one.
  private func invisible(_ operation: RecordOperation) -> Swift.Result<OperationDecision, RecordError> {
    operation.kind.needsTag || operation.kind.isDelete ? decide(operation, nil) : .failure(Self.notPermitted)
  }

  private static let notPermitted = RecordError(.accessDenied, "WRITE operation not permitted")

  private func decide(_ operation: RecordOperation, _ existing: RecordOperation.Existing?)
    -> Swift.Result<OperationDecision, RecordError>
  {
    Swift.Result { () throws(RecordError) in try operation.decision(meeting: existing, stamp: stamp) }
  }

  // MARK: Repetitions

  /// The answer of the first try, from the records' present state.
  private func repeated(
    _ outcome: RequestOutcome, zone row: StoredZone?, _ visible: VisibleRecords?, in transaction: any ShardTransaction
  ) throws -> Result {
    var items: [Item] = []
    var seen: [StoredRecord] = []
    for (operation, item) in zip(operations, outcome.items) {
      switch item {
      case .deleted: items.append(.deleted)
      case .failed(let error): items.append(.failed(error))
      case .saved(let sequence):
        let current = try row.flatMap { try transaction.record(named: operation.recordName, in: $0.key) }
        // The record may be another user's by now, or the right to read it may be gone.
        let readable = try current.flatMap {
          try permissions?.mayRead($0.record) == false || visible?.isVisible($0.record) == false ? nil : $0
        }
        let saved = saved(by: operation, at: sequence, time: outcome.at, readable)
        items.append(.saved(saved))
        if readable != nil { seen.append(saved) }
      }
    }
    return Result(zone: row, items: items, shares: try shown(with: seen, in: row, transaction))
  }

  /// A record as an earlier try saved it. If it has changed since, it keeps its old tag and shows the request's own
  /// values, so that the client's next change meets the conflict. Values that can't be read any more are left out.
  private func saved(by operation: RecordOperation, at sequence: Int64, time: Int64, _ current: StoredRecord?)
    -> StoredRecord
  {
    if let current, current.sequence == sequence { return current }
    let patch = (try? operation.patch.get()) ?? RecordPatch()
    var stamp = stamp
    stamp.timestamp = time
    let base =
      current.map(\.record)
      ?? Record(
        recordName: operation.recordName, recordType: patch.recordType ?? "", fields: Fields(), created: stamp,
        modified: stamp)
    let record = patch.shown(in: base, merging: operation.kind.merges, stamp: stamp)
    return StoredRecord(record: record, isDeleted: false, sequence: sequence, origin: 0, sequenceOfOthers: 0)
  }
}

extension RecordModification.Item {
  fileprivate var outcome: RequestOutcome.Item {
    switch self {
    case .saved(let stored): .saved(sequence: stored.sequence)
    case .deleted: .deleted
    case .failed(let error): .failed(error)
    }
  }
}
