// Measures the mapping alone, without stores and processes: objects to records and back, on one core.

import Mirroring
import ObjectModel

@main
enum Tool {
  static let usage = """
    usage: MirroringTool map RECORDS
             exports so many objects into records, 80 transactions of five at a time, and imports those; prints \
    records a second of each,
             by the process's own time, the best of five rounds
           MirroringTool profile RECORDS
             the same once, for a profiler
    """

  static func main() throws {
    let arguments = Array(CommandLine.arguments.dropFirst())
    guard arguments.count == 2, let count = Int(arguments[1]), count >= 1000 else { return print(usage) }
    switch arguments[0] {
    case "map": try MappingBench(recordCount: count).run(rounds: 5)
    case "profile": try MappingBench(recordCount: count).run(rounds: 1)
    default: print(usage)
    }
  }
}
