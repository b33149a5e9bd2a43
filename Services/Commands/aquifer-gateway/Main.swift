// The gateway's executable.

import Gateway
import ServiceBus
import ServiceKit

@main
enum Main {
  static func main() async {
    await ServiceProcess(
      role: .gateway,
      summary: "Serves clients over HTTP: authenticates requests, and forwards them to the workers that hold the data.",
      options: GatewayService.options,
      examples: GatewayService.examples
    ) { context, handlers in try GatewayService.prepare(context, &handlers) }.run()
  }
}
