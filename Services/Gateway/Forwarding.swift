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
  private let polls = PollGate()

  init(bus: any Bus, cluster: Cluster, waiters: ChangeWaiters, timing: Timing, limit: Duration) {
    self.bus = bus
    self.cluster = cluster
    self.waiters = waiters
    self.timing = timing
    self.limit = limit
  }

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
    var answer = try await ask(request, body: body)
    guard answer.reply.mayWait == true, let registration = await waiters.register(for: subject) else { return answer }
    do throws(RecordError) {
      var asks = true
      while asks {
        // The first round asks at once: a change may have come between the first answer and the registration.
        let fresh = try await askUnlessBusy(request, body: body)
        if let fresh { answer = fresh }
        let left = wait - (timing.now() - start)
        guard fresh?.reply.mayWait ?? (fresh == nil), left > .zero, !Task.isCancelled else { break }
        let pause = fresh == nil ? min(left, Self.busyPause) : left
        asks = await waiters.wait(registration, within: pause) == .changed
        if asks { continue }
        // The time is over, the client is gone, or the gateway stops: then the client asks again by itself.
        let isOver = await waiters.isClosed
        if isOver || Task.isCancelled { break }
        asks = pause < left
        // This last request makes a lost push harmless.
        if !asks, let last = try await askUnlessBusy(request, body: body) { answer = last }
      }
    } catch {
      await waiters.leave(registration)
      throw error
    }
    await waiters.leave(registration)
    return answer
  }

  /// A poll's pause before it asks a busy worker again.
  private static let busyPause = Duration.seconds(1)

  /// Forwards a poll's request when it is its turn.
  /// - Throws: `tryAgainLater` when that takes too long.
  private func ask(_ request: DatabaseRequest, body: [UInt8]) async throws(RecordError) -> Answer<DatabaseRequest.Reply>
  {
    let start = timing.now()
    let (worker, party) = (cluster.holder(of: request.database) ?? "", request.party)
    await polls.enter(worker, party)
    defer { polls.leave(worker, party) }
    guard timing.now() - start <= limit, !Task.isCancelled else {
      throw RecordError(
        .tryAgainLater, "Too many requests wait for the worker", retryAfter: RetryPlan.retryAfterSeconds)
    }
    return try await forward(request, body: body)
  }

  /// - Returns: nil when the worker does not answer now.
  private func askUnlessBusy(_ request: DatabaseRequest, body: [UInt8]) async throws(RecordError)
    -> Answer<DatabaseRequest.Reply>?
  {
    do throws(RecordError) {
      return try await ask(request, body: body)
    } catch {
      guard error.code == .tryAgainLater else { throw error }
      return nil
    }
  }
}
