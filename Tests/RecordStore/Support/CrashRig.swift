// Runs the write loop in a process, ends it abruptly, and compares the rest with its ledger.

import Assets
import Foundation
import RecordStore
import Records
import Testing

struct CrashRig {
  let folder: TemporaryFolder
  var data: String { folder.path + "/data" }
  var ledger: String { folder.path + "/ledger" }
  var powerLog: String { folder.path + "/power.log" }
  var nameLog: String { folder.path + "/names.log" }

  static let tool = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(
    path: "RecordStoreTool"
  ).path
  /// The folder of the shared tools; nil where it is absent.
  static let sharedTools: String? = {
    // Five levels up from Tests/RecordStore/Support/CrashRig.swift, to the folder that holds the project.
    var folder = URL(filePath: #filePath)
    for _ in 0..<5 { folder.deleteLastPathComponent() }
    let tools = folder.appending(path: "shared/tools").path
    return FileManager.default.fileExists(atPath: tools + "/powerfail.c") ? tools : nil
  }()

  init() throws {
    folder = try TemporaryFolder()
    try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
  }

  /// Runs the loop until the ledger has `acknowledged` more lines (or the process ends by itself), then kills it.
  /// - Returns: its exit status; 9 when it was killed.
  func run(
    seed: Int, acknowledged: Int, synchronous: String = "FULL", usesAssets: Bool = false,
    environment: [String: String] = [:]
  ) throws -> Int32 {
    let target = try acknowledgedKeys().count + acknowledged
    let process = try ChildProcess(
      Self.tool, ["write-loop", data, ledger, "\(seed)", synchronous] + (usesAssets ? ["assets"] : []),
      environment: environment)
    let deadline = Date(timeIntervalSinceNow: 20)
    while Date() < deadline, try acknowledgedKeys().count < target {
      if let result = process.result() { return result }
      usleep(2000)
    }
    process.kill()
    return process.wait()
  }

  func acknowledgedKeys() throws -> [String] {
    guard let data = FileManager.default.contents(atPath: ledger) else { return [] }
    return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
  }

  struct Findings: Equatable {
    /// Acknowledged bodies that are missing.
    var lost: [String] = []
    /// Contradictions within the shard.
    var problems: [String] = []
  }

  /// Opens the shard, and compares it with the ledger and with itself.
  func check() async throws -> Findings {
    // A power cut makes this file worthless; SQLite makes it again.
    if FileManager.default.fileExists(atPath: data + "/shard-0.sqlite-shm") {
      try FileManager.default.removeItem(atPath: data + "/shard-0.sqlite-shm")
    }
    let store = try SQLiteRecordStore(
      SQLiteConfiguration(directory: data, assets: AssetFolder(directory: data + "/assets")), shardCount: 1)
    let shard = try await store.open(shard: 0)
    let acknowledged = try acknowledgedKeys()
    var findings = try await shard.read { snapshot in
      var findings = Findings()
      for key in acknowledged where try snapshot.outcome(of: key) == nil { findings.lost.append(key) }
      for mirror in try snapshot.mirrors(afterKey: 0, limit: 99) {
        findings.problems += try Self.problems(of: mirror, in: snapshot)
      }
      return findings
    }
    findings.problems += try await #require(shard as? SQLiteShardStore).verify(readsAssets: true).problems
    await shard.close()
    return findings
  }

  /// Each body must be there completely or not at all: history, outcome and records agree.
  private static func problems(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> [String] {
    var problems: [String] = []
    let zone = try #require(try snapshot.zone(named: "zone", in: mirror.databaseKey))
    let history = try snapshot.transactions(of: mirror.key, after: 0, limit: 1_000_000)
    if history.map(\.number) != Array(0..<mirror.lastTransactionNumber).map({ $0 + 1 }) {
      problems.append("history of \(mirror.key) has gaps")
    }
    var latest: [String: (sequence: Int64, key: String)] = [:]
    for transaction in history {
      if try snapshot.outcome(of: transaction.transactionID) != transaction.payload {
        problems.append("\(transaction.transactionID) has no outcome")
      }
      for line in String(decoding: transaction.payload, as: UTF8.self).split(separator: ";") {
        let parts = line.split(separator: "=")
        latest[String(parts[0])] = (Int64(parts[1]) ?? 0, transaction.transactionID)
      }
    }
    for stored in try snapshot.changes(in: zone.key, after: 0, limit: 1_000_000) {
      let expected = latest.removeValue(forKey: stored.record.recordName)
      if expected?.sequence != stored.sequence || stored.record.fields.string("CD_title") != expected?.key {
        problems.append(
          """
          \(stored.record.recordName) has sequence \(stored.sequence), its history says \(String(describing: expected))
          """
        )
      }
    }
    if !latest.isEmpty { problems.append("records are missing: \(latest.keys.sorted())") }
    return problems
  }
}
