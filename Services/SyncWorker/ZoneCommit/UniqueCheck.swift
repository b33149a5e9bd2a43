// Policy `reject`: refuses a save that would make a duplicate, and names the earlier record.

import ObjectModel
package import RecordStore
package import Records

/// A save that makes a duplicate.
package struct UniqueConflict: Hashable, Sendable {
  package let recordName: String
  package let entity: String
  /// The rule, as `Tag(name)`.
  let rule: String
  /// The record that has the values already; nil if the caller may not know of it.
  package let winner: String?

  package var reason: String {
    "\(rule) must be unique in its zone: \(winner.map { "'\($0)'" } ?? "another record") has the same"
  }
  var error: RecordError { RecordError(.uniqueFieldError, reason) }
}

/// Judges the records that one batch saves, in order: the first of two records with the same key gets it.
package struct UniqueCheck {
  private let rules: UniqueRules
  private let transaction: any ShardTransaction
  /// nil: a zone without any record.
  private let zone: StoredZone?
  /// The batch's records as they will be; nil for those that it deletes.
  private let planned: [String: Record?]
  private var claims: [UniqueClaim: String] = [:]
  /// True if the caller may know that a record exists.
  package var mayName: (Record) throws -> Bool = { _ in true }

  private struct UniqueClaim: Hashable {
    let rule: String
    let key: [UInt8]
  }

  /// - Parameter planned: every record that the batch saves or deletes, in its later state.
  package init(
    _ rules: UniqueRules, planned: [String: Record?], in zone: StoredZone?, _ transaction: any ShardTransaction
  ) {
    self.rules = rules
    self.planned = planned
    self.zone = zone
    self.transaction = transaction
  }

  /// - Parameter earlier: the live record that is replaced; the new one may keep its key.
  /// - Returns: nil for a record that may be saved.
  package mutating func conflict(of record: Record, replacing earlier: Record?) throws -> UniqueConflict? {
    guard rules.rejecting.contains(record.recordType) else { return nil }
    var claimed: [UniqueClaim] = []
    for rule in rules.byRecordType[record.recordType] ?? [] where rule.policy == .reject {
      guard let key = rule.newKey(of: record, replacing: earlier) else { continue }
      let claim = UniqueClaim(rule: rule.declaration.text, key: key)
      let conflict = { winner in
        UniqueConflict(
          recordName: record.recordName, entity: record.entityName, rule: rule.declaration.text, winner: winner)
      }
      if let winner = claims[claim] { return conflict(winner) }
      if let holder = try holder(of: key, by: rule, besides: record.recordName) {
        return try conflict(mayName(holder) ? holder.recordName : nil)
      }
      claimed.append(claim)
    }
    for claim in claimed { claims[claim] = record.recordName }
    return nil
  }

  private func holder(of key: [UInt8], by rule: UniqueRule, besides recordName: String) throws -> Record? {
    guard let zone else { return nil }
    for stored in try unlessDamaged({ try transaction.sharing(key, of: rule, in: zone, limit: Self.holderLimit) }) ?? []
    where stored.record.recordName != recordName {
      guard let later = planned[stored.record.recordName] else { return stored.record }
      // The batch may change or delete the holder.
      if let later, rule.key(of: later) == key { return later }
    }
    return nil
  }

  /// Records looked at for a holder. Records from before the rule may share a key.
  private static let holderLimit = 1000
}
