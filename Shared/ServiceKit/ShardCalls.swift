// Calls to the holder of a shard. Shards move and holders restart, so a call is retried until a holder answers in time.

public import Records
public import ServiceBus

/// Asks the holders of shards until one answers or the time is over. Gateways use it, and workers that call each other.
public struct ShardCalls: Sendable {
  private let bus: any Bus
  private let cluster: Cluster
  private let timing: Timing

  public init(bus: any Bus, cluster: Cluster, timing: Timing) {
    self.bus = bus
    self.cluster = cluster
    self.timing = timing
  }

  /// Asks the holder of a database's shard.
  /// - Parameters:
  ///   - limit: the time for all attempts together.
  ///   - start: the beginning of that time; nil for now.
  /// - Throws: the error that `RetryPlan` derives from the last failure. The message may have been executed even so.
  public func ask<M: Message>(
    _ message: M, body: [UInt8] = [], holderOf database: DatabaseID, within limit: Duration,
    since start: ContinuousClock.Instant? = nil
  ) async throws(RecordError) -> Answer<M.Reply> {
    try await ask(message, body: body, within: limit, since: start) { cluster.holder(of: database) }
  }

  /// Asks the holder of a shard by the shard's number.
  public func ask<M: Message>(
    _ message: M, body: [UInt8] = [], holderOf shard: Int, within limit: Duration,
    since start: ContinuousClock.Instant? = nil
  ) async throws(RecordError) -> Answer<M.Reply> {
    try await ask(message, body: body, within: limit, since: start) { cluster.holder(ofShard: shard) }
  }

  private func ask<M: Message>(
    _ message: M, body: [UInt8], within limit: Duration, since start: ContinuousClock.Instant?, holder: () -> String?
  ) async throws(RecordError) -> Answer<M.Reply> {
    let start = start ?? timing.now()
    var plan = RetryPlan(limit: limit)
    while true {
      let step: RetryPlan.Step
      if let worker = holder() {
        do {
          return try await bus.call(
            message, body: body, to: .peer(worker), within: plan.attemptBudget(after: timing.now() - start))
        } catch {
          step = plan.step(after: error, elapsed: timing.now() - start)
        }
      } else {
        step = plan.stepWithoutHolder(elapsed: timing.now() - start)
      }
      switch step {
      case .retry(let pause): try await RetryPlan.pause(pause, timing)
      case .fail(let error): throw error
      }
    }
  }
}
