// Small requests that could use much memory: the gateway's peak is bounded.

import Foundation
import Testing

@Suite(.serialized) struct GatewayMemoryTests {
  /// The peak of a gateway's memory. Unit: megabytes.
  private static func peak(_ installation: Installation) throws -> Int {
    let pid = try #require(try installation.now().pids["gateway"]?.first)
    let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
    return (Int(line.split(whereSeparator: \.isWhitespace)[1]) ?? 0) / 1024
  }

  /// A body that names unknown owners, with a large member that the call ignores.
  private static func body(owners: Int, byteCount: Int) -> [UInt8] {
    let zones = (0..<owners).map { #"{"zoneID":{"zoneName":"T","ownerRecordName":"_nobody\#($0)"}}"# }.joined(
      separator: ",")
    return Array(#"{"junk":"\#(String(repeating: "x", count: byteCount))","zones":[\#(zones)]}"#.utf8)
  }

  @Test(.timeLimit(.minutes(4)), arguments: ["zones/lookup", "changes/zone"])
  func `requests of 200 owners cost the gateway less than 128 MB, however large and many they are`(call: String)
    async throws
  {
    try await Installation.run { installation in
      let app = try await App(
        installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
      let cem = try await app.user("cem")
      _ = try await cem.records("zones/list", [:], in: "shared")
      let before = try Self.peak(installation)
      let url = "\(installation.ready.gateway)/database/1/\(app.container)/development/shared/\(call)"
      for byteCount in [2_100_000, 900_000, 10_000] {
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
          for _ in 0..<(byteCount > 1_000_000 ? 1 : 20) {
            group.addTask {
              try await installation.send(
                "POST", url, bearer: cem.token, bytes: Self.body(owners: 200, byteCount: byteCount)
              ).status
            }
          }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses.allSatisfy { [200, 400, 404, 413, 429, 503].contains($0) }, "\(statuses)")
      }
      let grown = try Self.peak(installation) - before
      #expect(grown < 128, "the gateway's memory grew by \(grown) MB from \(before) MB")
    }
  }
}
