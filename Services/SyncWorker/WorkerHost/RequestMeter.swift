// Counts a worker's requests with their outcome and duration.

import Records
import ServiceBus
import ServiceKit

/// Counts requests by route and outcome. A route is a path without identifiers.
final class RequestMeter: Sendable {
  private struct Ending: Hashable {
    let plane: DatabaseRequest.Plane
    let route: String
    /// nil: the request succeeded.
    let code: ServerErrorCode?

    var label: String { code?.rawValue ?? "OK" }
  }

  private let requests: Family<Counter>
  private let latencies: Family<Histogram>
  private let log: Log
  private let clock: any WallClock
  private let pace = LogPace()
  /// The counters of known endings: building their labels again costs more than counting.
  private let known = Memo<Ending, (requests: Counter, latencies: Histogram)>()

  init(_ metrics: Metrics, log: Log, clock: any WallClock) {
    self.log = log
    self.clock = clock
    requests = metrics.counters(
      "worker_requests_total", "Requests to a plane, by route and outcome.", labels: ["plane", "route", "code"])
    latencies = metrics.histograms(
      "worker_request_seconds", "Time from a request's arrival to its answer.", labels: ["plane", "route"])
    metrics.recent.add { [requests, latencies] in
      let sum = latencies.buckets.map(\.buckets).reduce(nil) { sum, next in sum?.adding(next) ?? next }
      var figures: [Figure] = [.total("requests", requests.counts.reduce(0) { $0 + Double($1.count) })]
      if let sum { figures.append(.times("latency", sum)) }
      return figures
    }
  }

  /// A slower request gets a log line, unless the client waits for an export.
  private static let slowLimit = Duration.seconds(1)

  /// Counts an answered request after its writes are committed. Logs it at debug level; server failures and slow
  /// requests become warnings, limited to a few a second.
  /// - Parameter error: of a failed request; nil for one that was answered.
  func count(
    _ request: DatabaseRequest, inShard shard: @autoclosure () -> Int, error: RecordError?, took duration: Duration
  ) {
    let route = request.route.label
    let ending = Ending(plane: request.plane, route: route, code: error?.code)
    let figures = figures(of: ending)
    figures.requests.increment()
    figures.latencies.observe(duration)
    func facts() -> KeyValuePairs<String, Log.Fact> {
      [
        "plane": .text(request.plane.rawValue), "method": .text(request.route.method), "route": .text(route),
        "shard": .integer(Int64(shard())),
        "code": .text(ending.label),
        "seconds": .number(duration.seconds),
      ]
    }
    if let error, error.status >= 500 {
      paced { log.with(facts()).warning("request failed", ["reason": .text(error.reason), "leftOut": .integer($0)]) }
    } else if duration > Self.slowLimit, request.query["wait"] == nil {
      paced { log.with(facts()).warning("request was slow", ["leftOut": .integer($0)]) }
    } else {
      log.debug("request", facts())
    }
  }

  private func figures(of ending: Ending) -> (requests: Counter, latencies: Histogram) {
    known.value(of: ending) {
      let plane = ending.plane.rawValue
      return (requests[plane, ending.route, ending.label], latencies[plane, ending.route])
    }
  }

  private func paced(_ write: (_ leftOut: Int64) -> Void) {
    if let count = pace.admit(at: clock.now) { write(Int64(count)) }
  }
}
