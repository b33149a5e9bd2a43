// A process of a client's store: it saves, imports or migrates until it is killed, or measures how fast it is.

import FoundationEssentials

@main
enum ReplicaTool {
  static func main() async throws {
    let words = CommandLine.arguments
    if words.count >= 4, words[1] == "measure", let count = Int(words[3]) {
      let parts = words.dropFirst(4).compactMap(Measurements.Part.init)
      try await Measurements(folder: words[2], count: count).run(parts.isEmpty ? Measurements.Part.allCases : parts)
    } else if words.count >= 4, words[1] == "switches" {
      try await AccountSwitches(store: words[2], ledger: words[3]).run(count: words.count > 4 ? Int(words[4]) : nil)
    } else if words.count >= 4, let kind = Endless.Kind(rawValue: words[1]) {
      try await Endless(store: words[2], ledger: words[3]).run(kind, count: words.count > 4 ? Int(words[4]) : nil)
    } else {
      let kinds = Endless.Kind.allCases.map(\.rawValue) + ["switches"]
      print("replica-tool \(kinds.joined(separator: "|")) STORE LEDGER [COUNT]")
      print("replica-tool measure FOLDER COUNT [\(Measurements.Part.allCases.map(\.rawValue).joined(separator: "|"))]")
    }
  }
}
