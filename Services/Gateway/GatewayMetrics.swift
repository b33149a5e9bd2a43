// What the gateway counts: requests by route and status code, and how long they took.

import ServiceKit

struct GatewayMetrics: Sendable {
  /// Labels of requests that match no row of the table, or that the server refused before.
  static let unknownRoute = "unknown"
  static let refusedRoute = "refused"

  private let requests: Family<Counter>
  private let durations: Family<Histogram>
  private let holds: Family<Histogram>
  private let throttled: Family<Counter>

  init(_ metrics: Metrics) {
    requests = metrics.counters("http_requests_total", "Requests answered, by route and status code.", labels: ["route", "code"])
    durations = metrics.histograms(
      "http_request_duration_seconds", "From a request's last byte to its answer, but for requests that ask to be held.", labels: ["route", "code"])
    holds = metrics.histograms(
      "http_held_request_duration_seconds", "The same of requests that ask to be held (wait=), by route.", labels: ["route"],
      bounds: [0.01, 0.1, 1, 5, 10, 30, 60])
    throttled = metrics.counters("http_requests_throttled_total", "Requests over the rate limit, by what they were counted for.", labels: ["by"])
  }

  func countThrottled(by kind: String) { throttled[kind].increment() }

  /// - Parameter isHeld: the client asked to wait for something.
  func count(route: String, status: Int, took duration: Duration, isHeld: Bool) {
    let code = String(status)
    requests[route, code].increment()
    if isHeld { holds[route].observe(duration) } else { durations[route, code].observe(duration) }
  }

  func countRefusal(status: Int) { requests[Self.refusedRoute, String(status)].increment() }
}
