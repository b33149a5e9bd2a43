// Checks that processes of an earlier release refuse files of a newer one and leave them unchanged.

import Glibc
import HTTPClient
import Installations
import JSON

/// Ends an installation, starts processes of an earlier release on its files, and starts it again.
struct Downgrade {
  private let installation: Installation
  private let binaries: String
  private let fleet: Fleet
  private let ledger: Ledger

  /// A worker's log line for each shard that it refuses, at every attempt.
  private static let refusal = "the store was written by a newer release"
  /// A share service's message about a directory that it refuses, before it exits with `EX_CONFIG`. No worker opens a
  /// shard then.
  private static let directoryRefusal = "directory.sqlite has format"
  private static let limit: Duration = .seconds(30)

  init(_ installation: Installation, binaries: String, _ fleet: Fleet, _ ledger: Ledger) {
    self.installation = installation
    self.binaries = binaries
    self.fleet = fleet
    self.ledger = ledger
  }

  /// Notes every violation as a refusal.
  func run(_ population: Population) async throws {
    await fleet.stopAll()
    let before = files()
    guard before.count == installation.shardCount else {
      throw RunError("there are \(before.count) files of \(installation.shardCount) shards")
    }
    let earlier = Fleet(installation, binaries: binaries)
    let watch = Task { await earlier.watch() }
    for role in Role.allCases { try await earlier.start(role, 1) }
    let end = ContinuousClock.now + Self.limit
    while !refusesDirectory(), refusedShards().count < installation.shardCount, ContinuousClock.now < end {
      try await Task.sleep(for: .milliseconds(50))
    }
    let refused = refusedShards()
    let hasNoDirectory = refusesDirectory()
    if !hasNoDirectory, refused.count < installation.shardCount {
      ledger.refused(
        "an earlier release's worker refused only the shards \(refused.sorted()) of \(installation.shardCount)")
    }
    if let database = population.databases.first(where: { $0.plane != .objects }) { await ask(database, population) }
    await earlier.stopAll()
    watch.cancel()
    await watch.value
    // A restarted process may be killed before it listens to signals.
    let ends = hasNoDirectory ? [EX_CONFIG, -SIGTERM].map { " ended with \($0) by itself" } : []
    for fault in await earlier.faults where !(fault.hasPrefix("share-1 ") && ends.contains { fault.contains($0) }) {
      ledger.refused(fault)
    }
    for (name, bytes) in files() where before[name] != bytes {
      ledger.refused("an earlier release has changed \(name)")
    }
    await fleet.plugIn()
    await fleet.waitUntilWhole()
  }

  /// The content of shards' files by name, with write-ahead logs that are not empty.
  private func files() -> [String: [UInt8]] {
    var files: [String: [UInt8]] = [:]
    for shard in 0..<installation.shardCount {
      for ending in ["", "-wal"] {
        let name = "shard-\(shard).sqlite\(ending)"
        if let bytes = ServerProcess.contents("\(installation.data)/shards/\(name)"), !bytes.isEmpty {
          files[name] = bytes
        }
      }
    }
    return files
  }

  private func refusesDirectory() -> Bool {
    String(decoding: ServerProcess.contents("\(installation.logs)/share-1.log") ?? [], as: UTF8.self).contains(
      Self.directoryRefusal)
  }

  private func refusedShards() -> Set<Int64> {
    let log = ServerProcess.contents("\(installation.logs)/worker-1.log") ?? []
    var shards: Set<Int64> = []
    for line in String(decoding: log, as: UTF8.self).split(separator: "\n") where line.contains(Self.refusal) {
      // Dropped because the next look reads a line that is still being written.
      if let shard = (try? JSONValue(parsing: Array(line.utf8)))?["shard"]?.int64 { shards.insert(shard) }
    }
    return shards
  }

  /// A lookup must fail, in whatever way.
  private func ask(_ database: Database, _ population: Population) async {
    let body = Array(#"{"records":[{"recordName":"\#(Population.counters[0])"}],"zoneID":{"zoneName":"Chaos"}}"#.utf8)
    let url = installation.gateways[0].url + population.recordPath("records/lookup", of: database)
    // Dropped because no answer counts as a refusal.
    let answer = try? await HTTPClient().send(
      "POST", url, headers: [HTTPClient.Header("Content-Type", "application/json")], body: body, timeout: Self.limit)
    if let answer, answer.status == 200 { ledger.refused("an earlier release answers a lookup in a newer one's file") }
  }
}
