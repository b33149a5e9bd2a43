// Merges the rows of several zones in feed order, with a few megabytes of them in memory.

import RecordStore
import Records
import ZoneCommit

/// The rows of zones in feed order. A zone is read once its turn has come.
struct ZoneFeed {
  private var cursors: [ZoneCursor]
  /// A heap of the cursors that have rows, by the sequences of these: the least first.
  private var heap: [(sequence: Int64, cursor: Int)]
  /// The contents of rows that were read and not passed yet.
  private(set) var heldByteCount = 0

  /// The contents that are read ahead. Beyond it one row is read at a time, once its turn has come.
  private static let heldByteLimit = 4 << 20

  init(
    _ zones: [StoredZone], of database: StoredDatabase, as guest: GuestZones?, after sequence: Int64,
    in snapshot: any ShardSnapshot
  ) throws {
    cursors = zones.map { ZoneCursor($0, of: database.id.owner, as: guest, after: sequence, in: snapshot) }
    // One zone needs no order.
    let firsts =
      zones.count > 1
      ? try snapshot.firstChanges(in: database.key, after: sequence)
      : Dictionary(zones.map { ($0.key, sequence + 1) }, uniquingKeysWith: { first, _ in first })
    heap = zones.indices.compactMap { index in firsts[zones[index].key].map { ($0, index) } }
    // What is sorted is a heap.
    heap.sort { $0.sequence < $1.sequence }
  }

  /// The next row and the cursor of its zone; nil behind the last row.
  mutating func next(from snapshot: any ShardSnapshot) throws -> (row: ZoneCursor.Row, cursor: ZoneCursor)? {
    while let least = heap.first {
      let room = max(0, Self.heldByteLimit - heldByteCount)
      if room == 0, try !cursors[least.cursor].isDue(at: least.sequence, in: snapshot) {
        settle()
        continue
      }
      heldByteCount += try cursors[least.cursor].load(byteLimit: room / 2, from: snapshot)
      if let row = cursors[least.cursor].next, row.sequence <= least.sequence { return (row, cursors[least.cursor]) }
      settle()
    }
    return nil
  }

  /// Passes the row that `next` told.
  mutating func advance() {
    guard let least = heap.first else { return }
    heldByteCount -= cursors[least.cursor].advance()
    settle()
  }

  /// Moves the first cursor to the place of its next row.
  private mutating func settle() {
    guard let sequence = cursors[heap[0].cursor].nextSequence else {
      let last = heap.removeLast()
      if !heap.isEmpty { sink(last) }
      return
    }
    sink((sequence, heap[0].cursor))
  }

  /// Puts an entry in place of the first one.
  private mutating func sink(_ entry: (sequence: Int64, cursor: Int)) {
    var place = 0
    while case var child = 2 * place + 1, child < heap.count {
      if child + 1 < heap.count, heap[child + 1].sequence < heap[child].sequence { child += 1 }
      if heap[child].sequence >= entry.sequence { break }
      heap[place] = heap[child]
      place = child
    }
    heap[place] = entry
  }
}
