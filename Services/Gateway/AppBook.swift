// The name and link of the app behind a container, as the gateway's pages show them.

import Authentication
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// A cache over `LookUpApp`. While the share service is away, the last answer stays good.
final class AppBook: Sendable {
  /// The cache is emptied when it would hold more containers than this.
  static let entryLimit = 1000
  private static let lifetime = Duration.seconds(60)
  /// A page goes without the app's name rather than wait longer.
  private static let patience = Duration.seconds(2)

  private struct State {
    var apps: [ContainerID: (app: LookUpApp.Reply, expiry: ContinuousClock.Instant)] = [:]
    /// Rises when the directory changes. An answer to a question asked before the change is not kept.
    var generation = 0
  }

  private let timing: Timing
  private let state = Mutex(State())

  init(timing: Timing) { self.timing = timing }

  func app(of container: ContainerID, from share: ShareCalls) async -> LookUpApp.Reply {
    let now = timing.now()
    let (known, asked) = state.withLock { ($0.apps[container], $0.generation) }
    if let known, now < known.expiry { return known.app }
    let app: LookUpApp.Reply
    do throws(RecordError) {
      app = try await share.call(LookUpApp(container: container), within: Self.patience)
    } catch {
      // Dropped because a page works without the app's name, and a share service of an earlier release doesn't know the
      // question.
      return known?.app ?? LookUpApp.Reply()
    }
    state.withLock { state in
      guard asked == state.generation else { return }
      if state.apps.count >= Self.entryLimit, state.apps[container] == nil { state.apps.removeAll() }
      state.apps[container] = (app, now + Self.lifetime)
    }
    return app
  }

  /// Marks all entries as outdated after a change of the directory. Each stays in use until its next lookup is
  /// answered.
  func expire() {
    let now = timing.now()
    state.withLock { state in
      for (container, entry) in state.apps { state.apps[container] = (entry.app, now) }
      state.generation += 1
    }
  }

  var count: Int { state.withLock { $0.apps.count } }
}

extension Gateway {
  /// The known facts about a container's app; empty when the share service is away. Never fails.
  func app(of container: ContainerID) async -> LookUpApp.Reply { await state.apps.app(of: container, from: share) }
}
