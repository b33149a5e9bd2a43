// A process of a client's store: it saves, imports or migrates until it is killed, or measures how fast it is.

import FoundationEssentials

@main
enum ReplicaTool {
  static func main() async throws {
    let arguments = CommandLine.arguments
    guard arguments.count >= 3 else {
      print("replica-tool saves|imports|migrates STORE LEDGER | measure FOLDER")
      return
    }
    switch arguments[1] {
    case "measure": try await Measurements(folder: arguments[2]).run()
    default: try await Endless(store: arguments[2], ledger: arguments[3]).run(arguments[1])
    }
  }
}
