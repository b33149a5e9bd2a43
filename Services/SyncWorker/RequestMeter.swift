// How many requests a worker served, how they ended and how long they took.

import Records
import ServiceBus
import ServiceKit

/// Counts requests by route and outcome. A route is a path without anybody's names in it.
struct RequestMeter: Sendable {
  private let requests: Family<Counter>
  private let latencies: Family<Histogram>

  init(_ metrics: Metrics) {
    requests = metrics.counters("worker_requests_total", "Requests to a plane, by route and outcome.", labels: ["plane", "route", "code"])
    latencies = metrics.histograms("worker_request_seconds", "Time from a request's arrival to its answer.", labels: ["plane", "route"])
  }

  /// - Parameter code: of a failed request; nil for one that was answered.
  func count(_ request: DatabaseRequest, code: ServerErrorCode?, took duration: Duration) {
    let route = Self.route(of: request)
    requests[request.plane.rawValue, route, code?.rawValue ?? "OK"].increment()
    latencies[request.plane.rawValue, route].observe(duration)
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
