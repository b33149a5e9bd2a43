// What the gateway counts: requests by route and status code, and how long they took.

import ServiceKit

struct GatewayMetrics: Sendable {
  /// Labels of requests that match no row of the table, or that the server refused before.
  static let unknownRoute = "unknown"
  static let refusedRoute = "refused"

  private let requests: Family<Counter>
  private let durations: Family<Histogram>
  private let throttled: Family<Counter>

  init(_ metrics: Metrics) {
    requests = metrics.counters("http_requests_total", "Requests answered, by route and status code.", labels: ["route", "code"])
    durations = metrics.histograms("http_request_duration_seconds", "From a request's last byte to its answer, long polls included.", labels: ["route"])
    throttled = metrics.counters("http_requests_throttled_total", "Requests over the rate limit, by what they were counted for.", labels: ["by"])
  }

  func countThrottled(by kind: String) { throttled[kind].increment() }

  func count(route: String, status: Int, took duration: Duration) {
    requests[route, String(status)].increment()
    durations[route].observe(duration)
  }

  func countRefusal(status: Int) { requests[Self.refusedRoute, String(status)].increment() }
}
