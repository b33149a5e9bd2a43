// Judges the writes of one unit before any is made, for every kind of write: uniqueness, then references, then quota.

import Mirroring
package import RecordStore
package import Records
import ServiceBus

/// A write to be judged.
package struct JudgedWrite {
  package let recordName: String
  /// The later state; nil: the record is deleted.
  package let record: Record?
  /// The row or tombstone; nil: there is none.
  package let existing: StoredRecord?

  package init(recordName: String, record: Record?, existing: StoredRecord?) {
    self.recordName = recordName
    self.record = record
    self.existing = existing
  }
}

/// Decides which writes of a unit may be made, by the rules with `RuleApplication.each`.
package struct ZoneJudge {
  package struct Verdict {
    /// The first broken rule, with the errors by record name.
    package var refused: (rule: WriteRule, errors: [String: RecordError])?
    /// Records to delete along with the unit's deletions (`ReferenceRules.Verdict`).
    package var cascade: [String] = []
    /// For each record of `cascade`, the unit's deletion that caused it.
    package var causes: [String: String] = [:]

    package func error(of recordName: String) -> RecordError? { refused?.errors[recordName] }
  }

  /// The writes that a full database refuses.
  package enum Shortage {
    /// All that grow, because the unit succeeds or fails as a whole.
    case allThatGrow
    /// Those without room, in their order.
    case surplus
  }

  private let rules: WriteRules
  private let schema: EnvironmentSchema
  private let database: DatabaseID
  private let quota: StorageQuota?
  private let shortage: Shortage
  private let transaction: any ShardTransaction
  /// nil: a zone without any record.
  private var zone: StoredZone?
  private var references: ReferenceRules
  /// True if the author may know that a record exists.
  private let mayName: ((Record) throws -> Bool)?

  package init(
    _ write: ZoneWrite, in zone: StoredZone?, of database: DatabaseID, _ schema: EnvironmentSchema,
    quota: StorageQuota?, _ shortage: Shortage,
    mayName: ((Record) throws -> Bool)? = nil, _ transaction: any ShardTransaction
  ) {
    rules = WriteRules.rules(of: write)
    self.schema = schema
    self.database = database
    self.quota = quota
    self.shortage = shortage
    self.zone = zone
    self.mayName = mayName
    self.transaction = transaction
    references = ReferenceRules(transaction: transaction, zone: zone?.key)
    if let mayName { references.isVisible = mayName }
  }

  /// Called after the unit made its zone.
  package mutating func open(_ zone: StoredZone) {
    self.zone = zone
    references.zone = zone.key
  }

  /// Called after a unit's cascade deleted this many records.
  package mutating func spend(cascade count: Int) { references.cascadeRoom -= count }

  /// - Parameter writes: each record once, in the unit's order.
  /// - Returns: the first broken rule. Without the refused writes, others may be refused, or drop out of the cascade.
  package func verdict(on writes: [JudgedWrite]) throws -> Verdict {
    var verdict = Verdict()
    if rules.uniqueness == .each, let errors = try duplicates(among: writes) {
      verdict.refused = (.uniqueness, errors)
      return verdict
    }
    if rules.references == .each {
      let judged = try referenceVerdict(on: writes)
      (verdict.cascade, verdict.causes) = (judged.cascade, judged.causes)
      if !judged.problems.isEmpty {
        verdict.refused = (.references, judged.problems)
        return verdict
      }
    }
    if rules.quota == .each, let quota, let errors = try surplus(of: writes, over: quota, besides: verdict.cascade) {
      verdict.refused = (.quota, errors)
    }
    return verdict
  }

  // MARK: References

  package func referenceVerdict(on writes: [JudgedWrite]) throws -> ReferenceRules.Verdict {
    var saves: [ReferenceRules.Save] = []
    var deletions: [String] = []
    saves.reserveCapacity(writes.count)
    for write in writes {
      if let record = write.record {
        saves.append(ReferenceRules.Save(record: record, existing: write.existing))
      } else if write.existing?.isDeleted == false {
        deletions.append(write.recordName)
      }
    }
    return try references.verdict(on: saves, deleting: deletions)
  }

  // MARK: Uniqueness

  /// Saves that would make refused duplicates; nil if there are none.
  private func duplicates(among writes: [JudgedWrite]) throws -> [String: RecordError]? {
    guard let unique = schema.uniqueRules, !unique.rejecting.isEmpty,
      writes.contains(where: { $0.record.map { unique.rejecting.contains($0.recordType) } ?? false })
    else { return nil }
    var planned: [String: Record?] = [:]
    for write in writes { planned[write.recordName] = .some(write.record) }
    var check = UniqueCheck(unique, planned: planned, in: zone, transaction)
    if let mayName { check.mayName = mayName }
    var errors: [String: RecordError] = [:]
    for write in writes {
      guard let record = write.record else { continue }
      let earlier = write.existing.flatMap { $0.isDeleted ? nil : $0.record }
      if let conflict = try check.conflict(of: record, replacing: earlier) { errors[write.recordName] = conflict.error }
    }
    return errors.isEmpty ? nil : errors
  }

  // MARK: Quota

  /// Saves that grow without room for them; nil if there are none.
  private func surplus(of writes: [JudgedWrite], over quota: StorageQuota, besides cascade: [String]) throws -> [String:
    RecordError]?
  {
    let stored = try transaction.database(database)
    // An upper bound without encoding a record: nearly every unit has room.
    if writes.reduce(Int64(0), { $0 + ($1.record?.mostCountedByteCount ?? 0) }) <= quota.byteCount
      - (stored?.byteCount ?? 0)
    {
      return nil
    }
    let going = Set(cascade)
    let growths = writes.map { write in
      let later = going.contains(write.recordName) ? 0 : write.record?.countedByteCount ?? 0
      return (name: write.recordName, byteCount: later - (write.existing?.countedByteCount ?? 0))
    }
    var errors: [String: RecordError] = [:]
    switch shortage {
    case .allThatGrow:
      guard let problem = quota.problem(growth: growths.reduce(0) { $0 + $1.byteCount }, of: stored) else { return nil }
      for growth in growths where growth.byteCount > 0 { errors[growth.name] = problem }
    case .surplus:
      var room = growths.reduce(quota.byteCount - (stored?.byteCount ?? 0)) { $0 - min($1.byteCount, 0) }
      for growth in growths where growth.byteCount > 0 {
        if growth.byteCount <= room {
          room -= growth.byteCount
        } else {
          errors[growth.name] = RecordError(.quotaExceeded, "the user's database has no room for the record")
        }
      }
    }
    return errors.isEmpty ? nil : errors
  }
}
