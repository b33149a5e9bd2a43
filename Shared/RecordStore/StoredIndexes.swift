// The rows and queries of field indexes.

public import Indexing

/// An index in use. Every commit maintains it.
public struct StoredIndex: Hashable, Sendable {
  /// Never reused: an index that is dropped and made again gets another key.
  public let key: Int64
  public let databaseKey: Int64
  public let index: FieldIndex
  /// False while records from before the index are missing in it; queries must not use it then.
  public let isReady: Bool

  public init(key: Int64, databaseKey: Int64, index: FieldIndex, isReady: Bool) {
    self.key = key
    self.databaseKey = databaseKey
    self.index = index
    self.isReady = isReady
  }
}

/// A position in an index. Entries ascend by key, then by record name (`RecordNameOrder`).
public struct IndexPosition: Hashable, Sendable {
  public var key: [UInt8]
  public var recordName: String

  public init(key: [UInt8], recordName: String) {
    self.key = key
    self.recordName = recordName
  }
}

/// The entries of an index to read.
public struct IndexScan: Hashable, Sendable {
  /// `StoredIndex.key` of an index that is ready.
  public var index: Int64
  public var zone: Int64
  public var range: IndexRange
  public var isDescending: Bool
  /// The position at which an earlier scan in the same direction ended.
  public var after: IndexPosition?

  public init(index: Int64, zone: Int64, range: IndexRange, isDescending: Bool = false, after: IndexPosition? = nil) {
    self.index = index
    self.zone = zone
    self.range = range
    self.isDescending = isDescending
    self.after = after
  }
}

/// A record found through an index, with its key there.
public struct IndexedRecord: Hashable, Sendable {
  public let key: [UInt8]
  public let stored: StoredRecord

  public init(key: [UInt8], stored: StoredRecord) {
    self.key = key
    self.stored = stored
  }
}
