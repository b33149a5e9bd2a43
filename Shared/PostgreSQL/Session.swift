// One session with a server: prepared commands that are sent without waiting, and answers that are read together.

import CPostgreSQL
import Glibc

/// A session. Not Sendable: one thread at a time owns it, and its calls block.
///
/// Commands go out in libpq's pipeline mode. `queue` sends one and waits for nothing, `finish` and `rows` wait for all
/// answers, so that any number of commands costs one round trip. A command that fails makes the server skip those
/// behind it up to the next `finish`, which throws the failure.
///
/// After an error with `endsSession` the session is closed. Make another one.
public final class Session {
  var handle: OpaquePointer?
  var pipeline: Pipeline
  /// The text and the types of each prepared command, by its name.
  var prepared: [String: Prepared] = [:]
  private var encoded = EncodedValues()
  var unflushedByteCount = 0
  var answerMilliseconds: Int32
  /// The end of all waiting, whatever the server still sends: the session is lost then. nil: each answer has its own
  /// time (`SessionConfiguration.answerLimit`).
  public var deadline: ContinuousClock.Instant?
  /// The warnings that the server sent. It lives as long as the session.
  let warningCount = UnsafeMutablePointer<Int>.allocate(capacity: 1)
  /// The open savepoints, with those that wait.
  var savepointDepth = 0
  var waitingRows: [WaitingRows] = []
  /// The savepoints that wait: for each the numbers of waiting rows before it.
  var waitingSavepoints: [[Int]] = []
  /// How often the session has waited for answers. Each costs a round trip.
  public internal(set) var waitCount = 0

  struct Prepared: Hashable {
    let text: String
    let types: [ValueType]
  }

  /// Bytes that may wait in libpq's buffer for the network.
  private static let unflushedByteLimit = 256 << 10

  /// Connects to the first host that accepts writes.
  /// - Throws: `unavailable`; `invalidValue` for an address that is no connection string.
  public init(_ configuration: SessionConfiguration) throws(PostgreSQLError) {
    warningCount.initialize(to: 0)
    pipeline = Pipeline(isReadOnly: configuration.isReadOnly)
    answerMilliseconds = Int32(clamping: configuration.answerLimit.milliseconds)
    let handle = try configuration.connect()
    self.handle = handle
    countWarnings(of: handle)
    guard PQsetnonblocking(handle, 1) == 0, PQenterPipelineMode(handle) == 1 else { throw lose("connect") }
    let settings = configuration.settings
    let calls = settings.indices.map { "set_config($\(2 * $0 + 1), $\(2 * $0 + 2), false)" }
    let command = Command("session.settings", "SELECT " + calls.joined(separator: ", "))
    do throws(PostgreSQLError) {
      _ = try rows(command, settings.flatMap { [.text($0.0), .text($0.1)] })
    } catch {
      // Nothing is sent yet that could have an outcome.
      throw PostgreSQLError(.unavailable, state: error.state, command: "connect", message: error.message)
    }
  }

  deinit {
    close()
    warningCount.deallocate()
  }

  /// Closes for good. The server rolls an open transaction back. Closing twice does nothing.
  public func close() {
    if let handle { PQfinish(handle) }
    handle = nil
    dropWaiting()
    pipeline.isInTransaction = false
  }

  /// False after an error with `endsSession`.
  public var isOpen: Bool { handle != nil }
  public var isInTransaction: Bool { pipeline.isInTransaction }
  /// The number of the server's process, as the server's lists have it.
  public var serverProcess: Int32 { handle.map { PQbackendPID($0) } ?? 0 }

  /// Replaces two limits of the configuration.
  public func setLimits(of configuration: SessionConfiguration) throws(PostgreSQLError) {
    let milliseconds = configuration.commandLimit.milliseconds
    _ = try rows(
      Command("statement_timeout", "SELECT set_config('statement_timeout', $1, false)"), [.text("\(milliseconds)")])
    answerMilliseconds = Int32(clamping: configuration.answerLimit.milliseconds)
  }

  /// Cancels this session's commands from another thread.
  /// - Throws: `connectionLost` when the session is closed.
  public func cancellation() throws(PostgreSQLError) -> Cancellation {
    guard let cancellation = PQgetCancel(try open("cancellation")) else { throw lose("cancellation") }
    return Cancellation(cancellation)
  }

  // MARK: Commands

  /// Sends a command, and waits for nothing. It is prepared on first use. Two commands of one name, and values of other
  /// types than at the first use, are programming errors.
  /// - Returns: the place of its rows among those that the next `finish` returns.
  /// - Throws: `invalidValue` for a text with a NUL and for values of over 512 MiB; nothing is sent then.
  @discardableResult public func queue(_ command: Command, _ values: [Value] = []) throws(PostgreSQLError) -> Int {
    try send(command, values, as: .command(command.name))
    return pipeline.commandCount - 1
  }

  /// Waits for the answers of all queued commands.
  /// - Returns: the answer of each, in order.
  /// - Throws: the first failure. Outside of a transaction nothing of the queued commands is stored then.
  @discardableResult public func finish() throws(PostgreSQLError) -> [Rows] {
    try sendWaiting()
    guard pipeline.next != nil else { return [] }
    waitCount += 1
    try endStretch()
    var answers: [Rows] = []
    while let step = pipeline.next { try receive(step, into: &answers) }
    try pipeline.settle()
    return answers
  }

  /// Runs a command after the queued ones, and waits for all of them. Drops the rows of the queued ones.
  public func rows(_ command: Command, _ values: [Value] = []) throws(PostgreSQLError) -> Rows {
    try queue(command, values)
    guard let rows = try finish().last else {
      throw PostgreSQLError(.other, command: command.name, message: "the server gave no answer")
    }
    return rows
  }

  func send(_ command: Command, _ values: [Value], as step: Pipeline.Step) throws(PostgreSQLError) {
    try sendWaiting()
    let handle = try open(command.name)
    do throws(EncodedValues.Refusal) {
      try encoded.encode(values)
    } catch {
      let reason = error == .containsNUL ? "a text contains NUL" : "the values are too large"
      throw PostgreSQLError(.invalidValue, command: command.name, message: reason)
    }
    try prepare(command, values.map(\.type), on: handle)
    let isSent = encoded.withPointers { count, starts, lengths, formats in
      PQsendQueryPrepared(handle, command.name, count, starts, lengths, formats, 1)
    }
    guard isSent == 1 else { throw lose(command.name) }
    pipeline.append(step)
    unflushedByteCount += encoded.bytes.count
    if unflushedByteCount > Self.unflushedByteLimit { try flush(command.name) }
  }

  private func prepare(_ command: Command, _ types: [ValueType], on handle: OpaquePointer) throws(PostgreSQLError) {
    let own = Prepared(text: command.text, types: types)
    if let known = prepared[command.name] {
      precondition(known == own, "two commands, or values of two types, are named \(command.name)")
      return
    }
    guard PQsendPrepare(handle, command.name, command.text, Int32(types.count), types.map(\.rawValue)) == 1 else {
      throw lose(command.name)
    }
    pipeline.append(.preparation(of: command.name))
    prepared[command.name] = own
  }

  /// Ends the stretch of commands that the server skips after a failure.
  func endStretch() throws(PostgreSQLError) {
    guard PQpipelineSync(try open(Pipeline.Step.end.name)) == 1 else { throw lose(Pipeline.Step.end.name) }
    pipeline.append(.end)
  }

  // MARK: Transactions

  func began() { pipeline.isInTransaction = true }

  func ended() {
    pipeline.isInTransaction = false
    dropWaiting()
    savepointDepth = 0
  }

  // MARK: Failures

  func open(_ name: String) throws(PostgreSQLError) -> OpaquePointer {
    guard let handle else { throw PostgreSQLError(.connectionLost, command: name, message: "the session is closed") }
    return handle
  }

  /// Closes the session, and says what its loss means.
  func lose(_ name: String, _ state: String = "", _ message: String? = nil) -> PostgreSQLError {
    let text = message ?? SessionConfiguration.text(handle.flatMap { PQerrorMessage($0) })
    let error = PostgreSQLError(pipeline.loss, state: state, command: name, message: text)
    close()
    return error
  }
}
