// An installation whose shards move to PostgreSQL by a command, and back while it serves. Both are killed meanwhile.

import Foundation
import PrivateCluster
import Testing

@Suite(.serialized) struct MigrationTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  /// The cluster has no standby.
  private static let laxity = ["--allow-asynchronous"]

  @Test(.timeLimit(.minutes(1)))
  func `an installation moves to PostgreSQL and back, also when the command and a worker are killed`() async throws {
    let cluster = try PrivateCluster()
    try await SeparateProcesses.run { processes in
      let (data, own) = (processes.folder.path + "/files", processes.folder.path + "/own")
      let files = ["--data", data]
      let database = ["--data", own, "--assets", data + "/assets", "--records", cluster.address] + Self.laxity
      let command = ["migrate", "--from", data, "--to", cluster.address] + Self.laxity
      try await processes.start("share-1", ["--data", processes.folder.path + "/directory", "--shards", "4"])
      try await processes.start("worker-1", files)
      let gateway = try await FolderWorld.startGateway(processes, assets: data + "/assets")
      let app = try await App(processes.installation(gateway: gateway), model: Self.model)
      let alice = try await app.user("alice")
      let (device, ledger) = (try await alice.device("phone"), SaveLedger())
      let picture = try await alice.upload([1, 2, 3])
      _ = try await alice.saveNote("n", blob: picture)

      try await ledger.save(60, on: device)
      let refused = try CommandLineTool.run(command)
      #expect(refused.code == 1 && refused.problem.contains("is held by"), "\(refused.problem)")
      try processes.end("worker-1", by: SIGTERM)
      let trial = try CommandLineTool.run(command + ["--dry-run", "--json"])
      let count = try Value(json: Array(trial.output.utf8))["moved"]
      #expect(count == 4, "\(trial.output)\(trial.problem)")
      try await Self.killAgainAndAgain(command)
      let again = try CommandLineTool.run(command + ["--json"])
      #expect(try Value(json: Array(again.output.utf8))["present"] == count, "\(again.output)\(again.problem)")
      try await processes.start("worker-1", database)
      try await ledger.save(20, on: device)

      // Back while users save, by a worker that is killed once, perhaps before it says that a shard has moved.
      try processes.end("worker-1", by: SIGTERM)
      async let saving: Void = ledger.save(60, on: device)
      let back = files + ["--records-from", cluster.address] + Self.laxity
      for worker in ["worker-2", "worker-3"] {
        try await processes.start(worker, back)
        try await Self.waitForMoves(worker == "worker-2" ? 1 : 3, in: processes)
        if worker == "worker-2" { try processes.end(worker, by: SIGKILL) }
      }
      try await saving
      try processes.end("worker-3", by: SIGTERM)
      let rest = try CommandLineTool.run(["migrate", "--from", cluster.address, "--to", data] + Self.laxity)
      #expect(rest.code == 0, "\(rest.output)\(rest.problem)")
      try await processes.start("worker-1", files)
      try await ledger.save(20, on: device)
      #expect(ledger.entries.acknowledged.count == 160 && ledger.entries.refusals == [])
      try await ledger.expectEachOnce(on: [device], of: alice)
      let url = try #require(try await alice.note("n")["fields"]["blob"]["value"]["downloadURL"].string)
      #expect(try await app.installation.send("GET", url).bytes == [1, 2, 3])
      let scrub = try await app.installation.aquifer("scrub", "--assets")
      #expect(scrub.code == 0, "\(scrub.output)\(scrub.problem)")
    }
  }

  /// Waits until the workers that move shards back have moved so many in all, according to their logs.
  private static func waitForMoves(_ count: Int, in processes: SeparateProcesses) async throws {
    for _ in 0..<3000 {
      let logs = ["worker-2", "worker-3"].compactMap { try? processes.log(of: $0) }
      if logs.reduce(0, { $0 + $1.components(separatedBy: " has moved to ").count - 1 }) >= count { return }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("\(count) shards have not moved")
  }

  /// Gives the command again, and kills it a little later each time, until it ends by itself.
  private static func killAgainAndAgain(_ words: [String]) async throws {
    var wait = Duration.milliseconds(20)
    while true {
      let tool = Process()
      tool.executableURL = Checkout.products.appending(path: "aquifer")
      tool.arguments = words
      tool.standardOutput = FileHandle.nullDevice
      tool.standardError = FileHandle.nullDevice
      try tool.runUnblocked()
      try await Task.sleep(for: wait)
      if tool.isRunning { kill(tool.processIdentifier, SIGKILL) }
      tool.waitUntilExit()
      if tool.terminationReason == .exit {
        #expect(tool.terminationStatus == 0)
        return
      }
      wait += .milliseconds(40)
    }
  }
}
