// How many requests a worker served, how they ended and how long they took.

import Records
import ServiceBus
import ServiceKit

/// Counts requests by route and outcome. A route is a path without anybody's names in it.
final class RequestMeter: Sendable {
  private struct Ending: Hashable {
    let plane: DatabaseRequest.Plane
    let route: String
    /// nil: it was answered.
    let code: ServerErrorCode?

    var label: String { code?.rawValue ?? "OK" }
  }

  private let requests: Family<Counter>
  private let latencies: Family<Histogram>
  private let log: Log
  private let clock: any WallClock
  private let pace = LogPace()
  /// Those that were counted before: to put their labels together again costs more than to count.
  private let known = Memo<Ending, (requests: Counter, latencies: Histogram)>()

  init(_ metrics: Metrics, log: Log, clock: any WallClock) {
    self.log = log
    self.clock = clock
    requests = metrics.counters("worker_requests_total", "Requests to a plane, by route and outcome.", labels: ["plane", "route", "code"])
    latencies = metrics.histograms("worker_request_seconds", "Time from a request's arrival to its answer.", labels: ["plane", "route"])
  }

  /// Worth a line, unless the client waits for an export.
  private static let slowLimit = Duration.seconds(1)

  /// Counts a request that was answered, after what it wrote was committed; logs it at the level debug, and at the usual one if the server failed or
  /// took long, not more than some a second.
  /// - Parameter error: of a failed request; nil for one that was answered.
  func count(_ request: DatabaseRequest, inShard shard: Int, error: RecordError?, took duration: Duration) {
    let route = Self.route(of: request)
    let ending = Ending(plane: request.plane, route: route, code: error?.code)
    let figures = figures(of: ending)
    figures.requests.increment()
    figures.latencies.observe(duration)
    func facts() -> KeyValuePairs<String, Log.Fact> {
      [
        "plane": .text(request.plane.rawValue), "method": .text(request.method), "route": .text(route), "shard": .integer(Int64(shard)), "code": .text(ending.label),
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

  /// Names that paths of the two planes are made of; anything else in a path is somebody's identifier or no route at all.
  private static let words: Set<String> = [
    "records", "changes", "zones", "modify", "lookup", "query", "list", "database", "zone", "stores", "transactions", "history", "events", "status",
    "objects", "reset", "permissions", "shares", "accept", "purge", "forward", "locate",
  ]

  static func route(of request: DatabaseRequest) -> String {
    request.path.prefix(4).map { words.contains($0) ? $0 : "*" }.joined(separator: "/")
  }
}
