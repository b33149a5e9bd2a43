// Reads a zone's rows in feed order, for imports that merge several zones.

import Mirroring
import RecordStore
import Records
import WebServices
import ZoneCommit

/// A zone's part of the feed, read on demand.
struct ZoneCursor {
  enum Row {
    case record(StoredRecord)
    case damaged(DamagedRecord)

    var sequence: Int64 {
      switch self {
      case .record(let stored): stored.sequence
      case .damaged(let row): row.sequence
      }
    }

    /// The length of its content in memory.
    var byteCount: Int {
      switch self {
      case .record(let stored): stored.record.fields.byteCount
      case .damaged: 0
      }
    }

    var recordName: String {
      switch self {
      case .record(let stored): stored.record.recordName
      case .damaged(let row): row.recordName
      }
    }
  }

  let zone: StoredZone
  let zoneJSON: [UInt8]
  let source: ZoneSource
  /// The part of the zone that a guest's user sees; nil when they see everything.
  let visible: VisibleRecords?
  /// The rows at hand, the next one last.
  private var rows: [Row] = []
  private var last: Int64
  private var isAtEnd = false

  /// Rows read at once. Large ones end a read earlier.
  private static let chunk = 64

  init(
    _ zone: StoredZone, of owner: String, as guest: GuestZones?, after sequence: Int64, in snapshot: any ShardSnapshot
  ) {
    self.zone = zone
    zoneJSON = Zone.ID(zoneName: zone.zoneName, ownerName: owner).json
    source = ZoneSource(zone, in: snapshot, sees: { name in guest.map { $0.access[name] != nil } ?? true })
    visible = guest?.visible(in: zone, snapshot)
    last = sequence
  }

  /// The next row, once it was read.
  var next: Row? { rows.last }

  /// The next row has this sequence or a later one; nil behind the last row.
  var nextSequence: Int64? { rows.last?.sequence ?? (isAtEnd ? nil : last + 1) }

  /// Looks for the next row, without its content if it is not at hand.
  /// - Returns: whether it has this sequence or an earlier one.
  mutating func isDue(at sequence: Int64, in snapshot: any ShardSnapshot) throws -> Bool {
    if let next { return next.sequence <= sequence }
    guard !isAtEnd, let mark = try snapshot.changeMarks(in: zone.key, after: last, limit: 1).first else {
      isAtEnd = true
      return false
    }
    last = mark.sequence - 1
    return mark.sequence <= sequence
  }

  /// Reads the next rows if none is at hand.
  /// - Returns: the length of their contents.
  mutating func load(byteLimit: Int, from snapshot: any ShardSnapshot) throws -> Int {
    guard rows.isEmpty, !isAtEnd else { return 0 }
    let changes = try snapshot.readableChanges(in: zone.key, after: last, limit: Self.chunk, byteLimit: byteLimit)
    isAtEnd = changes.isAtEnd
    rows = changes.records.map(Row.record)
    if !changes.damaged.isEmpty { rows += changes.damaged.map(Row.damaged) }
    rows.sort { $0.sequence > $1.sequence }
    last = rows.first?.sequence ?? last
    return rows.reduce(0) { $0 + $1.byteCount }
  }

  /// - Returns: the length of the row's content.
  mutating func advance() -> Int { rows.popLast()?.byteCount ?? 0 }

  /// nil for a row with an unreadable name.
  func place(of row: Row) -> RecordPlace? {
    row.recordName.isEmpty ? nil : RecordPlace(zone: zone.key, name: row.recordName)
  }
}
