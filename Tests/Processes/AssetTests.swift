// Assets in an installation of real processes: from upload to collection, also when a process dies suddenly.

import Foundation
import HTTPClient
import Testing

extension User {
  /// Uploads content and returns the value for a field.
  func upload(_ content: [UInt8]) async throws -> Value {
    let answer = try await tryUpload(content)
    guard answer.status == 200 else { throw Unexpected("upload: \(answer.status) \(answer.text)") }
    return try answer.json["singleFile"]
  }

  func tryUpload(_ content: [UInt8]) async throws -> Installation.Answer {
    let tokens = try await records("assets/upload", ["tokens": [["recordType": "Note", "fieldName": "blob"]]])["tokens"]
    let url = try #require(tokens[0]["url"].string)
    return try await app.installation.send(
      "POST", url, headers: [("Content-Type", "text/plain;charset=UTF-8")], bytes: content)
  }

  /// Saves a note with the value in the field `blob`. Returns the record's dictionary, or the item's error.
  func saveNote(_ name: String, blob: Value) async throws -> Value {
    try await records("records/modify", Self.saving(name, blob: blob))["records"][0]
  }

  /// The body of a request that saves a note.
  static func saving(_ name: String, blob: Value) -> Value {
    let record: Value = ["recordName": .string(name), "recordType": "Note", "fields": ["blob": ["value": blob]]]
    return ["operations": [["operationType": "forceUpdate", "record": record]]]
  }

  func deleteNote(_ name: String) async throws {
    _ = try await records(
      "records/modify", ["operations": [["operationType": "forceDelete", "record": ["recordName": .string(name)]]]])
  }

  func note(_ name: String) async throws -> Value {
    try await records("records/lookup", ["records": [["recordName": .string(name)]]])["records"][0]
  }
}

@Suite(.serialized) struct AssetTests {
  private static func content(_ count: Int, seed: UInt64) -> [UInt8] {
    var state = seed
    return (0..<count).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: state >> 33)
    }
  }

  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  @Test(.timeLimit(.minutes(2)))
  func `content is uploaded, used, read in parts, shared, and collected when nobody uses it any more`() async throws {
    try await Installation.run(environment: [
      "AQUIFER_ASSET_GRACE": "0", "AQUIFER_RECORD_RETENTION": "0", "AQUIFER_ASSET_LIMIT": "4",
    ]) { installation in
      let app = try await App(installation, model: Self.model)
      let (alice, bob) = (try await app.user("alice"), try await app.user("bob"))
      let content = Self.content(3_000_000, seed: 1)
      let blob = try await alice.upload(content)
      #expect(blob.members.keys.sorted() == ["fileChecksum", "receipt", "referenceChecksum", "size", "wrappingKey"])
      #expect(blob["size"].integer == 3_000_000)

      // The receipt of another user, or an altered one, is refused.
      for (user, blob) in [(bob, blob), (alice, .object(blob.members.merging(["receipt": "forged"]) { $1 }))] {
        let refused = try await user.saveNote("n", blob: blob)
        #expect(refused["serverErrorCode"] == "BAD_REQUEST")
        #expect(refused["reason"].string?.hasPrefix("Note.blob: the asset's receipt is not this user's") == true)
        #expect(try await user.note("n")["serverErrorCode"] == "NOT_FOUND")
      }
      #expect(try await alice.tryUpload(Self.content(4_000_001, seed: 9)).status == 413)

      _ = try await alice.saveNote("n", blob: blob)
      let shown = try await alice.note("n")["fields"]["blob"]
      #expect(shown["type"] == "ASSETID")
      #expect(shown["value"]["fileChecksum"] == blob["fileChecksum"])
      #expect(shown["value"]["receipt"] == .null)
      let url = try #require(shown["value"]["downloadURL"].string)
      try await Self.read(content, url, installation)

      // The record may send its own value back. Another record needs a new receipt.
      #expect(
        try await alice.saveNote("n", blob: shown["value"])["fields"]["blob"]["value"]["fileChecksum"]
          == blob["fileChecksum"])
      #expect(try await alice.saveNote("other", blob: shown["value"])["serverErrorCode"] == "BAD_REQUEST")
      let again = try await alice.records(
        "assets/rereference",
        [
          "assets": [
            ["recordName": "n", "fieldName": "blob"], ["recordName": "n", "fieldName": "title"],
            ["recordName": "absent", "fieldName": "blob"],
          ]
        ])["assets"]
      #expect(again[1]["serverErrorCode"] == "BAD_REQUEST")
      #expect(again[2]["serverErrorCode"] == "NOT_FOUND")
      try await alice.deleteNote("n")
      _ = try await alice.saveNote("other", blob: again[0])
      try await Self.read(
        content, try #require(try await alice.note("other")["fields"]["blob"]["value"]["downloadURL"].string),
        installation)

      // An unused asset is collected: the shards' folders become empty.
      try await alice.deleteNote("other")
      let folder = installation.folder.appending(path: "data/assets")
      for _ in 0..<2000 where !Self.shardFiles(folder).isEmpty { try await Task.sleep(for: .milliseconds(10)) }
      #expect(Self.shardFiles(folder) == [])
      #expect(try await installation.send("GET", url).status == 404)
    }
  }

  private static func read(_ content: [UInt8], _ url: String, _ installation: Installation) async throws {
    let whole = try await installation.send("GET", url)
    #expect(whole.bytes == content)
    #expect(whole.header("X-Content-Type-Options") == "nosniff")
    #expect(whole.header("Access-Control-Allow-Origin") == "*")
    let part = try await installation.send("GET", url, headers: [("Range", "bytes=1000-1999")])
    #expect(part.status == 206)
    #expect(part.bytes == Array(content[1000..<2000]))
    let tag = try #require(whole.header("ETag"))
    #expect(try await installation.send("GET", url, headers: [("If-None-Match", tag)]).status == 304)
    #expect(
      try await installation.send("GET", url, headers: [("Range", "bytes=0-9"), ("If-Range", "\"other\"")]).bytes.count
        == content.count)
    let head = try await installation.send("HEAD", url)
    #expect(head.header("Content-Length") == "\(content.count)")
    for index in [url.count - 1, url.count - 70, url.count - 100] {
      var altered = Array(url)
      altered[index] = altered[index] == "0" ? "1" : "0"
      #expect(try await installation.send("GET", String(altered)).status == 403)
    }
  }

  private static func shardFiles(_ folder: URL) -> [String] {
    let names = (FileManager.default.enumerator(atPath: folder.path)?.allObjects as? [String] ?? []).filter {
      $0.hasPrefix("shard-")
    }
    return names.filter { $0.split(separator: "/").count == 3 }
  }

  @Test(.timeLimit(.minutes(2)), arguments: ["worker", "gateway"])
  func `no acknowledged record's content is missing after SIGKILL of a process`(role: String) async throws {
    try await Installation.run(environment: ["AQUIFER_ASSET_GRACE": "0", "AQUIFER_RECORD_RETENTION": "0"]) {
      installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let before = try installation.now()
      // Each writer continues until its last note is acknowledged. Every note replaces the writer's previous one, whose
      // asset is collected.
      let saved = try await withThrowingTaskGroup(of: (Int, [UInt8]).self) { group in
        for writer in 0..<6 {
          group.addTask {
            var last: [UInt8] = []
            for number in 0..<12 {
              last = Self.content(200_000 + writer, seed: UInt64(writer * 100 + number))
              try await Self.save(last, as: "note \(writer)", user)
              if writer == 0, number == 4 { #expect(kill(try #require(before.pids[role]?.first), SIGKILL) == 0) }
            }
            return (writer, last)
          }
        }
        return try await group.reduce(into: [Int: [UInt8]]()) { $0[$1.0] = $1.1 }
      }
      _ = try await installation.waitForReadyFile { $0.pids[role]?.count == 1 && $0.pids[role] != before.pids[role] }
      for (writer, content) in saved {
        let url = try #require(try await user.note("note \(writer)")["fields"]["blob"]["value"]["downloadURL"].string)
        #expect(try await installation.send("GET", url).bytes == content)
      }
      // Assets left behind by killed processes go, too, so one file for each note is left.
      let folder = installation.folder.appending(path: "data/assets")
      for _ in 0..<2000 where Self.shardFiles(folder).count > 6 { try await Task.sleep(for: .milliseconds(10)) }
      #expect(Self.shardFiles(folder).count == 6)
    }
  }

  /// Uploads and saves, repeated until it is acknowledged.
  private static func save(_ content: [UInt8], as name: String, _ user: User) async throws {
    for _ in 0..<1000 {
      do {
        if try await user.saveNote(name, blob: try await user.upload(content))["serverErrorCode"] == .null { return }
      } catch is HTTPClientError {
        // The gateway is restarting.
      } catch is Unexpected {
        // The gateway has no worker for the moment.
      }
      try await Task.sleep(for: .milliseconds(20))
    }
    throw Unexpected("\(name) was not acknowledged")
  }
}
