// The rows that bodies have announced, fetched together before the bodies run.

import PostgreSQL

/// The answers to announced look-ups. An answer is good until a write to its table; the writes that announce their row
/// (`Query.tellsItsRow`) forget that one only. The thread of a writer owns it.
final class FetchedRows {
  struct Lookup: Hashable {
    let command: String
    let values: [Value]
  }

  /// The rows that answer one look-up: all of an answer, or those of one that others share.
  struct Answer {
    let rows: Rows
    let range: Range<Int>

    init(_ rows: Rows, _ range: Range<Int>? = nil) {
      self.rows = rows
      self.range = range ?? rows.startIndex..<rows.endIndex
    }
  }

  /// A look-up of at most one row, in two forms.
  struct SharedLookup {
    let one: Command
    /// Looks up many rows. Its parameters are arrays. Behind the columns of `one` each row has the number of its
    /// look-up, from 1 on.
    let many: Command
  }

  /// By table.
  private var answers: [Substring: [Lookup: Answer]] = [:]
  /// The look-ups on their way, and the place of each answer in the stretch of commands.
  private var queued: [(table: Substring, lookup: Lookup, place: Int)] = []
  /// The look-ups that go out with the next wait, those of one command together.
  private var waiting: [(table: Substring, shared: SharedLookup, lookups: [Lookup])] = []
  /// The transactions that the group has appended without a gap, by mirror: an export behind a save reads them.
  private var appended: [Int64: [StoredTransaction]] = [:]
  /// The look-ups that nobody had announced.
  private(set) var missCount = 0

  /// - Returns: nil for a look-up that was not fetched, or whose answer may be stale.
  func answer(to lookup: Lookup, in table: Substring) -> Answer? { answers[table]?[lookup] }

  func noteMiss() { missCount += 1 }

  /// True while answers are on their way.
  var isUnderWay: Bool { !queued.isEmpty || !waiting.isEmpty }

  /// True while the answer to the look-up is on its way.
  func isUnderWay(_ lookup: Lookup) -> Bool {
    queued.contains { $0.lookup == lookup }
      || waiting.contains { $0.shared.one.name == lookup.command && $0.lookups.contains(lookup) }
  }

  func queue(_ lookup: Lookup, in table: Substring, at place: Int) { queued.append((table, lookup, place)) }

  /// Lets a look-up wait for others of its command.
  /// - Throws: `invalidValue` for values that no command may have, because the others go out with them.
  func queue(_ lookup: Lookup, in table: Substring, as shared: SharedLookup) throws(PostgreSQLError) {
    try Session.checkRow(lookup.values, of: shared.one)
    if let place = waiting.firstIndex(where: { $0.shared.one.name == shared.one.name }) {
      waiting[place].lookups.append(lookup)
    } else {
      waiting.append((table, shared, [lookup]))
    }
  }

  /// Waits for the answers on their way: one round trip, none when nothing was queued.
  func finish(_ session: Session) throws(PostgreSQLError) {
    if !isUnderWay { return }
    defer {
      queued.removeAll(keepingCapacity: true)
      waiting.removeAll(keepingCapacity: true)
    }
    let places = try waiting.map { _, shared, lookups throws(PostgreSQLError) in
      try session.queue(lookups.count == 1 ? shared.one : shared.many, Self.values(of: lookups))
    }
    let rows = try session.finish()
    for (table, lookup, place) in queued { answers[table, default: [:]][lookup] = Answer(rows[place]) }
    for ((table, _, lookups), place) in zip(waiting, places) { try note(rows[place], to: lookups, in: table) }
  }

  private static func values(of lookups: [Lookup]) -> [Value] {
    lookups.count == 1 ? lookups[0].values : WaitingRows.columns(of: lookups.map(\.values))
  }

  private func note(_ rows: Rows, to lookups: [Lookup], in table: Substring) throws(PostgreSQLError) {
    if lookups.count == 1 {
      answers[table, default: [:]][lookups[0]] = Answer(rows)
      return
    }
    for lookup in lookups { answers[table, default: [:]][lookup] = Answer(rows, 0..<0) }
    for index in rows.indices {
      let number = try rows[index].integer(rows.columnCount - 1)
      answers[table, default: [:]][lookups[Int(number) - 1]] = Answer(rows, index..<index + 1)
    }
  }

  /// Forgets one answer, because its row is written.
  func forget(_ lookup: Lookup, in table: Substring) { answers[table]?[lookup] = nil }

  /// Forgets the answers of a table.
  func forget(table: Substring) {
    answers[table] = nil
    if table == "history" { appended = [:] }
  }

  // MARK: Appended transactions

  /// Notes a transaction that was appended; nil: one that is read in another form than it was given in.
  func note(_ transaction: StoredTransaction?, appendedTo mirror: Int64) {
    if let transaction { appended[mirror, default: []].append(transaction) } else { appended[mirror] = nil }
  }

  /// - Returns: the transactions behind `number`, as the table has them; nil when the group has not appended all.
  func transactions(of mirror: Int64, after number: Int64, limit: Int, byteLimit: Int) -> [StoredTransaction]? {
    guard let rows = appended[mirror], let first = rows.first, first.number <= number + 1 else { return nil }
    var byteCount = 0
    let behind = rows.drop { $0.number <= number }.prefix(limit)
    return Array(
      behind.prefix { row in
        byteCount += row.payload.count
        return row.number == behind.first?.number || byteCount <= byteLimit
      })
  }

  /// Forgets what a body that is undone has appended.
  func forgetAppended() { appended.removeAll(keepingCapacity: true) }

  /// Forgets everything. Called when a group ends.
  func removeAll() {
    answers.removeAll(keepingCapacity: true)
    forgetAppended()
    queued.removeAll(keepingCapacity: true)
    waiting.removeAll(keepingCapacity: true)
  }
}

/// The table that a statement reads or writes.
enum StatementTable {
  case read(Substring)
  case written(Substring)
  /// A statement that writes in a way of its own.
  case unknown

  init(_ text: String) {
    func word(after prefix: Substring) -> Substring { text.dropFirst(prefix.count).prefix { $0.isLetter || $0 == "_" } }
    if text.hasPrefix("SELECT ") {
      // Of a statement around another one, the inner one names the table.
      let tables = text.ranges(of: " FROM ").lazy.map { text[$0.upperBound...].prefix { $0.isLetter || $0 == "_" } }
      self = .read(tables.first { !$0.isEmpty } ?? "")
    } else if let prefix = (["INSERT INTO ", "UPDATE ", "DELETE FROM "] as [Substring]).first(where: text.hasPrefix) {
      self = .written(word(after: prefix))
    } else {
      self = .unknown
    }
  }
}
