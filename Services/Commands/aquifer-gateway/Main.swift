// The gateway's executable.

import Gateway
import ServiceBus
import ServiceKit

@main
enum Main {
  static func main() async {
    await ServiceProcess(
      role: .gateway, summary: "Serves clients over HTTP: authenticates, and forwards to the worker that holds their data.", options: GatewayService.options,
      examples: GatewayService.examples
    ) { context, handlers in try GatewayService.prepare(context, &handlers) }.run()
  }
}
