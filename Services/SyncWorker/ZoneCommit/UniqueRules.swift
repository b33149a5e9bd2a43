// What is unique in an environment, made ready for lookups: which records share what they must not.

import Indexing
import Mirroring
import ObjectModel
import RecordStore
import Records

/// A rule with the model that it is read by.
struct UniqueRule: Sendable {
  let declaration: EnvironmentRules.Unique
  let entity: EntityDescription
  let model: MirrorModel
  /// Finds the records that share their values.
  let index: FieldIndex

  var policy: EnvironmentRules.Unique.Policy { declaration.policy }

  /// nil when the model does not know what the rule speaks of.
  init?(_ declaration: EnvironmentRules.Unique, in model: MirrorModel) {
    guard declaration.fits(model.index), let entity = model.index.entity(named: declaration.entity) else { return nil }
    self.declaration = declaration
    self.entity = entity
    self.model = model
    index = FieldIndex(uniqueFields: declaration.attributes.compactMap { entity.attribute(named: $0)?.fieldName }, ofRecordType: entity.recordType)
  }

  /// What a record must not share; nil for one of another entity, and for one that lacks a value.
  func key(of record: Record) -> [UInt8]? {
    guard record.recordType == index.recordType, entity.kindNames.contains(record.entityName) else { return nil }
    return index.keys(of: record).first
  }

  /// What a record has come to share by a change; nil when that is what it was.
  func newKey(of later: Record, replacing earlier: Record?) -> [UInt8]? {
    guard let key = key(of: later) else { return nil }
    return earlier.flatMap { self.key(of: $0) } == key ? nil : key
  }
}

extension Record {
  /// The concrete entity (R2).
  var entityName: String {
    fields.string(ReservedName.entityName)
      ?? String(recordType.hasPrefix(ReservedName.recordTypePrefix) ? recordType.dropFirst(ReservedName.recordTypePrefix.count) : recordType[...])
  }
}

/// The rules of an environment that its models know.
struct UniqueRules: Sendable {
  let byRecordType: [String: [UniqueRule]]
  let indexes: Set<FieldIndex>
  /// Record types whose saves may be refused.
  let rejecting: Set<String>

  /// nil when nothing is unique. A rule is read by the latest model if that knows what it speaks of, else by the first of the others that does.
  init?(_ rules: EnvironmentRules, models: [String: MirrorModel], latestModelHash: String?) {
    if rules.unique.isEmpty { return nil }
    let latest = latestModelHash.flatMap { models[$0] }.map { [$0] } ?? []
    let candidates = latest + models.sorted { $0.key < $1.key }.map(\.value)
    let known = rules.unique.compactMap { rule in candidates.lazy.compactMap { UniqueRule(rule, in: $0) }.first }
    if known.isEmpty { return nil }
    byRecordType = Dictionary(grouping: known, by: \.index.recordType)
    indexes = Set(known.map(\.index))
    rejecting = Set(known.filter { $0.policy == .reject }.map(\.index.recordType))
  }

  var all: [UniqueRule] { byRecordType.sorted { $0.key < $1.key }.flatMap(\.value) }
}

extension ShardTransaction {
  /// Live records that share a key of a rule, ascending by name, at most `limit`; without those that are merged and wait to be removed.
  ///
  /// At most `DuplicateMerge.lookLimit` are looked at, the lowest first: behind a thousand that wait to be removed nobody is found.
  ///
  /// The rule's index is taken into use when it is not. While it is filled in, records from before it may be missing: what they share is found
  /// when it is ready.
  func sharing(_ key: [UInt8], of rule: UniqueRule, in zone: StoredZone, limit: Int, where isWanted: (Record) -> Bool = { _ in true }) throws -> [StoredRecord] {
    let index = try makeIndex(rule.index, in: zone.databaseKey)
    let hasRedirects = try hasRedirects(in: zone.databaseKey)
    var found: [StoredRecord] = []
    var scan = IndexScan(index: index.key, zone: zone.key, range: IndexRange(key: key))
    var lookCount = 0
    while found.count < limit, lookCount < DuplicateMerge.lookLimit {
      let page = try indexedRecords(scan, limit: 100)
      lookCount += page.count
      for entry in page where found.count < limit && rule.key(of: entry.stored.record) == key && isWanted(entry.stored.record) {
        if hasRedirects, try redirect(of: entry.stored.record.recordName, in: zone.key)?.isPending == true { continue }
        found.append(entry.stored)
      }
      guard page.count == 100, let last = page.last else { break }
      scan.after = IndexPosition(key: last.key, recordName: last.stored.record.recordName)
    }
    return found
  }
}
