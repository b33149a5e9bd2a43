// Backups of an installation on PostgreSQL: Aquifer's own, and those of the database's tools.

import Foundation
import PrivateCluster
import Testing

@Suite(.serialized) struct DatabaseBackupTests {
  /// What a device has seen of the state that is lost.
  private struct Lost {
    let token: Value
    let names: [String]
  }

  private static let laxity = ["--allow-asynchronous"]

  @Test(.timeLimit(.minutes(1)))
  func `a backup of workers on PostgreSQL is restored into another database, with every acknowledged save`()
    async throws
  {
    let (cluster, other) = (try PrivateCluster(), try PrivateCluster())
    try await SeparateProcesses.run { processes in
      let folder = processes.folder.path
      let user = try await Self.start(processes, on: cluster.address)
      let (device, ledger) = (try await user.device("phone"), SaveLedger())
      _ = try await user.saveNote("n", blob: try await user.upload([1, 2, 3]))
      try await ledger.save(40, on: device)
      let bob = try await user.app.user("bob").device("laptop")
      async let saving: Void = SaveLedger().save(20, on: bob)
      let backup = try await user.app.installation.aquifer("--json", "backup", folder + "/backup")
      #expect(backup.code == 0, "\(backup.output)\(backup.problem)")
      try await saving
      let lost = try await Self.saveWhatIsLost(on: device)

      for name in ["worker-1", "gateway-1", "share-1"] { try processes.end(name, by: SIGKILL) }
      for words in [
        ["restore", folder + "/backup", "--data", folder + "/restored"],
        ["migrate", "--from", folder + "/restored", "--to", other.address] + Self.laxity,
      ] {
        let done = try CommandLineTool.run(words)
        #expect(done.code == 0, "\(done.output)\(done.problem)")
      }
      try await processes.start("share-2", ["--data", folder + "/restored"])
      let share = processes.endpoint(of: "share-2")
      try await processes.start(
        "worker-2", share: share, Self.options(folder, other.address, assets: "restored/assets"))
      let gateway = try await processes.start(
        "gateway-2", share: share, ["--http", "127.0.0.1:0", "--assets", folder + "/restored/assets"])
      try await Self.expectAll(
        of: ledger, without: lost, for: device, at: processes.installation(gateway: gateway))
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `a database that its own tools bring back is renewed, and no device takes a lost change for a later one`()
    async throws
  {
    let cluster = try PrivateCluster()
    try await SeparateProcesses.run { processes in
      let folder = processes.folder.path
      let user = try await Self.start(processes, on: cluster.networkAddress)
      let (device, ledger) = (try await user.device("phone"), SaveLedger())
      _ = try await user.saveNote("n", blob: try await user.upload([1, 2, 3]))
      try await ledger.save(40, on: device)
      // A copy by pg_basebackup, which follows until it is stopped.
      let copy = try PrivateCluster(following: cluster)
      try copy.kill()
      let lost = try await Self.saveWhatIsLost(on: device)
      let held = try CommandLineTool.run(["renew", "--records", cluster.address] + Self.laxity)
      #expect(held.code == 1 && held.problem.contains("is held by"), "\(held.problem)")

      try processes.end("worker-1", by: SIGTERM)
      try cluster.kill()
      try copy.start()
      try copy.promote()
      let renewed = try CommandLineTool.run(["--json", "renew", "--records", copy.address] + Self.laxity)
      #expect(renewed.code == 0 && renewed.output.contains(#""shards":4"#), "\(renewed.output)\(renewed.problem)")
      // A list of clusters, in which the lost one is up again.
      try cluster.start()
      let list = "west=\(Self.url(copy)) main=\(Self.url(cluster))"
      let both = try CommandLineTool.run(["--json", "renew", "--records", list] + Self.laxity)
      #expect(both.code == 0 && both.output.contains(#""shards":8"#), "\(both.output)\(both.problem)")
      try cluster.kill()
      let half = try CommandLineTool.run(["renew", "--records", list] + Self.laxity)
      #expect(half.code == 1 && half.problem.contains("the cluster main: "), "\(half.problem)")
      try await processes.start("worker-2", Self.options(folder, copy.address, assets: "assets"))
      try await Self.expectAll(of: ledger, without: lost, for: device, at: user.app.installation)
    }
  }

  // MARK: Pieces

  private static func url(_ cluster: PrivateCluster) -> String {
    "postgresql://aquifer@127.0.0.1:\(cluster.port)/postgres"
  }

  private static func options(_ folder: String, _ address: String, assets: String) -> [String] {
    ["--data", folder + "/own", "--assets", folder + "/" + assets, "--records", address] + laxity
  }

  /// Starts a share service, a worker and a gateway.
  private static func start(_ processes: SeparateProcesses, on address: String) async throws -> User {
    let folder = processes.folder.path
    try await processes.start("share-1", ["--data", folder + "/directory", "--shards", "4"])
    try await processes.start("worker-1", options(folder, address, assets: "assets"))
    let gateway = try await FolderWorld.startGateway(processes, assets: folder + "/assets")
    return try await App(
      processes.installation(gateway: gateway),
      model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    ).user("alice")
  }

  private static func saveWhatIsLost(on device: Device) async throws -> Lost {
    var names: [String] = []
    for _ in 0..<10 {
      names.append(UUID().uuidString)
      try await device.save([MainJob.insert("Tag", names[names.count - 1])])
    }
    return Lost(token: try await device.importedGraph().token, names: names)
  }

  /// Expects each acknowledged save, none of the lost ones, and a device that begins anew.
  private static func expectAll(
    of ledger: SaveLedger, without lost: Lost, for device: Device, at installation: Installation
  ) async throws {
    let app = device.user.app
    let user = User(
      app: App(installation, container: app.container, apiToken: app.apiToken, modelHash: app.modelHash),
      recordName: device.user.recordName, token: device.user.token)
    let same = Device(user: user, store: device.store)
    // So many that the numbers of the lost saves would be given out again.
    try await ledger.save(30, on: same)
    #expect(ledger.entries.acknowledged.count == 70 && ledger.entries.refusals == [])
    try await ledger.expectEachOnce(on: [same], of: user)
    let text = lost.token.string?.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let refused = try await same.send("GET", "/changes?after=\(text)")
    #expect(refused.status == 410, "\(refused.status) \(refused.text)")
    let records = try await user.allRecords().records
    for name in lost.names { #expect(records[name] == nil) }
    let url = try #require(try await user.note("n")["fields"]["blob"]["value"]["downloadURL"].string)
    #expect(try await installation.send("GET", url).bytes == [1, 2, 3])
    let scrub = try await installation.aquifer("scrub", "--assets")
    #expect(scrub.code == 0, "\(scrub.output)\(scrub.problem)")
  }
}
