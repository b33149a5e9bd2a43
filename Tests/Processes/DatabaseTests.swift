// Workers on PostgreSQL: whatever ends or stops, a worker or the database, acknowledged saves are there exactly once.

import Foundation
import PrivateCluster
import Testing

@Suite(.serialized) struct DatabaseTests {
  @Test(.timeLimit(.minutes(1))) func `a worker that is killed loses nothing, and the other one serves its shards`()
    async throws
  {
    try await DatabaseWorld.run { world in
      try await world.saveAll {
        try await world.waitForSaves(atLeast: 200)
        try world.processes.end("worker-1", by: SIGKILL)
        try await world.waitUntilAllAreOpen(at: "worker-2")
      }
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `a worker that stops for a while and still believes in its shards writes none of them`() async throws {
    try await DatabaseWorld.run { world in
      try await world.saveAll {
        try await world.waitForSaves(atLeast: 200)
        let pid = try world.processes.pid(of: "worker-1")
        #expect(kill(pid, SIGSTOP) == 0)
        defer { kill(pid, SIGCONT) }
        try await world.waitUntilAllAreOpen(at: "worker-2")
      }
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `while the database is away every call is put off, and nothing is lost or done twice`() async throws {
    try await DatabaseWorld.run { world in
      try await world.saveAll {
        for round in 1...3 {
          try await world.waitForSaves(atLeast: 100 * round)
          try world.cluster.kill()
          for writer in world.writers {
            let answer = try await writer.device.send("GET", "/history?limit=1")
            #expect(answer.status == 503 && answer.header("Retry-After") != nil, "\(answer.text)")
          }
          let status = try await world.writers[0].user.app.installation.aquifer("status")
          #expect(status.output.contains("can't reach its storage"), "\(status.output)")
          try world.cluster.start()
        }
      }
      #expect(world.writers.contains { $0.ledger.entries.retries > 0 })
      #expect(world.processes.isRunning("worker-1") && world.processes.isRunning("worker-2"))
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `a standby that takes over has everything that was acknowledged, and the workers find it`() async throws {
    try await DatabaseWorld.run(hasStandby: true) { world in
      let standby = try #require(world.standby)
      try await world.saveAll {
        try await world.waitForSaves(atLeast: 200)
        try world.cluster.kill()
        try standby.promote()
        // It demands a standby, which the new primary has not.
        try world.processes.end("worker-1", by: SIGTERM)
        try await world.waitUntilAllAreOpen(at: "worker-2")
      }
    }
  }

  @Test func `a worker takes no database that it can't share, and says why`() async throws {
    try await SeparateProcesses.run { processes in
      let wrong = [
        (["--records", "db1.example.org"], "--records is no address of PostgreSQL"),
        (["--records", "postgresql://db1.example.org/aquifer"], "--records is given and --assets is not"),
        (["--allow-asynchronous"], "--records, which is not given"),
      ]
      for (number, (options, reason)) in wrong.enumerated() {
        let name = "worker-\(number)"
        await #expect(throws: Unexpected.self) {
          try await processes.start(name, ["--data", processes.folder.path + "/data"] + options)
        }
        let log = try processes.log(of: name)
        #expect(log.contains(reason))
      }
    }
  }
}

/// Two workers, a gateway and the share service on a cluster of their own, and users who save.
struct DatabaseWorld {
  struct Writer: Sendable {
    let user: User
    let device: Device
    let ledger = SaveLedger()
  }

  static let shardCount = 8
  private static let savesPerWriter = 200
  /// Each has a database of their own, so that both workers have some.
  private static let names = ["alice", "bob", "carol", "dave"]

  let processes: SeparateProcesses
  let cluster: PrivateCluster
  /// Confirms the commits of workers.
  let standby: PrivateCluster?
  let writers: [Writer]

  static func run(hasStandby: Bool = false, _ body: (DatabaseWorld) async throws -> Void) async throws {
    let cluster = try PrivateCluster()
    let standby = hasStandby ? try PrivateCluster(following: cluster) : nil
    let ports = [cluster, standby].compactMap(\.self).map { "\($0.port)" }
    let address =
      """
      host=\(ports.map { _ in "127.0.0.1" }.joined(separator: ",")) port=\(ports.joined(separator: ",")) user=aquifer \
      dbname=postgres options='-c synchronous_commit=\(hasStandby ? "on" : "local")'
      """
    try await SeparateProcesses.run { processes in
      let folder = processes.folder.path
      try await processes.start("share-1", ["--data", folder + "/directory", "--shards", "\(shardCount)"])
      for name in ["worker-1", "worker-2"] {
        try await processes.start(
          name,
          ["--data", "\(folder)/\(name)", "--assets", folder + "/assets", "--records", address]
            + (hasStandby && name == "worker-1" ? [] : ["--allow-asynchronous"]))
      }
      let gateway = try await FolderWorld.startGateway(processes, assets: folder + "/assets")
      let app = try await App(
        processes.installation(gateway: gateway),
        model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
      var writers: [Writer] = []
      for name in names {
        let user = try await app.user(name)
        writers.append(Writer(user: user, device: try await user.device("phone")))
      }
      try await body(DatabaseWorld(processes: processes, cluster: cluster, standby: standby, writers: writers))
    }
  }

  /// Lets every user save while `body` runs, and expects each save once.
  func saveAll(while body: () async throws -> Void) async throws {
    let writers = writers
    async let saving: Void = withThrowingTaskGroup(of: Void.self) { group in
      for writer in writers { group.addTask { try await writer.ledger.save(Self.savesPerWriter, on: writer.device) } }
      try await group.waitForAll()
    }
    try await body()
    try await saving
    for writer in writers {
      #expect(writer.ledger.entries.refusals == [])
      #expect(writer.ledger.entries.acknowledged.count == Self.savesPerWriter)
      try await writer.ledger.expectEachOnce(on: [writer.device], of: writer.user)
    }
  }

  func waitForSaves(atLeast count: Int) async throws {
    for _ in 0..<3000 where writers.reduce(0, { $0 + $1.ledger.entries.acknowledged.count }) < count {
      try await Task.sleep(for: .milliseconds(10))
    }
  }

  /// Waits until a worker has opened every shard, according to its log.
  func waitUntilAllAreOpen(at worker: String) async throws {
    for _ in 0..<3000 {
      let opened = try processes.log(of: worker).split(separator: "\n").filter { $0.contains("shard opened") }
      let shards = try opened.map { try Value(json: Array($0.utf8))["shard"].integer }
      if Set(shards).count == Self.shardCount { return }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("\(worker) has not opened every shard")
  }
}
