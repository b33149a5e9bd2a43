// What an operator sees of the notifier's work.

import ServiceKit

struct NotifierMetrics: Sendable {
  /// By kind of connection: `events`, `courier`.
  let sent: Family<Counter>
  let coalesced: Counter
  let dropped: Counter
  let changes: Counter
  let refused: Family<Counter>

  init(_ metrics: Metrics) {
    sent = metrics.counters("pings_sent_total", "Pings handed to a connection, by kind.", labels: ["kind"])
    coalesced = metrics.counter("pings_coalesced_total", "Pings merged with one for the same zone that had not been sent yet.")
    dropped = metrics.counter("pings_dropped_total", "Pings forgotten because a device had too many zones waiting.")
    changes = metrics.counter("zone_changes_total", "Changed zones that workers told of.")
    refused = metrics.counters("pings_refused_total", "Connections that were refused, by error code.", labels: ["code"])
  }

  func count(_ outcome: PendingPings.Outcome) {
    switch outcome {
    case .added: break
    case .coalesced: coalesced.increment()
    case .displaced: dropped.increment()
    }
  }
}
