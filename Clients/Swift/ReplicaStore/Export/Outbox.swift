// The saves that the server has not acknowledged, in the order in which they were made.

import FoundationEssentials
import MirrorWire
import SQLite

/// A row of the outbox.
struct OutboxRow {
  let key: Int64
  let number: Int64
  let body: [UInt8]
  let savedCount: Int
  let deletedCount: Int
}

struct Outbox {
  let writer: Writer
  private var connection: Connection { writer.connection }

  init(_ writer: Writer) { self.writer = writer }

  /// Puts a transaction, or a part of one, behind all that waits.
  /// - Parameter number: of the history transaction.
  /// - Returns: the row's key, which is larger than those of all saves that wait or were exported lately.
  static func add(_ part: TransactionText.Part, of number: Int64, _ connection: Connection) throws -> Int64 {
    try add(part, of: number, at: try lastKey(connection) + 1, connection)
  }

  /// Puts a transaction at a key that none has.
  static func add(_ part: TransactionText.Part, of number: Int64, at key: Int64, _ connection: Connection) throws
    -> Int64
  {
    try connection.statement(add).binding(key, number, part.savedCount, part.deletedCount, part.body).run()
    return key
  }

  /// The last key before those of later saves.
  static func lastKey(_ connection: Connection) throws -> Int64 {
    try connection.statement(last).first { $0.int64(0) } ?? 0
  }

  // MARK: Batches

  /// The batch that was handed out, else the next rows, which are marked as one. A batch is answered as a range of
  /// keys, so it ends before the place of objects that are not in the outbox yet.
  func nextBatch(transactionLimit: Int, byteLimit: Int) throws -> ExportBatch? {
    let sent = try rows(Self.sent)
    if !sent.isEmpty { return try batch(sent, isRepeated: true) }
    let smaller = try connection.statement(Self.halvedLimit).first { $0.optionalInt64(0) } ?? nil
    let limit = min(max(transactionLimit, 1), smaller.map(Int.init) ?? .max)
    var next: [OutboxRow] = []
    var byteCount = 0
    let statement = try connection.statement(Self.unsent)
    defer { statement.reset() }
    while next.count < limit, try statement.step() {
      let row = Self.row(statement)
      byteCount += row.body.count
      if !next.isEmpty, byteCount > byteLimit { break }
      next.append(row)
    }
    guard let first = next.first, let last = next.last else { return nil }
    statement.reset()
    try connection.statement(Self.mark).binding(first.key, first.key, last.key).run()
    return try batch(next, isRepeated: false)
  }

  private func batch(_ rows: [OutboxRow], isRepeated: Bool) throws -> ExportBatch? {
    guard let first = rows.first, let last = rows.last else { return nil }
    var names: Set<ContentName> = []
    for row in rows { names.formUnion(try Self.contents(of: row.body)) }
    var receipts: [String: AssetReference] = [:]
    for name in names {
      let bytes = try connection.statement(Self.receipt).binding(name.checksum, writer.now).first { $0.blob(0) }
      if let bytes, let receipt = try? AssetReference(json: bytes) { receipts[name.fileChecksum] = receipt }
    }
    return ExportBatch(
      rows: first.key...last.key, transactions: rows.map(\.body), checksums: names.map(\.checksum).sorted(),
      isRepeated: isRepeated, receipts: receipts, savedCount: rows.reduce(0) { $0 + $1.savedCount },
      deletedCount: rows.reduce(0) { $0 + $1.deletedCount })
  }

  private static let contentMark = Array(#"{"asset":"#.utf8)

  /// A loop of its own, because Foundation's search takes a tenth of an export's time.
  private static func namesContent(_ body: [UInt8]) -> Bool {
    body.withUnsafeBufferPointer { bytes in
      guard bytes.count >= contentMark.count else { return false }
      return (0...bytes.count - contentMark.count).contains { place in
        bytes[place] == contentMark[0] && bytes[place..<place + contentMark.count].elementsEqual(contentMark)
      }
    }
  }

  /// The contents that a transaction names.
  static func contents(of body: [UInt8]) throws -> [ContentName] {
    guard namesContent(body) else { return [] }
    return try transaction(body).changes.flatMap { change in
      (change.attributes ?? [:]).values.compactMap { value in
        guard case .asset(let asset) = value else { return nil }
        return ContentName(fileChecksum: asset.fileChecksum, byteCount: asset.size)
      }
    }
  }

  // MARK: Answers

  func acknowledge(_ batch: ExportBatch) throws {
    for checksum in batch.checksums { try connection.statement(Self.contentArrived).binding(checksum).run() }
    try ExportedSaves(writer).keep(batch.rows)
    try endEarlier(batch.rows)
    try remove(batch.rows)
    try WaitingSaves.noteAtServer(batch.checksums, connection)
    if try connection.statement(Self.isEmpty).first({ _ in true }) == nil {
      try connection.statement(Self.clearHalving).run()
    }
  }

  /// Earlier saves that are kept send nothing any more that the server has taken of these.
  private func endEarlier(_ range: ClosedRange<Int64>) throws {
    if try connection.statement(RejectedRow.anyKept).first({ _ in true }) == nil { return }
    for row in try rows(Self.range, range.lowerBound, range.upperBound) {
      let transaction = try Self.transaction(row.body)
      let marks = PendingMarks(writer.tables, number: row.key, of: transaction)
      for change in transaction.changes { try marks.endEarlier(change, than: row.number) }
    }
  }

  private static func transaction(_ body: [UInt8]) throws -> Transaction {
    guard let transaction = try? Transaction(json: body) else {
      throw StoreError.damaged("a transaction of the outbox can't be read")
    }
    return transaction
  }

  /// Removes rows and what is pending because of them.
  private func remove(_ rows: ClosedRange<Int64>) throws {
    for sql in [Self.unpend, Self.unmarkAgain] {
      try connection.statement(sql).binding(rows.lowerBound, rows.upperBound).run()
    }
    try connection.statement(Self.dequeue).binding(rows.lowerBound, rows.upperBound).run()
  }

  /// All in one pass, because `pending` has no index by number.
  private func remove(_ keys: [Int64]) throws {
    let list = "[\(keys.map(String.init).joined(separator: ","))]"
    for sql in [Self.unpendRows, Self.unmarkRowsAgain, Self.dequeueRows] {
      try connection.statement(sql).binding(list).run()
    }
  }

  /// Takes the batch apart, so that half of it, or the refused transaction alone, is sent next.
  func halve(_ batch: ExportBatch, at index: Int?) throws {
    let count = index == 0 ? 1 : index ?? max(batch.transactions.count / 2, 1)
    try connection.statement(Self.unmark).run()
    try connection.statement(Self.setHalving).binding(batch.rows.lowerBound, count).run()
  }

  /// Moves the only transaction of a batch, and later ones that build on it, to the rejected ones.
  func reject(_ batch: ExportBatch, _ error: ServerError) throws -> [Rejected] {
    let refused = try rows(Self.range, batch.rows.lowerBound, batch.rows.upperBound)
    guard let first = refused.first else { return [] }
    let (identifier, made) = try said(by: first.body)
    var objects = made
    var rejected = [(first, false)]
    for row in try rows(Self.later, batch.rows.upperBound) where row.key > batch.rows.upperBound {
      let own = try said(by: row.body)
      // A part belongs to its transaction; another transaction builds on objects that the refused one made or changed.
      guard own.identifier == identifier || !own.objects.isDisjoint(with: objects) else { continue }
      objects.formUnion(own.objects)
      rejected.append((row, true))
    }
    let moved = try rejected.map { row, isConsequence in try move(row, error, isConsequence: isConsequence) }
    try remove(rejected.map(\.0.key))
    try connection.statement(Self.clearHalving).run()
    return moved
  }

  /// The row and its marks stay until all rows are moved.
  private func move(_ row: OutboxRow, _ error: ServerError, isConsequence: Bool) throws -> Rejected {
    let transaction = try Self.transaction(row.body)
    let objects = transaction.changes.map { AnyObjectID(entityName: $0.entity, recordName: $0.objectID) }
    try connection.statement(Self.keepRejected).binding(
      transaction.transactionID, row.number, row.body, try error.json(), isConsequence, writer.now
    ).run()
    if transaction.author == MirroringAuthor.reupload {
      // The server lacks what is sent again, and so it would say that those objects are gone. Whatever the app decides,
      // they wait.
      let number = PendingMarks.number(ofRejected: row.number)
      let marks = PendingMarks(writer.tables, number: number, of: transaction)
      for change in transaction.changes { try marks.add(change) }
    } else {
      try RereadList(writer.snapshot).add(objects)
    }
    return Rejected(
      identifier: transaction.transactionID, transactionNumber: row.number, author: transaction.author,
      objects: objects, error: error, isConsequence: isConsequence,
      date: Date(milliseconds: writer.now))
  }

  /// The identifier that all parts of a transaction share, and its objects.
  private func said(by body: [UInt8]) throws -> (identifier: Substring, objects: Set<String>) {
    let transaction = try Self.transaction(body)
    return (transaction.transactionID.prefix { $0 != "." }, Set(transaction.changes.map(\.objectID)))
  }

  // MARK: Statements

  private func rows(_ sql: SQL, _ bounds: Int64...) throws -> [OutboxRow] {
    let statement = try connection.statement(sql)
    for (place, bound) in bounds.enumerated() { try statement.bind(Int32(place + 1), bound) }
    return try statement.all(Self.row)
  }

  private static func row(_ statement: Statement) -> OutboxRow {
    OutboxRow(
      key: statement.int64(0), number: statement.int64(1), body: statement.blob(2), savedCount: statement.int(3),
      deletedCount: statement.int(4))
  }

  private static let add = SQL(
    "add to outbox",
    "INSERT INTO outbox(key, number, savedCount, deletedCount, body) VALUES (?, ?, ?, ?, ?)")
  /// The objects of an ended zone go before saves that are made while they are put into the outbox.
  private static let last = SQL(
    "last key",
    """
    SELECT max(coalesce((SELECT max(key) FROM outbox), 0), coalesce((SELECT max(key) FROM exported), 0), \
    coalesce((SELECT max(key) + \(ZoneReupload.keyCount) FROM endedZone), 0))
    """)
  private static let columns = "SELECT key, number, body, savedCount, deletedCount FROM outbox"
  private static let sent = SQL("sent", "\(columns) WHERE batch IS NOT NULL ORDER BY key")
  private static let unsent = SQL(
    "unsent", "\(columns) WHERE key <= coalesce((SELECT min(key) FROM endedZone), \(Int64.max)) ORDER BY key")
  private static let range = SQL("outbox range", "\(columns) WHERE key BETWEEN ? AND ? ORDER BY key")
  private static let later = SQL("outbox later", "\(columns) WHERE key > ? ORDER BY key")
  private static let mark = SQL("mark sent", "UPDATE outbox SET batch = ? WHERE key BETWEEN ? AND ?")
  private static let unmark = SQL("unmark", "UPDATE outbox SET batch = NULL WHERE batch IS NOT NULL")
  private static let halvedLimit = SQL(
    "halved limit", "SELECT batchLimit FROM outbox WHERE key = (SELECT min(key) FROM outbox)")
  private static let setHalving = SQL("set halving", "UPDATE outbox SET batchLimit = ?2 WHERE key >= ?1")
  private static let clearHalving = SQL(
    "clear halving", "UPDATE outbox SET batchLimit = NULL WHERE batchLimit IS NOT NULL")
  private static let isEmpty = SQL("outbox row", "SELECT 1 FROM outbox LIMIT 1")
  private static let dequeue = SQL("dequeue", "DELETE FROM outbox WHERE key BETWEEN ? AND ?")
  private static let unpend = SQL("unpend", "DELETE FROM pending WHERE number BETWEEN ? AND ?")
  private static let unmarkAgain = SQL("unmark again", "DELETE FROM sentAgain WHERE number BETWEEN ? AND ?")
  private static let unpendRows = SQL(
    "unpend rows", "DELETE FROM pending WHERE number IN (SELECT value FROM json_each(?))")
  private static let unmarkRowsAgain = SQL(
    "unmark rows again", "DELETE FROM sentAgain WHERE number IN (SELECT value FROM json_each(?))")
  private static let dequeueRows = SQL(
    "dequeue rows", "DELETE FROM outbox WHERE key IN (SELECT value FROM json_each(?))")
  private static let receipt = SQL(
    "receipt", "SELECT receipt FROM content WHERE checksum = ? AND receipt IS NOT NULL AND receiptExpiry > ?")
  private static let contentArrived = SQL(
    "content arrived", "UPDATE content SET receipt = NULL WHERE checksum = ?")
  private static let keepRejected = SQL(
    "keep rejected",
    "INSERT OR REPLACE INTO rejected(identifier, number, body, error, isConsequence, at) VALUES (?, ?, ?, ?, ?, ?)")
}
