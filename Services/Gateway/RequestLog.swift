// Counts and logs each request once it is answered.

import HTTPServer
import Records
import ServiceKit

/// Logs every request at debug level. At the usual level it logs failed and slow requests, and only a few a second.
struct RequestLog: Sendable {
  let log: Log
  let metrics: GatewayMetrics
  let clock: any WallClock
  private let pace = LogPace()

  init(log: Log, metrics: GatewayMetrics, clock: any WallClock) {
    self.log = log
    self.metrics = metrics
    self.clock = clock
  }

  /// Slower requests get a line, unless the client asked to be held.
  private static let slowLimit = Duration.seconds(2)

  func tell(of exchange: IncomingRequest, status: Int, took duration: Duration) {
    let isHeld = exchange.wait != nil
    metrics.count(route: exchange.route, status: status, took: duration, isHeld: isHeld)
    func facts() -> KeyValuePairs<String, Log.Fact> {
      [
        "method": .text(exchange.request.method.rawValue), "route": .text(exchange.route),
        "status": .integer(Int64(status)),
        "seconds": .number(duration.seconds),
      ]
    }
    if status >= 500 {
      paced { log.with(facts()).warning("request failed", ["leftOut": .integer($0)]) }
    } else if !isHeld, duration > Self.slowLimit {
      paced { log.with(facts()).warning("request was slow", ["leftOut": .integer($0)]) }
    } else {
      log.debug("request", facts())
    }
  }

  private func paced(_ write: (_ leftOut: Int64) -> Void) {
    if let count = pace.admit(at: clock.now) { write(Int64(count)) }
  }
}
