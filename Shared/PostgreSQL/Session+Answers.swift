// Waits for a session's answers, and reads what they mean.

import CPostgreSQL
import Glibc

extension Session {
  func receive(_ step: Pipeline.Step, into answers: inout [Rows]) throws(PostgreSQLError) {
    // A step's warnings can be here before its answer is waited for.
    defer { warningCount.pointee = 0 }
    var failure: PostgreSQLError?
    while let result = try nextResult(step) {
      switch PQresultStatus(result) {
      case PGRES_TUPLES_OK, PGRES_COMMAND_OK:
        if case .command = step {
          answers.append(Rows(result, of: step.name))
        } else {
          defer { PQclear(result) }
          if step == .commit { failure = try commitFailure(result) }
        }
      case PGRES_PIPELINE_SYNC:
        PQclear(result)
        pipeline.answer()
        return
      case PGRES_PIPELINE_ABORTED:
        PQclear(result)
        forget(step)
      default:
        defer { PQclear(result) }
        failure = try self.failure(result, of: step)
        forget(step)
      }
    }
    if step == .end { throw lose(step.name) }
    pipeline.answer(failure)
  }

  /// A command that could not be prepared is prepared again at its next use.
  private func forget(_ step: Pipeline.Step) {
    if case .preparation(let name) = step { prepared[name] = nil }
  }

  /// - Throws: when the failure ended the session.
  private func failure(_ result: OpaquePointer, of step: Pipeline.Step) throws(PostgreSQLError) -> PostgreSQLError {
    func field(_ code: Int32) -> String { PQresultErrorField(result, code).map { String(cString: $0) } ?? "" }
    let state = field(stateField)
    let isFatal = ["FATAL", "PANIC"].contains(field(severityField)) || PQstatus(handle) == CONNECTION_BAD
    let kind = PostgreSQLError.Kind(state: state)
    // Messages about data quote them.
    let message = kind == .invalidValue ? "a value is invalid" : field(messageField)
    if isFatal || kind == .connectionLost || kind == .unknownOutcome {
      throw lose(step.name, state, message.isEmpty ? SessionConfiguration.text(PQresultErrorMessage(result)) : message)
    }
    return PostgreSQLError(kind, state: state, command: step.name, message: message)
  }

  /// PostgreSQL answers the commit of a failed transaction with the word ROLLBACK. It warns when it stopped waiting for
  /// a standby: the commit is stored on one machine only, and a failover can undo it.
  private func commitFailure(_ result: OpaquePointer) throws(PostgreSQLError) -> PostgreSQLError? {
    if String(cString: PQcmdStatus(result)) != "COMMIT" {
      return PostgreSQLError(
        .failedTransaction, command: "COMMIT", message: "the transaction had failed and is rolled back")
    }
    if warningCount.pointee > 0 { throw lose("COMMIT", "", "no standby has confirmed the commit") }
    return nil
  }

  /// - Returns: nil after the last result of a step.
  private func nextResult(_ step: Pipeline.Step) throws(PostgreSQLError) -> OpaquePointer? {
    let handle = try open(step.name)
    while PQisBusy(handle) == 1 {
      let isFlushed = PQflush(handle) == 0
      // The next result says why nothing can be read.
      guard try wait(step.name, isFlushed ? POLLIN : POLLIN | POLLOUT) else { break }
    }
    return PQgetResult(handle)
  }

  /// Hands all sent bytes to the network. Reads meanwhile, because a server that can't send stops reading.
  func flush(_ name: String) throws(PostgreSQLError) {
    let handle = try open(name)
    while PQflush(handle) == 1 {
      guard try wait(name, POLLIN | POLLOUT) else { break }
    }
    unflushedByteCount = 0
  }

  /// Waits until the socket is ready, and takes what has arrived.
  /// - Returns: false when nothing can be read any more.
  private func wait(_ name: String, _ events: Int32) throws(PostgreSQLError) -> Bool {
    let rest = deadline.map { Int32(clamping: Int(max(.zero, $0 - .now) / .milliseconds(1))) } ?? .max
    guard rest > 0, isReady(events, within: min(rest, answerMilliseconds)) else {
      let reason = "the server has not answered for \(answerMilliseconds) ms"
      throw lose(name, "", rest < answerMilliseconds ? "the time for all answers is over" : reason)
    }
    return PQconsumeInput(handle) == 1
  }

  private func isReady(_ events: Int32, within milliseconds: Int32) -> Bool {
    var descriptor = pollfd(fd: PQsocket(handle), events: Int16(events), revents: 0)
    var count = poll(&descriptor, 1, milliseconds)
    while count < 0, errno == EINTR { count = poll(&descriptor, 1, milliseconds) }
    return count > 0
  }

  /// Waits until the first result of the next step is here, or the reason why none comes.
  /// - Returns: false when it is not here by `end`.
  func awaitAnswer(of step: Pipeline.Step, until end: ContinuousClock.Instant) throws(PostgreSQLError) -> Bool {
    let handle = try open(step.name)
    while PQisBusy(handle) == 1 {
      let events = PQflush(handle) == 0 ? POLLIN : POLLIN | POLLOUT
      let rest = max(.zero, end - .now)
      guard isReady(events, within: Int32(clamping: Int(rest / .milliseconds(1)))) else { return false }
      if PQconsumeInput(handle) != 1 { break }
    }
    return true
  }

  /// Lets libpq count the server's warnings instead of printing them.
  func countWarnings(of handle: OpaquePointer) {
    PQsetNoticeReceiver(
      handle,
      { count, notice in
        guard let severity = PQresultErrorField(notice, severityField) else { return }
        if String(cString: severity) == "WARNING" { count?.assumingMemoryBound(to: Int.self).pointee += 1 }
      }, warningCount)
  }
}

// libpq's fields of an error: macros of characters, which Swift does not import.
private let severityField = Int32(UInt8(ascii: "V"))
private let stateField = Int32(UInt8(ascii: "C"))
private let messageField = Int32(UInt8(ascii: "M"))
