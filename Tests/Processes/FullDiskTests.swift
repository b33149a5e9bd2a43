// Real processes on full file systems: writes are refused, everything else works, and writes work again when there is
// space.

import Foundation
import Testing

@Suite(.serialized, .enabled(if: SmallDisk.isPossible, "mounting a file system in memory takes root and CAP_SYS_ADMIN"))
struct FullDiskTests {
  /// An installation whose share service and worker each have a small disk.
  private struct World {
    let processes: SeparateProcesses
    let directory: SmallDisk
    let records: SmallDisk
    let user: User
    let device: Device
    /// Only imports.
    let laptop: Device

    static func run(_ body: (World) async throws -> Void) async throws {
      try await SeparateProcesses.run { processes in
        let directory = try SmallDisk(at: processes.folder.path + "/directory", megabytes: 4)
        let records = try SmallDisk(at: processes.folder.path + "/records", megabytes: 6)
        try await processes.start("share-1", ["--data", directory.path, "--shards", "1"])
        try await processes.start("worker-1", ["--data", records.path])
        let gateway = try await processes.start(
          "gateway-1", ["--http", "127.0.0.1:0", "--assets", records.path + "/assets", "--upload-reserve", "0"])
        let installation = processes.installation(gateway: gateway)
        let user = try await App(
          installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
        ).user("alice")
        let (phone, laptop) = (try await user.device("phone"), try await user.device("laptop"))
        try await body(
          World(processes: processes, directory: directory, records: records, user: user, device: phone, laptop: laptop)
        )
      }
    }

    /// Saves one object.
    /// - Returns: its name if the save was acknowledged, and the answer.
    func save(_ change: Value? = nil) async throws -> (name: String?, answer: Installation.Answer) {
      let name = UUID().uuidString
      let change = change ?? MainJob.insert("Tag", name, ["name": .string(String(repeating: "tag ", count: 100))])
      let answer = try await device.send("POST", "/transactions", Device.transactions([change], id: UUID().uuidString))
      return (answer.status == 200 ? name : nil, answer)
    }

    func saveAndExport() async throws -> String {
      let name = UUID().uuidString
      try await device.save([MainJob.insert("Tag", name)])
      return name
    }

    /// Saves until a save is refused, which must happen: replaced pages of files need no space, appended ones do.
    func saveUntilRefused() async throws -> (names: [String], answer: Installation.Answer) {
      var names: [String] = []
      for _ in 0..<3000 {
        let (name, answer) = try await save()
        guard let name else { return (names, answer) }
        names.append(name)
      }
      throw Unexpected("3000 saves on a full disk")
    }

    /// The first acknowledged save, without any restart.
    func saveWhenThereIsSpace() async throws -> String {
      for _ in 0..<400 {
        if let name = try await save().name { return name }
        try await Task.sleep(for: .milliseconds(25))
      }
      throw Unexpected("there is space, and no save is acknowledged")
    }
  }

  /// 503 with a Retry-After.
  private static func expectLater(_ answer: Installation.Answer, sourceLocation: SourceLocation = #_sourceLocation)
    throws
  {
    #expect(answer.status == 503, "\(answer.text)", sourceLocation: sourceLocation)
    #expect(try answer.json["serverErrorCode"] == "TRY_AGAIN_LATER", sourceLocation: sourceLocation)
    let seconds = answer.header("Retry-After").flatMap(Int.init) ?? 0
    #expect((1...10).contains(seconds), "\(seconds) s", sourceLocation: sourceLocation)
  }

  @Test(.timeLimit(.minutes(2)))
  func `a worker on a full disk refuses saves, serves reads, loses nothing, and goes on by itself when there is space`()
    async throws
  {
    try await World.run { world in
      var acknowledged = [try #require(try await world.save().name)]
      // Also exports earlier saves.
      acknowledged.append(try await world.saveAndExport())
      try world.records.fill()
      let (names, refused) = try await world.saveUntilRefused()
      acknowledged += names
      try Self.expectLater(refused)
      // A large value gets a file of its own.
      let blob = MainJob.insert("ImageData", UUID().uuidString, ["data": MainJob.blob(1 << 20, seed: 1)])
      try Self.expectLater(try await world.save(blob).answer)
      // Deletions need less space: one or two may still fit into the log.
      var removed: Set<String> = []
      for name in acknowledged.reversed() {
        let answer = try await world.save(MainJob.delete("Tag", name)).answer
        if answer.status == 200 {
          removed.insert(name)
        } else {
          try Self.expectLater(answer)
          break
        }
      }
      try #require(!removed.contains(acknowledged[0]), "deletions go on and on")
      // Existing data are read as before. Imports note their progress, and work without it.
      let (graph, token) = try await world.laptop.importedGraph()
      #expect(graph.objects[acknowledged[0]] != nil)
      #expect(try await world.laptop.changes(after: token).changes.isEmpty)
      #expect(
        try await world.user.send(
          "records/query",
          ["query": ["recordType": "CD_Tag"], "zoneID": ["zoneName": "com.apple.coredata.cloudkit.zone"]]
        ).status == 200)
      #expect(world.processes.isRunning("worker-1"))

      try world.records.free()
      acknowledged.append(try await world.saveWhenThereIsSpace())
      let kept = Set(acknowledged).subtracting(removed)
      // Exports that waited for space continue, too.
      var records: Set<String> = []
      for _ in 0..<600 where records != kept {
        records = Set(try await world.user.allRecords().records.keys)
        try await Task.sleep(for: .milliseconds(50))
      }
      #expect(records == kept)
      #expect(world.processes.isRunning("worker-1"))
      let sound = try await world.user.app.installation.aquifer("scrub", "--assets")
      #expect(sound.code == 0, "\(sound.output) \(sound.problem)")
    }
  }

  @Test(.timeLimit(.minutes(2)), arguments: [SIGKILL, SIGTERM])
  func `a worker that is started again on a full disk serves reads, and saves when there is space`(signal: Int32)
    async throws
  {
    try await World.run { world in
      let acknowledged = [try #require(try await world.save().name)]
      var names: [String] = []
      if signal == SIGKILL {
        try world.records.fill()
        names = try await world.saveUntilRefused().names
      }
      try world.processes.end("worker-1", by: signal)
      // A clean end removes the log, whose pages a later log could otherwise reuse.
      try world.records.fill()
      try await world.processes.start("worker-1", ["--data", world.records.path])
      let (before, token) = try await world.laptop.importedGraph()
      #expect(before.objects[acknowledged[0]] != nil)
      try Self.expectLater(try await world.saveUntilRefused().answer)
      #expect(try await world.laptop.changes(after: token).changes.isEmpty)
      try world.records.free()
      let last = try await world.saveWhenThereIsSpace()
      let exported = try await world.saveAndExport()
      let (graph, _) = try await world.laptop.importedGraph()
      for name in acknowledged + names + [last, exported] { #expect(graph.objects[name] != nil, "\(name)") }
      #expect(world.processes.isRunning("worker-1"))
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `a worker of aquifer dev that is killed on a full disk comes back once, and serves reads`() async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let disk = try SmallDisk(at: folder.path + "/data", megabytes: 24)
    try await Installation.run(folder: folder) { installation in
      let user = try await App(
        installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
      ).user("alice")
      let (phone, laptop) = (try await user.device("phone"), try await user.device("laptop"))
      let name = UUID().uuidString
      try await phone.save([MainJob.insert("Tag", name)])
      try disk.fill()
      let worker = try #require(installation.ready.pids["worker"]?.first)
      kill(worker, SIGKILL)
      var status = 0
      for _ in 0..<400 where status != 200 {
        try await Task.sleep(for: .milliseconds(50))
        status = try await laptop.send("GET", "/changes").status
      }
      #expect(try await laptop.importedGraph().graph.objects[name] != nil)
      // The worker is not restarted repeatedly.
      func pid() throws -> String {
        try CommandLineTool.run(
          ["-f", "--", "aquifer-worker --name worker-1 .*\(folder.lastPathComponent)"],
          executable: URL(filePath: "/usr/bin/pgrep")
        ).output
      }
      let running = try pid()
      try await Task.sleep(for: .seconds(6))
      let later = try pid()
      #expect(!running.isEmpty && running == later, "\(running) \(later)")
      try disk.free()
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `with a full directory operators are told to come later, and users go on saving and importing`() async throws {
    try await World.run { world in
      let installation = world.user.app.installation
      try world.directory.fill()
      var made = 0
      var refused: Installation.Answer?
      while refused == nil, made < 2000 {
        let answer = try await installation.send(
          "POST", installation.ready.gateway + "/admin/1/users", bearer: installation.ready.operatorToken,
          bytes: try Value.object(["name": "user-\(made)"]).json)
        if answer.status == 200 { made += 1 } else { refused = answer }
      }
      try Self.expectLater(try #require(refused))
      let name = try #require(try await world.save().name)
      _ = try await world.saveAndExport()
      #expect(try await world.laptop.importedGraph().graph.objects[name] != nil)
      let users = try await installation.admin("GET", "/admin/1/users")["users"].elements
      #expect(users.count == made + 1)

      try world.directory.free()
      try await installation.admin("POST", "/admin/1/users", ["name": "bob"])
      #expect(world.processes.isRunning("share-1"))
    }
  }
}
