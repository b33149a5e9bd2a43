// The sync worker's executable.

import ServiceBus
import ServiceKit
import WorkerHost

@main
enum Main {
  static func main() async {
    await ServiceProcess(
      role: .worker, summary: "Holds shards: zones, records, history, and the mirroring between them.",
      options: Worker.options,
      examples: ["aquifer-worker --data /var/lib/aquifer --share ipc:///run/aquifer/share.sock"],
      shardFormat: Worker.shardFormat, clusters: Worker.clusters
    ) { context, handlers in
      let worker = try Worker(context)
      worker.register(in: &handlers)
      return { bus in try await worker.start(on: bus) }
    }.run()
  }
}
