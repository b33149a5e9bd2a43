// What the mirroring may ask of the zone it works on: a few synchronous lookups, so that it stays free of stores and transactions.

public import Records

/// A record as the zone holds it.
public struct SourceRecord: Hashable, Sendable {
  /// For a tombstone only its name, type, stamps and `Tombstone.keptFields` mean something.
  public var record: Record
  public var isDeleted: Bool

  public init(record: Record, isDeleted: Bool) {
    self.record = record
    self.isDeleted = isDeleted
  }
}

/// A record that points somewhere, and the field it points with.
public struct RecordPointer: Hashable, Sendable {
  public let field: String
  public let source: String

  public init(field: String, source: String) {
    self.field = field
    self.source = source
  }
}

/// What the name of a duplicate stands for (semantics section 12).
public struct RecordRedirect: Hashable, Sendable {
  public let survivor: String
  /// When they were found to be the same: milliseconds since 1970.
  public let since: Int64
  /// The duplicate is not removed yet.
  public let isPending: Bool

  public init(survivor: String, since: Int64, isPending: Bool) {
    self.survivor = survivor
    self.since = since
    self.isPending = isPending
  }
}

/// One zone of records, in one consistent state.
public protocol RecordSource {
  /// The record or its tombstone; nil when the name was never used.
  func record(named recordName: String) throws -> SourceRecord?
  /// Live records that point to `target` by a to-one field, or as a link record (field `CD_recordNames`), in a stable order.
  func pointers(to target: String) throws -> [RecordPointer]
  /// Whether `redirect(of:)` need be asked.
  var hasRedirects: Bool { get }
  func redirect(of recordName: String) throws -> RecordRedirect?
}

extension RecordSource {
  public var hasRedirects: Bool { false }
  public func redirect(of recordName: String) throws -> RecordRedirect? { nil }

  /// Whether the name's record was deleted; not so for one that was never used, whose record may still arrive.
  func isTombstone(named recordName: String) throws -> Bool { try record(named: recordName)?.isDeleted ?? false }
}

/// What is left of a deleted record: enough to tell an importing client what went.
public enum Tombstone {
  /// The concrete entity of an object, and the two ends of a link.
  public static let keptFields = [ReservedName.entityName, ReservedName.linkEntityNames, ReservedName.linkRecordNames, ReservedName.linkRelationships]

  /// The fields of a record that its tombstone keeps.
  public static func fields(of record: Record) -> Fields {
    var kept = Fields()
    for name in keptFields { kept[name] = record.fields[name] }
    return kept
  }
}
