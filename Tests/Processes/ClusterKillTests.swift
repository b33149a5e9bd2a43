// Shards that move between two servers, of which every process that takes part is killed once.

import Foundation
import PrivateCluster
import Synchronization
import Testing

@Suite(.serialized) struct ClusterKillTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let shardCount = 4

  /// The end of the saves.
  private final class End: Sendable {
    private let flag = Atomic(false)
    var isReached: Bool { flag.load(ordering: .relaxed) }
    func reach() { flag.store(true, ordering: .relaxed) }
  }

  @Test(.timeLimit(.minutes(2)))
  func `whoever is killed while shards move, nothing is lost or done twice, and the command can be repeated`()
    async throws
  {
    let servers = [("main", try PrivateCluster()), ("west", try PrivateCluster())]
    let records = servers.map { "\($0)=postgresql://aquifer@127.0.0.1:\($1.port)/postgres" }.joined(separator: " ")
    try await SeparateProcesses.run { processes in
      let assets = processes.folder.path + "/assets"
      func start(_ name: String) async throws {
        let data = ["--data", processes.folder.path + "/" + name]
        if name == "share-1" {
          try await processes.start(name, data + ["--shards", "\(Self.shardCount)"])
        } else {
          try await processes.start(name, data + ["--assets", assets, "--allow-asynchronous", "--records", records])
        }
      }
      try await start("share-1")
      try await start("worker-1")
      let gateway = try await FolderWorld.startGateway(processes, assets: assets)
      let app = try await App(processes.installation(gateway: gateway), model: Self.model)
      func move(_ cluster: String) async throws {
        for shard in 0..<Self.shardCount {
          while try await app.installation.aquifer("shards", "move", "\(shard)", "--to", cluster).code != 0 {
            try await Task.sleep(for: .milliseconds(50))
          }
        }
      }
      func haveMoved(to cluster: String) async throws -> Bool {
        let answer = try await app.installation.aquifer("--json", "shards")
        guard answer.code == 0 else { return false }
        return try Value(json: Array(answer.output.utf8))["shards"].elements.allSatisfy {
          $0["cluster"].string == cluster && $0["state"] == "open"
        }
      }

      let alice = try await app.user("alice")
      let (device, ledger) = (try await alice.device("phone"), SaveLedger())
      let end = End()
      let saving = Task {
        while !end.isReached, try await ledger.save("tag", on: device, within: .seconds(60)) {}
      }
      for (victim, cluster) in [("main", "west"), ("main", "main"), ("worker-1", "west"), ("share-1", "main")] {
        try await move(cluster)
        if let server = servers.first(where: { $0.0 == victim })?.1 {
          try server.kill()
          try server.start()
        } else {
          try processes.end(victim, by: SIGKILL)
          try await start(victim)
        }
        try await move(cluster)
        while try await !haveMoved(to: cluster) { try await Task.sleep(for: .milliseconds(50)) }
      }
      end.reach()
      try await saving.value
      #expect(!ledger.entries.acknowledged.isEmpty && ledger.entries.refusals == [])
      try await ledger.expectEachOnce(on: [device], of: alice)
    }
  }
}
