// A deep copy of a zone's objects, made before the zone is purged (P3, T-P11).

import Mirroring
import RecordStore
import Records
import ServiceKit

/// Copies the objects of a zone, with everything between them, under new names.
///
/// New ones, as Apple's advice has it: what is copied is another object. Who has the zone's objects loses those, and who sees the copy's zone gets new
/// ones, which nobody wrote but whoever purges. Files are used once more, and not read.
struct ZoneCopy {
  let transaction: any ShardTransaction
  let zone: StoredZone
  /// Where the copies go.
  let target: StoredZone
  let schema: EnvironmentSchema
  let stamp: Stamp
  let random: any RandomSource
  /// Of the request: what is sent again has made the same copies.
  let key: IdempotencyKey
  let firing: SubscriptionFiring?

  /// The copies of objects, by their order, as `make` names them.
  static func copies(of objectIDs: [String], by key: IdempotencyKey) -> [(objectID: String, copyID: String)] {
    objectIDs.enumerated().map { ($1, key.recordName(at: $0)) }
  }

  /// Records read at once.
  private static let pageCount = 500

  /// Copies that are duplicates of what is there are merged with it, as what moves there would be.
  /// - Returns: the objects with their copies, ascending by name, and whether duplicates are left to be merged.
  /// - Throws: `BAD_REQUEST` with 134060 for a zone with more than one move takes; `UNIQUE_FIELD_ERROR` where the target has already what a rule
  ///   does not allow twice.
  func make() throws -> (copies: [(objectID: String, copyID: String)], hasDuplicates: Bool) {
    var names: [String: String] = [:]
    var objects: [String] = []
    var byteCount = 0
    try forEach { record in
      if LinkRecord.isLink(recordType: record.recordType) {
        names[record.recordName] = random.uuid()
      } else {
        names[record.recordName] = key.recordName(at: objects.count)
        objects.append(record.recordName)
      }
      byteCount += record.fields.byteCount
      if names.count > Limit.moveCount || byteCount > Limit.moveByteCount {
        throw RecordError(
          .badRequest,
          "Zone '\(zone.zoneName)' has more than \(Limit.moveCount) records or \(Limit.moveByteCount) bytes, which is the limit of a copy: move its objects out, a graph at a time",
          cocoaErrorCode: .mirroring)
      }
    }
    let mergesDuplicates = try DuplicateMerge.concerns(target.databaseKey, schema, in: transaction)
    if mergesDuplicates { try DuplicateMerge.prepare(target.databaseKey, schema, in: transaction) }
    let writer = ZoneWriter(serverOf: target, schema, firing, in: transaction)
    var check = schema.uniqueRules.flatMap { $0.rejecting.isEmpty ? nil : UniqueCheck($0, planned: [:], in: target, transaction) }
    var touched: [DuplicateMerge.Touched] = []
    try forEach { record in
      guard let copy = try copy(of: record, names) else { return }
      if let conflict = try check?.conflict(of: copy, replacing: nil) { throw conflict.error }
      _ = try writer.save(copy, replacing: nil)
      if mergesDuplicates { touched.append(DuplicateMerge.Touched(earlier: nil, later: copy)) }
    }
    let copies = Self.copies(of: objects, by: key)
    if touched.isEmpty { return (copies, false) }
    var merge = DuplicateMerge(transaction: transaction, zone: target, schema: schema, writer: writer, stamp: stamp, random: random)
    return (copies, try merge.run(touched).isUnfinished)
  }

  /// Passes over every object and link; shares and other programs' records are not copied.
  private func forEach(_ body: (Record) throws -> Void) throws {
    var last: String?
    while case let rows = try transaction.records(in: zone.key, afterName: last, limit: Self.pageCount), let end = rows.last {
      for row in rows where !row.isDeleted && row.record.recordType.hasPrefix(ReservedName.recordTypePrefix) || Self.isLink(row) { try body(row.record) }
      last = end.record.recordName
    }
  }

  private static func isLink(_ row: StoredRecord) -> Bool { !row.isDeleted && LinkRecord.isLink(recordType: row.record.recordType) }

  /// nil for a link of what is not copied.
  private func copy(of record: Record, _ names: [String: String]) throws -> Record? {
    guard let name = names[record.recordName] else { return nil }
    var copy = Record(recordName: name, recordType: record.recordType, fields: record.fields, created: stamp, modified: stamp)
    copy.versions = record.versions
    copy.fields[ReservedName.moveReceipt] = nil
    copy.parent = record.parent.flatMap { names[$0] }
    if let link = LinkRecord(record) {
      guard let first = names[link.ends.first], let second = names[link.ends.second] else { return nil }
      // A legacy link says its ends by its name.
      if record.recordType != ReservedName.linkRecordType { copy.recordName = "\(first)\(ReservedName.linkSeparator)\(second)" }
      // Either order of the two ends of a pair that is its own inverse is read.
      copy.fields[ReservedName.linkRecordNames] = record.fields[ReservedName.linkRecordNames].map { _ in Field(.string("\(first)\(ReservedName.linkSeparator)\(second)"))
      }
      return copy
    }
    for name in schema.relationshipFields.fieldNames(ofRecordType: record.recordType) {
      guard let field = record.fields[name], case .string(let target) = field.value else { continue }
      copy.fields[name] = names[target].map { Field(.string($0), isEncrypted: field.isEncrypted) }
    }
    for element in record.fields {
      switch element.field.value {
      case .reference(let reference) where reference.zoneID == nil:
        copy.fields[element.name] = names[reference.recordName].map { Field(.reference(renamed(reference, $0))) }
      case .list(element: .reference, let values):
        let renamed = values.compactMap { value -> FieldValue? in
          guard case .reference(let reference) = value, reference.zoneID == nil else { return value }
          return names[reference.recordName].map { .reference(self.renamed(reference, $0)) }
        }
        copy.fields[element.name] = Field(.list(element: .reference, renamed), isEncrypted: element.field.isEncrypted)
      default: break
      }
    }
    return copy
  }

  private func renamed(_ reference: Reference, _ name: String) -> Reference { Reference(recordName: name, action: reference.action, zoneID: nil) }
}
