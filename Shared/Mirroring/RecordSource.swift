// The lookups that mirroring makes in its zone: few and synchronous, so that Mirroring needs neither stores nor
// transactions.

public import Records

/// A record as its zone holds it.
public struct SourceRecord: Hashable, Sendable {
  /// The record; of a tombstone only the name, the type, the stamps and `Tombstone.keptFields` are valid.
  public var record: Record
  public var isDeleted: Bool
  /// The sequence number of the last change, and the key of the mirrored store that made it; origin 0 stands for every
  /// other writer.
  public var sequence: Int64
  public var origin: Int64
  /// The sequence number of the last change by a writer other than `origin`.
  public var sequenceOfOthers: Int64

  public init(record: Record, isDeleted: Bool, sequence: Int64 = 0, origin: Int64 = 0, sequenceOfOthers: Int64 = 0) {
    self.record = record
    self.isDeleted = isDeleted
    self.sequence = sequence
    self.origin = origin
    self.sequenceOfOthers = sequenceOfOthers
  }

  /// True if a writer other than the store changed the record after a sequence number.
  func isNews(to store: Int64, after sequence: Int64) -> Bool {
    (origin == store ? sequenceOfOthers : self.sequence) > sequence
  }
}

/// A record's past since a sequence number, as far as the zone keeps it.
public struct RecordHistory: Hashable, Sendable {
  public struct State: Hashable, Sendable {
    public let record: Record
    public let isDeleted: Bool

    public init(record: Record, isDeleted: Bool) {
      self.record = record
      self.isDeleted = isDeleted
    }
  }

  /// A record's state at that sequence number.
  public enum Ancestor: Hashable, Sendable {
    /// The zone keeps nothing from that time.
    case unknown
    case nothing
    case record(Record)
  }

  public var ancestor: Ancestor
  /// The states since then, ascending; the last one is the present state.
  public var states: [State]

  public init(ancestor: Ancestor, states: [State]) {
    self.ancestor = ancestor
    self.states = states
  }
}

/// The links of a deleted object and the pointers to it, which went with it.
public struct DeletedCompany: Hashable, Sendable {
  /// Link records as they were before the deletion.
  public var links: [Record] = []
  /// Live records whose to-one field the deletion cleared.
  public var pointers: [RecordPointer] = []

  public init(links: [Record] = [], pointers: [RecordPointer] = []) {
    self.links = links
    self.pointers = pointers
  }
}

/// A record that points to another, and the field that does.
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
  /// Milliseconds since 1970: the time when the two were found to be duplicates.
  public let since: Int64
  /// The duplicate is not deleted yet.
  public let isPending: Bool

  public init(survivor: String, since: Int64, isPending: Bool) {
    self.survivor = survivor
    self.since = since
    self.isPending = isPending
  }
}

/// One zone of records, in one consistent state.
public protocol RecordSource {
  /// The record or its tombstone; nil if the name was never used.
  func record(named recordName: String) throws -> SourceRecord?
  /// Live records that point to `target` by a to-one field, or as link records (field `CD_recordNames`), in a stable
  /// order.
  func pointers(to target: String) throws -> [RecordPointer]
  /// False if the zone has no redirects: `redirect(of:)` is nil for every name then.
  var hasRedirects: Bool { get }
  func redirect(of recordName: String) throws -> RecordRedirect?
  /// The zone to which a record was moved from this one; nil if it was not moved, or the other zone has nothing left of
  /// it.
  func source(ofMoved recordName: String) throws -> (any RecordSource)?
  /// A record's state at a sequence number and its states since; asked only about conflicts.
  func history(of recordName: String, since sequence: Int64) throws -> RecordHistory
  /// The links and pointers that a tombstone's deletion took along, as far as they are kept; asked only about
  /// conflicts.
  func company(ofDeleted recordName: String) throws -> DeletedCompany
}

extension RecordSource {
  public var hasRedirects: Bool { false }
  public func redirect(of recordName: String) throws -> RecordRedirect? { nil }
  public func source(ofMoved recordName: String) throws -> (any RecordSource)? { nil }

  public func history(of recordName: String, since sequence: Int64) throws -> RecordHistory {
    RecordHistory(
      ancestor: .unknown,
      states: try record(named: recordName).map { [RecordHistory.State(record: $0.record, isDeleted: $0.isDeleted)] }
        ?? [])
  }

  public func company(ofDeleted recordName: String) throws -> DeletedCompany { DeletedCompany() }

  /// True if the record was deleted. False for a name that was never used: its record may still arrive.
  func isTombstone(named recordName: String) throws -> Bool { try record(named: recordName)?.isDeleted ?? false }
}

/// The fields that a deleted record keeps, for clients that import the deletion.
public enum Tombstone {
  /// The concrete entity of an object, and both ends of a link.
  public static let keptFields = [
    ReservedName.entityName, ReservedName.linkEntityNames, ReservedName.linkRecordNames, ReservedName.linkRelationships,
  ]

  /// The name of the zone to which the tombstone's record was moved; nil if the record was deleted or has come back.
  public static func movedTo(_ record: Record) -> String? { record.fields.string(ReservedName.movedTo) }

  /// The fields of a record that its tombstone keeps.
  public static func fields(of record: Record) -> Fields {
    var kept = Fields()
    for name in keptFields { kept[name] = record.fields[name] }
    return kept
  }
}
