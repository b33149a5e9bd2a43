// Rows that wait for each other, so that one command writes many of them.

/// A command that inserts a row, in two forms.
public struct RowCommand: Hashable, Sendable {
  /// Its parameters are the row's values.
  public let one: Command
  /// Inserts many rows. Its parameters are arrays: for each value of a row the values of all rows.
  public let many: Command

  public init(one: Command, many: Command) {
    self.one = one
    self.many = many
  }
}

/// The rows of one command.
public struct WaitingRows {
  let command: RowCommand
  private(set) var rows: [[Value]] = []
  private(set) var byteCount = 0

  init(_ command: RowCommand) { self.command = command }

  /// Full rows go out, so that the server works while the next ones come.
  var isFull: Bool { rows.count >= 500 || byteCount >= 256 << 10 }

  mutating func append(_ row: [Value], _ byteCount: Int) {
    rows.append(row)
    self.byteCount += byteCount
  }

  mutating func removeLast(_ count: Int) { rows.removeLast(count) }

  /// The command that writes a part of the rows, and its parameters.
  static func sent(_ rows: ArraySlice<[Value]>, by command: RowCommand) -> (command: Command, values: [Value]) {
    rows.count > 1 ? (command.many, columns(of: rows)) : (command.one, rows.first ?? [])
  }

  /// For each value of a row the values of all rows.
  public static func columns(of rows: some RandomAccessCollection<[Value]>) -> [Value] {
    (rows.first ?? []).indices.map { column($0, of: rows) }
  }

  private static func column(_ index: Int, of rows: some RandomAccessCollection<[Value]>) -> Value {
    switch rows[rows.startIndex][index] {
    case .integer: .integers(rows.map { if case .integer(let value) = $0[index] { value } else { nil } })
    case .bytes: .byteStrings(rows.map { if case .bytes(let value) = $0[index] { value } else { nil } })
    case .text: .texts(rows.map { if case .text(let value) = $0[index] { value } else { nil } })
    default: preconditionFailure("a row that waits has a value that is no integer, text or bytes")
    }
  }
}

extension Value {
  fileprivate var byteCount: Int {
    switch self {
    case .text(let value): value?.utf8.count ?? 0
    case .bytes(let value): value?.count ?? 0
    default: 8
    }
  }
}

extension Session {
  /// The most bytes of one waiting row.
  private static let rowByteLimit = 128 << 20
  /// The bytes of rows behind a waiting savepoint from which on they go out with it.
  private static let savepointByteLimit = 4 << 20

  /// Queues a row, which goes out with others of its command before the next other command. Rows of different commands
  /// can change places, so none may depend on another one.
  /// - Throws: as `queue`. A row that is refused does not wait.
  public func queueRow(_ command: RowCommand, _ row: [Value]) throws(PostgreSQLError) {
    _ = try open(command.one.name)
    let byteCount = try Self.checkRow(row, of: command.one)
    let place = waitingRows.firstIndex { $0.command.one.name == command.one.name } ?? waitingRows.endIndex
    if place == waitingRows.endIndex { waitingRows.append(WaitingRows(command)) }
    waitingRows[place].append(row, byteCount)
    if waitingSavepoints.isEmpty ? waitingRows[place].isFull : waitingRows[place].byteCount > Self.savepointByteLimit {
      try sendWaiting()
    }
  }

  /// Refuses a row whose values no command may have, before others go out with it.
  /// - Returns: the bytes of its values.
  @discardableResult public static func checkRow(_ row: [Value], of command: Command) throws(PostgreSQLError) -> Int {
    for case .text(let text?) in row where text.utf8.contains(0) {
      throw PostgreSQLError(.invalidValue, command: command.name, message: "a text contains NUL")
    }
    let byteCount = row.reduce(0) { $0 + $1.byteCount }
    guard byteCount <= rowByteLimit else {
      throw PostgreSQLError(.invalidValue, command: command.name, message: "the values are too large")
    }
    return byteCount
  }

  /// Sends what waits: the savepoints, each between the rows before and behind it.
  func sendWaiting() throws(PostgreSQLError) {
    if waitingRows.isEmpty, waitingSavepoints.isEmpty { return }
    let (waiting, savepoints) = (waitingRows, waitingSavepoints)
    dropWaiting()
    var sent = waiting.map { _ in 0 }
    let firstDepth = savepointDepth - savepoints.count
    for (index, counts) in savepoints.enumerated() {
      try send(waiting, from: &sent, to: counts)
      try control("SAVEPOINT s\(firstDepth + index)")
    }
    try send(waiting, from: &sent, to: waiting.map(\.rows.count))
  }

  private func send(_ waiting: [WaitingRows], from sent: inout [Int], to counts: [Int]) throws(PostgreSQLError) {
    for (index, count) in counts.enumerated() where count > sent[index] {
      let (command, values) = WaitingRows.sent(waiting[index].rows[sent[index]..<count], by: waiting[index].command)
      do throws(PostgreSQLError) {
        try send(command, values, as: .command(command.name))
      } catch {
        // Nobody else may take it for a failure of theirs alone, because the rows of others are lost.
        throw error.kind == .invalidValue ? lose(command.name, "", error.message) : error
      }
      sent[index] = count
    }
  }

  /// Forgets what waits.
  func dropWaiting() {
    waitingRows.removeAll(keepingCapacity: true)
    waitingSavepoints.removeAll(keepingCapacity: true)
  }

  // MARK: Savepoints

  /// Savepoints nest: the other two act on the innermost open one. A savepoint goes out with the first command behind
  /// it. So one behind which only rows wait costs nothing.
  public func openSavepoint() throws(PostgreSQLError) {
    _ = try open("SAVEPOINT")
    waitingSavepoints.append(waitingRows.map(\.rows.count))
    savepointDepth += 1
  }

  /// Closes the savepoint and keeps the writes since it was opened.
  public func releaseSavepoint() throws(PostgreSQLError) {
    savepointDepth = max(savepointDepth - 1, 0)
    if waitingSavepoints.popLast() != nil {
      if waitingSavepoints.isEmpty, waitingRows.contains(where: \.isFull) { try sendWaiting() }
      return
    }
    try control("RELEASE s\(savepointDepth)")
  }

  /// Undoes the writes since the savepoint was opened, after a failed command as well. The savepoint stays open.
  public func rollbackToSavepoint() throws(PostgreSQLError) {
    guard let counts = waitingSavepoints.last else {
      // All of them wait behind the savepoint.
      dropWaiting()
      return try control("ROLLBACK TO s\(max(savepointDepth - 1, 0))")
    }
    for (index, rows) in waitingRows.enumerated() {
      waitingRows[index].removeLast(rows.rows.count - (counts.indices.contains(index) ? counts[index] : 0))
    }
  }

  private func control(_ text: String) throws(PostgreSQLError) { try send(Command(text, text), [], as: .control(text)) }
}
