// An installation in two clusters, whose shards are divided while users save and a worker is killed.

import Foundation
import PrivateCluster
import Testing

@Suite(.serialized) struct ShardSplitTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  @Test(.timeLimit(.minutes(3)))
  func `shards are divided while users save, also when a worker is killed, and a backup has all of them`() async throws
  {
    let server = try PrivateCluster()
    func address(_ name: String) -> String { "\(name)=postgresql://aquifer@127.0.0.1:\(server.port)/\(name)" }
    let names = ["main", "west"]
    for name in names { try server.run("CREATE DATABASE \(name)") }
    try await SeparateProcesses.run { processes in
      let assets = processes.folder.path + "/assets"
      func start(_ worker: String) async throws {
        try await processes.start(
          worker,
          [
            "--data", processes.folder.path + "/" + worker, "--assets", assets, "--allow-asynchronous", "--records",
            names.map(address).joined(separator: " "),
          ])
      }
      try await processes.start("share-1", ["--data", processes.folder.path + "/directory", "--shards", "2"])
      for worker in ["worker-1", "worker-2"] { try await start(worker) }
      let gateway = try await FolderWorld.startGateway(processes, assets: assets)
      let app = try await App(processes.installation(gateway: gateway), model: Self.model)
      let installation = app.installation
      func shards() async throws -> [Value] {
        try Value(json: Array(try await installation.aquifer("--json", "shards").output.utf8))["shards"].elements
      }
      func split(_ shard: Int, to cluster: String, makes count: Int) async throws {
        while true {
          let asked = try await installation.aquifer("shards", "split", "\(shard)", "--to", cluster)
          if asked.code == 0 { break }
          // A worker that was killed is not ready yet, or the last step of a division waits for one.
          let isEarly = ["No ready worker", "waits for its last step"].contains { asked.problem.contains($0) }
          try #require(isEarly, "\(asked.problem)")
          try await Task.sleep(for: .milliseconds(50))
        }
        while true {
          let told = try await shards()
          let areOpen = told.allSatisfy { $0["state"] == "open" && $0["splitsInto"].string == nil }
          if areOpen, told.count == count { break }
          try await Task.sleep(for: .milliseconds(50))
        }
      }

      var savers: [(user: User, device: Device, ledger: SaveLedger)] = []
      for number in 0..<8 {
        let user = try await app.user("user-\(number)")
        savers.append((user, try await user.device("phone"), SaveLedger()))
      }
      let saving = savers
      async let saved: Void = withThrowingTaskGroup(of: Void.self) { group in
        for saver in saving { group.addTask { try await saver.ledger.save(60, on: saver.device) } }
        try await group.waitForAll()
      }
      try await split(0, to: "west", makes: 3)
      let second = try await installation.aquifer("shards", "split", "1")
      #expect(second.code == 0, "\(second.problem)")
      try processes.end("worker-1", by: SIGKILL)
      try await start("worker-1")
      while try await shards().count < 4 { try await Task.sleep(for: .milliseconds(50)) }
      try await split(2, to: "main", makes: 5)
      try await saved
      #expect(try await shards().map { $0["cluster"].string } == ["main", "west", "west", "west", "main"])
      for saver in savers {
        #expect(saver.ledger.entries.acknowledged.count == 60 && saver.ledger.entries.refusals == [])
        try await saver.ledger.expectEachOnce(on: [saver.device], of: saver.user)
      }
      let backup = try await installation.aquifer("backup", processes.folder.path + "/backup")
      #expect(backup.code == 0, "\(backup.problem)")
      let scrub = try await installation.aquifer("scrub", "--assets")
      #expect(scrub.code == 0, "\(scrub.problem) \(scrub.output)")
      let restored = try await installation.aquifer(
        "restore", processes.folder.path + "/backup", "--data", processes.folder.path + "/restored")
      #expect(restored.code == 0, "\(restored.problem)")
    }
  }
}
