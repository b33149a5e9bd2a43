// A process that the bus's tests kill, suspend and drain. It serves the test messages until standard input ends.

import Glibc
import ServiceBus

/// Arguments: name, role, endpoint to bind, seconds of liveness, endpoints to connect to. It prints the endpoint it
/// bound, answers each `drain` line on standard input with `drained`, and ends a `Stall` at a line `go on`.
@main
enum Main {
  static func main() async throws {
    let arguments = CommandLine.arguments
    guard arguments.count >= 5, let role = Role(rawValue: arguments[2]), let liveness = Int(arguments[4]) else {
      exit(64)
    }
    var configuration = BusConfiguration()
    configuration.liveness = .seconds(liveness)
    var handlers = HandlerState(name: arguments[1]).handlers()
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { exit(71) }
    handlers.on(Stall.self, isBrief: { _, _ in true }) { [source = ends[0]] _, _, _ in
      var byte: UInt8 = 0
      _ = read(source, &byte, 1)
      return Answer(Acknowledgement())
    }
    let bus = try ZeroMQBus(
      name: arguments[1], role: role, endpoint: arguments[3], isReady: true, handlers: handlers,
      configuration: configuration)
    for endpoint in arguments.dropFirst(5) { bus.connect(to: endpoint) }
    say(bus.endpoint)
    while let line = readLine() {
      switch line {
      case "drain":
        await bus.drain(within: .seconds(10))
        say("drained")
      case "go on": _ = write(ends[1], "!", 1)
      default: continue
      }
    }
    bus.close()
  }

  private static func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    write(1, bytes, bytes.count)
  }
}
