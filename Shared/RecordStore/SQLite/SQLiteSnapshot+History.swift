// Reads of mirrors, of their history and events, and of outcomes.

import Records
import SQLite

/// The row ID of a history transaction. It combines mirror and number, so that the table itself is in reading order.
enum HistoryRowID {
  static let numberBits: Int64 = 36
  static let lastNumber: Int64 = 1 << numberBits - 1
  static let lastMirror: Int64 = 1 << (62 - numberBits) - 1
  /// The number of transactions between two rows of `history_time`. A search by time reads at most so many.
  static let timeInterval: Int64 = 1024

  /// Clamps the number, so that the bounds of a range may be any number.
  static func of(_ mirror: Int64, _ number: Int64) -> Int64 { mirror << numberBits | min(max(number, 0), lastNumber) }
  static func number(_ rowID: Int64) -> Int64 { rowID & lastNumber }
}

/// The row ID of an outcome: its time, then a counter that distinguishes outcomes of one millisecond.
enum OutcomeRowID {
  static let counterBits: Int64 = 20
  /// About 139 years before and after 1970, in milliseconds.
  static let times: ClosedRange<Int64> = -(1 << 42)...(1 << 42)

  static func of(_ at: Int64, _ counter: Int64) -> Int64 { at << counterBits | counter & (1 << counterBits - 1) }
}

extension SQLiteSnapshot {
  static func mirror(_ row: StoreStatement, shard: Int) throws -> StoredMirror {
    guard let scope = DatabaseScope(rawValue: row.text(5)) else {
      throw StoreError.corrupt("shard \(shard): mirror \(row.int64(0)) has no such scope")
    }
    return StoredMirror(
      key: row.int64(0), identifier: row.text(2), databaseKey: row.int64(1),
      incarnation: UInt64(bitPattern: row.int64(3)), userRecordName: row.text(4),
      scope: scope, modelHash: row.text(6), configuration: row.optionalText(7), deviceName: row.optionalText(8),
      createdAt: row.int64(9),
      lastTransactionNumber: row.int64(10), exportedTransactionNumber: row.int64(11),
      purgedTransactionNumber: row.int64(12), quarantinedCount: row.int(13),
      exportedStepCount: row.int(14), importedSequence: row.int64(15), lease: row.int64(16),
      lineage: row.int64(17) == 0 ? row.int64(0) : row.int64(17), forgottenTransactionNumber: row.int64(18),
      forgottenAt: row.int64(19))
  }

  func mirrors(afterKey key: Int64, limit: Int) throws -> [StoredMirror] {
    guard limit > 0 else { return [] }
    try flush()
    return try own(after: key, limit, placeOf: \.key, isOther: { others.contains($0.databaseKey) }) { key in
      let statement = try statement(MirrorQuery.after)
      try statement.bind(1, key)
      try statement.bind(2, limit)
      return try statement.all { try Self.mirror($0, shard: shard) }
    }
  }

  func mirrorCount(of userRecordName: String, in database: Int64) throws -> Int {
    let statement = try statement(MirrorQuery.count)
    try statement.bind(1, database)
    try statement.bind(2, userRecordName)
    return try statement.first { $0.int(0) } ?? 0
  }

  func mirrorsAwaitingExport(afterKey key: Int64, limit: Int) throws -> [Int64] {
    guard limit > 0 else { return [] }
    try flush()
    return try own(after: key, limit, placeOf: \.self, isOther: { try isOther(mirror: $0) }) { key in
      let statement = try statement(MirrorQuery.awaitingExport)
      try statement.bind(1, key)
      try statement.bind(2, limit)
      return try statement.all { $0.int64(0) }
    }
  }

  func transaction(withID transactionID: String, of mirror: Int64) throws -> StoredTransaction? {
    let statement = try statement(HistoryQuery.byID)
    try statement.bind(1, mirror)
    try statement.bind(2, recordName: transactionID)
    return try statement.first { try transaction($0, of: mirror) }
  }

  func transactions(of mirror: Int64, after number: Int64, limit: Int, byteLimit: Int) throws -> [StoredTransaction] {
    guard limit > 0, (1...HistoryRowID.lastMirror).contains(mirror) else { return [] }
    if let rows = session.fetched?.transactions(of: mirror, after: number, limit: limit, byteLimit: byteLimit) {
      return rows
    }
    let statement = try boundTransactions(of: mirror, after: number, limit: limit, byteLimit: byteLimit)
    defer { statement.reset() }
    var transactions: [StoredTransaction] = []
    var byteCount = 0
    while try statement.step() {
      byteCount += statement.withBytes(5) { $0.count }
      if !transactions.isEmpty, byteCount > byteLimit { break }
      do {
        transactions.append(try transaction(statement, of: mirror))
      } catch  where !transactions.isEmpty {
        // Dropped because a read that continues here meets it again.
        break
      }
    }
    return transactions
  }

  func boundTransactions(of mirror: Int64, after number: Int64, limit: Int, byteLimit: Int) throws -> StoreStatement {
    let statement = try statement(HistoryQuery.after)
    try statement.bind(1, HistoryRowID.of(mirror, number))
    try statement.bind(2, HistoryRowID.of(mirror, HistoryRowID.lastNumber))
    try statement.bind(3, limit)
    try statement.bind(4, byteLimit: byteLimit)
    return statement
  }

  func transaction(_ row: StoreStatement, of mirror: Int64) throws -> StoredTransaction {
    guard let transactionID = row.recordName(3) else {
      throw StoreError.corrupt("shard \(shard): a transaction id has neither form")
    }
    let transaction = StoredTransaction(
      number: HistoryRowID.number(row.int64(0)), transactionID: transactionID, author: row.optionalText(4),
      appendedAt: row.int64(1), payload: row.blob(5))
    guard transaction.checksum(mirror: mirror) == row.int64(2) else {
      throw StoreError.corrupt(
        "shard \(shard): transaction \(transaction.number) of mirror \(mirror) is damaged; restore it from a backup")
    }
    return try session.opened(transaction)
  }

  func events(of mirror: Int64, after number: Int64, kind: StoredEvent.Kind?, limit: Int) throws -> [StoredEvent] {
    guard limit > 0 else { return [] }
    let statement = try statement(kind == nil ? EventQuery.after : .afterOfKind)
    try statement.bind(1, mirror)
    try statement.bind(2, number)
    try statement.bind(3, limit)
    if let kind { try statement.bind(4, kind.rawValue) }
    return try statement.all { try event($0) }
  }

  func latestEvent(of mirror: Int64, kind: StoredEvent.Kind) throws -> StoredEvent? {
    let statement = try statement(EventQuery.latest)
    try statement.bind(1, mirror)
    try statement.bind(2, kind.rawValue)
    return try statement.first { try event($0) }
  }

  func event(_ row: StoreStatement) throws -> StoredEvent {
    guard let kind = StoredEvent.Kind(rawValue: row.int(1)) else {
      throw StoreError.corrupt("shard \(shard): event \(row.int64(0)) has no such kind")
    }
    return StoredEvent(
      number: row.int64(0), identifier: row.text(7), kind: kind, startedAt: row.int64(2), endedAt: row.optionalInt64(3),
      succeeded: row.bool(4),
      errorJSON: row.optionalBlob(8), savedCount: row.int(5), deletedCount: row.int(6))
  }

  func outcome(of idempotencyKey: String) throws -> [UInt8]? {
    try boundOutcome(idempotencyKey).first { $0.blob(0) }
  }

  func boundOutcome(_ idempotencyKey: String) throws -> StoreStatement {
    let statement = try statement(OutcomeQuery.byKey)
    try statement.bind(1, recordName: idempotencyKey)
    return statement
  }
}

extension StoredTransaction {
  func checksum(mirror: Int64) -> Int64 {
    let numbers = (mirror.littleEndian, number.littleEndian, appendedAt.littleEndian)
    var sum = withUnsafeBytes(of: numbers) { Checksum.update(0, $0) }
    for text in [transactionID, author ?? ""] {
      var text = text
      sum = text.withUTF8 { Checksum.update(sum, UnsafeRawBufferPointer($0)) }
    }
    return payload.withUnsafeBytes { Int64(Checksum.update(sum, $0)) }
  }
}
