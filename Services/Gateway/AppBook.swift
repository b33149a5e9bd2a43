// What the pages tell people of the app that they deal with.

import Authentication
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// A cache over `LookUpApp`. While the share service is away, the last answer is good.
final class AppBook: Sendable {
  /// When more containers than this are known, all are asked about again.
  static let entryLimit = 1000
  private static let lifetime = Duration.seconds(60)
  /// A page does without rather than wait longer.
  private static let patience = Duration.seconds(2)

  private struct State {
    var apps: [ContainerID: (app: LookUpApp.Reply, expiry: ContinuousClock.Instant)] = [:]
    /// Rises when the directory changes: what was asked before is not kept.
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
      // Dropped because a page without the app's name is as good; a share service of an earlier release doesn't know the question.
      return known?.app ?? LookUpApp.Reply()
    }
    state.withLock { state in
      guard asked == state.generation else { return }
      if state.apps.count >= Self.entryLimit, state.apps[container] == nil { state.apps.removeAll() }
      state.apps[container] = (app, now + Self.lifetime)
    }
    return app
  }

  /// The directory changed: what is known is asked about again, and good until that is answered.
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
  /// What is known of a container's app; never fails.
  func app(of container: ContainerID) async -> LookUpApp.Reply { await state.apps.app(of: container, from: share) }
}
