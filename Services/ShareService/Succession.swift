// The begin and the end of a share service's lead, of several that share a directory.

import ServiceKit
import Synchronization

/// Notes the epoch of the share service that leads instead.
final class Succession: Sendable {
  private let noted = Mutex<Int64?>(nil)
  private let (ends, end) = AsyncStream.makeStream(of: Void.self)

  /// nil while none is known.
  var epoch: Int64? { noted.withLock { $0 } }

  func note(_ epoch: Int64) {
    noted.withLock { $0 = max($0 ?? 0, epoch) }
    end.finish()
  }

  /// Waits until another share service leads or the task is cancelled.
  func wait() async { for await _ in ends {} }
}

/// The reason why a share service does not lead yet, for `/readyz`, the log and a metric.
struct Waiting {
  private let context: ServiceContext
  private let isStandby: Gauge

  init(_ context: ServiceContext) {
    self.context = context
    isStandby = context.metrics.gauge(
      "standby", "1 while this share service waits to take the place of another one, else 0.")
  }

  /// - Parameter asStandby: true when another share service does the work.
  func note(_ obstacle: String, asStandby: Bool) {
    isStandby.set(asStandby ? 1 : 0)
    if context.obstacle.text != obstacle { context.log.info("waiting", ["reason": .text(obstacle)]) }
    context.obstacle.text = obstacle
  }

  func ended() {
    isStandby.set(0)
    context.obstacle.text = nil
  }
}
