// Tells everybody that cached answers went stale. A peer that misses it is right again after the answers' lifetime.

import ServiceBus

/// Pushes `DirectoryChanged`.
actor Announcer {
  /// Longer, and an operator would wait for a peer that hangs.
  private static let deadline = Duration.seconds(2)

  private var bus: (any Bus)?
  private var pendingSchemas: Set<String> = []
  private let wake: AsyncStream<Void>.Continuation
  private let wakes: AsyncStream<Void>

  init() {
    (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  /// Before this nobody is told, because nobody can have asked.
  func attach(_ bus: any Bus) { self.bus = bus }

  /// Returns when all peers that answer in time know.
  func announce(_ change: DirectoryChanged) async {
    guard let bus else { return }
    await withTaskGroup(of: Void.self) { group in
      for peer in bus.peers where peer.role != .share {
        group.addTask {
          // Dropped because such a peer's answers end by themselves, at the latest after their lifetime.
          _ = try? await bus.call(change, to: .peer(peer.name), within: Self.deadline)
        }
      }
    }
  }

  /// Announces an environment soon, without making the caller wait; several that wait are one message.
  func announceSoon(_ environment: String) {
    pendingSchemas.insert(environment)
    wake.yield()
  }

  /// Sends what `announceSoon` left, until the task is cancelled.
  func run() async {
    for await _ in wakes {
      let schemas = pendingSchemas.sorted()
      pendingSchemas = []
      await announce(DirectoryChanged(credentials: false, schemas: schemas))
    }
  }
}
