// Stores of the shared database through real processes: three users, two workers, and SIGKILL between an owner's and a
// participant's shard.

import Foundation
import Records
import Synchronization
import Testing

@Suite(.serialized) struct SharedStoreTests {
  private static let zone = "Trip"
  private static let post = "P0000000-0000-4000-8000-000000000001"

  /// Alice's zone with a post, shared by e-mail addresses.
  private struct Album {
    let alice: User
    let zoneID: Value
    let guid: Value

    init(_ alice: User, _ guests: [(email: String, permission: Value)]) async throws {
      self.alice = alice
      zoneID = ["zoneName": .string(SharedStoreTests.zone), "ownerRecordName": .string(alice.recordName)]
      _ = try await alice.records(
        "zones/modify", ["operations": [["operationType": "create", "zone": ["zoneID": zoneID]]]])
      let fields: Value = ["CD_entityName": ["value": "Post"], "CD_title": ["value": "Dunes"]]
      let record: Value = ["recordType": "CD_Post", "recordName": .string(SharedStoreTests.post), "fields": fields]
      let saved = try await alice.records(
        "records/modify", ["zoneID": zoneID, "operations": [["operationType": "forceUpdate", "record": record]]])
      #expect(saved["records"][0]["serverErrorCode"] == .null, "\(saved)")
      let participants = guests.map { guest -> Value in
        [
          "type": "USER", "permission": guest.permission,
          "userIdentity": ["lookupInfo": ["emailAddress": .string(guest.email)]],
        ]
      }
      let share: Value = [
        "recordType": "cloudkit.share", "recordName": "cloudkit.zoneshare", "participants": .array(participants),
      ]
      let shared = try await alice.records(
        "records/modify", ["zoneID": zoneID, "operations": [["operationType": "create", "record": share]]])
      guid = shared["records"][0]["shortGUID"]
      #expect(guid.string != nil, "\(shared)")
    }

    /// Changes the participants' permission; nil: removes all of them.
    func change(to permission: Value?) async throws {
      let found = try await alice.records(
        "records/lookup", ["zoneID": zoneID, "records": [["recordName": "cloudkit.zoneshare"]]])["records"][0]
      let others = found["participants"].elements.filter { $0["type"].string != "OWNER" }.map { participant -> Value in
        var members = participant.members
        members["permission"] = permission
        return .object(members)
      }
      let record: Value = [
        "recordType": "cloudkit.share", "recordName": "cloudkit.zoneshare", "recordChangeTag": found["recordChangeTag"],
        "participants": .array(permission == nil ? [] : others),
      ]
      let answer = try await alice.records(
        "records/modify", ["zoneID": zoneID, "operations": [["operationType": "update", "record": record]]])
      #expect(answer["records"][0]["serverErrorCode"] == .null, "\(answer)")
    }

    func accept(on device: Device) async throws {
      let accepted = try await device.call("POST", "/accept", ["shortGUIDs": [["value": guid]]])
      #expect(accepted["results"][0]["serverErrorCode"] == .null, "\(accepted)")
    }
  }

  /// The saves acknowledged so far.
  private final class Acknowledged: Sendable {
    private let state = Mutex<Set<String>>([])
    var names: Set<String> { state.withLock { $0 } }
    func note(_ name: String) { state.withLock { _ = $0.insert(name) } }
  }

  private static func attachment(_ id: String) -> Value {
    MainJob.insert("Attachment", id, ["fileName": .string(id)], ["post": .string(post)])
  }

  private static func rename(_ title: Value) -> Value { MainJob.update("Post", post, ["title": title]) }

  @Test(.timeLimit(.minutes(3)))
  func `T-P04 T-P13 T-P15 three people write, are refused, and keep at home what nobody takes any more`() async throws {
    let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let (bob, carol) = (
        try await app.user("bob", email: "bob@example.org"), try await app.user("carol", email: "carol@example.org")
      )
      let album = try await Album(
        try await app.user("alice"), [("bob@example.org", "READ_WRITE"), ("carol@example.org", "READ_ONLY")])
      let (b, c) = (try await bob.device("b", in: "shared"), try await carol.device("c", in: "shared"))
      try await album.accept(on: b)
      try await album.accept(on: c)
      var (changes, token) = try await b.changes()
      #expect(changes.contains { $0["objectID"].string == Self.post })
      // T-P13: with the owner, and seen by the other participant.
      try await b.save([Self.attachment("A1")])
      #expect(try await album.alice.allRecords(in: Self.zone).records["A1"] != nil)
      #expect(try await c.changes().changes.contains { $0["objectID"].string == "A1" })
      // T-P04
      let refused = try await c.send(
        "POST", "/transactions", Device.transactions([Self.rename("Mine")], id: UUID().uuidString))
      #expect(refused.status == 403, "\(refused.text)")
      // T-P15
      try await album.change(to: nil)
      try await b.save([Self.rename("Mine"), Self.attachment("A2")])
      let records = try await album.alice.allRecords(in: Self.zone).records
      #expect(records["A2"] == nil && records[Self.post]?["fields"]["CD_title"]["value"].string == "Dunes")
      let journal = try await b.call("GET", "/conflicts")["conflicts"].elements
      #expect(Set(journal.map { $0["kind"].string }) == ["unexported"])
      (changes, token) = try await b.changes(after: token)
      #expect(changes.contains { $0["changeType"].string == "zone" && $0["reason"].string == "left" })
      #expect(try await b.changes(after: token).changes.isEmpty)
    }
  }

  /// Removes one of the shards from a manifest.
  private static func leaveOut(_ shard: Int, of backup: String) throws {
    let path = backup + "/manifest.json"
    var manifest = try #require(
      try JSONSerialization.jsonObject(with: Data(contentsOf: URL(filePath: path))) as? [String: Any])
    let shards = try #require(manifest["shards"] as? [[String: Any]]).filter { $0["shard"] as? Int != shard }
    manifest.merge(["format": 2, "shards": shards, "missing": [["shard": shard, "reason": "left out"]]]) { $1 }
    try JSONSerialization.data(withJSONObject: manifest).write(to: URL(filePath: path))
  }

  @Test(.timeLimit(.minutes(2)))
  func
    `a participant's save is with the owner once after a restore, even if the owner's shard was copied before`()
    async throws
  {
    let folders = try (0..<3).map { _ in try Installation.makeFolder() }
    defer { for folder in folders { try? FileManager.default.removeItem(at: folder) } }
    let (first, second) = (folders[0].path + "/first", folders[0].path + "/second")
    var kept: (app: App, alice: User, bob: User, store: String)?
    try await Installation.run(folder: folders[0]) { installation in
      let app = try await App(
        installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
      let people = try await app.usersApart(["alice", "bob"])
      let zoneID: Value = ["zoneName": .string(Self.zone)]
      try await people[0].makeZone(Self.zone)
      func save(_ type: Value, _ name: Value, _ fields: Value) async throws {
        let record: Value = ["recordType": type, "recordName": name, "fields": fields]
        let saved = try await people[0].records(
          "records/modify", ["zoneID": zoneID, "operations": [["operationType": "forceUpdate", "record": record]]])
        #expect(saved["records"][0]["serverErrorCode"] == .null, "\(saved)")
      }
      try await save(
        "CD_Post", .string(Self.post), ["CD_entityName": ["value": "Post"], "CD_title": ["value": "Dunes"]])
      let share = try await people[0].share(Self.zone, with: [(people[1], "READ_WRITE")])
      let b = try await people[1].device("b", in: "shared")
      let accepted = try await b.call("POST", "/accept", ["shortGUIDs": [["value": .string(share)]]])
      #expect(accepted["results"][0]["serverErrorCode"] == .null, "\(accepted)")
      try await b.save([Self.attachment("A1")])
      #expect(try await installation.aquifer("backup", first).code == 0)
      try await b.save([Self.attachment("A2")])
      try await save("CD_Attachment", "A1", ["CD_fileName": ["value": "alice's"]])
      #expect(try await installation.aquifer("backup", second).code == 0)
      kept = (app, people[0], people[1], b.store)
    }
    let (app, alice, bob, store) = try #require(kept)
    let container = try #require(ContainerID(rawValue: app.container))
    let key = folders[0].path + "/data/encryption-key"
    /// Restores into a folder, and passes the records of Alice's zone to `check` once all of Bob's saves are forwarded.
    func restored(_ folder: URL, _ options: String..., check: ([String: Value]) -> Void) async throws {
      let data = folder.appending(path: "data").path
      let restore = try CommandLineTool.run(["restore", second, "--data", data] + options)
      #expect(restore.code == 0, "\(restore)")
      try FileManager.default.copyItem(atPath: key, toPath: data + "/encryption-key")
      try await Installation.run(folder: folder) { installation in
        let app = App(installation, container: app.container, apiToken: app.apiToken, modelHash: app.modelHash)
        let b = Device(
          user: User(app: app, recordName: bob.recordName, token: bob.token), store: store, database: "shared")
        try await b.save([Self.attachment("A3")])
        check(
          try await User(app: app, recordName: alice.recordName, token: alice.token).allRecords(in: Self.zone).records)
        let sound = try await installation.aquifer("scrub")
        #expect(sound.code == 0, "\(sound)")
      }
    }
    try await restored(folders[1]) { records in
      #expect(
        records["A1"]?["fields"]["CD_fileName"]["value"].string == "alice's" && records["A2"] != nil
          && records["A3"] != nil, "\(records.keys)")
    }
    let count = try #require(
      try JSONSerialization.jsonObject(with: Data(contentsOf: URL(filePath: second + "/manifest.json")))
        as? [String: Any])["shardCount"]
    let database = DatabaseID(container: container, environment: .development, owner: alice.recordName)
    try Self.leaveOut(try #require(ShardLayout(createdCount: count as? Int ?? 0)).shard(of: database), of: second)
    try await restored(folders[2], "--missing-from", first) { records in
      #expect(records["A1"] != nil && records["A2"] != nil && records["A3"] != nil, "\(records.keys)")
    }
  }

  @Test(.timeLimit(.minutes(3)))
  func `a participant's save survives SIGKILL of both workers in turn, and is with the owner once`() async throws {
    let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let bob = try await app.user("bob", email: "bob@example.org")
      let album = try await Album(try await app.user("alice"), [("bob@example.org", "READ_WRITE")])
      let b = try await bob.device("b", in: "shared")
      try await album.accept(on: b)
      let acknowledged = Acknowledged()
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          for number in 0..<120 {
            let body = Device.transactions([Self.attachment("A\(number)")], id: "T\(number)")
            for _ in 0..<3000 {
              let answer = try await b.send("POST", "/transactions", body)
              if answer.status == 200 { break }
              guard answer.status == 503 else {
                throw Unexpected("a save was answered \(answer.status) \(answer.text)")
              }
              try await Task.sleep(for: .milliseconds(10))
            }
            acknowledged.note("A\(number)")
          }
        }
        group.addTask {
          for (place, count) in [(0, 30), (1, 70)] {
            while acknowledged.names.count < count { try await Task.sleep(for: .milliseconds(1)) }
            let before = try installation.now()
            let pid = try #require(before.pids["worker"]?[place])
            #expect(kill(pid, SIGKILL) == 0)
            _ = try await installation.waitForReadyFile {
              $0.pids["worker"]?.count == 2 && $0.pids["worker"]?.contains(pid) == false
            }
          }
        }
        try await group.waitForAll()
      }
      #expect(acknowledged.names.count == 120)
      // Any save that was not forwarded before is forwarded with this one.
      for _ in 0..<200 where try await b.call("GET", "/status")["pendingUploads"].integer != 0 {
        try await Task.sleep(for: .milliseconds(50))
      }
      let names = try await album.alice.allRecords(in: Self.zone).records.keys.filter { $0.hasPrefix("A") }
      #expect(Set(names) == acknowledged.names)
      let events = try await b.call("GET", "/events?type=export")["events"].elements
      #expect(events.reduce(0) { $0 + ($1["counts"]["saved"].integer ?? 0) } == 120, "each was exported once")
      #expect(try await b.call("GET", "/history?limit=1000")["transactions"].elements.count == 120)
    }
  }
}
