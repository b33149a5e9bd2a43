// What an export may write of its plan: the rules that hold for every record, whoever writes it, with the objects they concern.

import Mirroring
import RecordStore
import Records

/// A plan, judged by references and, in the public database, by grants. An object that can't be exported is listed and blocks no other.
struct ExportWrites {
  let zone: StoredZone
  let source: ZoneSource
  let transaction: any ShardTransaction
  /// nil in a private database.
  let permissions: RecordPermissions?

  struct Verdict {
    /// Those that are not refused, in order.
    var writes: [PlannedWrite]
    /// Records that go with those deleted (`ReferenceRules.Verdict.cascade`).
    var cascade: [String] = []
    var problems: [MirroringProblem] = []
  }

  func verdict(on plan: [PlannedWrite]) throws -> Verdict {
    var verdict = Verdict(writes: plan)
    if let permissions { try refuse(&verdict) { try permissions.problem(of: $0, replacing: source.row(named: $0.recordName)) } }
    var rules = ReferenceRules(transaction: transaction, zone: zone.key)
    if let permissions { rules.isVisible = permissions.mayRead }
    while true {
      var saves: [ReferenceRules.Save] = []
      var deletions: [String] = []
      for write in verdict.writes {
        let existing = try source.row(named: write.item.recordName)
        switch write.item {
        case .save(let record, _): saves.append(ReferenceRules.Save(record: record, existing: existing))
        case .delete: if existing?.isDeleted == false { deletions.append(write.item.recordName) }
        }
      }
      let judged = try rules.verdict(on: saves, deleting: deletions)
      verdict.cascade = judged.cascade
      if judged.problems.isEmpty { return verdict }
      // Without those that are refused, others may be, or may go no more.
      try refuse(&verdict) { judged.problems[$0.recordName] }
    }
  }

  private func refuse(_ verdict: inout Verdict, _ problem: (ExportItem) throws -> RecordError?) throws {
    var kept: [PlannedWrite] = []
    kept.reserveCapacity(verdict.writes.count)
    for write in verdict.writes {
      guard let error = try problem(write.item) else {
        kept.append(write)
        continue
      }
      let record = write.item.record
      verdict.problems.append(
        MirroringProblem(
          recordName: record.recordName, entity: record.fields.string(ReservedName.entityName) ?? record.recordType, code: error.code, reason: error.reason))
    }
    verdict.writes = kept
  }
}

extension ExportItem {
  fileprivate var record: Record {
    switch self {
    case .save(let record, _), .delete(let record): record
    }
  }
}

extension RecordPermissions {
  fileprivate func problem(of item: ExportItem, replacing existing: StoredRecord?) -> RecordError? {
    if let existing, !existing.isDeleted { return mayWrite(existing.record) ? nil : RecordError(.accessDenied, "WRITE operation not permitted") }
    guard case .save(let record, _) = item else { return nil }
    return mayCreate(record.recordType) ? nil : RecordError(.accessDenied, "CREATE operation not permitted")
  }
}
