// Changes that an export can't write: quarantined, visible, tried again, and not blocking others.

import Assets
import Crypto
import FixedClocks
import History
import JSON
import Mirroring
import ObjectModel
@testable import ObjectPlane
@testable import RecordPlane
import RecordStore
import Records
import SQLite
import ServiceBus
import Synchronization
import Testing
import WebServices
@testable import WorkerHost

extension ObjectPlaneWorld {
  /// Damages rows of the shard's file (of a store that has one), as a disk may.
  func damage(_ update: String) throws {
    let connection = try Connection(exclusive: folder + "/shards/shard-0.sqlite", mode: .readWrite)
    defer { connection.close() }
    try connection.execute("UPDATE \(update)")
  }

  /// Saves an object whose large value has no uploaded content: its record can be planned, but not written.
  func saveWithoutContent(_ objectID: String, of content: [UInt8], to store: String, with others: [HistoryChange] = [])
    async throws
  {
    let asset = Asset(hash: SHA256.hash(content), byteCount: Int64(content.count))
    let change = HistoryChange(
      changeType: .insert, entity: "PhotoData", objectID: objectID,
      attributes: [NamedValue(name: "data", value: .asset(asset))])
    try await appendWithoutExport(
      [HistoryTransaction(transactionID: objectID, timestamp: 0, changes: [change] + others)], to: store)
  }
}

@Suite struct `Exports hold back changes` {
  private func tag(_ id: String, _ name: String = "x", _ changeType: String = "insert") -> String {
    #"{"changeType":"\#(changeType)","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
  }

  private func quarantine(_ world: ObjectPlaneWorld, _ store: String = "A") async throws -> [String] {
    let reply = try await world.get("\(store)/quarantine")
    #expect(reply.status == 200, "\(reply.text)")
    return reply.json["quarantined"]?.elements.map { "\($0["objectID"]?.string ?? "") \($0["cause"]?.string ?? "")" }
      ?? []
  }

  @Test
  func
    `T-E10 an object with a damaged record is held back, the others of its batch are exported, and imports go on`()
    async throws
  {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      let a = try await Device("A", world)
      try await world.save("A", tag("T", "title of the damaged one"), query: ["wait": "export"])
      try world.damage("record SET sum = sum + 1 WHERE name = 'T'")
      let others = (0..<398).map { tag("N\($0)") }
      let edits =
        [tag("T", "edited", "update")] + others + [
          #"{"changeType":"insert","entity":"Photo","objectID":"P","relationships":{"tags":["T","N1"]}}"#
        ]
      let reply = try await world.save("A", edits.joined(separator: ","), query: ["wait": "export"])
      #expect(reply.status == 200, "\(reply.text)")
      let event = try #require(reply.json["event"])
      #expect(event["succeeded"]?.bool == false)
      #expect(
        event["error"]?["partialErrors"]?.elements.map {
          "\($0["objectID"]?.string ?? "") \($0["serverErrorCode"]?.string ?? "")"
        } == [
          "T INTERNAL_ERROR", "P INTERNAL_ERROR",
        ])
      #expect(
        event["counts"]?["saved"]?.int64 == 399, "the photo is there, without the links that need the damaged record")
      #expect(try await quarantine(world) == ["T damaged", "P damaged"])
      let status = try await world.get("A/status").json
      #expect(status["quarantined"]?.int64 == 2 && status["pendingUploads"]?.int64 == 0)
      #expect(try await world.get("A/objects/N1").json["syncState"]?.string == "clean")
      // Neither an import nor a save nor a reset is in its way.
      #expect(
        try await world.save("A", tag("after"), query: ["wait": "export"]).json["event"]?["succeeded"]?.bool == true)
      #expect(try await world.send(world.request("POST", "stores/A/reset"), "{}").status == 200)
      #expect(try await quarantine(world) == ["T damaged", "P damaged"], "a reset forgets nothing that was saved")
      _ = a
    }
  }

  @Test func `T-E10 of a batch of 400 the one whose write fails is found and held back, and the rest is exported`()
    async throws
  {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let content: [UInt8] = Array(repeating: 7, count: 800_000)
      let others = (0..<399).map { HistoryChange(changeType: .insert, entity: "Tag", objectID: "N\($0)") }
      try await world.saveWithoutContent("D", of: content, to: "A", with: others)
      let reply = try await world.save("A", tag("x"), query: ["wait": "export"])
      #expect(reply.status == 200, "\(reply.text)")
      #expect(reply.json["event"]?["counts"]?["saved"]?.int64 == 400)
      #expect(reply.json["event"]?["error"]?["partialErrors"]?.elements.map { $0["objectID"]?.string } == ["D"])
      #expect(try await world.liveRecords().count == 400)
      #expect(try await quarantine(world) == ["D asset"])
      #expect(try await world.get("A/objects/N7").json["syncState"]?.string == "clean")
      // A retry comes when it is due or requested, and the object leaves once nothing is wrong with it.
      #expect(
        try await world.send(world.request("POST", "stores/A/quarantine/retry"), #"{"objectIDs":["N8"]}"#).json[
          "retried"]?.int64 == 0)
      #expect(try await world.send(world.request("POST", "stores/A/quarantine/retry")).json["retried"]?.int64 == 1)
      try await world.save("A", tag("y"), query: ["wait": "export"])
      #expect(try await world.get("A/quarantine").json["quarantined"]?.elements.map { $0["attempts"]?.int64 } == [2])
      _ = try world.assets.put(content, until: world.clock.now / 1000 + 9999)
      world.clock.advance(by: 120_000)
      try await world.save("A", tag("z"), query: ["wait": "export"])
      #expect(try await quarantine(world) == [])
      #expect(try await world.liveRecords().count == 403)
      #expect(try await #require(world.store as? SQLiteShardStore).verify(readsAssets: true).problems == [])
    }
  }

  @Test func `edits of an object that is held back wait with it, in their order, and its deletion ends that`()
    async throws
  {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let content: [UInt8] = Array(repeating: 7, count: 800_000)
      try await world.saveWithoutContent("D", of: content, to: "A")
      try await world.saveWithoutContent("E", of: content, to: "A")
      let edit = #"{"changeType":"update","entity":"PhotoData","objectID":"D","relationships":{"photo":"P"}}"#
      try await world.save(
        "A", #"{"changeType":"insert","entity":"Photo","objectID":"P"},"# + edit, query: ["wait": "export"])
      #expect(try await quarantine(world) == ["D asset", "E asset"])
      #expect(try await world.liveRecords().map(\.recordName) == ["P"])
      try await world.save(
        "A", #"{"changeType":"delete","entity":"PhotoData","objectID":"E"}"#, query: ["wait": "export"])
      #expect(try await quarantine(world) == ["D asset"])
      let event = try await world.save(
        "A", #"{"changeType":"update","entity":"PhotoData","objectID":"D","attributes":{"data":"AAEC"}}"#,
        query: ["wait": "export"]
      ).json[
        "event"]
      #expect(event?["succeeded"]?.bool == true, "what was wrong with it is overwritten")
      #expect(try await quarantine(world) == [])
      let record = try #require(try await world.liveRecords().first)
      #expect(record.fields["CD_data"] == Field(.bytes([0, 1, 2])) && record.fields.string("CD_photo") == "P")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a child that a parent's set names before it exists gets its parent when it comes`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let parent = #"{"changeType":"insert","entity":"Photo","objectID":"P","relationships":{"ratings":["R"]}}"#
      let event = try await world.save("A", parent, query: ["wait": "export"]).json["event"]
      #expect(event?["error"]?["partialErrors"]?.elements.map { $0["objectID"]?.string } == ["R"])
      #expect(try await quarantine(world) == ["R missing"])
      try await world.save(
        "A", #"{"changeType":"insert","entity":"Rating","objectID":"R","attributes":{"value":4}}"#,
        query: ["wait": "export"])
      #expect(try await quarantine(world) == [])
      #expect(try await world.liveRecords().first { $0.recordName == "R" }?.fields.string("CD_photo") == "P")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `other objects' relationships to a held-back object join its held-back changes, and are taken back with them`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let update = HistoryChange(
        changeType: .update, entity: "Rating", objectID: "R",
        attributes: [NamedValue(name: "value", value: .integer(4))])
      try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "1", timestamp: 0, changes: [update])], to: "A")
      func parent(_ kind: String, _ id: String, _ set: String) -> String {
        #"{"changeType":"\#(kind)","entity":"Photo","objectID":"\#(id)","relationships":{"ratings":\#(set)}}"#
      }
      try await world.save("A", parent("insert", "P", #"["R","S"]"#), query: ["wait": "export"])
      #expect(try await quarantine(world) == ["R missing", "S missing"])
      try await world.save("A", parent("update", "P", #"{"remove":["S"]}"#), query: ["wait": "export"])
      #expect(try await quarantine(world) == ["R missing"], "S was all that was waited with")
      let ratings =
        #"""
        {"changeType":"insert","entity":"Rating","objectID":"R"},{"changeType":"insert","entity":"Rating",\#
        "objectID":"S"}
        """#
      try await world.save("A", ratings, query: ["wait": "export"])
      #expect(try await quarantine(world) == [])
      let records = Dictionary(uniqueKeysWithValues: try await world.liveRecords().map { ($0.recordName, $0) })
      #expect(records["R"]?.fields["CD_value"] == Field(.int64(4)) && records["R"]?.fields.string("CD_photo") == "P")
      #expect(records["S"]?.fields["CD_photo"] == nil)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an edit that went through is not undone by an older one that was held back`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let first =
        #"""
        {"changeType":"insert","entity":"Photo","objectID":"P"},{"changeType":"insert","entity":"Rating",\#
        "objectID":"R"},
        """#
        + tag("T")
      try await world.save("A", first, query: ["wait": "export"])
      func point(_ target: String) -> String {
        #"{"changeType":"update","entity":"Rating","objectID":"R","relationships":{"photo":"\#(target)"}}"#
      }
      try await world.save("A", point("T"), query: ["wait": "export"])
      #expect(try await quarantine(world) == ["R other"])
      try await world.save("A", point("P"), query: ["wait": "export"])
      #expect(try await quarantine(world) == [])
      try await world.save("A", #"{"changeType":"delete","entity":"Tag","objectID":"T"}"#, query: ["wait": "export"])
      world.clock.advance(by: 7_200_000)
      try await world.save("A", tag("U"), query: ["wait": "export"])
      #expect(try await world.liveRecords().first { $0.recordName == "R" }?.fields.string("CD_photo") == "P")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func
    `an edit of what its device knew to be deleted is kept, and a later insert takes from it what it does not say`(
      _ kind: StoreKind
    ) async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.setUp("B")
      let photo = #"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"x"}}"#
      try await world.save("A", photo, query: ["wait": "export"])
      try await world.save("B", #"{"changeType":"delete","entity":"Photo","objectID":"P"}"#, query: ["wait": "export"])
      _ = try await world.get("A/changes")
      try await world.save(
        "A", #"{"changeType":"update","entity":"Photo","objectID":"P","attributes":{"displayName":"older","views":7}}"#,
        query: ["wait": "export"])
      #expect(try await quarantine(world) == ["P deleted"])
      let row = try #require(try await world.get("A/quarantine").json["quarantined"]?.elements.first)
      #expect(row["retryDate"]?.isNull == true && row["entity"]?.string == "Photo" && row["ckErrorCode"]?.int64 == 11)
      #expect(!row.text.contains("older"), "no value of the user's is shown")
      try await world.save(
        "A", #"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"newer"}}"#,
        query: ["wait": "export"])
      #expect(try await quarantine(world) == [])
      let record = try #require(try await world.liveRecords().first)
      #expect(record.fields.string("CD_displayName") == "newer" && record.fields["CD_views"] == Field(.int64(7)))
    }
  }

  @Test(arguments: StoreKind.allCases) func `a deletion that a reference forbids waits until it is allowed`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let note = Schema.RecordType(name: "CD_Note", fields: [Schema.Field(name: "to", type: .reference)], grants: [])
      let schema = Schema.initial.merging(
        SchemaGenerator.schema(for: ModelIndex(PhotoModel.model)), replacesConflicts: false)
      world.schemas.replaceSchema(
        schema.merging(Schema(recordTypes: [note]), replacesConflicts: false), in: .development)
      try await world.setUp("A")
      try await world.save("A", tag("T"), query: ["wait": "export"])
      func point(_ action: String) async throws {
        let body =
          #"""
          {"operations":[{"operationType":"forceUpdate","record":{"recordName":"note","recordType":"CD_Note",\#
          "fields":{"to":{"value":{"recordName":"T","action":"\#(action)"}}}}}],\#
          "zoneID":"\#(ReservedName.privateMirrorZone)"}
          """#
        let request = DatabaseRequest(
          plane: .record, method: "POST", path: ["records", "modify"], query: [:],
          database: world.request("GET", "x").database, scope: .private,
          caller: Caller(userRecordName: "_alice"), requestID: action, baseURL: "https://host")
        _ = try await world.records.respond(to: request, body: Array(body.utf8), in: world.store, startNext: {})
      }
      try await point("VALIDATE")
      try await world.save("A", #"{"changeType":"delete","entity":"Tag","objectID":"T"}"#, query: ["wait": "export"])
      #expect(try await quarantine(world) == ["T reference"])
      try await point("NONE")
      // Due a minute later, along with the next export.
      try await world.save("A", tag("U"), query: ["wait": "export"])
      #expect(try await world.liveRecords().map(\.recordName) == ["T", "U", "note"])
      world.clock.advance(by: 60_000)
      try await world.save("A", tag("V"), query: ["wait": "export"])
      #expect(try await world.liveRecords().map(\.recordName) == ["U", "V", "note"])
      #expect(try await quarantine(world) == [])
    }
  }

  @Test func `a damaged transaction is passed over, and those after it are exported`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let changes = ["first of three", "second of three", "third of three"].map {
        HistoryChange(
          changeType: .insert, entity: "Tag", objectID: String($0.prefix(1)),
          attributes: [NamedValue(name: "name", value: .string($0))])
      }
      try await world.appendWithoutExport(
        changes.map { HistoryTransaction(transactionID: $0.objectID, timestamp: 0, changes: [$0]) }, to: "A")
      try world.damage("history SET sum = sum + 1 WHERE txid = 's'")
      let reply = try await world.save("A", tag("x"), query: ["wait": "export"])
      #expect(
        reply.json["event"]?["error"]?["partialErrors"]?.elements.map { $0["reason"]?.string } == [
          "transaction 2 can't be read"
        ])
      #expect(try await world.liveRecords().map(\.recordName) == ["f", "t", "x"])
    }
  }

  @Test func `an operator sees up to where a store has exported and imported`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      func row() async throws -> [Int64?] {
        let report = try await WorkerReports(stores: [world.store], openingCount: 0, pendingPingCount: 0).answer(
          WorkerReport(subject: "stores"))
        let store = try #require(try JSONValue(parsing: report)["stores"]?.elements.first)
        return ["transactions", "exported", "imported", "sequence"].map { store[$0]?.int64 }
      }
      // The store's zone may be made already, which the sequence counts.
      #expect(try await row()[..<3] == [0, 0, 0])
      try await world.save("A", tag("x"), query: ["wait": "export"])
      let saved = try await row()
      #expect(saved[...2] == [1, 1, 0])
      let token = try #require(try await world.get("A/changes").json["importToken"]?.string)
      // A token counts when the device presents it: then it has everything up to it.
      #expect(try await row() == saved)
      _ = try await world.get("A/changes", ["after": token])
      #expect(try await row() == [1, 1, saved[3], saved[3]])
    }
  }

  @Test func `an operator has what is held back tried again, of all stores or of those he names`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let content: [UInt8] = Array(repeating: 7, count: 800_000)
      try await world.saveWithoutContent("D", of: content, to: "A")
      try await world.save("A", tag("x"), query: ["wait": "export"])
      let woken = Mutex<[Int64]>([])
      func retry(_ query: [String: String]) async throws -> String {
        let commands = WorkerCommands(stores: [world.store], clock: world.clock) { key, _ in
          woken.withLock { $0.append(key) }
        }
        return String(
          decoding: try await commands.answer(WorkerCommand(subject: "quarantine/retry", query: query)), as: UTF8.self)
      }
      #expect(try await retry(["user": "_bob"]) == #"{"retried":0}"#)
      #expect(try await retry(["environment": "production"]) == #"{"retried":0}"#)
      #expect(woken.withLock { $0.isEmpty })
      #expect(
        try await retry(["user": "_alice", "container": ObjectPlaneWorld.container.rawValue]) == #"{"retried":1}"#)
      #expect(woken.withLock { $0.count } == 1)
      let report = try await WorkerReports(stores: [world.store], openingCount: 0, pendingPingCount: 0).answer(
        WorkerReport(subject: "quarantine"))
      let row = try #require(try JSONValue(parsing: report)["quarantine"]?.elements.first)
      #expect(
        row["store"]?.string == "A" && row["objectID"]?.string == "D" && row["cause"]?.string == "asset"
          && row["attempts"]?.int64 == 1)
      _ = try world.assets.put(content, until: world.clock.now / 1000 + 9999)
      try await world.withExports {
        #expect(try await retry([:]) == #"{"retried":1}"#)
        for key in woken.withLock({ $0 }) { world.plane.objects.exports.signal(.backlog(mirrorKey: key), on: 0) }
        while try await !quarantine(world).isEmpty { try await Task.sleep(for: .milliseconds(1)) }
      }
      #expect(try await world.liveRecords().map(\.recordName) == ["D", "x"])
    }
  }

  @Test func `a held-back change is tried again by itself when it is due`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let content: [UInt8] = Array(repeating: 7, count: 800_000)
      try await world.saveWithoutContent("D", of: content, to: "A")
      try await world.save("A", tag("x"), query: ["wait": "export"])
      _ = try world.assets.put(content, until: world.clock.now / 1000 + 9999)
      try await world.withExports {
        for _ in 0..<20 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(try await quarantine(world) == ["D asset"])
        while try await !quarantine(world).isEmpty {
          world.clock.advance(by: 10_000)
          try await Task.sleep(for: .milliseconds(2))
        }
      }
      #expect(try await world.liveRecords().map(\.recordName) == ["D", "x"])
    }
  }
}
