// Carries requests to the worker that holds the shard, and retries until one answers or the client's time is over.

import Records
import ServiceBus
import ServiceKit

/// Sends authenticated requests to workers.
struct Forwarding: Sendable {
  /// The time of `wait=export` (docs/protocol/mirror-api.md#saves) and a little more; a large move takes as long.
  static let longLimit: Duration = .seconds(32)

  let bus: any Bus
  let cluster: Cluster
  let waiters: ChangeWaiters
  let timing: Timing
  let limit: Duration

  var calls: ShardCalls { ShardCalls(bus: bus, cluster: cluster, timing: timing) }

  /// Forwards a request, with retries. The bytes of both bodies pass through unchanged.
  func forward(_ request: DatabaseRequest, body: [UInt8]) async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let limit = Self.mayTakeLong(request) ? max(limit, Self.longLimit) : limit
    return try await calls.ask(request, body: body, holderOf: request.database, within: limit)
  }

  private static func mayTakeLong(_ request: DatabaseRequest) -> Bool {
    if request.query["wait"] == "export" { return true }
    if case .store(let route, _, _) = request.route { return route.mayMoveObjects }
    return false
  }

  /// Forwards a request. While the worker answers that there is nothing yet, waits for a change and asks again.
  /// - Parameters:
  ///   - wait: the time that the client wants to wait; the last answer counts when it is over.
  ///   - subject: the database or store to wait for.
  func forward(
    _ request: DatabaseRequest, body: [UInt8], waiting wait: Duration, for subject: ChangeWaiters.Subject
  ) async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let start = timing.now()
    var answer = try await forward(request, body: body)
    guard answer.reply.mayWait == true, let registration = await waiters.register(for: subject) else { return answer }
    do throws(RecordError) {
      var reason = ChangeWaiters.Reason.changed
      while reason == .changed {
        // The first round asks at once: a change may have come between the first answer and the registration.
        answer = try await forward(request, body: body)
        let left = wait - (timing.now() - start)
        guard answer.reply.mayWait == true, left > .zero, !Task.isCancelled else { break }
        reason = await waiters.wait(registration, within: left)
        // This last request makes a lost push harmless. After a hang-up it is left out, because nobody reads the
        // answer.
        if reason == .timeUp, !Task.isCancelled { answer = try await forward(request, body: body) }
      }
    } catch {
      await waiters.leave(registration)
      throw error
    }
    await waiters.leave(registration)
    return answer
  }
}
