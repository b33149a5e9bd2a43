// The bus's own counts as metrics.

internal import ServiceBus

enum BusMetrics {
  static func add(to metrics: Metrics, _ made: ServiceProcess.MadeBus) {
    let read = made.statistics
    func add(_ name: String, _ help: String, _ kind: Metrics.Kind, _ value: @escaping @Sendable (BusStatistics) -> Double) {
      metrics.collect("bus_" + name, help, kind: kind) { [Metrics.Sample(value(await read()))] }
    }
    add("calls_total", "Calls to other processes.", .counter) { Double($0.calls) }
    add("served_total", "Calls of other processes that were served.", .counter) { Double($0.served) }
    add("refused_requests_total", "Calls of others that were refused because too many wait.", .counter) { Double($0.refusedRequests) }
    add("malformed_frames_total", "Frames that were dropped because they are none of ours.", .counter) { Double($0.malformedFrames) }
    add("calls_under_way", "Calls to other processes that wait for their answer.", .gauge) { Double($0.callsUnderWay) }
    add("calls_in_backlog", "Calls that wait for a place in a peer's window.", .gauge) { Double($0.callsInBacklog) }
    add("handlers_running", "Handlers at work for other processes.", .gauge) { Double($0.handlersRunning) }
    add("requests_waiting", "Calls of others that wait for a handler or their turn.", .gauge) { Double($0.requestsWaiting) }
    add("nested_handlers_running", "Handlers at work for calls that other handlers make.", .gauge) { Double($0.nestedHandlersRunning) }
    add("nested_requests_waiting", "Calls of other handlers that wait for a handler or their turn.", .gauge) { Double($0.nestedRequestsWaiting) }
    metrics.collect("bus_failures_total", "Calls that failed, by code.", kind: .counter) {
      await read().failures.sorted { $0.key.rawValue < $1.key.rawValue }.map { Metrics.Sample(Double($0.value), labels: [("code", $0.key.rawValue)]) }
    }
    metrics.collect("bus_peers", "Connected processes, by role.") {
      Role.allCases.map { role in Metrics.Sample(Double(made.bus.peers.count { $0.role == role }), labels: [("role", role.rawValue)]) }
    }
  }
}
