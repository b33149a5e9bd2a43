// The consumers of histories in a shard's file, and the search for the transaction of a point in time.

import Records
import SQLite

extension SQLiteSnapshot {
  func consumers(of mirror: Int64) throws -> [StoredConsumer] {
    let select = try statement(HistoryQuery.consumers)
    try select.bind(1, mirror)
    return try select.all { StoredConsumer(name: $0.text(0), transactionNumber: $0.int64(1), seenAt: $0.int64(2)) }
  }

  func firstTransaction(of mirror: Int64, appendedAtOrAfter time: Int64) throws -> Int64? {
    guard (1...HistoryRowID.lastMirror).contains(mirror) else { return nil }
    let earlier = try statement(HistoryQuery.timeBefore)
    try earlier.bind(1, mirror)
    try earlier.bind(2, time)
    // All transactions up to this one are earlier.
    let number = try earlier.first { $0.int64(0) } ?? 0
    let select = try statement(HistoryQuery.firstAt)
    try select.bind(1, HistoryRowID.of(mirror, number))
    try select.bind(2, HistoryRowID.of(mirror, HistoryRowID.lastNumber))
    try select.bind(3, time)
    return try select.first { HistoryRowID.number($0.int64(0)) }
  }
}

extension SQLiteTransaction {
  /// Notes the latest time up to the last of `HistoryRowID.timeInterval` transactions, for searches by time.
  func noteTime(of mirror: Int64, through number: Int64) throws {
    guard number % HistoryRowID.timeInterval == 0 else { return }
    let note = try writing(HistoryQuery.noteTime)
    try note.bind(1, mirror)
    try note.bind(2, number)
    try note.bind(3, HistoryRowID.of(mirror, number - HistoryRowID.timeInterval))
    try note.bind(4, HistoryRowID.of(mirror, number))
    try note.run()
  }

  func put(_ consumer: StoredConsumer, of mirror: Int64) throws {
    try write {
      guard try self.mirror(key: mirror) != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      let insert = try writing(HistoryQuery.putConsumer)
      try insert.bind(1, mirror)
      try insert.bind(2, consumer.name)
      try insert.bind(3, consumer.transactionNumber)
      try insert.bind(4, consumer.seenAt)
      try insert.run()
    }
  }

  func deleteConsumer(named name: String, of mirror: Int64) throws {
    try write {
      let delete = try writing(HistoryQuery.deleteConsumer)
      try delete.bind(1, mirror)
      try delete.bind(2, name)
      try delete.run()
    }
  }
}
