// Prepares an environment's unique constraints for lookups: the records that share a key.

package import Indexing
import Mirroring
package import ObjectModel
import RecordStore
import Records

/// A unique constraint, with the model that gives its meaning.
package struct UniqueRule: Sendable {
  package let declaration: EnvironmentRules.Unique
  let entity: EntityDescription
  let model: MirrorModel
  /// Finds the records with the same values.
  package let index: FieldIndex
  /// The fields of the rule's attributes under the names that the latest model gives them. A record that has one has
  /// another value than the rule's field says (R18).
  private let laterFields: [String]

  /// The most records of one group that one commit looks at, merged ones included.
  static let lookLimit = 1000
  /// The bytes of records that are read at a time.
  fileprivate static let pageByteLimit = 4 << 20

  package var policy: EnvironmentRules.Unique.Policy { declaration.policy }

  /// nil if the model lacks the rule's entity or attributes.
  init?(_ declaration: EnvironmentRules.Unique, in model: MirrorModel, latest: MirrorModel?) {
    guard declaration.fits(model.index), let entity = model.index.entity(named: declaration.entity) else { return nil }
    self.declaration = declaration
    self.entity = entity
    self.model = model
    index = FieldIndex(
      uniqueFields: declaration.attributes.compactMap { entity.attribute(named: $0)?.fieldName },
      ofRecordType: entity.recordType)
    let present = latest?.index.entity(named: declaration.entity)
    let renamed = declaration.attributes.compactMap { name in
      present?.currentName(of: name).flatMap { present?.attribute(named: $0) }
    }
    laterFields = renamed.flatMap { [$0.fieldName, $0.assetFieldName].compactMap(\.self) }
  }

  /// The record's unique key; nil for another entity, or if a value is missing or has a later name.
  func key(of record: Record) -> [UInt8]? {
    guard record.recordType == index.recordType, entity.kindNames.contains(record.entityName),
      laterFields.allSatisfy({ record.fields[$0] == nil })
    else { return nil }
    return index.keys(of: record).first
  }

  /// The key that a change gives to a record; nil if the change keeps the key.
  func newKey(of later: Record, replacing earlier: Record?) -> [UInt8]? {
    guard let key = key(of: later) else { return nil }
    return earlier.flatMap { self.key(of: $0) } == key ? nil : key
  }
}

extension Record {
  /// The concrete entity (R2).
  var entityName: String {
    fields.string(ReservedName.entityName)
      ?? String(
        recordType.hasPrefix(ReservedName.recordTypePrefix)
          ? recordType.dropFirst(ReservedName.recordTypePrefix.count) : recordType[...])
  }
}

/// The unique constraints that an environment's models can express.
package struct UniqueRules: Sendable {
  let byRecordType: [String: [UniqueRule]]
  package let indexes: Set<FieldIndex>
  /// Record types whose saves may be refused.
  package let rejecting: Set<String>

  /// nil if nothing is unique. The latest model interprets a rule if it can, otherwise the first other model that can.
  init?(_ rules: EnvironmentRules, models: [String: MirrorModel], latestModelHash: String?) {
    if rules.unique.isEmpty { return nil }
    let latest = latestModelHash.flatMap { models[$0] }
    let candidates = [latest].compactMap(\.self) + models.sorted { $0.key < $1.key }.map(\.value)
    let known = rules.unique.compactMap { rule in
      candidates.lazy.compactMap { UniqueRule(rule, in: $0, latest: latest) }.first
    }
    if known.isEmpty { return nil }
    byRecordType = Dictionary(grouping: known, by: \.index.recordType)
    indexes = Set(known.map(\.index))
    rejecting = Set(known.filter { $0.policy == .reject }.map(\.index.recordType))
  }

  package var all: [UniqueRule] { byRecordType.sorted { $0.key < $1.key }.flatMap(\.value) }
}

extension ShardTransaction {
  /// Live records that share a key of a rule, ascending by name, at most `limit`, without pending duplicates.
  ///
  /// The scan looks at up to `UniqueRule.lookLimit` records, lowest names first, so that many pending
  /// duplicates may hide further records.
  ///
  /// Makes the rule's index if it is missing. Until the index is filled, older records may be missing;
  /// `DuplicateKeeper` finds their duplicates once it is ready.
  func sharing(
    _ key: [UInt8], of rule: UniqueRule, in zone: StoredZone, limit: Int,
    where isWanted: (Record) -> Bool = { _ in true }
  ) throws -> [StoredRecord] {
    let index = try makeIndex(rule.index, in: zone.databaseKey)
    let hasRedirects = try hasRedirects(in: zone.databaseKey)
    var found: [StoredRecord] = []
    var scan = IndexScan(index: index.key, zone: zone.key, range: IndexRange(key: key))
    var lookCount = 0
    while found.count < limit, lookCount < UniqueRule.lookLimit {
      let page = try indexedRecords(scan, limit: 100, byteLimit: UniqueRule.pageByteLimit)
      lookCount += page.rows.count
      for entry in page.rows
      where found.count < limit && rule.key(of: entry.stored.record) == key && isWanted(entry.stored.record) {
        if hasRedirects, try redirect(of: entry.stored.record.recordName, in: zone.key)?.isPending == true { continue }
        found.append(entry.stored)
      }
      guard !page.isAtEnd, let last = page.rows.last else { break }
      scan.after = IndexPosition(key: last.key, recordName: last.stored.record.recordName)
    }
    return found
  }
}
