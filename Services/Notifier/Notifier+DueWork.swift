// The notifier's periodic work: heartbeats, idle couriers, ended credentials, and the release of all at the end.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization
import WebServices

extension Notifier {
  // MARK: Due work

  /// Runs until the task is cancelled: ends polls at their deadlines, forgets idle couriers, sends heartbeats, and
  /// checks streams' credentials when the directory has changed.
  func run() async {
    // A task of its own, so that heartbeats and polls don't wait for the directory.
    let (rechecks, recheck) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        await self.tick { recheck.yield() }
        recheck.finish()
      }
      group.addTask { for await _ in rechecks { await self.recheckStreams() } }
    }
  }

  private func tick(recheck: () -> Void) async {
    var tick = 0
    let beats = max(1, Int(limits.heartbeat / limits.tick))
    let rechecks = max(1, Int(limits.recheck / limits.tick))
    while true {
      do { try await timing.sleep(limits.tick) } catch { return }
      tick += 1
      let now = timing.now()
      let (streams, couriers, isRecheckDue) = state.withLock { state in
        defer { state.isRecheckDue = false }
        return (
          state.streams.values.map { $0 }, state.couriers.map { (text: $0.key, courier: $0.value.courier) },
          state.isRecheckDue
        )
      }
      // A part of the streams at each tick, so that ten thousand heartbeats are not sent at once.
      for entry in streams where entry.id % beats == tick % beats { entry.stream.beat() }
      let idle = now - limits.courierIdle
      for entry in couriers where entry.courier.expire(at: now, idleSince: idle) {
        forget(entry.text, ifIdleSince: idle)
      }
      if isRecheckDue || tick % rechecks == 0 { recheck() }
    }
  }

  /// Checks and forgets in one step: a poll that comes now either keeps the courier or finds another.
  private func forget(_ text: String, ifIdleSince instant: ContinuousClock.Instant) {
    let id = state.withLock { state -> PingBoard.ListenerID? in
      guard let entry = state.couriers[text], entry.courier.retire(ifIdleSince: instant) else { return nil }
      state.couriers[text] = nil
      let user = entry.token.userRecordName
      if let count = state.courierCounts[user] { state.courierCounts[user] = count > 1 ? count - 1 : nil }
      return entry.id
    }
    if let id { switchboard.disconnect(id) }
  }

  /// Ends the streams whose credentials no longer hold. While the directory is away all streams go on.
  private func recheckStreams() async {
    for stream in state.withLock({ $0.streams.values.map(\.stream) }) {
      do {
        _ = try await user(of: stream.question)
      } catch {
        guard error.code == .tryAgainLater else {
          stream.end()
          continue
        }
        // The other streams' checks would fail in the same way.
        state.withLock { $0.isRecheckDue = true }
        return
      }
    }
  }

  /// Ends all streams and answers all polls, now and from now on.
  func releaseAll() {
    let (streams, couriers) = state.withLock { state in
      state.isDraining = true
      return (state.streams.values.map(\.stream), state.couriers.values.map(\.courier))
    }
    for stream in streams { stream.end() }
    for courier in couriers { courier.release() }
  }
}
