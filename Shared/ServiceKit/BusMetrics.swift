// Reports the bus's own counts as metrics.

internal import ServiceBus

enum BusMetrics {
  private static let figures: [(metric: Metrics.Description, value: @Sendable (BusStatistics) -> Double)] = [
    (Metrics.Description("bus_calls_total", "Calls to other processes.", .counter), { Double($0.calls) }),
    (
      Metrics.Description("bus_served_total", "Calls that the process served for other processes.", .counter),
      { Double($0.served) }
    ),
    (
      Metrics.Description(
        "bus_refused_requests_total", "Calls that the process refused because too many wait.", .counter),
      { Double($0.refusedRequests) }
    ),
    (
      Metrics.Description(
        "bus_malformed_frames_total", "Frames dropped because they are not of the bus's protocol.", .counter),
      { Double($0.malformedFrames) }
    ),
    (
      Metrics.Description(
        "bus_refused_connections_total",
        "Connections of strangers, without a listed key or without the bus's protocol.", .counter),
      { Double($0.refusedConnections) }
    ),
    (
      Metrics.Description(
        "bus_refused_frames_total", "Frames dropped because their sender's key does not allow them.", .counter),
      { Double($0.refusedFrames) }
    ),
    (
      Metrics.Description("bus_calls_under_way", "Calls to other processes that wait for their answer."),
      { Double($0.callsUnderWay) }
    ),
    (
      Metrics.Description("bus_calls_in_backlog", "Calls that wait for a place in a peer's window."),
      { Double($0.callsInBacklog) }
    ),
    (
      Metrics.Description("bus_handlers_running", "Handlers at work for other processes."),
      { Double($0.handlersRunning) }
    ),
    (
      Metrics.Description("bus_requests_waiting", "Calls of others that wait for a handler or their turn."),
      { Double($0.requestsWaiting) }
    ),
    (
      Metrics.Description("bus_nested_handlers_running", "Handlers at work for calls that other handlers make."),
      { Double($0.nestedHandlersRunning) }
    ),
    (
      Metrics.Description(
        "bus_nested_requests_waiting", "Calls of other handlers that wait for a handler or their turn."),
      { Double($0.nestedRequestsWaiting) }
    ),
  ]

  static func add(to metrics: Metrics, _ made: ServiceProcess.MadeBus) {
    let failures = Metrics.Description("bus_failures_total", "Calls that failed, by code.", .counter)
    let peers = Metrics.Description("bus_peers", "Connected processes, by role.")
    metrics.collect(figures.map(\.metric) + [failures, peers]) {
      let statistics = await made.statistics()
      var readings = Metrics.Readings()
      for figure in figures { readings[figure.metric.name] = figure.value(statistics) }
      readings.samples[failures.name] = statistics.failures.sorted { $0.key.rawValue < $1.key.rawValue }.map {
        Metrics.Sample(Double($0.value), labels: [("code", $0.key.rawValue)])
      }
      readings.samples[peers.name] = Role.allCases.map { role in
        Metrics.Sample(Double(made.bus.peers.count { $0.role == role }), labels: [("role", role.rawValue)])
      }
      return readings
    }
  }
}
