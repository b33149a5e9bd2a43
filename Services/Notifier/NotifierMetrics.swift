// The notifier's metrics for operators.

import ServiceKit

struct NotifierMetrics: Sendable {
  private struct Ending: Hashable {
    let route: String
    let status: Int
  }

  /// By kind of connection: `events`, `courier`.
  let sent: Family<Counter>
  let coalesced: Counter
  let dropped: Counter
  let changes: Counter
  /// By outcome: `told` to at least one device, `unheard` by any, `repeated`.
  let notifications: Family<Counter>
  let refused: Family<Counter>
  private let requests: Family<Counter>
  private let known = Memo<Ending, Counter>()

  init(_ metrics: Metrics) {
    sent = metrics.counters("pings_sent_total", "Pings handed to a connection, by kind.", labels: ["kind"])
    coalesced = metrics.counter(
      "pings_coalesced_total", "Pings merged with an unsent ping of the same zone or subscription.")
    dropped = metrics.counter("pings_dropped_total", "Pings dropped because too many waited for a device.")
    changes = metrics.counter("zone_changes_total", "Changed zones that workers reported.")
    notifications = metrics.counters(
      "notifications_total", "Subscriptions' notifications from workers, by outcome.", labels: ["outcome"])
    requests = metrics.counters(
      "http_requests_total", "Requests answered, by route and status code.", labels: ["route", "code"])
    refused = metrics.counters("pings_refused_total", "Refused connections, by error code.", labels: ["code"])
    metrics.recent.add { [sent, requests] in
      let errors = Dictionary(grouping: requests.counts.filter { $0.values[1] >= "400" }, by: { $0.values[1] })
      let figures: [Figure] = [
        .total("pings", sent.counts.reduce(0) { $0 + Double($1.count) }),
        .total("requests", requests.counts.reduce(0) { $0 + Double($1.count) }),
      ]
      return figures + errors.map { code, rows in .total("errors_\(code)", rows.reduce(0) { $0 + Double($1.count) }) }
    }
  }

  func count(route: String, status: Int) {
    known.value(of: Ending(route: route, status: status)) { requests[route, String(status)] }.increment()
  }

  func count(_ receiverCount: Int?) {
    switch receiverCount {
    case nil: notifications["repeated"].increment()
    case 0: notifications["unheard"].increment()
    default: notifications["told"].increment()
    }
  }

  func count(_ outcome: PendingPings.Outcome) {
    switch outcome {
    case .added: break
    case .coalesced: coalesced.increment()
    case .displaced: dropped.increment()
    }
  }
}
