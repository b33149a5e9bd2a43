// The share service's executable.

import ServiceBus
import ServiceKit
import ShareService

@main
enum Main {
  static func main() async {
    await ServiceProcess(
      role: .share, summary: "Keeps users, tokens, containers and schemas, and says which worker holds which shard.",
      options: ShareService.options,
      examples: [
        "aquifer-share --data ./data", "AQUIFER_DATA=/data AQUIFER_BUS=ipc:///run/aquifer/share.sock aquifer-share",
      ]
    ) { context, handlers in
      let share = try await ShareService.leading(context)
      share.register(in: &handlers)
      return { bus in try await share.start(on: bus, context) }
    }.run()
  }
}
