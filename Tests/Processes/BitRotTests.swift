// Damaged bytes in real files of an installation: they are reported and never served, and other shards keep working.

import Foundation
import Testing

@Suite(.serialized) struct BitRotTests {
  private static let tagCount = 25
  private static let pageByteCount = 4096

  /// An installation of two shards with a user in each. Its worker is stopped, a file is damaged, and the worker is
  /// restarted.
  private final class World {
    let processes: SeparateProcesses
    let data: String
    let sound: String
    /// In shard 0 and in shard 1.
    let users: [User]
    let readers: [Device]
    /// The titles of their records, by record name.
    let titles: [[String: String]]
    let blobURL: String
    let blob: [UInt8]

    static func run(_ body: (World) async throws -> Void) async throws {
      try await SeparateProcesses.run { try await body(try await World($0)) }
    }

    init(_ processes: SeparateProcesses) async throws {
      self.processes = processes
      data = processes.folder.path + "/records"
      sound = processes.folder.path + "/sound"
      try await processes.start("share-1", ["--data", processes.folder.path + "/directory", "--shards", "2"])
      try await processes.start("worker-1", ["--data", data])
      let gateway = try await processes.start("gateway-1", ["--http", "127.0.0.1:0", "--assets", data + "/assets"])
      let app = try await App(
        processes.installation(gateway: gateway),
        model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
      var users: [Int: User] = [:]
      var readers: [Int: Device] = [:]
      var titles: [Int: [String: String]] = [:]
      var blobs: [Int: (url: String, bytes: [UInt8])] = [:]
      let field = "CD_data_ckAsset"
      for number in 0..<40 where users.count < 2 {
        let user = try await app.user("user-\(number)")
        let device = try await user.device("phone")
        let mark = "mark of \(user.recordName)"
        try await device.save([MainJob.insert("Tag", UUID().uuidString, ["name": .string(mark)])])
        let folder = data
        let shard = try #require(
          (0...1).first { !Self.places(of: mark, in: "\(folder)/shards/shard-\($0).sqlite-wal", limit: 1).isEmpty })
        if users[shard] != nil { continue }
        var names: [String: String] = [:]
        for number in 0..<tagCount {
          let (object, name) = (
            UUID().uuidString, "rot \(shard) \(number) " + UUID().uuidString + String(repeating: "x", count: 300)
          )
          try await device.save(
            [MainJob.insert("Tag", object, ["name": .string(name)])], waitsForExport: number == tagCount - 1)
          names[object] = name
        }
        let content = MainJob.blob(1 << 20, seed: UInt64(shard))
        try await device.save([MainJob.insert("ImageData", UUID().uuidString, ["data": content])])
        let reader = try await user.device("laptop")
        let record = try #require(
          try await user.allRecords().records.values.first { $0["recordType"] == "CD_ImageData" })
        let url = try #require(
          record["fields"][field]["value"]["downloadURL"].string, "\(record["fields"].members.keys)")
        blobs[shard] = (url, [UInt8](try #require(Data(base64Encoded: content.string ?? ""))))
        (users[shard], readers[shard], titles[shard]) = (user, reader, names)
      }
      self.users = try (0...1).map { try #require(users[$0]) }
      self.readers = try (0...1).map { try #require(readers[$0]) }
      self.titles = try (0...1).map { try #require(titles[$0]) }
      (blobURL, blob) = try #require(blobs[0])
    }

    /// Ends the worker and keeps a copy of its files.
    /// - Parameter signal: SIGTERM leaves all data in the databases, SIGKILL leaves some in their logs.
    func stop(by signal: Int32) throws {
      try processes.end("worker-1", by: signal)
      try FileManager.default.copyItem(atPath: data, toPath: sound)
    }

    /// Starts the worker on the sound files with one of them changed, and ends it after `body`.
    func run(
      _ options: [String] = [], damaging file: String, _ change: (inout Data) throws -> Void,
      _ body: () async throws -> Void
    ) async throws {
      // Replaces the folder's content, because the gateway has the folder open.
      try FileManager.default.removeItem(atPath: data)
      try FileManager.default.copyItem(atPath: sound, toPath: data)
      // Without this the older copy would be refused.
      let accepted = try await users[0].app.installation.aquifer("shards", "accept", "all")
      #expect(accepted.code == 0, "\(accepted.problem)")
      let url = URL(filePath: "\(data)/\(file)")
      var content = try Data(contentsOf: url)
      try change(&content)
      try content.write(to: url)
      try await processes.start("worker-1", ["--data", data] + options)
      try await body()
      try processes.end("worker-1", by: SIGKILL)
    }

    func scrub() async throws -> (code: Int32, problem: String) {
      let scrub = try await users[0].app.installation.aquifer("scrub", "--assets")
      return (scrub.code, scrub.problem)
    }

    /// The served records of the user in a shard; every value must be the saved one.
    func read(_ shard: Int) async throws -> (count: Int, statuses: Set<Int>) {
      var count = 0
      var statuses: Set<Int> = []
      let zone: Value = ["zoneName": "com.apple.coredata.cloudkit.zone"]
      let names = titles[shard].keys.sorted()
      let lookup = try await users[shard].send(
        "records/lookup", ["zoneID": zone, "records": .array(names.map { ["recordName": .string($0)] })])
      statuses.insert(lookup.status)
      for record in try lookup.json["records"].elements {
        guard record["serverErrorCode"] == .null, let name = record["recordName"].string else { continue }
        #expect(record["fields"]["CD_name"]["value"].string == titles[shard][name], "\(record)")
        count += 1
      }
      let page = try await readers[shard].send("GET", "/changes")
      statuses.insert(page.status)
      for change in (try page.json)["changes"].elements {
        guard change["entity"] == "Tag", let name = change["objectID"].string, let title = titles[shard][name] else {
          continue
        }
        #expect(change["attributes"]["name"].string == title, "\(change)")
      }
      return (count, statuses)
    }

    /// Waits until the shard is open.
    func waitUntilServed(_ shard: Int) async throws {
      for _ in 0..<800 {
        if try await readers[shard].send("GET", "/status").status != 503 { return }
        try await Task.sleep(for: .milliseconds(10))
      }
      throw Unexpected("shard \(shard) is not served")
    }

    /// Checks that the other shard is served.
    func expectOtherServed() async throws {
      try await waitUntilServed(1)
      let other = try await read(1)
      #expect(other.count == tagCount && other.statuses == [200], "\(other)")
      try await users[1].device("new").save([MainJob.insert("Tag", UUID().uuidString)])
    }

    static func places(of text: String, in file: String, limit: Int = 100) -> [Int] {
      guard let content = try? Data(contentsOf: URL(filePath: file)) else { return [] }
      var places: [Int] = []
      var start = content.startIndex
      while places.count < limit, let range = content.range(of: Data(text.utf8), in: start..<content.endIndex) {
        places.append(range.lowerBound)
        start = range.upperBound
      }
      return places
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `a flipped byte of a value is found by a scrub, wherever the value is, and never served`() async throws {
    try await World.run { world in
      try world.stop(by: SIGTERM)
      let (name, title) = try #require(world.titles[0].min { $0.key < $1.key })
      let places = World.places(of: String(title.prefix(40)), in: world.sound + "/shards/shard-0.sqlite")
      #expect(!places.isEmpty, "\(name)")
      var found = 0
      for place in places {
        try await world.run(damaging: "shards/shard-0.sqlite", { $0[place + 3] ^= 0x20 }) {
          try await world.waitUntilServed(0)
          let scrub = try await world.scrub()
          let answers = try await world.read(0)
          if scrub.code == 0 {
            // The byte belongs to a remainder of a row that has moved.
            #expect(answers.count == Self.tagCount && answers.statuses == [200], "\(place): \(answers)")
          } else {
            found += 1
            #expect(scrub.problem.contains("shard 0"), "\(place): \(scrub)")
          }
          try await world.expectOtherServed()
        }
      }
      // At least the record and its transaction.
      #expect(found >= 2)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func
    `a worker that verifies finds a damaged page at its start, names it, and serves and backs up the other shards`()
    async throws
  {
    try await World.run { world in
      let console = world.users[0].app.installation
      let (earlier, partial) = (world.processes.folder.path + "/earlier", world.processes.folder.path + "/partial")
      let whole = try await console.aquifer("backup", earlier)
      #expect(whole.code == 0, "\(whole)")
      try world.stop(by: SIGTERM)
      // The kind of the third page, which is then no page of a tree.
      try await world.run(["--verify"], damaging: "shards/shard-0.sqlite", { $0[2 * Self.pageByteCount] ^= 0x55 }) {
        try await world.expectOtherServed()
        let answer = try await world.readers[0].send("GET", "/changes")
        #expect(answer.status == 503 && answer.header("Retry-After") != nil, "\(answer.status) \(answer.text)")
        #expect(!answer.text.contains("page"))
        let log = try world.processes.log(of: "worker-1")
        #expect(
          log.contains("a shard is out of service")
            && log.contains("integrity_check: database disk image is malformed"), "\(log.suffix(2000))")
        let scrub = try await world.scrub()
        #expect(scrub.code == 1 && scrub.problem.contains("shard 0"), "\(scrub)")
        let status = try await console.aquifer("status")
        #expect(status.output.contains("shard 0") && status.output.contains("malformed"), "\(status.output)")
        let backup = try await console.aquifer("backup", partial)
        #expect(
          backup.code == 3 && backup.problem.contains("lacks shard 0") && backup.problem.contains("PARTIAL"),
          "\(backup)")
      }
      let target = world.processes.folder.path + "/restored"
      let refused = try CommandLineTool.run(["restore", partial, "--data", target])
      #expect(refused.code == 1 && refused.problem.contains("lacks shards: 0"), "\(refused)")
      let restored = try CommandLineTool.run(["restore", partial, "--data", target, "--missing-from", earlier])
      #expect(
        restored.code == 0 && FileManager.default.fileExists(atPath: target + "/shards/shard-0.sqlite"), "\(restored)")
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `bytes that flip anywhere in a database are harmless or found, and what is served is what was written`()
    async throws
  {
    try await World.run { world in
      try world.stop(by: SIGTERM)
      let bytes = [UInt8](try Data(contentsOf: URL(filePath: world.sound + "/shards/shard-0.sqlite")))
      var found = 0
      for seed in 1...10 {
        let anywhere = Int(UInt64(seed) &* 0x9e37_79b9_7f4a_7c15 % UInt64(bytes.count))
        // Most of a small file is room between rows, which is zero. Every other byte is one that says something.
        let place = seed.isMultiple(of: 2) ? anywhere : bytes[anywhere...].firstIndex { $0 != 0 } ?? anywhere
        try await world.run(damaging: "shards/shard-0.sqlite", { $0[place] ^= 1 << UInt8(seed % 8) }) {
          try await world.expectOtherServed()
          let scrub = try await world.scrub()
          let answers = try await world.read(0)
          // Without a report all data must be unchanged.
          if scrub.code == 0 {
            #expect(answers.count == Self.tagCount && answers.statuses == [200], "\(place): \(answers)")
          }
          found += scrub.code == 0 ? 0 : 1
        }
      }
      #expect(found > 0)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `a log that is damaged before its last commit keeps its shard from being served, and the others go on`()
    async throws
  {
    try await World.run { world in
      try world.stop(by: SIGKILL)
      try await world.run(damaging: "shards/shard-0.sqlite-wal", { $0[32 + 24 + 2000] ^= 0x04 }) {
        try await world.expectOtherServed()
        #expect(try await world.readers[0].send("GET", "/changes").status == 503)
        let scrub = try await world.scrub()
        #expect(scrub.code == 1 && scrub.problem.contains("shard 0"), "\(scrub)")
        let log = try world.processes.log(of: "worker-1")
        #expect(log.contains("a shard is out of service") && log.contains("malformed"), "\(log.suffix(2000))")
      }
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `a flipped byte of an asset is found by a scrub, which names the file, and the asset is never sent to its end`()
    async throws
  {
    try await World.run { world in
      try world.stop(by: SIGTERM)
      let files = try #require(FileManager.default.enumerator(atPath: world.sound)).compactMap { $0 as? String }
      let asset = try #require(
        files.first {
          $0.contains("shard-0") && FileManager.default.contents(atPath: "\(world.sound)/\($0)") == Data(world.blob)
        })
      let installation = world.users[0].app.installation
      try await world.run(damaging: asset, { $0[$0.count - 5] ^= 0x01 }) {
        try await world.waitUntilServed(0)
        let scrub = try await world.scrub()
        #expect(scrub.code == 1 && scrub.problem.contains(String(asset.split(separator: "/").last ?? "?")), "\(scrub)")
        // The connection ends before the content does, or the answer is an error.
        if let answer = try? await installation.send("GET", world.blobURL) {
          #expect(answer.status >= 500 && answer.bytes.count < world.blob.count)
        }
        try await world.expectOtherServed()
      }
      try await world.run(damaging: "shards/shard-1.sqlite", { _ in }) {
        let (answer, scrub) = (try await installation.send("GET", world.blobURL), try await world.scrub())
        #expect(answer.bytes == world.blob && scrub.code == 0, "\(answer.status) \(scrub)")
      }
    }
  }
}
