// What an export may write of its plan: the rules that hold for every record, whoever writes it, with the objects they concern.

import Mirroring
import ObjectModel
import RecordStore
import Records
import WebServices

/// A plan, judged by references and, in the public database, by grants. An object that can't be exported is listed and blocks no other.
struct ExportWrites {
  let zone: StoredZone
  let source: ZoneSource
  let transaction: any ShardTransaction
  /// nil: everything may be written.
  let permissions: (any RecordAccess)?
  let schema: EnvironmentSchema
  let environment: Environment
  /// What the store's user may hold in the database; nil: any number of bytes.
  var quota: StorageQuota?
  /// While what makes a batch fail is looked for: every write is judged by itself first.
  var isolation: ExportIsolation?

  /// A write that is not made.
  struct Refusal {
    let write: PlannedWrite
    let problem: MirroringProblem
  }

  struct Verdict {
    /// Those that are not refused, in order.
    var writes: [PlannedWrite]
    /// Records that go with those deleted (`ReferenceRules.Verdict.cascade`).
    var cascade: [String] = []
    var refused: [Refusal] = []
  }

  func verdict(on plan: [PlannedWrite]) throws -> Verdict {
    var verdict = Verdict(writes: plan)
    if let permissions {
      // What is only told again is told to those who see it.
      try verdict.writes.removeAll { write in
        guard case .save(let record, let changedKeys) = write.item, changedKeys.isEmpty else { return false }
        return try !permissions.mayRead(record)
      }
      let deleted = plan.deletedNames
      let alone = Set(plan.lazy.filter(\.isServersAlone).map(\.item.recordName))
      try refuse(&verdict) { item in
        if alone.contains(item.recordName) || item.goesAlong(with: deleted) { return nil }
        return try permissions.problem(of: item, replacing: source.row(named: item.recordName)).map {
          item.problem($0.code, "\($0.reason): the change was undone", .permission)
        }
      }
    }
    try refuse(&verdict) { item in
      guard case .save(let record, let changedKeys) = item else { return nil }
      return sizeProblem(item, record) ?? schemaProblem(item, record, changedKeys)
    }
    if let quota {
      let surplus = try quota.surplus(of: verdict.writes, in: transaction.database(key: zone.databaseKey)) { try source.row(named: $0) }
      if !surplus.isEmpty {
        try refuse(&verdict) { item in
          surplus.contains(item.recordName) ? item.problem(.quotaExceeded, "the user's database has no room for it", .space) : nil
        }
      }
    }
    var rules = ReferenceRules(transaction: transaction, zone: zone.key)
    if let permissions { rules.isVisible = permissions.mayRead }
    if let isolation { try refuseDamaged(&verdict, rules, isolation) }
    while true {
      // Each time: who is refused keeps what it has, which others may have counted on.
      if let unique = schema.uniqueRules, !unique.rejecting.isEmpty, try refuseDuplicates(&verdict, by: unique) { continue }
      let judged = try judge(verdict.writes, by: rules)
      verdict.cascade = judged.cascade
      if judged.problems.isEmpty { return verdict }
      // Without those that are refused, others may be, or may go no more.
      try refuse(&verdict) { item in judged.problems[item.recordName].map { item.problem($0.code, $0.reason, .reference) } }
    }
  }

  private func sizeProblem(_ item: ExportItem, _ record: Record) -> MirroringProblem? {
    let byteCount = record.fields.byteCount
    guard byteCount > Limit.recordByteCount else { return nil }
    return MirroringProblem(
      recordName: item.recordName, entity: item.entityName, code: .quotaExceeded, cocoaErrorCode: .recordTooLarge,
      reason: "the record would have \(byteCount) bytes, the limit is \(Limit.recordByteCount)", cause: .size)
  }

  /// Production takes what its schema has (T-S05, T-S06). Development makes what a model needs when a store is set up.
  private func schemaProblem(_ item: ExportItem, _ record: Record, _ changedKeys: [String]) -> MirroringProblem? {
    guard environment == .production else { return nil }
    guard schema.schemaIndex.contains(recordType: record.recordType) else {
      let refusal = SchemaGate.unknownType(record.recordType)
      return item.problem(refusal.code, refusal.reason, .schema)
    }
    let declared = schema.schemaIndex.fields(of: record.recordType)
    for name in changedKeys {
      guard let field = record.fields[name] else { continue }
      if let declaration = declared[name], declaration.type == field.value.type, declaration.isEncrypted == field.isEncrypted { continue }
      let refusal = SchemaGate.unknownField(name, of: record.recordType)
      return item.problem(refusal.code, refusal.reason, .schema)
    }
    return nil
  }

  /// What a save could not know: another device's came first, or the rule did.
  /// - Returns: whether anything is refused.
  private func refuseDuplicates(_ verdict: inout Verdict, by unique: UniqueRules) throws -> Bool {
    let count = verdict.refused.count
    var planned: [String: Record?] = [:]
    for write in verdict.writes { planned[write.item.recordName] = if case .save(let record, _) = write.item { .some(record) } else { .some(nil) } }
    var check = UniqueCheck(unique, planned: planned, in: zone, transaction)
    if let permissions { check.mayName = permissions.mayRead }
    try refuse(&verdict) { item in
      guard case .save(let record, _) = item else { return nil }
      let earlier = try source.row(named: item.recordName).flatMap { $0.isDeleted ? nil : $0.record }
      return try check.conflict(of: record, replacing: earlier).map { item.problem(.uniqueFieldError, $0.reason, .other) }
    }
    return verdict.refused.count > count
  }

  private func judge(_ writes: [PlannedWrite], by rules: ReferenceRules) throws -> ReferenceRules.Verdict {
    var saves: [ReferenceRules.Save] = []
    var deletions: [String] = []
    for write in writes {
      let existing = try source.row(named: write.item.recordName)
      switch write.item {
      case .save(let record, _): saves.append(ReferenceRules.Save(record: record, existing: existing))
      case .delete: if existing?.isDeleted == false { deletions.append(write.item.recordName) }
      }
    }
    return try rules.verdict(on: saves, deleting: deletions)
  }

  private func refuseDamaged(_ verdict: inout Verdict, _ rules: ReferenceRules, _ isolation: ExportIsolation) throws {
    let writes = verdict.writes
    // All that can be told before it is written is told at once: a write that fails costs another run of the batch.
    var (damaged, lacking): (Set<String>, Set<String>) = ([], [])
    for write in writes {
      if isolation.excludes(write.item.recordName) {
        damaged.insert(write.item.recordName)
        continue
      }
      do {
        _ = try judge([write], by: rules)
        if case .save(let record, _) = write.item, try !record.assets.allSatisfy(transaction.hasContent) { lacking.insert(record.recordName) }
      } catch {
        // Dropped because the batch's failure was logged, and this is where it came from.
        damaged.insert(write.item.recordName)
      }
    }
    try refuse(&verdict) { item in
      if lacking.contains(item.recordName) { return item.problem(.notFound, "the content of an asset is not there", .asset) }
      return damaged.contains(item.recordName) ? .damaged(item.recordName, item.entityName) : nil
    }
  }

  private func refuse(_ verdict: inout Verdict, _ problem: (ExportItem) throws -> MirroringProblem?) throws {
    var kept: [PlannedWrite] = []
    kept.reserveCapacity(verdict.writes.count)
    for write in verdict.writes {
      if let problem = try problem(write.item) { verdict.refused.append(Refusal(write: write, problem: problem)) } else { kept.append(write) }
    }
    verdict.writes = kept
  }
}

extension ExportItem {
  var record: Record {
    switch self {
    case .save(let record, _), .delete(let record): record
    }
  }

  fileprivate var entityName: String { record.fields.string(ReservedName.entityName) ?? record.recordType }

  fileprivate func problem(_ code: ServerErrorCode, _ reason: String, _ cause: QuarantineCause) -> MirroringProblem {
    MirroringProblem(recordName: recordName, entity: entityName, code: code, reason: reason, cause: cause)
  }
}

extension RecordAccess {
  func problem(of item: ExportItem, replacing existing: StoredRecord?) throws -> RecordError? {
    // Written again as it is, for the store to import: nobody's permission is asked for a change of nothing.
    if case .save(_, let keys) = item, keys.isEmpty, existing?.isDeleted == false { return nil }
    if let existing, !existing.isDeleted { return try mayWrite(existing.record) ? nil : RecordError(.accessDenied, "WRITE operation not permitted") }
    guard case .save(let record, _) = item else { return nil }
    return try mayCreate(record) ? nil : RecordError(.accessDenied, "CREATE operation not permitted")
  }
}
