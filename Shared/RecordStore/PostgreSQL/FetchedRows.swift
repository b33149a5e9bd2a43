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
    /// The bytes after which an answer to `many` ends, with the row that passes them; its rows have the sum up to them
    /// before their number.
    var byteLimit: Int?
  }

  /// Look-ups of one command.
  private struct Batch {
    let table: Substring
    let shared: SharedLookup
    var lookups: [Lookup]
  }

  /// By table.
  private var answers: [Substring: [Lookup: Answer]] = [:]
  /// The look-ups on their way, and the place of each answer in the stretch of commands.
  private var queued: [(table: Substring, lookup: Lookup, place: Int)] = []
  /// The look-ups that go out with the next wait, those of one command together.
  private var waiting: [Batch] = []
  /// All look-ups that are on their way or wait.
  private var awaited: Set<Lookup> = []
  /// The look-ups that were announced and left for later, because the answer would have been too large. The body that
  /// looks the first of them up fetches the next ones, too.
  private var left: [Batch] = []
  private var leftLookups: Set<Lookup> = []
  /// The bytes of the answers.
  private(set) var byteCount = 0
  /// Those of the limited answers, by command.
  private var limitedByteCounts: [String: Int] = [:]
  /// True when the body has fetched something since it began.
  private var hasBodyFetched = false
  /// The transactions that the group has appended without a gap, by mirror: an export behind a save reads them.
  private var appended: [Int64: [StoredTransaction]] = [:]
  /// The look-ups that nobody had announced.
  private(set) var missCount = 0

  /// - Returns: nil for a look-up that was not fetched, or whose answer may be stale.
  func answer(to lookup: Lookup, in table: Substring) -> Answer? { answers[table]?[lookup] }

  func noteMiss() { missCount += 1 }

  /// True while answers are on their way.
  var isUnderWay: Bool { !queued.isEmpty || !waiting.isEmpty }

  /// False for a look-up that is under way or answered: nothing is sent for it.
  func isWanted(_ lookup: Lookup, in table: Substring) -> Bool {
    !awaited.contains(lookup) && answers[table]?[lookup] == nil
  }

  /// Notes a look-up that was sent on its own.
  func queue(_ lookup: Lookup, in table: Substring, at place: Int) {
    awaited.insert(lookup)
    queued.append((table, lookup, place))
  }

  /// Lets a look-up wait for others of its command, if it is wanted.
  /// - Throws: `invalidValue` for values that no command may have, because the others go out with them.
  func queue(_ lookup: Lookup, in table: Substring, as shared: SharedLookup) throws(PostgreSQLError) {
    guard isWanted(lookup, in: table) else { return }
    try Session.checkRow(lookup.values, of: shared.one)
    awaited.insert(lookup)
    if let place = waiting.firstIndex(where: { $0.shared.one.name == shared.one.name }) {
      waiting[place].lookups.append(lookup)
    } else {
      waiting.append(Batch(table: table, shared: shared, lookups: [lookup]))
    }
  }

  /// Lets a look-up that was left for later wait, with the next ones behind it.
  /// - Returns: false for a look-up that was not left.
  func goOn(from lookup: Lookup, in table: Substring) throws(PostgreSQLError) -> Bool {
    guard leftLookups.contains(lookup),
      let place = left.firstIndex(where: { $0.shared.one.name == lookup.command }),
      let start = left[place].lookups.firstIndex(of: lookup)
    else { return false }
    if let held = limitedByteCounts[lookup.command], held > Self.byteLimit {
      // Bodies come in the order of their announcements, so most of these have been used.
      answers[table] = answers[table]?.filter { $0.key.command != lookup.command }
      limitedByteCounts[lookup.command] = nil
      byteCount -= held
    }
    let end = min(start + Self.lookupLimit, left[place].lookups.count)
    let batch = left[place]
    left[place].lookups.removeSubrange(start..<end)
    leftLookups.subtract(batch.lookups[start..<end])
    for next in batch.lookups[start..<end] { try queue(next, in: table, as: batch.shared) }
    return true
  }

  /// The look-ups that go out together, of those whose answers are limited.
  private static let lookupLimit = 1000
  /// With more bytes, the answers of a command are forgotten when the next ones are fetched.
  private static let byteLimit = 16 << 20

  /// Leaves look-ups for later.
  private func leave(_ lookups: some Sequence<Lookup>, of batch: Batch) {
    let new = lookups.filter { leftLookups.insert($0).inserted }
    if let place = left.firstIndex(where: { $0.shared.one.name == batch.shared.one.name }) {
      left[place].lookups += new
    } else {
      left.append(Batch(table: batch.table, shared: batch.shared, lookups: new))
    }
  }

  /// Waits for the answers on their way: one round trip, none when nothing was queued.
  func finish(_ session: Session) throws(PostgreSQLError) {
    if !isUnderWay { return }
    defer {
      queued.removeAll(keepingCapacity: true)
      waiting.removeAll(keepingCapacity: true)
      awaited.removeAll(keepingCapacity: true)
    }
    for index in waiting.indices where waiting[index].shared.byteLimit != nil {
      let batch = waiting[index]
      guard batch.lookups.count > Self.lookupLimit else { continue }
      leave(batch.lookups[Self.lookupLimit...], of: batch)
      waiting[index].lookups = Array(batch.lookups.prefix(Self.lookupLimit))
    }
    let places = try waiting.map { batch throws(PostgreSQLError) in
      try session.queue(
        batch.lookups.count == 1 ? batch.shared.one : batch.shared.many, Self.values(of: batch.lookups))
    }
    let rows = try session.finish()
    hasBodyFetched = true
    for (table, lookup, place) in queued {
      answers[table, default: [:]][lookup] = Answer(rows[place])
      byteCount += rows[place].byteCount
    }
    for (batch, place) in zip(waiting, places) {
      try note(rows[place], to: batch)
      byteCount += rows[place].byteCount
      if batch.shared.byteLimit != nil {
        limitedByteCounts[batch.shared.one.name, default: 0] += rows[place].byteCount
      }
    }
  }

  private static func values(of lookups: [Lookup]) -> [Value] {
    lookups.count == 1 ? lookups[0].values : WaitingRows.columns(of: lookups.map(\.values))
  }

  private func note(_ rows: Rows, to batch: Batch) throws(PostgreSQLError) {
    if batch.lookups.count == 1 {
      answers[batch.table, default: [:]][batch.lookups[0]] = Answer(rows)
      return
    }
    var found: [(place: Int, index: Int)] = []
    found.reserveCapacity(rows.count)
    var (last, size) = (0, 0)
    for index in rows.indices {
      let number = Int(try rows[index].integer(rows.columnCount - 1))
      found.append((number - 1, index))
      last = max(last, number)
      if batch.shared.byteLimit != nil { size = max(size, Int(try rows[index].integer(rows.columnCount - 2))) }
    }
    var answered = batch.lookups[...]
    if let limit = batch.shared.byteLimit, size > limit {
      // Nothing is known of the look-ups behind the row that passed the limit.
      answered = batch.lookups.prefix(last)
      leave(batch.lookups[last...], of: batch)
    }
    for lookup in answered { answers[batch.table, default: [:]][lookup] = Answer(rows, 0..<0) }
    for (place, index) in found {
      answers[batch.table, default: [:]][batch.lookups[place]] = Answer(rows, index..<index + 1)
    }
  }

  // MARK: The body

  func bodyBegins() { hasBodyFetched = false }

  /// Forgets the answers if the body that is undone has fetched some: it may have seen its own writes.
  func forgetWhatBodyFetched() {
    if hasBodyFetched { answers.removeAll(keepingCapacity: true) }
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
    awaited.removeAll(keepingCapacity: true)
    // Empty, unless a body announces very much: such a capacity is not kept.
    left = []
    leftLookups = []
    byteCount = 0
    limitedByteCounts.removeAll(keepingCapacity: true)
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
