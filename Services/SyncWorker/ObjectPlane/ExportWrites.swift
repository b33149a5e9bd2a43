// Applies to an export's plan the rules that hold for every record and every writer.

package import Mirroring
import ObjectModel
package import RecordStore
package import Records
import WebServices
package import ZoneCommit

/// A plan judged by the rules of its kind of write. An object that can't be exported is listed and blocks no other.
package struct ExportWrites {
  let write: ZoneWrite
  let zone: StoredZone
  let source: ZoneSource
  let transaction: any ShardTransaction
  /// nil when everything may be written.
  let permissions: (any RecordAccess)?
  let schema: EnvironmentSchema
  let database: DatabaseID
  /// The quota of the store's user, where it applies to each record; nil when it does not.
  let quota: StorageQuota?
  /// Set while the store looks for the record that makes a batch fail: every write is judged alone first.
  let isolation: ExportIsolation?

  package init(
    _ write: ZoneWrite, zone: StoredZone, source: ZoneSource, transaction: any ShardTransaction,
    permissions: (any RecordAccess)?,
    schema: EnvironmentSchema, database: DatabaseID, quota: StorageQuota? = nil, isolation: ExportIsolation? = nil
  ) {
    self.write = write
    self.zone = zone
    self.source = source
    self.transaction = transaction
    self.permissions = permissions
    self.schema = schema
    self.database = database
    self.quota = quota
    self.isolation = isolation
  }

  /// A write that is not made.
  package struct Refusal {
    let write: PlannedWrite
    package let problem: MirroringProblem
  }

  package struct Verdict {
    /// The writes that are not refused, in order.
    package var writes: [PlannedWrite]
    /// Records that are deleted along with others (`ReferenceRules.Verdict.cascade`).
    package var cascade: [String] = []
    package var refused: [Refusal] = []
  }

  package func verdict(on plan: [PlannedWrite]) throws -> Verdict {
    var verdict = Verdict(writes: plan)
    if let permissions {
      // A record that is only told again is told to users who see it. Only users who may make an object leave a
      // tombstone of one that the zone lacks.
      try verdict.writes.removeAll { write in
        switch write.item {
        case .save(let record, let changedKeys): try changedKeys.isEmpty && !permissions.mayRead(record)
        case .delete(let record): try source.row(named: record.recordName) == nil && !permissions.mayCreate(record)
        }
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
    let judge = ZoneJudge(
      write, in: zone, of: database, schema, quota: quota, .surplus,
      mayName: permissions.map { access in { try access.mayRead($0) } }, transaction)
    if let isolation { try refuseDamaged(&verdict, judge, isolation) }
    while true {
      let judged = try judge.verdict(on: verdict.writes.map(judgedWrite))
      verdict.cascade = judged.cascade
      guard let refused = judged.refused else { return verdict }
      // A refused record keeps its values and deletes nothing. Others may rely on that: judge the rest again.
      try refuse(&verdict) { item in
        judged.error(of: item.recordName).map { item.problem($0.code, $0.reason, refused.rule.quarantineCause) }
      }
    }
  }

  private func judgedWrite(_ write: PlannedWrite) throws -> JudgedWrite {
    let record: Record? = if case .save(let record, _) = write.item { record } else { nil }
    return JudgedWrite(
      recordName: write.item.recordName, record: record, existing: try source.row(named: write.item.recordName))
  }

  private func sizeProblem(_ item: ExportItem, _ record: Record) -> MirroringProblem? {
    let byteCount = record.fields.byteCount
    guard byteCount > Limit.recordByteCount else { return nil }
    return MirroringProblem(
      recordName: item.recordName, entity: item.entityName, code: .quotaExceeded, cocoaErrorCode: .recordTooLarge,
      reason: "the record would have \(byteCount) bytes, the limit is \(Limit.recordByteCount)", cause: .size)
  }

  /// Production accepts only declared types and fields (T-S05, T-S06). Development adds a model's at the store's setup.
  private func schemaProblem(_ item: ExportItem, _ record: Record, _ changedKeys: [String]) -> MirroringProblem? {
    guard database.environment == .production else { return nil }
    guard schema.schemaIndex.contains(recordType: record.recordType) else {
      let refusal = SchemaGate.unknownType(record.recordType)
      return item.problem(refusal.code, refusal.reason, .schema)
    }
    let declared = schema.schemaIndex.fields(of: record.recordType)
    for name in changedKeys {
      guard let field = record.fields[name] else { continue }
      if let declaration = declared[name], declaration.type == field.value.type,
        declaration.isEncrypted == field.isEncrypted
      {
        continue
      }
      let refusal = SchemaGate.unknownField(name, of: record.recordType)
      return item.problem(refusal.code, refusal.reason, .schema)
    }
    return nil
  }

  private func refuseDamaged(_ verdict: inout Verdict, _ judge: ZoneJudge, _ isolation: ExportIsolation) throws {
    let writes = verdict.writes
    // Find every damaged write before the first is made: a write that fails costs another run of the batch.
    var (damaged, lacking): (Set<String>, Set<String>) = ([], [])
    for write in writes {
      if isolation.excludes(write.item.recordName) {
        damaged.insert(write.item.recordName)
        continue
      }
      do {
        _ = try judge.referenceVerdict(on: [judgedWrite(write)])
        if case .save(let record, _) = write.item, try !record.assets.allSatisfy(transaction.hasContent) {
          lacking.insert(record.recordName)
        }
      } catch {
        // Dropped because the batch's failure was logged, and this is where it came from.
        damaged.insert(write.item.recordName)
      }
    }
    try refuse(&verdict) { item in
      if lacking.contains(item.recordName) {
        return item.problem(.notFound, "the content of an asset is missing", .asset)
      }
      return damaged.contains(item.recordName) ? .damaged(item.recordName, item.entityName) : nil
    }
  }

  private func refuse(_ verdict: inout Verdict, _ problem: (ExportItem) throws -> MirroringProblem?) throws {
    var kept: [PlannedWrite] = []
    kept.reserveCapacity(verdict.writes.count)
    for write in verdict.writes {
      if let problem = try problem(write.item) {
        verdict.refused.append(Refusal(write: write, problem: problem))
      } else {
        kept.append(write)
      }
    }
    verdict.writes = kept
  }
}

extension WriteRule {
  fileprivate var quarantineCause: QuarantineCause {
    switch self {
    case .quota: .space
    case .references: .reference
    default: .other
    }
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
    // The record is only told again, unchanged, so it needs no permission.
    if case .save(_, let keys) = item, keys.isEmpty, existing?.isDeleted == false { return nil }
    if let existing, !existing.isDeleted {
      return try mayWrite(existing.record) ? nil : RecordError(.accessDenied, "WRITE operation not permitted")
    }
    guard case .save(let record, _) = item else { return nil }
    return try mayCreate(record) ? nil : RecordError(.accessDenied, "CREATE operation not permitted")
  }
}
