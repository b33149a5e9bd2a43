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
  private let snapshot: any ShardSnapshot
  private var rows: ArraySlice<Row> = []
  private var last: Int64
  private var isAtEnd = false

  /// Rows read at once.
  private static let chunk = 64

  init(
    _ zone: StoredZone, of owner: String, as guest: GuestZones?, after sequence: Int64, in snapshot: any ShardSnapshot
  ) {
    self.zone = zone
    zoneJSON = Zone.ID(zoneName: zone.zoneName, ownerName: owner).json
    source = ZoneSource(zone, in: snapshot, sees: { name in guest.map { $0.access[name] != nil } ?? true })
    visible = guest?.visible(in: zone, snapshot)
    self.snapshot = snapshot
    last = sequence
  }

  mutating func peek(_ snapshot: any ShardSnapshot) throws -> Row? {
    if rows.isEmpty, !isAtEnd {
      let changes = try snapshot.readableChanges(in: zone.key, after: last, limit: Self.chunk, byteLimit: .max)
      isAtEnd = changes.isAtEnd
      var read = changes.records.map(Row.record)
      if !changes.damaged.isEmpty {
        read = (read + changes.damaged.map(Row.damaged)).sorted { $0.sequence < $1.sequence }
      }
      rows = read[...]
      last = read.last?.sequence ?? last
    }
    return rows.first
  }

  mutating func advance() { rows.removeFirst() }

  /// nil for a row with an unreadable name.
  func place(of row: Row) -> RecordPlace? {
    row.recordName.isEmpty ? nil : RecordPlace(zone: zone.key, name: row.recordName)
  }
}
