// Resets and removes a store (P1, P5).

import JSON
import Mirroring
import RecordStore
package import Records
import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

extension StoreCall {
  /// Forgets the store's exports and imports: it is sent everything again, its own records included, and the client
  /// keeps its copy until the new one is complete (P5). Saved transactions are exported first, so that none is lost.
  package func reset(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked = try ResetStoreRequest(try JSONValue.request(body))
    try await checkResets(asked.reason)
    if asked.rescansHistory { try await rescanHistory() }
    let at = now
    let identifier = context.random.uuid()
    let key = IdempotencyKey(request: request, body: body)
    let through = try await exportingFirst(startNext: startNext) { transaction, mirror -> SyncToken? in
      guard let database = try transaction.database(key: mirror.databaseKey) else { throw missing }
      if case .saved(let sequence)? = try key.outcome(in: transaction)?.items.first {
        return SyncToken(.database, incarnation: database.incarnation, sequence: sequence)
      }
      guard try mirror.hasShortHistory(in: transaction) else { return nil }
      try key.put(RequestOutcome(at: at, items: [.saved(sequence: database.sequence)]), in: transaction)
      _ = try transaction.resetMirror(mirror.key)
      var state = try transaction.syncState(of: mirror.key)
      state.openResetCount += 1
      state.resetReason = asked.reason.rawValue
      state.resetSequence = max(database.sequence, 1)
      // Older tokens are of an epoch with an unknown model: a client that goes on with one is sent everything.
      state.modelEpoch += 1
      state.previousModelHash = nil
      state.previousConfiguration = nil
      state.sinceSequence = database.sequence
      try transaction.put(state, of: mirror.key)
      _ = try transaction.put(
        StoredEvent(identifier: identifier, kind: .setup, startedAt: at, endedAt: at, succeeded: true), of: mirror.key)
      return SyncToken(.database, incarnation: database.incarnation, sequence: database.sequence)
    }
    return PlaneAnswer(body: StoreAnswer.reset(asked.reason, through: through.text))
  }

  /// Refuses repeated resets by a client that never gets everything in between: each would empty its user's store. The
  /// client keeps its copy (T-R09). A complete import allows resets again.
  private func checkResets(_ reason: ResetReason) async throws(RecordError) {
    let (mirror, state) = try await read { snapshot in
      let mirror = try self.mirror(in: snapshot)
      return (mirror, try snapshot.syncState(of: mirror.key))
    }
    if ResetBreaker.allows(openResetCount: state.openResetCount) { return }
    let refusal = RecordError(
      .conflict,
      """
      The store was reset \(state.openResetCount) times without a complete import since: import to the end before the \
      next reset
      """,
      cocoaErrorCode: .unrecoverable)
    let (at, identifier) = (now, context.random.uuid())
    try await value(
      of: store.enqueue { transaction in
        guard try transaction.mirror(key: mirror.key) != nil else { return }
        let event = StoredEvent(
          identifier: identifier, kind: .setup, startedAt: at, endedAt: at, succeeded: false,
          errorJSON: MirrorErrors.failure(refusal))
        _ = try transaction.put(event, of: mirror.key)
      })
    context.noticed(id(of: mirror))
    throw refusal
  }

  /// Forgets the store; its records stay, with what it saved last.
  package func forget(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let at = now
    try await exportingFirst(startNext: startNext) { transaction, mirror -> Void? in
      let journal = ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: at)
      // The history goes first: a removal that nobody finishes leaves a store that will export its held-back changes.
      guard try mirror.hasShortHistory(in: transaction), try journal.takeHeld(of: mirror) else { return nil }
      return try transaction.deleteMirror(mirror.key)
    }
    return PlaneAnswer(body: StoreAnswer.empty)
  }

  /// Exports pending transactions and then runs `body`, in one commit unless more than a batch is pending.
  /// - Parameter body: nil when it did a part of its work, and goes on in another commit.
  func exportingFirst<Value: Sendable>(
    startNext: @Sendable () -> Void, _ body: @escaping @Sendable (any ShardTransaction, StoredMirror) throws -> Value?
  ) async throws(RecordError) -> Value {
    let mirror = try await locate()
    if mirror.exportedTransactionNumber < mirror.lastTransactionNumber { try checkThrottle(of: mirror) }
    var next = try await exportRun(for: mirror)
    var isFirst = true
    while true {
      let (outcome, value): (ExportOutcome, Value?)
      do {
        (outcome, value) = try await next.isolating { run in
          let commit = store.enqueue { transaction -> (ExportOutcome, Value?) in
            // This also checks the lease again.
            guard try self.mirror(in: transaction).incarnation == mirror.incarnation else { throw missing }
            let outcome = try run.callAsFunction(transaction)
            guard let current = try transaction.mirror(key: mirror.key) else { return (outcome, nil) }
            // A save came while the earlier ones were forwarded.
            if current.isHome, outcome.moreComing {
              throw RecordError(.tryAgainLater, "The store's changes are not forwarded yet", retryAfter: 1)
            }
            if outcome.moreComing { return (outcome, nil) }
            return (outcome, try body(transaction, current))
          }
          if isFirst { startNext() }
          isFirst = false
          return try await commit.value
        }
      } catch {
        throw RecordError(storing: error, log: context.log)
      }
      outcome.publish(by: context)
      next.advance(after: outcome)
      if let value {
        await imports.forget(held(mirror))
        context.noticed(id(of: mirror))
        return value
      }
    }
  }
}
