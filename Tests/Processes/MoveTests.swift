// A move through real processes: ten thousand objects go to another zone at once, while another device imports.

import Foundation
import Testing

@Suite(.serialized) struct MoveTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let home = "com.apple.coredata.cloudkit.zone"
  private static let count = 10_000

  /// The peak of a process's resident memory since its start, in bytes.
  private static func peakMemory(of pid: Int32) throws -> Int {
    let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
    return 1024 * (try #require(line.split(separator: " ").compactMap { Int($0) }.first))
  }

  /// A device's observations of a move.
  private actor Watcher {
    private var graph = Graph()
    private var token = Value.null
    private(set) var deletions = 0
    /// The number of objects in the new zone at the end of each import.
    private(set) var counts: Set<Int> = []

    func look(_ device: Device, zone: String) async throws {
      let (changes, next) = try await device.changes(after: token)
      token = next
      for change in changes {
        if ["delete", "unlink"].contains(change["changeType"].string) { deletions += 1 }
        try graph.apply(change)
      }
      counts.insert(graph.objects.values.count { $0.zone["zoneName"].string == zone })
    }

    var objectCount: Int { graph.objects.count }
  }

  @Test(.timeLimit(.minutes(5)))
  func `T-P02 ten thousand objects move at once, whoever looks, with progress to be seen and little memory`()
    async throws
  {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let (device, other) = (try await user.device("phone"), try await user.device("tablet"))
      let name = String(repeating: "x", count: 300)
      try await device.save([MainJob.insert("Post", "album", ["title": "album"])])
      for start in stride(from: 1, to: Self.count, by: 1000) {
        try await device.save(
          (start..<min(start + 1000, Self.count)).map {
            MainJob.insert("Attachment", "A\($0)", ["fileName": .string(name)], ["post": "album"])
          })
      }
      let made = try await user.records(
        "zones/modify", ["operations": [["operationType": "create", "zone": ["zoneID": ["zoneName": "Trips"]]]]])
      #expect(made["zones"][0]["serverErrorCode"] == .null, "\(made)")
      let watcher = Watcher()
      try await watcher.look(other, zone: "Trips")
      #expect(await watcher.objectCount == Self.count)
      let pid = try #require(try installation.now().pids["worker"]?.first)
      let base = try Self.peakMemory(of: pid)

      let began = ContinuousClock.now
      async let moved = device.call("POST", "/move", ["objectIDs": ["A77"], "to": ["zoneName": "Trips"]])
      let progress = Task {
        var phases: Set<String> = []
        while !Task.isCancelled {
          // Dropped because a request cut off at the end has no answer.
          if let phase = try? await device.call("GET", "/status")["move"]["phase"].string { phases.insert(phase) }
        }
        return phases
      }
      let looking = Task { while !Task.isCancelled { try await watcher.look(other, zone: "Trips") } }
      let answer = try await moved
      let time = began.duration(to: .now)
      progress.cancel()
      looking.cancel()
      let phases = await progress.value
      _ = await looking.result
      try await watcher.look(other, zone: "Trips")
      print(
        """
        T-P02: \(Self.count) objects moved in \(time), seen \(phases.sorted()); memory \(base / 1_000_000) MB before, \
        \(try Self.peakMemory(of: pid) / 1_000_000) MB at most
        """
      )

      #expect(answer["moved"].elements.count == Self.count)
      #expect(await watcher.counts.isSubset(of: [0, Self.count]))
      #expect(await watcher.deletions == 0)
      #expect(await watcher.counts.contains(Self.count))
      #expect(!phases.isEmpty)
      #expect(try Self.peakMemory(of: pid) < base + 300_000_000)
      let event = try await device.call("GET", "/events?type=export")["events"].elements.last ?? .null
      #expect(event["counts"]["saved"].integer == Int64(Self.count) && event["succeeded"].bool == true, "\(event)")
      let (here, there) = (
        try await user.allRecords(in: Self.home).records, try await user.allRecords(in: "Trips").records
      )
      #expect(here.isEmpty && there.count == Self.count)
      // A repeated request of a disconnected client finds everything done.
      #expect(
        try await device.call("POST", "/move", ["objectIDs": ["A77"], "to": ["zoneName": "Trips"]])["moved"].elements
          .isEmpty)
    }
  }
}
