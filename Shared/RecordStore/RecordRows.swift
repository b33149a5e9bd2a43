// Rows of records as the store has them, for answers that copy records and need few values of them.

import MessagePack
public import Records

/// Rows of one zone in the order in which they were read, their names and contents in one buffer. A page of two hundred
/// records takes two pieces of memory, and no value of a record exists until somebody asks for it.
public struct RecordRows: Sendable {
  /// A row without its name and content.
  public struct Row: Sendable {
    public let recordType: String
    public var isDeleted: Bool
    public let sequence: Int64
    public let origin: Int64
    public let sequenceOfOthers: Int64
    fileprivate let name: Range<Int>
    fileprivate let content: Range<Int>

    public var tag: RecordChangeTag { RecordChangeTag(sequence: sequence) }
    /// The length of the stored record, without its name and type.
    public var contentByteCount: Int { content.count }
  }

  public let zone: Int64
  /// The number of the shard that they were read from, for errors.
  var shard = 0
  private var rows: [Row] = []
  private var bytes: [UInt8] = []

  /// - Parameter zone: the zone's key.
  public init(of zone: Int64) { self.zone = zone }

  /// Appends the row of a record that is at hand.
  public mutating func append(_ stored: StoredRecord) {
    let start = bytes.count
    bytes.append(contentsOf: stored.record.recordName.utf8)
    let middle = bytes.count
    bytes.append(contentsOf: stored.record.encoded())
    rows.append(
      Row(
        recordType: stored.record.recordType, isDeleted: stored.isDeleted, sequence: stored.sequence,
        origin: stored.origin, sequenceOfOthers: stored.sequenceOfOthers, name: start..<middle,
        content: middle..<bytes.count))
  }

  public var count: Int { rows.count }
  public var indices: Range<Int> { rows.indices }
  /// The length of all names and contents.
  public var byteCount: Int { bytes.count }

  public subscript(index: Int) -> Row {
    get { rows[index] }
    set { rows[index] = newValue }
  }

  /// Removes the row at `index` and all behind it.
  public mutating func removeAll(from index: Int) {
    guard index < rows.count else { return }
    bytes.removeSubrange(rows[index].name.lowerBound...)
    rows.removeSubrange(index...)
  }

  /// Lends a row's name and content.
  /// - Throws: `StoreError.corrupt` in place of a `StoredFormatError` of `body`.
  public func read(
    at index: Int, _ body: (_ name: StoredText, _ content: UnsafeRawBufferPointer) throws(StoredFormatError) -> Void
  ) throws(StoreError) {
    let row = rows[index]
    do throws(StoredFormatError) {
      try bytes.withUnsafeBufferPointer { bytes throws(StoredFormatError) in
        try body(
          StoredText(rebasing: bytes[row.name]),
          UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[row.content])))
      }
    } catch {
      throw StoreError.corruptRecord(row.sequence, zone: zone, shard: shard)
    }
  }

  public func recordName(at index: Int) -> String { String(decoding: bytes[rows[index].name], as: UTF8.self) }

  public func record(at index: Int) throws(StoreError) -> StoredRecord {
    let row = rows[index]
    var record: Record?
    try read(at: index) { name, content throws(StoredFormatError) in
      record = try Record(
        decoding: content, recordName: String(decoding: name, as: UTF8.self), recordType: row.recordType)
    }
    guard let record else { throw StoreError.corruptRecord(row.sequence, zone: zone, shard: shard) }
    return StoredRecord(
      record: record, isDeleted: row.isDeleted, sequence: row.sequence, origin: row.origin,
      sequenceOfOthers: row.sequenceOfOthers)
  }

  public func records() throws(StoreError) -> [StoredRecord] {
    var records: [StoredRecord] = []
    records.reserveCapacity(count)
    for index in indices { records.append(try record(at: index)) }
    return records
  }

  /// The live records with which a share is shown: shares, and the records at the top of shared hierarchies.
  public func recordsWithShares() throws(StoreError) -> [StoredRecord] {
    var records: [StoredRecord] = []
    for index in indices where !rows[index].isDeleted {
      var isShown = rows[index].recordType == ReservedName.shareRecordType
      if !isShown {
        try read(at: index) { _, content throws(StoredFormatError) in
          isShown = try Record.read(content) { head, cursor throws(MessagePackError) in
            while cursor.remainingCount > 0 { try cursor.skip() }
            return head.shortGUID != nil
          }
        }
      }
      if isShown { records.append(try record(at: index)) }
    }
    return records
  }
}

extension RecordRows {
  /// The most rows and bytes for which room is made before they are known to be needed.
  private static let roomCount = 256
  private static let roomByteCount = 256 * 1024

  /// Makes room for rows that are as long as the first of them.
  mutating func reserve(_ count: Int, byteCount: Int) {
    let count = min(count, Self.roomCount)
    rows.reserveCapacity(rows.count + count)
    bytes.reserveCapacity(bytes.count + min(count * byteCount, Self.roomByteCount))
  }

  /// Appends a row.
  /// - Parameter fill: appends the record's name and the stored record, unsealed, to the buffer, and returns where the
  ///   latter begins. When it throws, nothing is appended.
  mutating func append(_ header: RecordRowHeader, recordType: String, _ fill: (inout [UInt8]) throws -> Int) throws {
    let start = bytes.count
    do {
      let middle = try fill(&bytes)
      rows.append(
        Row(
          recordType: recordType, isDeleted: header.isDeleted, sequence: header.sequence, origin: header.origin,
          sequenceOfOthers: header.sequenceOfOthers, name: start..<middle, content: middle..<bytes.count))
    } catch {
      bytes.removeSubrange(start...)
      throw error
    }
  }
}

/// Rows of a list, which may have ended at a limit.
public struct RowPage<Row: Sendable>: Sendable {
  public var rows: [Row]
  /// False when a limit ended the rows, so that more may follow.
  public var isAtEnd: Bool

  public init(_ rows: [Row] = [], isAtEnd: Bool = false) {
    self.rows = rows
    self.isAtEnd = isAtEnd
  }
}

/// The bytes of the rows that a read has met, as they are stored and as they are in memory.
struct ReadBytes {
  let limit: Int
  private var storedCount = 0
  private var contentCount = 0

  init(limit: Int) { self.limit = limit }

  mutating func add(stored: Int, content: Int) {
    storedCount += stored
    contentCount += content
  }

  /// True behind the row that passes the limit, the last one that an engine across a network sends.
  var arePassed: Bool { max(storedCount, contentCount) > limit }
}

/// Reads without a limit of bytes.
extension ShardSnapshot {
  public func readChanges(after sequence: Int64, limit: Int, into rows: inout RecordRows) throws {
    try readChanges(after: sequence, limit: limit, byteLimit: .max, into: &rows)
  }

  public func readChangesBackwards(after sequence: Int64, before end: Int64, limit: Int, into rows: inout RecordRows)
    throws
  {
    try readChangesBackwards(after: sequence, before: end, limit: limit, byteLimit: .max, into: &rows)
  }

  public func records(ofType recordType: String, in zone: Int64, afterName recordName: String?, limit: Int) throws
    -> [StoredRecord]
  {
    try records(ofType: recordType, in: zone, afterName: recordName, limit: limit, byteLimit: .max).rows
  }

  public func records(in zone: Int64, afterName recordName: String?, limit: Int) throws -> [StoredRecord] {
    try records(in: zone, afterName: recordName, limit: limit, byteLimit: .max).rows
  }

  public func indexedRecords(_ scan: IndexScan, limit: Int) throws -> [IndexedRecord] {
    try indexedRecords(scan, limit: limit, byteLimit: .max).rows
  }

  /// Records and tombstones changed after `sequence`, ascending by sequence. Each appears once, in its latest state.
  public func changes(in zone: Int64, after sequence: Int64, limit: Int) throws -> [StoredRecord] {
    var rows = RecordRows(of: zone)
    try readChanges(after: sequence, limit: limit, into: &rows)
    return try rows.records()
  }

  /// Records and tombstones changed after `sequence` and before `end`, descending by sequence.
  public func changesBackwards(in zone: Int64, after sequence: Int64, before end: Int64, limit: Int) throws
    -> [StoredRecord]
  {
    var rows = RecordRows(of: zone)
    try readChangesBackwards(after: sequence, before: end, limit: limit, into: &rows)
    return try rows.records()
  }
}

extension StoreError {
  static func corruptRecord(_ sequence: Int64, zone: Int64, shard: Int) -> StoreError {
    .corrupt(
      "shard \(shard): the record with sequence \(sequence) in zone \(zone) is damaged; restore it from a backup")
  }
}
