// A statement of a shard in PostgreSQL: its parameters, and its rows while they are read.

import PostgreSQL
import SQLite

extension Query {
  var command: Command { sql(.postgreSQL).command }

  /// The insertion of many rows; nil for other statements.
  var rowCommand: RowCommand? {
    rowsText.map { RowCommand(one: command, many: SQL(command.name + " rows", $0).command) }
  }

  /// The look-up with others of its kind; nil for other statements.
  var sharedLookup: FetchedRows.SharedLookup? {
    lookupsText.map {
      FetchedRows.SharedLookup(
        one: command, many: SQL(command.name + " rows", $0).command, byteLimit: lookupByteLimit)
    }
  }
}

extension SQL {
  /// PostgreSQL marks parameters as `$1`. No text has another question mark.
  fileprivate var command: Command { Command(name, text.replacing("?", with: "$")) }
}

/// A command with the values that are bound to it. The session's thread owns it.
final class ShardCommand {
  private let command: Command
  private let session: Session
  private let rowCommand: RowCommand?
  private let sharedLookup: FetchedRows.SharedLookup?
  private let table: StatementTable
  /// Of a writer; nil for reads.
  private let fetched: FetchedRows?
  /// True for a write whose caller forgets the fetched answer about its row.
  private let tellsItsRow: Bool
  private var values: [Value]
  private var answer: FetchedRows.Answer?
  /// The place of the current row in `answer`.
  private var place = -1
  /// The first column that had another type than it was read as.
  private var failure: PostgreSQLError?

  /// The rows that a cursor hands out at a time; nil for a statement that limits its rows.
  private var batches: ScanBatches?

  init(
    _ sql: SQL, _ session: Session, _ fetched: FetchedRows? = nil, tellsItsRow: Bool = false, rows: RowCommand? = nil,
    sharedLookup: FetchedRows.SharedLookup? = nil, batches: ScanBatches? = nil
  ) {
    rowCommand = rows
    self.sharedLookup = sharedLookup
    command = sql.command
    table = StatementTable(command.text)
    self.fetched = fetched
    self.tellsItsRow = tellsItsRow
    self.session = session
    self.batches = batches
    values = Array(repeating: .integer(nil), count: Self.parameterCount(command.text))
  }

  /// The highest number of a parameter.
  private static func parameterCount(_ text: String) -> Int {
    text.split(separator: "$").dropFirst().compactMap { Int($0.prefix { $0.isNumber }) }.max() ?? 0
  }

  /// Binds a parameter. Statements of one text may leave out a parameter that another one has.
  func bind(_ index: Int32, _ value: Value) {
    if values.indices.contains(Int(index) - 1) { values[Int(index) - 1] = value }
  }

  // MARK: Running

  func queue() throws(PostgreSQLError) {
    forgetStale()
    if let rowCommand { return try session.queueRow(rowCommand, values) }
    try session.queue(command, values)
  }

  func runCounting() throws(PostgreSQLError) -> Int {
    forgetStale()
    return try session.rows(command, values).changedCount
  }

  // MARK: Fetching

  private var lookup: FetchedRows.Lookup { FetchedRows.Lookup(command: command.name, values: values) }

  /// Sends a look-up ahead of the bodies that need it, unless it is under way or answered.
  func fetch() throws(PostgreSQLError) {
    guard let fetched, case .read(let table) = table else { return }
    if let sharedLookup {
      try fetched.queue(lookup, in: table, as: sharedLookup)
    } else if fetched.isWanted(lookup, in: table) {
      fetched.queue(lookup, in: table, at: try session.queue(command, values))
    }
  }

  /// True when the answer is at hand.
  var isFetched: Bool { fetchedAnswer != nil }

  private var fetchedAnswer: FetchedRows.Answer? {
    guard let fetched, case .read(let table) = table else { return nil }
    return fetched.answer(to: lookup, in: table)
  }

  /// Forgets the answer of this look-up, because its row is written.
  func forgetFetched() {
    if let fetched, case .read(let table) = table { fetched.forget(lookup, in: table) }
  }

  private func forgetStale() {
    guard let fetched, !tellsItsRow else { return }
    switch table {
    case .read: break
    case .written(let table): fetched.forget(table: table)
    case .unknown: fetched.removeAll()
    }
  }

  /// - Returns: false when a unique value is taken; nothing is written then.
  func runUnlessTaken() throws(PostgreSQLError) -> Bool {
    forgetStale()
    try session.openSavepoint()
    do throws(PostgreSQLError) {
      try session.queue(command, values)
      try session.finish()
    } catch {
      guard error.kind == .uniqueViolation, error.command == command.name else { throw error }
      try session.rollbackToSavepoint()
      try session.releaseSavepoint()
      return false
    }
    try session.releaseSavepoint()
    return true
  }

  func step() throws(PostgreSQLError) -> Bool {
    try checkColumns()
    if answer == nil {
      try show(begin())
    } else if let batches, batches.mayGoOn, place + 1 == answer?.range.upperBound {
      // The rows that were read make room first.
      answer = nil
      try show(FetchedRows.Answer(nextBatch(batches)))
    } else {
      place += 1
    }
    if let answer, answer.range.contains(place) { return true }
    reset()
    return false
  }

  private func show(_ answer: FetchedRows.Answer) {
    self.answer = answer
    place = answer.range.lowerBound
  }

  private func begin() throws(PostgreSQLError) -> FetchedRows.Answer {
    if let answer = try awaitedAnswer() { return answer }
    forgetStale()
    fetched?.noteMiss()
    guard let batches else { return FetchedRows.Answer(try session.rows(command, values)) }
    try session.queue(Command("open \(command.name)", "DECLARE \(cursor) NO SCROLL CURSOR FOR \(command.text)"), values)
    return FetchedRows.Answer(try nextBatch(batches))
  }

  /// The fetched answer. If look-ups are on their way, this one joins them; if it was left for later, others that were
  /// come along.
  private func awaitedAnswer() throws(PostgreSQLError) -> FetchedRows.Answer? {
    if let answer = fetchedAnswer { return answer }
    guard let fetched, case .read(let table) = table else { return nil }
    if fetched.isUnderWay {
      try fetch()
    } else if try !fetched.goOn(from: lookup, in: table) {
      return nil
    }
    try fetched.finish(session)
    return fetchedAnswer
  }

  private func nextBatch(_ batches: ScanBatches) throws(PostgreSQLError) -> Rows {
    let count = batches.count
    let rows = try session.rows(Command("fetch \(count) \(command.name)", "FETCH FORWARD \(count) FROM \(cursor)"))
    self.batches?.note(rowCount: rows.count, byteCount: rows.byteCount)
    return rows
  }

  /// The bytes of the rows in memory.
  var heldByteCount: Int { answer?.rows.byteCount ?? 0 }

  private var cursor: String { "\"\(command.name)\"" }

  func reset() {
    if answer != nil, batches != nil, session.isInTransaction {
      // Dropped because the end of the transaction closes the cursor as well, and the next step meets a lost session.
      _ = try? session.queue(Command("close \(command.name)", "CLOSE \(cursor)"))
    }
    answer = nil
    batches = batches.map { _ in ScanBatches() }
    place = -1
    failure = nil
  }

  func checkColumns() throws(PostgreSQLError) {
    if let failure { throw failure }
  }

  // MARK: Columns; nil for NULL

  func integer(_ column: Int32) -> Int64? { read { row throws(PostgreSQLError) in try row.optionalInteger(column) } }
  func text(_ column: Int32) -> String? { read { row throws(PostgreSQLError) in try row.optionalText(column) } }
  func bytes(_ column: Int32) -> [UInt8]? { read { row throws(PostgreSQLError) in try row.optionalBytes(column) } }

  /// Lends the bytes of a column where the answer has them; none for NULL.
  func withBytes<Value>(_ column: Int32, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
    // Keeps the answer while `body` has its bytes, whatever it does with the statement.
    let answer = answer
    defer { withExtendedLifetime(answer) {} }
    let bytes = read { row throws(PostgreSQLError) in try row.unsafeOptionalBytes(column) }
    return try body(bytes ?? UnsafeRawBufferPointer(start: nil, count: 0))
  }

  /// A record's name in its stored form; nil for NULL and for bytes without that form.
  func recordName(_ column: Int32) -> String? {
    let bytes = read { row throws(PostgreSQLError) in try row.unsafeOptionalBytes(column) }
    return withExtendedLifetime(answer) { bytes.flatMap(StoredName.name) }
  }

  private func read<Value>(_ body: (Row) throws(PostgreSQLError) -> Value?) -> Value? {
    guard let answer, answer.range.contains(place) else { return nil }
    do throws(PostgreSQLError) {
      return try body(answer.rows[place])
    } catch {
      if failure == nil { failure = error }
      return nil
    }
  }
}
