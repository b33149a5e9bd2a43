// A process that the bus's tests kill, suspend and drain. It serves the test messages until standard input ends.

import Glibc
import ServiceBus

/// Arguments: name, role, endpoint to bind, seconds of liveness, endpoints to connect to. It prints the endpoint it
/// bound, and answers each `drain` line on standard input with `drained`.
@main
enum Main {
  static func main() async throws {
    let arguments = CommandLine.arguments
    guard arguments.count >= 5, let role = Role(rawValue: arguments[2]), let liveness = Int(arguments[4]) else {
      exit(64)
    }
    var configuration = BusConfiguration()
    configuration.liveness = .seconds(liveness)
    let state = HandlerState(name: arguments[1])
    let bus = try ZeroMQBus(
      name: arguments[1], role: role, endpoint: arguments[3], isReady: true, handlers: state.handlers(),
      configuration: configuration)
    for endpoint in arguments.dropFirst(5) { bus.connect(to: endpoint) }
    say(bus.endpoint)
    while let line = readLine() {
      guard line == "drain" else { continue }
      await bus.drain(within: .seconds(10))
      say("drained")
    }
    bus.close()
  }

  private static func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    write(1, bytes, bytes.count)
  }
}
