// The rhythm of work that waits in the directory: a round now and then, and one at once when something is noticed.

/// Rounds of work for one loop. A notice during a round leads to another round after it.
struct Rounds: Sendable {
  private let pause: Duration
  private let wakes: AsyncStream<Void>
  private let wake: AsyncStream<Void>.Continuation

  /// - Parameter pause: the longest time between two rounds, for work that comes due by itself.
  init(every pause: Duration) {
    self.pause = pause
    (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  func notice() { wake.yield() }

  /// Runs until the task is cancelled.
  func run(_ round: () async -> Void) async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { [wake, pause] in
        while !Task.isCancelled {
          // Dropped because a cancelled sleep ends the loop.
          try? await Task.sleep(for: pause)
          wake.yield()
        }
      }
      for await _ in wakes {
        if Task.isCancelled { break }
        await round()
      }
      group.cancelAll()
    }
  }
}
