// The store in a process of its own: for tests that kill it, and for measuring it.

import RecordStore

@main
enum Tool {
  static let usage = """
    usage: RecordStoreTool write-loop DIRECTORY LEDGER SEED
             saves until it is killed; a line in LEDGER for each acknowledged body
           RecordStoreTool bench DIRECTORY WORKLOAD SECONDS SHARDS WRITERS
             WORKLOAD: single, batch, update, mixed, pages, outcomes, history
    """

  static func main() async throws {
    let arguments = Array(CommandLine.arguments.dropFirst())
    switch (arguments.first, arguments.count) {
    case ("bench", 6):
      guard let workload = Bench.Workload(rawValue: arguments[2]), let seconds = Double(arguments[3]), let shards = Int(arguments[4]),
        let writers = Int(arguments[5])
      else { return print(usage) }
      try await Bench(directory: arguments[1], workload: workload, seconds: seconds, shardCount: shards, writerCount: writers).run()
    default: print(usage)
    }
  }
}
