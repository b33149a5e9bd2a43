// The store in a process of its own, for tests that kill it and for measurements.

import Glibc
import RecordStore

@main
enum Tool {
  static let usage = """
    usage: RecordStoreTool write-loop DIRECTORY LEDGER SEED SYNCHRONOUS [assets]
             saves until it is killed; a line in LEDGER for each acknowledged body; SYNCHRONOUS is FULL, or NORMAL to \
    see what it loses;
             with assets every third body has content of its own in DIRECTORY/assets
           RecordStoreTool bench DIRECTORY WORKLOAD SECONDS SHARDS WRITERS
             WORKLOAD: single, batch, update, updateBatch, pages, outcomes, history, empty
           RecordStoreTool queries DIRECTORY RECORDS
             searches by two indexes in a zone of so many records
           RecordStoreTool grow DIRECTORY KIND COUNT SECONDS SHARDS
             fills up to so many and measures what depends on how many there are; prints one JSON object. KIND: \
    records, zones, stores, history
    """

  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    switch (arguments.first, arguments.count) {
    case ("bench", 6):
      guard let workload = Bench.Workload(rawValue: arguments[2]), let seconds = Double(arguments[3]),
        let shards = Int(arguments[4]),
        let writers = Int(arguments[5])
      else { return print(usage) }
      do {
        try await Bench(
          directory: arguments[1], workload: workload, seconds: seconds, shardCount: shards, writerCount: writers
        ).run()
      } catch {
        print("the folder must be new: \(error)")
      }
    case ("grow", 6):
      guard let kind = Growth.Kind(rawValue: arguments[2]), let count = Int(arguments[3]), count >= 1000,
        let seconds = Double(arguments[4]),
        let shards = Int(arguments[5]), shards > 0
      else { return print(usage) }
      do {
        try await Growth(directory: arguments[1], kind: kind, count: count, seconds: seconds, shardCount: shards).run()
      } catch {
        print("failed: \(error)")
        exit(1)
      }
    case ("queries", 3):
      guard let count = Int(arguments[2]), count >= 1000 else { return print(usage) }
      do {
        try await QueryBench(directory: arguments[1], recordCount: count).run()
      } catch {
        print("the folder must be new: \(error)")
      }
    case ("write-loop", 5), ("write-loop", 6):
      guard let seed = UInt64(arguments[3]), ["FULL", "NORMAL"].contains(arguments[4]) else { return print(usage) }
      await WriteLoop(
        directory: arguments[1], ledger: arguments[2], seed: seed, synchronous: arguments[4],
        usesAssets: arguments.count == 6
      ).run()
    default: print(usage)
    }
  }
}
