// Field indexes as a store shows them.

public import Indexing

/// An index that a database has in use: every commit keeps it up.
public struct StoredIndex: Hashable, Sendable {
  /// Never used again; an index that was dropped and made anew has another.
  public let key: Int64
  public let databaseKey: Int64
  public let index: FieldIndex
  /// Whether the records that were there before the index are in it, too; until then it can't answer.
  public let isReady: Bool

  public init(key: Int64, databaseKey: Int64, index: FieldIndex, isReady: Bool) {
    self.key = key
    self.databaseKey = databaseKey
    self.index = index
    self.isReady = isReady
  }
}

/// A place in an index: its entries ascend by key, then by record name (`RecordNameOrder`).
public struct IndexPosition: Hashable, Sendable {
  public var key: [UInt8]
  public var recordName: String

  public init(key: [UInt8], recordName: String) {
    self.key = key
    self.recordName = recordName
  }
}

/// What to read of an index.
public struct IndexScan: Hashable, Sendable {
  /// `StoredIndex.key` of an index that is ready.
  public var index: Int64
  public var zone: Int64
  public var range: IndexRange
  public var isDescending: Bool
  /// Where an earlier scan in the same direction ended.
  public var after: IndexPosition?

  public init(index: Int64, zone: Int64, range: IndexRange, isDescending: Bool = false, after: IndexPosition? = nil) {
    self.index = index
    self.zone = zone
    self.range = range
    self.isDescending = isDescending
    self.after = after
  }
}

/// A record found by an index.
public struct IndexedRecord: Hashable, Sendable {
  public let key: [UInt8]
  public let stored: StoredRecord

  public init(key: [UInt8], stored: StoredRecord) {
    self.key = key
    self.stored = stored
  }
}
