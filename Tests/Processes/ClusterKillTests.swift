// SIGKILL of a cluster, a worker or the share service while shards move between clusters: acknowledged saves are there
// exactly once, and the moves end.

import Foundation
import PrivateCluster
import Testing

@Suite(.serialized) struct ClusterKillTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let shardCount = 4
  private static let savesPerWriter = 120

  @Test(.timeLimit(.minutes(2)), arguments: ["cluster", "worker", "share service"])
  func `shards that change places while a process is killed keep every acknowledged save, once`(victim: String)
    async throws
  {
    let clusters = ["main": try PrivateCluster(), "west": try PrivateCluster()]
    try await SeparateProcesses.run { processes in
      let folder = processes.folder.path
      let records = clusters.sorted { $0.key < $1.key }.map {
        "\($0.key)=postgresql://aquifer@127.0.0.1:\($0.value.port)/postgres"
      }.joined(separator: " ")
      func startShare() async throws {
        try await processes.start("share-1", ["--data", folder + "/directory", "--shards", "\(Self.shardCount)"])
      }
      func startWorker(_ name: String) async throws {
        try await processes.start(
          name,
          [
            "--data", "\(folder)/\(name)", "--assets", folder + "/assets", "--allow-asynchronous", "--records", records,
          ])
      }
      try await startShare()
      for name in ["worker-1", "worker-2"] { try await startWorker(name) }
      let gateway = try await FolderWorld.startGateway(processes, assets: folder + "/assets")
      let app = try await App(processes.installation(gateway: gateway), model: Self.model)
      // Each has a database of their own, so that several shards have some.
      var writers: [DatabaseWorld.Writer] = []
      for name in ["alice", "bob", "carol", "dave"] {
        let user = try await app.user(name)
        writers.append(DatabaseWorld.Writer(user: user, device: try await user.device("phone")))
      }

      /// nil while nobody can tell.
      func shards() async throws -> [Value]? {
        let told = try await app.installation.aquifer("--json", "shards")
        return told.code == 0 ? try Value(json: Array(told.output.utf8))["shards"].elements : nil
      }
      func places() async throws -> [Int: String] {
        var places: [Int: String] = [:]
        for shard in try #require(try await shards()) {
          places[Int(try #require(shard["shard"].integer))] = shard["cluster"].string
        }
        return places
      }
      func waitUntilAllHaveMoved() async throws {
        while true {
          let told = try await shards() ?? []
          let open = told.filter { $0["movesTo"].string == nil && $0["state"].string == "open" }
          if open.count == Self.shardCount { return }
          try await Task.sleep(for: .milliseconds(50))
        }
      }

      let saving = writers
      async let saved: Void = withThrowingTaskGroup(of: Void.self) { group in
        for writer in saving {
          group.addTask { try await writer.ledger.save(Self.savesPerWriter, on: writer.device, within: .seconds(60)) }
        }
        try await group.waitForAll()
      }
      let before = try await places()
      #expect(Set(before.values) == ["main", "west"])
      // There and back; the first time the kill meets the beginning of moves, the second time what comes after.
      for delay in [0, 400] {
        let start = try await places()
        for (shard, cluster) in start.sorted(by: { $0.key < $1.key }) {
          let asked = try await app.installation.aquifer(
            "shards", "move", "\(shard)", "--to", cluster == "main" ? "west" : "main")
          #expect(asked.code == 0, "\(asked.problem)")
        }
        try await Task.sleep(for: .milliseconds(delay))
        switch victim {
        case "worker":
          try processes.end("worker-1", by: SIGKILL)
          try await startWorker("worker-1")
        case "share service":
          try processes.end("share-1", by: SIGKILL)
          try await startShare()
        default:
          try clusters["main"]?.kill()
          try clusters["main"]?.start()
        }
        try await waitUntilAllHaveMoved()
        #expect(try await places() == start.mapValues { $0 == "main" ? "west" : "main" })
      }
      try await saved
      #expect(try await places() == before)
      for writer in writers {
        #expect(writer.ledger.entries.refusals == [])
        #expect(writer.ledger.entries.acknowledged.count == Self.savesPerWriter)
        try await writer.ledger.expectEachOnce(on: [writer.device], of: writer.user)
      }
    }
  }
}
