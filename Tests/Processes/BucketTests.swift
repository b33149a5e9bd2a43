// Assets in a bucket: workers and a gateway on S3, a network with faults in between, and a gateway that dies.

import BucketServer
import Foundation
import HTTPClient
import Testing

@Suite(.serialized) struct BucketTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let secret = "the secret of the bucket"

  private static func content(_ count: Int, seed: UInt64) -> [UInt8] {
    var state = seed
    return (0..<count).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: state >> 33)
    }
  }

  /// The options of a process that keeps assets in the server's bucket.
  private static func options(_ server: BucketServer, _ folder: URL, suffix: String = "") throws -> [String] {
    let credentials = folder.appending(path: "credentials").path
    try "[default]\naws_access_key_id = the-key\naws_secret_access_key = \(secret)\n".write(
      toFile: credentials, atomically: true, encoding: .utf8)
    return ["--assets", "s3://bucket/one?endpoint=\(server.endpoint)\(suffix)", "--assets-credentials", credentials]
  }

  @Test(.timeLimit(.minutes(3)))
  func `content goes to a bucket, is read in parts and by a guest, and survives a faulty network and a killed gateway`()
    async throws
  {
    let server = try BucketServer()
    try await SeparateProcesses.run { processes in
      let place = try Self.options(server, processes.folder)
      let data = processes.folder.appending(path: "records").path
      try await processes.start("share-1", ["--data", processes.folder.path + "/directory", "--shards", "2"])
      try await processes.start("worker-1", ["--data", data] + place)
      let http = ["--http", "127.0.0.1:0"] + place
      var gateway = try await processes.start("gateway-1", http)
      var app = try await App(processes.installation(gateway: gateway), model: Self.model)
      let (alice, bob) = (try await app.user("alice"), try await app.user("bob"))
      let content = Self.content(7_000_000, seed: 1)
      try await server.set([
        .init(.refuse, "PUT", value: 503), .init(.half, "PUT"), .init(.lose, "POST", match: "uploadId"),
        .init(.cut, "GET", value: 9),
      ])
      let saved = try await alice.saveNote("n", blob: try await alice.upload(content))
      #expect(saved["serverErrorCode"] == .null, "\(saved)")
      let url = try #require(try await alice.note("n")["fields"]["blob"]["value"]["downloadURL"].string)
      let whole = try await app.installation.send("GET", url)
      #expect(whole.bytes == content && whole.header("Content-Length") == "7000000")
      let part = try await app.installation.send("GET", url, headers: [("Range", "bytes=5242870-5242889")])
      #expect(part.status == 206 && part.bytes == Array(content[5_242_870..<5_242_890]))
      #expect(try await app.installation.send("HEAD", url).header("Content-Length") == "7000000")
      #expect(!FileManager.default.fileExists(atPath: data + "/assets"), "no file has the content")

      // A guest reads the content until the owner stops sharing.
      try await alice.makeZone("Trips")
      let shared = try await alice.records(
        "records/modify",
        [
          "zoneID": User.zoneID("Trips"),
          "operations": [
            [
              "operationType": "create",
              "record": [
                "recordName": "photo", "recordType": "Note",
                "fields": ["blob": ["value": try await alice.upload(Array("a photo".utf8))]],
              ],
            ]
          ],
        ])
      #expect(shared["records"][0]["serverErrorCode"] == .null)
      _ = try await bob.accept(try await alice.share("Trips", with: [(bob, "READ_ONLY")]))
      let seen = try await bob.records(
        "records/lookup",
        ["zoneID": User.zoneID("Trips", of: alice), "records": [["recordName": "photo"]]], in: "shared")
      let guestURL = try #require(seen["records"][0]["fields"]["blob"]["value"]["downloadURL"].string)
      #expect(try await app.installation.send("GET", guestURL).text == "a photo")
      try await alice.stopSharing("Trips")
      #expect(try await app.installation.send("GET", guestURL).status == 403)

      // A store that does not answer costs a repetition, and a killed gateway only what it has not acknowledged.
      try await server.set([.init(.refuse, times: 99, value: 503)])
      let refused = try await alice.tryUpload([1])
      #expect(refused.status == 503 && refused.header("Retry-After") != nil, "\(refused.text)")
      #expect(try await app.installation.send("GET", url).status == 503)
      try await server.set([.init(.hold, "PUT", match: "partNumber=2", times: 99)])
      let before = try processes.requests(gateway, to: "PUT")
      let dying = Task { try await alice.tryUpload(content) }
      while try processes.requests(gateway, to: "PUT") <= before { try await Task.sleep(for: .milliseconds(10)) }
      try processes.end("gateway-1", by: SIGKILL)
      await #expect(throws: (any Error).self) { try await dying.value }
      try await server.set([])
      gateway = try await processes.start("gateway-1", http)
      app = App(
        processes.installation(gateway: gateway), container: app.container, apiToken: app.apiToken,
        modelHash: app.modelHash)
      let again = User(app: app, recordName: alice.recordName, token: alice.token)
      let kept = try #require(try await again.note("n")["fields"]["blob"]["value"]["downloadURL"].string)
      #expect(try await app.installation.send("GET", kept).bytes == content)
      let scrub = try await app.installation.aquifer("scrub", "--assets")
      #expect(scrub.code == 0, "\(scrub.output)\(scrub.problem)")
      let backup = processes.folder.path + "/backup"
      let copied = try await app.installation.aquifer("backup", backup)
      #expect(copied.code == 0, "\(copied.output)\(copied.problem)")
      for name in ["gateway-1", "worker-1"] {
        let log = try processes.log(of: name)
        #expect(!log.contains(Self.secret))
      }
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `where clients reach the bucket, a download of plain content passes by the gateway`()
    async throws
  {
    let server = try BucketServer()
    try await SeparateProcesses.run { processes in
      let place = try Self.options(server, processes.folder, suffix: "&public=\(server.soundEndpoint)")
      try await processes.start("share-1", ["--data", processes.folder.path + "/directory", "--shards", "1"])
      try await processes.start("worker-1", ["--data", processes.folder.path + "/records"] + place)
      let gateway = try await processes.start("gateway-1", ["--http", "127.0.0.1:0"] + place)
      let app = try await App(processes.installation(gateway: gateway), model: Self.model)
      let alice = try await app.user("alice")
      _ = try await alice.saveNote("n", blob: try await alice.upload(Array("hello".utf8)))
      let url = try #require(try await alice.note("n")["fields"]["blob"]["value"]["downloadURL"].string)
      let answer = try await app.installation.send("GET", url)
      let address = try #require(answer.header("Location"))
      #expect(answer.status == 302 && address.hasPrefix(server.soundEndpoint + "/bucket/one/shard-0/"))
      #expect(try await app.installation.send("GET", address).text == "hello")
    }
  }

  @Test(.timeLimit(.minutes(3)))
  func `a bucket that hangs holds up nobody whose saves need nothing of it, and those that do come to their end`()
    async throws
  {
    let server = try BucketServer()
    try await SeparateProcesses.run { processes in
      let place = try Self.options(server, processes.folder)
      try await processes.start("share-1", ["--data", processes.folder.path + "/directory", "--shards", "1"])
      // Contents are removed all the time, too.
      let data = ["--data", processes.folder.path + "/records", "--asset-grace", "1"]
      try await processes.start("worker-1", data + place)
      let gateway = try await processes.start("gateway-1", ["--http", "127.0.0.1:0"] + place)
      let app = try await App(processes.installation(gateway: gateway), model: Self.model)
      let (alice, bob) = (try await app.user("alice"), try await app.user("bob"))
      for number in 0..<3 {
        _ = try await alice.saveNote("old-\(number)", blob: try await alice.upload([UInt8(number)]))
      }
      var receipts: [Value] = []
      // More than a worker has threads for such calls.
      for number in 0..<40 { receipts.append(try await alice.upload([UInt8(number), 1])) }
      try await server.set([.init(.hold, times: 9999)])
      let saves = receipts.enumerated().map { number, receipt in
        Task { try await alice.saveNote("new-\(number)", blob: receipt) }
      }
      for number in 0..<30 {
        let title: Value = ["title": ["value": "quick"]]
        let record: Value = ["recordName": .string("note-\(number)"), "recordType": "Note", "fields": title]
        let saved = try await bob.records(
          "records/modify", ["operations": [["operationType": "create", "record": record]]])
        #expect(saved["records"][0]["serverErrorCode"] == .null, "\(saved)")
      }
      for number in 0..<3 { _ = try await bob.note("note-\(number)") }
      try await server.set([])
      for (number, save) in saves.enumerated() {
        var saved = try await save.value
        // A call that waited for too long is to be sent again.
        while saved["serverErrorCode"].string == "TRY_AGAIN_LATER" {
          saved = try await alice.saveNote("new-\(number)", blob: receipts[number])
        }
        #expect(saved["serverErrorCode"] == .null, "\(saved)")
      }
      let url = try #require(try await alice.note("new-39")["fields"]["blob"]["value"]["downloadURL"].string)
      #expect(try await app.installation.send("GET", url).bytes == [39, 1])
    }
  }

  @Test func `a place that is no bucket, and a bucket without credentials, end the start with the reason`() async throws
  {
    try await SeparateProcesses.run { processes in
      for (number, words, reason) in [
        (1, ["--assets", "s3://B?region=x"], "names no bucket"),
        (2, ["--assets", "s3://bucket?colour=red"], "has 'colour=red'"),
        (3, ["--assets", "s3://bucket/one?endpoint=http://127.0.0.1:1"], "its access key is missing"),
      ] {
        await #expect(throws: Unexpected.self) {
          try await processes.start("gateway-\(number)", ["--http", "127.0.0.1:0"] + words)
        }
        let log = try processes.log(of: "gateway-\(number)")
        #expect(log.contains(reason))
      }
    }
  }
}

extension SeparateProcesses {
  /// The gateway's requests of a method to the bucket, by its metrics.
  fileprivate func requests(_ gateway: Started, to method: String) throws -> Int {
    guard let url = URL(string: gateway.admin + "/metrics") else { throw Unexpected("no address of metrics") }
    let text = try String(contentsOf: url, encoding: .utf8)
    let lines = text.split(separator: "\n").filter {
      $0.hasPrefix("aquifer_asset_store_requests_total") && $0.contains("method=\"\(method)\"")
    }
    return lines.reduce(0) { $0 + (Double($1.split(separator: " ").last ?? "").map { Int($0) } ?? 0) }
  }
}
