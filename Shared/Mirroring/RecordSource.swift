// What the mirroring may ask of the zone it works on: a few synchronous lookups, so that it stays free of stores and transactions.

public import Records

/// A record as the zone holds it.
public struct SourceRecord: Hashable, Sendable {
  /// For a tombstone only its name, type, stamps and `Tombstone.keptFields` mean something.
  public var record: Record
  public var isDeleted: Bool
  /// When it was changed last, and by whom: a mirrored store's key, 0 for others. As in the store's rows.
  public var sequence: Int64
  public var origin: Int64
  /// When somebody else than `origin` changed it last.
  public var sequenceOfOthers: Int64

  public init(record: Record, isDeleted: Bool, sequence: Int64 = 0, origin: Int64 = 0, sequenceOfOthers: Int64 = 0) {
    self.record = record
    self.isDeleted = isDeleted
    self.sequence = sequence
    self.origin = origin
    self.sequenceOfOthers = sequenceOfOthers
  }

  /// Whether somebody else than a mirrored store changed it after a sequence.
  func isNews(to store: Int64, after sequence: Int64) -> Bool { (origin == store ? sequenceOfOthers : self.sequence) > sequence }
}

/// What is known of a record's past since a sequence.
public struct RecordHistory: Hashable, Sendable {
  public struct State: Hashable, Sendable {
    public let record: Record
    public let isDeleted: Bool

    public init(record: Record, isDeleted: Bool) {
      self.record = record
      self.isDeleted = isDeleted
    }
  }

  /// What it was then.
  public enum Ancestor: Hashable, Sendable {
    /// Nothing is kept from so long ago.
    case unknown
    case nothing
    case record(Record)
  }

  public var ancestor: Ancestor
  /// The states since then, ascending; the last one is the present.
  public var states: [State]

  public init(ancestor: Ancestor, states: [State]) {
    self.ancestor = ancestor
    self.states = states
  }
}

/// What went when an object was deleted: its links, and pointers to it.
public struct DeletedCompany: Hashable, Sendable {
  /// Link records as they were.
  public var links: [Record] = []
  /// Live records whose to-one field was cleared.
  public var pointers: [RecordPointer] = []

  public init(links: [Record] = [], pointers: [RecordPointer] = []) {
    self.links = links
    self.pointers = pointers
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

/// The object that the name of a duplicate stands for (D5).
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
  /// The zone to which a record of this one was moved; nil: it was not, or nothing is left of it there.
  func source(ofMoved recordName: String) throws -> (any RecordSource)?
  /// What a record was at a sequence, and has been since; asked only about conflicts.
  func history(of recordName: String, since sequence: Int64) throws -> RecordHistory
  /// What went with a tombstone, as far as that is known; asked only about conflicts.
  func company(ofDeleted recordName: String) throws -> DeletedCompany
}

extension RecordSource {
  public var hasRedirects: Bool { false }
  public func redirect(of recordName: String) throws -> RecordRedirect? { nil }
  public func source(ofMoved recordName: String) throws -> (any RecordSource)? { nil }

  public func history(of recordName: String, since sequence: Int64) throws -> RecordHistory {
    RecordHistory(ancestor: .unknown, states: try record(named: recordName).map { [RecordHistory.State(record: $0.record, isDeleted: $0.isDeleted)] } ?? [])
  }

  public func company(ofDeleted recordName: String) throws -> DeletedCompany { DeletedCompany() }

  /// Whether the name's record was deleted; not so for one that was never used, whose record may still arrive.
  func isTombstone(named recordName: String) throws -> Bool { try record(named: recordName)?.isDeleted ?? false }
}

/// What is left of a deleted record: enough to tell an importing client what went.
public enum Tombstone {
  /// The concrete entity of an object, and the two ends of a link.
  public static let keptFields = [ReservedName.entityName, ReservedName.linkEntityNames, ReservedName.linkRecordNames, ReservedName.linkRelationships]

  /// The name of the zone to which the tombstone's record was moved; nil: it was deleted, or has come back since.
  public static func movedTo(_ record: Record) -> String? { record.fields.string(ReservedName.movedTo) }

  /// The fields of a record that its tombstone keeps.
  public static func fields(of record: Record) -> Fields {
    var kept = Fields()
    for name in keptFields { kept[name] = record.fields[name] }
    return kept
  }
}
