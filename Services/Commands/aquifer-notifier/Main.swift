// The notifier's executable.

import Notifier
import ServiceBus
import ServiceKit

@main
enum Main {
  static func main() async {
    await ServiceProcess(
      role: .notifier,
      summary: """
        The notifier keeps devices' connections (event streams and the web courier's long polls). A silent ping tells \
        a device which zone changed. The notifier stores nothing: after a missed ping, a device finds the changes with \
        its change token. Run as many as you like.
        """,
      options: Notifier.options,
      examples: [
        "aquifer-notifier --share ipc:///run/aquifer/share.sock",
        "aquifer-notifier --http 0.0.0.0:8081 --public-url https://pings.example.org --name notifier-%h",
        """
        curl -N -H 'Authorization: Bearer TOKEN' \
        http://127.0.0.1:8081/mirror/1/iCloud.org.example.photos/development/pings
        """,
      ]
    ) { context, handlers in
      let notifier = Notifier(context)
      notifier.register(in: &handlers)
      return { bus in try await notifier.start(on: bus, context) }
    }.run()
  }
}
