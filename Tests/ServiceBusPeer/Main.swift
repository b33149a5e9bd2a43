// A process that the bus's tests kill and stop: serves the test messages until standard input ends.

import CLinux
import ServiceBus

@main
enum Main {
  static func main() async throws {
    let arguments = CommandLine.arguments
    guard arguments.count >= 3 else { return }
    _ = (arguments, HandlerState(name: arguments[1]))
  }
}
