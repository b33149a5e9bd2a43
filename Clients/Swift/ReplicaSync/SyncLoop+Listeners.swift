// What a store's mirroring tells: its status, its events, and when a sync that the app asked for is done.

import MirrorWire
package import ReplicaStore

extension SyncLoop {
  package func currentStatus() -> SyncStatus { status }

  /// The present status and each later one; a slow reader misses those between.
  package func statuses() -> AsyncStream<SyncStatus> {
    let (stream, continuation) = AsyncStream<SyncStatus>.makeStream(bufferingPolicy: .bufferingNewest(1))
    nextListener += 1
    let number = nextListener
    statusListeners[number] = continuation
    continuation.yield(status)
    continuation.onTermination = { [weak self] _ in Task { await self?.removeListener(number) } }
    return stream
  }

  private func removeListener(_ number: Int) {
    statusListeners[number] = nil
    eventListeners[number] = nil
  }

  /// Sends what is saved, and imports what the server has now. The server has exported what it was sent by then.
  /// - Throws: what keeps it from that when the time is over; `signedOut`, `accountChanged` and `modelUnknown` at once.
  package func syncNow(timeout: Duration) async throws(StoreError) {
    let target = askedPageCount + 1
    let stream = statuses()
    waitingSyncs += 1
    take(.syncWanted(true))
    defer {
      waitingSyncs -= 1
      if waitingSyncs == 0 { take(.syncWanted(false)) }
    }
    let sleep = surroundings.sleep
    let outcome = await withTaskGroup(of: StoreError?.self) { group in
      group.addTask { [weak self] in
        for await status in stream {
          if let refusal = status.refusal { return refusal }
          if await self?.isDone(target) ?? true { return nil }
        }
        return .offline
      }
      group.addTask { [weak self] in
        // A cancelled wait lost the race.
        try? await sleep(timeout)
        return await self?.status.lastError ?? .offline
      }
      let first = await group.next() ?? .offline
      group.cancelAll()
      return first
    }
    if let outcome { throw outcome }
  }

  private func isDone(_ target: Int) async -> Bool {
    guard let figures = try? await store.figures(), figures.pendingTransactions == 0 else { return false }
    switch machine.work {
    // The file has an acknowledgement that the loop has not heard of.
    case .export?: return false
    // A refused save does not wait any more, but its objects are not the server's yet, or the app still decides.
    case .setAside?: return false
    default: return completedPage >= max(target, exportingPage)
    }
  }

  package func mirrorEvents() -> AsyncStream<MirrorEvent> {
    let (stream, continuation) = AsyncStream<MirrorEvent>.makeStream(bufferingPolicy: .bufferingNewest(1000))
    nextListener += 1
    let number = nextListener
    eventListeners[number] = continuation
    continuation.onTermination = { [weak self] _ in Task { await self?.removeListener(number) } }
    return stream
  }
}
