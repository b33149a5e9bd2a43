// Real processes on wrong folders: an unmounted volume, an older copy, another installation's. None is served, and the
// operator is told.

import Foundation
import Testing

/// An installation of four shards whose data folders the test provides and removes.
struct FolderWorld {
  let processes: SeparateProcesses
  let gateway: SeparateProcesses.Started
  let user: User
  let device: Device
  /// Only imports.
  let laptop: Device

  var installation: Installation { user.app.installation }
  func folder(_ name: String) -> String { processes.folder.path + "/" + name }
  var data: String { folder("folder") }
  var directory: String { folder("directory") }

  /// Starts a share service, `worker-1` on `data`, and a gateway, and makes a user with two stores.
  static func run(
    before: (SeparateProcesses) async throws -> Void = { _ in }, _ body: (FolderWorld) async throws -> Void
  ) async throws {
    try await SeparateProcesses.run { processes in
      let (directory, data) = (processes.folder.path + "/directory", processes.folder.path + "/folder")
      try await before(processes)
      try await processes.start("share-1", ["--data", directory, "--shards", "4"])
      try await processes.start("worker-1", ["--data", data])
      let gateway = try await startGateway(processes, assets: data + "/assets")
      let installation = processes.installation(gateway: gateway)
      let user = try await App(
        installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
      ).user("alice")
      try await body(
        FolderWorld(
          processes: processes, gateway: gateway, user: user, device: try await user.device("phone"),
          laptop: try await user.device("laptop")))
    }
  }

  /// The deadline is shorter than the default, because `expectNotServed` waits for its end. It is long enough for the
  /// first calls of a busy machine.
  static func startGateway(_ processes: SeparateProcesses, assets: String) async throws -> SeparateProcesses.Started {
    try await processes.start(
      "gateway-1", ["--http", "127.0.0.1:0", "--assets", assets, "--request-deadline", "5", "--upload-reserve", "0"])
  }

  /// Saves one object, and waits for its record.
  func save() async throws -> String {
    let name = UUID().uuidString
    try await device.save([MainJob.insert("Tag", name)])
    return name
  }

  func copy(_ from: String, to: String) throws { try FileManager.default.copyItem(atPath: from, toPath: to) }

  /// Kills the worker and starts another one on a folder that must not be served.
  func replaceWorker(by folder: String) throws {
    try processes.end("worker-1", by: SIGKILL)
    try processes.startUnready("worker-2", ["--data", folder])
  }

  /// Waits until `aquifer status` contains all texts.
  func waitForVerdict(_ texts: String..., sourceLocation: SourceLocation = #_sourceLocation) async throws {
    var told = ""
    for _ in 0..<300 {
      let status = try await installation.aquifer("status")
      told = status.output
      if status.code == 0, (["NOT WELL"] + texts).allSatisfy({ told.contains($0) }) { return }
      try await Task.sleep(for: .milliseconds(50))
    }
    Issue.record("status never says \(texts):\n\(told)", sourceLocation: sourceLocation)
  }

  /// Waits until the worker holds all shards.
  func waitUntilOpen(_ worker: SeparateProcesses.Started) async throws {
    for _ in 0..<300 {
      if try await installation.send("GET", worker.admin + "/metrics").text.matches(of: /\naquifer_shard_epoch{/).count
        == 4
      {
        return
      }
      try await Task.sleep(for: .milliseconds(50))
    }
    throw Unexpected("not all shards are open")
  }

  /// Waits until each shard is as `isReached` asks, in the operators' list.
  func waitForShards(_ isReached: (Value) -> Bool) async throws {
    for _ in 0..<300 {
      if try await installation.admin("GET", "/admin/1/shards")["shards"].elements.allSatisfy(isReached) { return }
      try await Task.sleep(for: .milliseconds(50))
    }
    throw Unexpected("the shards never are as expected")
  }

  /// Requests must be told to come later, and never that there is nothing.
  func expectNotServed(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    let answer = try await laptop.send("GET", "/changes")
    #expect(answer.status == 503, "\(answer.text)", sourceLocation: sourceLocation)
    #expect(answer.header("Retry-After") != nil, sourceLocation: sourceLocation)
  }

  /// All objects must be there and sound.
  func expectServed(_ names: [String], sourceLocation: SourceLocation = #_sourceLocation) async throws {
    var graph = Graph()
    // Shards may be moving for a moment.
    for _ in 0..<100 {
      do {
        graph = try await laptop.importedGraph().graph
        break
      } catch is Unexpected {
        try await Task.sleep(for: .milliseconds(100))
      }
    }
    #expect(Set(graph.objects.keys) == Set(names), sourceLocation: sourceLocation)
    let scrub = try await installation.aquifer("scrub", "--assets")
    #expect(scrub.code == 0, "\(scrub.problem)", sourceLocation: sourceLocation)
  }

  /// With the right folder back all data are as before.
  func expectAsBefore(_ names: [String], sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try await processes.start("worker-1", ["--data", data])
    try await expectServed(names, sourceLocation: sourceLocation)
  }

  /// True when a process's metrics contain the line.
  func metric(_ line: String, of admin: String) async throws -> Bool {
    try await installation.send("GET", admin + "/metrics").text.contains(line)
  }
}

@Suite(.serialized) struct DataFolderTests {
  @Test(.timeLimit(.minutes(2)))
  func `a worker with an empty folder is refused by name, and nobody is served an empty shard`() async throws {
    try await FolderWorld.run { world in
      let name = try await world.save()
      try world.replaceWorker(by: world.folder("empty"))
      try await world.waitForVerdict("worker-2 takes no work", world.folder("empty"))
      try await world.expectNotServed()
      try await world.expectAsBefore([name])
      #expect(!FileManager.default.fileExists(atPath: world.folder("empty") + "/shards"))
      // The refused worker is still reported, and gets no shards.
      try await world.waitForVerdict("worker-2 takes no work")
    }
  }

  @Test(.timeLimit(.minutes(2))) func `a worker with an older copy of the folder is refused`() async throws {
    try await FolderWorld.run { world in
      try world.processes.end("worker-1", by: SIGTERM)
      try world.copy(world.data, to: world.folder("older"))
      try await world.processes.start("worker-1", ["--data", world.data])
      let name = try await world.save()
      try world.replaceWorker(by: world.folder("older"))
      try await world.waitForVerdict("worker-2 takes no work", "older", "copy")
      try await world.expectNotServed()
      try await world.expectAsBefore([name])
    }
  }

  @Test(.timeLimit(.minutes(2))) func `a worker with another installation's folder is refused`() async throws {
    try await FolderWorld.run(before: { processes in
      let (directory, data) = (processes.folder.path + "/other-directory", processes.folder.path + "/other")
      try await processes.start("share-1", ["--data", directory, "--shards", "4"])
      try await processes.start("worker-1", ["--data", data])
      for name in ["worker-1", "share-1"] { try processes.end(name, by: SIGTERM) }
    }) { world in
      let name = try await world.save()
      try world.replaceWorker(by: world.folder("other"))
      try await world.waitForVerdict("worker-2 takes no work", "belongs to the installation")
      try await world.expectNotServed()
      try await world.expectAsBefore([name])
    }
  }

  @Test(
    .timeLimit(.minutes(2)),
    .enabled(if: SmallDisk.isPossible, "mounting a file system in memory takes root and CAP_SYS_ADMIN"))
  func `a worker whose folder can only be read is refused`() async throws {
    try await FolderWorld.run { world in
      let name = try await world.save()
      try world.processes.end("worker-1", by: SIGTERM)
      let disk = try SmallDisk(at: world.folder("disk"), megabytes: 16)
      try world.copy(world.data, to: disk.path + "/folder")
      let mounted = try CommandLineTool.run(["-o", "remount,ro", disk.path], executable: URL(filePath: "/bin/mount"))
      try #require(mounted.code == 0, "\(mounted.problem)")
      try world.processes.startUnready("worker-2", ["--data", disk.path + "/folder"])
      try await world.waitForVerdict("worker-2 takes no work", "Read-only")
      try await world.expectNotServed()
      try await world.expectAsBefore([name])
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `of two machines with a folder each one is refused, at the first start and later`() async throws {
    try await FolderWorld.run { world in
      try world.processes.startUnready("worker-2", ["--data", world.folder("second")])
      let name = try await world.save()
      try await world.waitForVerdict("worker-2 takes no work", world.folder("second"))
      try await world.expectServed([name])
      try world.processes.end("worker-2", by: SIGKILL)
      // Of two identical folders the second one is refused.
      try world.processes.end("worker-1", by: SIGTERM)
      try world.copy(world.data, to: world.folder("twin"))
      try await world.processes.start("worker-1", ["--data", world.data])
      try world.processes.startUnready("worker-2", ["--data", world.folder("twin")])
      try await world.waitForVerdict("worker-2 takes no work", "copy")
      try await world.expectServed([name])
    }
  }

  @Test(.timeLimit(.minutes(2)), arguments: [true, false])
  func `a shard whose file is missing or older is refused alone, until the operator takes it as it is`(isMissing: Bool)
    async throws
  {
    try await FolderWorld.run { world in
      let name = try await world.save()
      let listed = try await world.installation.admin("GET", "/admin/1/stores")["stores"].elements.count
      #expect(listed == 2)
      try world.processes.end("worker-1", by: SIGTERM)
      let shards = world.data + "/shards"
      try world.copy(shards, to: world.folder("older"))
      // The shards are opened and changed once more, because an untouched shard is as new as its copy.
      try await world.waitUntilOpen(try await world.processes.start("worker-1", ["--data", world.data]))
      _ = try await world.save()
      try world.processes.end("worker-1", by: SIGTERM)
      try world.copy(shards, to: world.folder("kept"))
      try FileManager.default.removeItem(atPath: shards)
      if isMissing {
        try FileManager.default.createDirectory(atPath: shards, withIntermediateDirectories: true)
      } else {
        try world.copy(world.folder("older"), to: shards)
      }
      let worker = try await world.processes.start("worker-1", ["--data", world.data])
      try await world.waitForVerdict(isMissing ? "is missing" : "is an older copy", "shard-0.sqlite")
      try await world.expectNotServed()
      #expect(try await world.metric("aquifer_worker_shards_refused 4", of: worker.admin))
      #expect(
        try FileManager.default.contentsOfDirectory(atPath: shards).allSatisfy {
          !isMissing || !$0.hasSuffix(".sqlite")
        })
      let refused = try await world.installation.aquifer("shards", "accept", "4")
      #expect(refused.code == 1 && refused.problem.contains("0 to 3"), "\(refused)")
      for shard in 0..<4 {
        let accepted = try await world.installation.aquifer("shards", "accept", "\(shard)")
        #expect(accepted.code == 0 && accepted.output.contains("shard-\(shard)"), "\(accepted)")
      }
      if isMissing {
        for _ in 0..<200 where try await world.laptop.send("GET", "/changes").status == 503 {
          try await Task.sleep(for: .milliseconds(100))
        }
        #expect(try await world.laptop.send("GET", "/changes").status == 404)
      } else {
        try await world.waitUntilOpen(worker)
        try await world.expectServed([name])
      }
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `all data are accepted at once when nobody has them open, and status names the shards until they are opened`()
    async throws
  {
    try await FolderWorld.run { world in
      let name = try await world.save()
      try await world.waitForShards { $0["state"].string == "open" }
      let subjects = ["assets", "data"] + (0..<4).map { "shard-\($0)" }
      let inUse = try await world.installation.admin("POST", "/admin/1/shards/accept", ["what": "all"])
      #expect(inUse["accepted"].elements.isEmpty && inUse["inUse"].elements.map(\.string) == subjects, "\(inUse)")
      try await world.waitForShards { $0["accepted"] == .null }

      try world.processes.end("worker-1", by: SIGTERM)
      try await world.waitForVerdict("there is no worker")
      let accepted = try await world.installation.aquifer("shards", "accept", "all")
      #expect(accepted.code == 0 && subjects.allSatisfy { accepted.output.contains($0) }, "\(accepted)")
      try await world.waitForVerdict("shards 0-3 will be served as a worker finds them", "`aquifer shards`")
      let listed = try await world.installation.aquifer("shards")
      #expect(listed.output.contains("ACCEPTED AS FOUND, UNTIL"), "\(listed)")
      let status = try await world.installation.admin("GET", "/admin/1/status")
      #expect(status["shards"]["accepted"] == [0, 1, 2, 3])

      try await world.processes.start("worker-1", ["--data", world.data])
      try await world.waitForShards { $0["state"].string == "open" && $0["accepted"] == .null }
      try await world.expectServed([name])
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `first starts, restarts, more workers and a directory from an older backup go on as ever`() async throws {
    try await FolderWorld.run { world in
      var names = [try await world.save()]
      try world.processes.end("worker-1", by: SIGTERM)
      try world.processes.end("share-1", by: SIGTERM)
      try world.copy(world.directory, to: world.folder("older"))
      try await world.processes.start("share-1", ["--data", world.directory])
      for number in 1...4 { try await world.processes.start("worker-\(number)", ["--data", world.data]) }
      names.append(try await world.save())
      for number in 2...4 { try world.processes.end("worker-\(number)", by: number == 2 ? SIGKILL : SIGTERM) }
      try await world.expectServed(names)
      for name in ["worker-1", "share-1"] { try world.processes.end(name, by: SIGTERM) }
      try FileManager.default.removeItem(atPath: world.directory)
      try world.copy(world.folder("older"), to: world.directory)
      try await world.processes.start("share-1", ["--data", world.directory])
      try await world.processes.start("worker-1", ["--data", world.data])
      try await world.expectServed(names)
      names.append(try await world.save())
      try await world.expectServed(names)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `a folder that was taken back from an older backup of the machine is served once the operator says so`()
    async throws
  {
    try await FolderWorld.run { world in
      let name = try await world.save()
      try world.processes.end("worker-1", by: SIGTERM)
      try world.copy(world.data, to: world.folder("older"))
      try await world.processes.start("worker-1", ["--data", world.data])
      _ = try await world.save()
      let (_, token) = try await world.laptop.importedGraph()
      try world.replaceWorker(by: world.folder("older"))
      try await world.waitForVerdict("worker-2 takes no work")
      let accepted = try await world.installation.aquifer("shards", "accept", "all")
      #expect(accepted.code == 0, "\(accepted)")
      try await world.expectServed([name])
      // More than was lost: a token of the lost state must not pass for one of the present state.
      let names = [name, try await world.save(), try await world.save(), try await world.save()]
      let text = token.string?.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
      let refused = try await world.laptop.send("GET", "/changes?after=\(text)")
      #expect(refused.status == 410, "\(refused.status) \(refused.text)")
      try await world.expectServed(names)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `an unmounted volume of assets is noticed by worker and gateway, and what needs no asset is served`()
    async throws
  {
    try await FolderWorld.run { world in
      let name = try await world.save()
      try world.processes.end("gateway-1", by: SIGTERM)
      let elsewhere = try await FolderWorld.startGateway(world.processes, assets: world.folder("unmounted"))
      let user = User(
        app: App(
          world.processes.installation(gateway: elsewhere), container: world.user.app.container,
          apiToken: world.user.app.apiToken, modelHash: world.user.app.modelHash),
        recordName: world.user.recordName, token: world.user.token)
      let upload = try await user.send(
        "assets/upload", ["tokens": [["recordType": "CD_ImageData", "fieldName": "CD_data"]]])
      #expect(upload.status == 503 && upload.header("Retry-After") != nil, "\(upload.text)")
      #expect(try await user.allRecords().records[name] != nil)
      #expect(try await world.metric("aquifer_data_refused{folder=\"assets\"} 1", of: elsewhere.admin))
      let health = try await world.installation.send("GET", elsewhere.admin + "/readyz")
      #expect(health.status == 503 && health.text.contains("unmounted"), "\(health.text)")
      #expect(!FileManager.default.fileExists(atPath: world.folder("unmounted") + "/installation"))
      try world.processes.end("gateway-1", by: SIGTERM)

      let back = try await FolderWorld.startGateway(world.processes, assets: world.data + "/assets")
      #expect(try await world.installation.send("GET", back.admin + "/readyz").status == 200)
      try world.processes.end("worker-1", by: SIGKILL)
      try FileManager.default.moveItem(atPath: world.data + "/assets", toPath: world.folder("assets"))
      try FileManager.default.createDirectory(atPath: world.data + "/assets", withIntermediateDirectories: true)
      try world.processes.startUnready("worker-2", ["--data", world.data])
      let installation = world.processes.installation(gateway: back)
      for _ in 0..<300 {
        if try await installation.aquifer("status").output.contains("worker-2 takes no work: \(world.data)/assets") {
          break
        }
        try await Task.sleep(for: .milliseconds(50))
      }
      #expect(try await installation.aquifer("status").output.contains("worker-2 takes no work: \(world.data)/assets"))
      try FileManager.default.removeItem(atPath: world.data + "/assets")
      try FileManager.default.moveItem(atPath: world.folder("assets"), toPath: world.data + "/assets")
      // The worker continues by itself.
      for _ in 0..<300 {
        if try await installation.aquifer("shards").output.contains("worker-2") { break }
        try await Task.sleep(for: .milliseconds(50))
      }
      let again = User(
        app: App(
          installation, container: user.app.container, apiToken: user.app.apiToken, modelHash: user.app.modelHash),
        recordName: user.recordName, token: user.token)
      #expect(try await again.allRecords().records[name] != nil)
    }
  }
}
