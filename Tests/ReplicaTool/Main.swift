// A process of a client's store: it saves, imports or migrates until it is killed, or measures how fast it is.

import FoundationEssentials

@main
enum ReplicaTool {
  static func main() async throws {
    let words = CommandLine.arguments
    guard words.count >= 4 else { return help() }
    let (store, ledger, count) = (words[2], words[3], words.count > 4 ? Int(words[4]) : nil)
    switch words[1] {
    case "measure":
      guard let count = Int(words[3]) else { return help() }
      let parts = words.dropFirst(4).compactMap(Measurements.Part.init)
      try await Measurements(folder: words[2], count: count).run(parts.isEmpty ? Measurements.Part.allCases : parts)
    case "switches", "reuploads":
      let switches = AccountSwitches(store: store, ledger: ledger, hasReuploads: words[1] == "reuploads")
      try await switches.run(count: count)
    case "tracks": try await Tracks(store: store, ledger: ledger).run(count: count)
    case "zoneEnds": try await ZoneEnds(store: store, ledger: ledger).run(count: count)
    case "consumes": try await HistoryReader(store: store, ledger: ledger).run(count: count)
    default:
      guard let kind = Endless.Kind(rawValue: words[1]) else { return help() }
      try await Endless(store: store, ledger: ledger).run(kind, count: count)
    }
  }

  private static func help() {
    let kinds = Endless.Kind.allCases.map(\.rawValue) + ["switches", "reuploads", "tracks", "consumes", "zoneEnds"]
    print("replica-tool \(kinds.joined(separator: "|")) STORE LEDGER [COUNT]")
    print("replica-tool measure FOLDER COUNT [\(Measurements.Part.allCases.map(\.rawValue).joined(separator: "|"))]")
  }
}
