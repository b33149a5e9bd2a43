// A deep copy of a zone's objects, made before the zone is purged (P3, T-P11).

import Mirroring
import RecordStore
import Records
import ServiceKit
import ZoneCommit

/// Copies the objects of a zone, with everything between them, under new names.
///
/// A copy is a new object, as Apple advises. Users of the old zone lose its objects; users of the target zone get new
/// ones, written by the user who purges. Files gain one more use and are not read.
struct ZoneCopy {
  let commit: ZoneCommit
  let zone: StoredZone
  /// The request's key: a repeated request made the same copies.
  let key: IdempotencyKey

  private var transaction: any ShardTransaction { commit.transaction }
  private var schema: EnvironmentSchema { commit.schema }
  private var stamp: Stamp { commit.terms.stamp }

  /// The names of the copies, by the order of the objects, as `make` gives them.
  static func copies(of objectIDs: [String], by key: IdempotencyKey) -> [(objectID: String, copyID: String)] {
    objectIDs.enumerated().map { ($1, key.recordName(at: $0)) }
  }

  /// Records read at once.
  private static let pageCount = 500
  /// Bytes of records that are in memory together, but for the last one.
  private static let pageByteCount = 4 << 20

  /// Makes the copies in another zone, which is made if it is missing.
  /// - Returns: the objects with their copies, ascending by name.
  /// - Throws: `BAD_REQUEST` with 134060 for a zone beyond the limits of a move; `UNIQUE_FIELD_ERROR` if the target has
  ///   the same unique values.
  func make(in zoneName: String) throws -> [(objectID: String, copyID: String)] {
    var names: [String: String] = [:]
    var objects: [String] = []
    var byteCount = 0
    try forEach { record in
      if LinkRecord.isLink(recordType: record.recordType) {
        names[record.recordName] = commit.terms.random.uuid()
      } else {
        names[record.recordName] = key.recordName(at: objects.count)
        objects.append(record.recordName)
      }
      byteCount += record.fields.byteCount
      if names.count > Limit.moveCount || byteCount > Limit.moveByteCount {
        throw RecordError(
          .badRequest,
          """
          Zone '\(zone.zoneName)' has more than \(Limit.moveCount) records or \(Limit.moveByteCount) bytes, which is \
          the limit of a copy: move its objects out, a graph at a time
          """,
          cocoaErrorCode: .mirroring)
      }
    }
    let writer = commit.serversWriter(to: try commit.makeZone(named: zoneName))
    try forEach { record in
      if let copy = try copy(of: record, names) { _ = try writer.save(copy, replacing: nil) }
    }
    return Self.copies(of: objects, by: key)
  }

  /// Calls `body` for every object and link, but not for shares and records of other programs.
  private func forEach(_ body: (Record) throws -> Void) throws {
    var last: String?
    while case let rows = try transaction.records(
      in: zone.key, afterName: last, limit: Self.pageCount, byteLimit: Self.pageByteCount
    ).rows, let end = rows.last {
      for row in rows
      where !row.isDeleted && row.record.recordType.hasPrefix(ReservedName.recordTypePrefix) || Self.isLink(row) {
        try body(row.record)
      }
      last = end.record.recordName
    }
  }

  private static func isLink(_ row: StoredRecord) -> Bool {
    !row.isDeleted && LinkRecord.isLink(recordType: row.record.recordType)
  }

  /// nil for a link with an end that is not copied.
  private func copy(of record: Record, _ names: [String: String]) throws -> Record? {
    guard let name = names[record.recordName] else { return nil }
    var copy = Record(
      recordName: name, recordType: record.recordType, fields: record.fields, created: stamp, modified: stamp)
    copy.versions = record.versions
    copy.fields[ReservedName.moveReceipt] = nil
    copy.parent = record.parent.flatMap { names[$0] }
    if let link = LinkRecord(record) {
      guard let first = names[link.ends.first], let second = names[link.ends.second] else { return nil }
      // A legacy link's name consists of its ends.
      if record.recordType != ReservedName.linkRecordType {
        copy.recordName = "\(first)\(ReservedName.linkSeparator)\(second)"
      }
      // A pair that is its own inverse may have its two ends in either order.
      copy.fields[ReservedName.linkRecordNames] = record.fields[ReservedName.linkRecordNames].map { _ in
        Field(.string("\(first)\(ReservedName.linkSeparator)\(second)"))
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

  private func renamed(_ reference: Reference, _ name: String) -> Reference {
    Reference(recordName: name, action: reference.action, zoneID: nil)
  }
}
