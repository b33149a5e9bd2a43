// The gateway's metrics: requests by route and status code, and their durations.

import ServiceKit

final class GatewayMetrics: Sendable {
  private struct Ending: Hashable {
    let route: String
    let status: Int
    let isHeld: Bool
  }

  /// Route labels of requests that match no row of the table, and of requests that the server refused before routing.
  static let unknownRoute = "unknown"
  static let refusedRoute = "refused"

  private let requests: Family<Counter>
  private let durations: Family<Histogram>
  private let holds: Family<Histogram>
  private let throttled: Family<Counter>
  private let compressible: Family<Counter>
  /// Figures looked up before: assembling their labels again costs more than the count itself.
  private let known = Memo<Ending, (requests: Counter, durations: Histogram)>()

  init(_ metrics: Metrics) {
    requests = metrics.counters(
      "http_requests_total", "Requests answered, by route and status code.", labels: ["route", "code"])
    durations = metrics.histograms(
      "http_request_duration_seconds",
      "Time from a request's last byte to its answer, without requests that ask to be held.", labels: ["route", "code"])
    holds = metrics.histograms(
      "http_held_request_duration_seconds", "Time of requests that ask to be held (wait=), by route.",
      labels: ["route"],
      bounds: [0.01, 0.1, 1, 5, 10, 30, 60])
    throttled = metrics.counters(
      "http_requests_throttled_total", "Requests over the rate limit, by the kind of limit.", labels: ["by"])
    compressible = metrics.counters(
      "http_compressible_answers_total", "Answers whose clients accept gzip: compressed, or plain without a free lane.",
      labels: ["outcome"])
    metrics.recent.add { [requests, durations] in Self.figures(requests, durations) }
  }

  /// Requests, their times by plane, and errors by status.
  private static func figures(_ requests: Family<Counter>, _ durations: Family<Histogram>) -> [Figure] {
    var totals = ["": 0.0, "record_": 0, "object_": 0, "other_": 0]
    var errors: [String: Double] = [:]
    for (values, count) in requests.counts {
      for plane in ["", plane(of: values[0])] { totals[plane, default: 0] += Double(count) }
      if values[1] >= "400" { errors[values[1], default: 0] += Double(count) }
    }
    var times: [String: Metrics.Buckets] = [:]
    for (values, buckets) in durations.buckets {
      for plane in ["", plane(of: values[0])] { times[plane] = times[plane]?.adding(buckets) ?? buckets }
    }
    return totals.map { .total("\($0.key)requests", $0.value) } + times.map { .times("\($0.key)latency", $0.value) }
      + errors.map { .total("errors_\($0.key)", $0.value) }
  }

  private static func plane(of route: String) -> String {
    switch route.split(separator: "/").first {
    case "database": "record_"
    case "mirror": "object_"
    default: "other_"
    }
  }

  func countThrottled(by kind: String) { throttled[kind].increment() }
  func countCompressible(isCompressed: Bool) { compressible[isCompressed ? "gzip" : "plain"].increment() }

  /// - Parameter isHeld: true when the client asked to wait; holds have their own histogram.
  func count(route: String, status: Int, took duration: Duration, isHeld: Bool) {
    let (requests, durations) = figures(of: Ending(route: route, status: status, isHeld: isHeld))
    requests.increment()
    durations.observe(duration)
  }

  private func figures(of ending: Ending) -> (requests: Counter, durations: Histogram) {
    known.value(of: ending) {
      let (route, code) = (ending.route, String(ending.status))
      return (requests[route, code], ending.isHeld ? holds[route] : durations[route, code])
    }
  }

  func countRefusal(status: Int) { requests[Self.refusedRoute, String(status)].increment() }
}
