// An installation in three clusters, whose shards move while users save and a worker is killed.

import Foundation
import PrivateCluster
import Testing

@Suite(.serialized) struct ClusterTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let shardCount = 24

  @Test(.timeLimit(.minutes(2)))
  func `shards spread over three clusters, and move while users save, also when a worker is killed`() async throws {
    let server = try PrivateCluster()
    func address(_ name: String) -> String { "\(name)=postgresql://aquifer@127.0.0.1:\(server.port)/\(name)" }
    let names = ["main", "east", "west"]
    for name in names { try server.run("CREATE DATABASE \(name)") }
    try await SeparateProcesses.run { processes in
      let assets = processes.folder.path + "/assets"
      func start(_ worker: String, _ clusters: [String]) async throws {
        try await processes.start(
          worker,
          [
            "--data", processes.folder.path + "/" + worker, "--assets", assets, "--allow-asynchronous", "--records",
            clusters.map(address).joined(separator: " "),
          ])
      }
      try await processes.start(
        "share-1", ["--data", processes.folder.path + "/directory", "--shards", "\(Self.shardCount)"])
      try await start("worker-1", names)
      try await start("worker-2", names)
      let gateway = try await FolderWorld.startGateway(processes, assets: assets)
      let app = try await App(processes.installation(gateway: gateway), model: Self.model)
      let installation = app.installation
      func shards() async throws -> [Value] {
        try Value(json: Array(try await installation.aquifer("--json", "shards").output.utf8))["shards"].elements
      }
      let spread = Dictionary(grouping: try await shards()) { $0["cluster"].string ?? "" }.mapValues(\.count)
      #expect(spread == ["east": 8, "main": 8, "west": 8])

      let alice = try await app.user("alice")
      let (device, ledger) = (try await alice.device("phone"), SaveLedger())
      async let saving: Void = ledger.save(150, on: device)
      let moving = try await shards().filter { $0["cluster"] == "east" }.compactMap { $0["shard"].integer }
      for shard in moving.prefix(3) {
        let asked = try await installation.aquifer("shards", "move", "\(shard)", "--to", "west")
        #expect(asked.code == 0, "\(asked.problem)")
      }
      try processes.end("worker-1", by: SIGKILL)
      try await start("worker-1", names)
      while try await shards().contains(where: { $0["movesTo"].string != nil || $0["state"] != "open" }) {
        try await Task.sleep(for: .milliseconds(50))
      }
      try await saving
      let counts = Dictionary(grouping: try await shards()) { $0["cluster"].string ?? "" }.mapValues(\.count)
      #expect(counts == ["east": 5, "main": 8, "west": 11])
      #expect(ledger.entries.acknowledged.count == 150 && ledger.entries.refusals == [])
      try await ledger.expectEachOnce(on: [device], of: alice)

      // The loss of a cluster stops its own shards only, and moves between others go on.
      try server.run("ALTER DATABASE east ALLOW_CONNECTIONS false")
      try server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'east'")
      try processes.end("worker-1", by: SIGKILL)
      try await start("worker-1", names)
      let mover = try #require(try await shards().first { $0["cluster"] == "main" }?["shard"].integer)
      #expect(try await installation.aquifer("shards", "move", "\(mover)", "--to", "west").code == 0)
      while try await shards().contains(where: { shard in
        shard["cluster"] != "east" && shard["state"] != "open" || shard["movesTo"].string != nil
      }) {
        try await Task.sleep(for: .milliseconds(50))
      }
      let lost = try await shards().filter { $0["cluster"] == "east" && $0["worker"] == "worker-1" }
      #expect(!lost.isEmpty && lost.allSatisfy { $0["state"] != "open" })
      try server.run("ALTER DATABASE east ALLOW_CONNECTIONS true")

      // A worker without a cluster gets none of its shards.
      try processes.end("worker-2", by: SIGTERM)
      try await start("worker-3", ["main"])
      let refused = try await installation.aquifer("shards", "move", "0", "--to", "north")
      #expect(refused.code == 1 && refused.problem.contains("No ready worker reaches the cluster 'north'"))
      for shard in try await shards() where shard["worker"] == "worker-3" { #expect(shard["cluster"] == "main") }
    }
  }
}
