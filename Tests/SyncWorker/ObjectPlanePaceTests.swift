// The pace of exports: the size of a batch, the time of retries, and the saves that are refused at once.

import FixedClocks
import Foundation
import History
import JSON
import Mirroring
import ObjectModel

@testable import ObjectPlane
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import Testing
@testable import SharedStores
@testable import WorkerHost
@testable import ZoneCommit

private func tag(_ id: String, _ name: String = "x", _ changeType: String = "insert") -> String {
  #"{"changeType":"\#(changeType)","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

@Suite struct `The pace of exports` {
  @Test
  func
    `T-E01 T-H08 a transaction of ten thousand changes is exported in commits of at most 400, and read as one event`()
    async throws
  {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let changes = (0..<10_000).map { HistoryChange(changeType: .insert, entity: "Tag", objectID: "T\($0)") }
      let key = try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "TX", timestamp: 0, changes: changes)], to: "A")
      var run = try await world.exportRun(key)
      var counts: [Int] = []
      var last = 0
      while true {
        let outcome = try await run.commit(to: world.store)
        let count = try await world.store.read { try $0.counts().records }
        counts.append(count - last)
        last = count
        #expect(outcome.exportedNumber == (outcome.moreComing ? 0 : 1), "the position moves with the last slice")
        if !outcome.moreComing { break }
        // As if the worker had been restarted in between: all that is known is what is stored.
        if counts.count == 7 { run = try await world.exportRun(key) } else { run.advance(after: outcome) }
      }
      #expect(counts.count == 25 && counts.allSatisfy { $0 == 400 })
      #expect(try await world.get("A/history").json["transactions"]?.elements.first?["changes"]?.count == 10_000)
      #expect(try await world.get("A/status").json["pendingUploads"]?.int64 == 0)
    }
  }

  @Test(arguments: StoreKind.allCases) func `another store's writes between two slices stay`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.setUp("B")
      let changes = (0..<500).map {
        HistoryChange(
          changeType: .insert, entity: "Tag", objectID: "T\($0)",
          attributes: [NamedValue(name: "name", value: .string("a"))])
      }
      let key = try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "TX", timestamp: 0, changes: changes)], to: "A")
      let outcome = try await world.exportRun(key).commit(to: world.store)
      #expect(outcome.moreComing)
      try await world.save("B", tag("T3", "b", "update"), query: ["wait": "export"])
      _ = try await world.exportRun(key).commit(to: world.store)
      let names = Dictionary(
        uniqueKeysWithValues: try await world.liveRecords().map { ($0.recordName, $0.fields.string("CD_name")) })
      #expect(names.count == 500 && names["T3"] == "b" && names["T499"] == "a")
    }
  }

  @Test func `a worker that finds fifty thousand saves exports them in batches, from the first moment on`() async throws
  {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      for part in 0..<10 {
        let saves = (0..<5000).map { index in
          HistoryTransaction(
            transactionID: "\(part) \(index)", timestamp: 0,
            changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "T\(part)-\(index)")])
        }
        try await world.appendWithoutExport(saves, to: "A")
      }
      #expect(try await world.get("A/status").json["pendingUploads"]?.int64 == 50_000)
      // A batch reads what it takes and no more; the shard is served meanwhile.
      try await world.withExports {
        while try await world.store.read({ try $0.counts().records }) == 0 {
          try await Task.sleep(for: .milliseconds(1))
        }
        let count = try await world.store.read { try $0.counts().records }
        #expect(count % Limit.exportItemCount == 0 && count < 50_000)
        #expect(
          try await world.get("A/objects/T9-4999").json["syncState"]?.string == "dirty", "the last of them is seen, too"
        )
        while try await world.get("A/status").json["pendingUploads"]?.int64 != 0 {
          try await Task.sleep(for: .milliseconds(5))
        }
      }
      #expect(try await world.store.read { try $0.counts().records } == 50_000)
      let events = try await world.get("A/events", ["type": "export"]).json["events"]?.elements ?? []
      #expect(events.map { $0["counts"]?["saved"]?.int64 } == [50_000])
    }
  }

  @Test func `T-E03 an object that is edited again while its export is under way is exported again`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let changes = (0..<500).map {
        HistoryChange(
          changeType: .insert, entity: "Tag", objectID: "T\($0)",
          attributes: [NamedValue(name: "name", value: .string("1"))])
      }
      let key = try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "1", timestamp: 0, changes: changes)], to: "A")
      _ = try await world.exportRun(key).commit(to: world.store)
      let edit = HistoryChange(
        changeType: .update, entity: "Tag", objectID: "T0", attributes: [NamedValue(name: "name", value: .string("2"))])
      try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "2", timestamp: 0, changes: [edit])], to: "A")
      #expect(try await world.exportRun(key).commit(to: world.store).exportedNumber == 1)
      #expect(try await world.get("A/objects/T0").json["syncState"]?.string == "dirty")
      #expect(try await world.exportRun(key).commit(to: world.store).exportedNumber == 2)
      #expect(try await world.get("A/objects/T0").json["syncState"]?.string == "clean")
      #expect(try await world.liveRecords().first { $0.recordName == "T0" }?.fields.string("CD_name") == "2")
    }
  }

  @Test
  func
    `T-E11 a full store is tried again by itself when its time has come, by one, and nothing saved meanwhile is lost`()
    async throws
  {
    let isFull = FailureSwitch()
    try await ObjectPlaneWorld.with(.memory, commitFailure: { _ in isFull.failure }) { world in
      try await world.setUp("A")
      try await world.withExports {
        try await world.save("A", tag("first"), query: ["wait": "export"])
        isFull.set(.full("no space"))
        // Again and again, because the shard's loop may not listen yet.
        while world.plane.objects.exports.throttledCount == 0 {
          #expect(try await world.save("A", tag("refused")).status == 503)
        }
        isFull.set(nil)
        let before = try #require(world.store.statistics.first { $0.name == "commits_total" }).value
        #expect(try await world.save("A", tag("second")).status == 200)
        // Only the append was committed: no export runs, and a caller who asks for one gets a time to retry.
        #expect(try #require(world.store.statistics.first { $0.name == "commits_total" }).value == before + 1)
        let changes = try await world.get("A/changes")
        #expect(changes.status == 503 && (5...6).contains(changes.json["retryAfter"]?.int64 ?? 0), "\(changes.text)")
        #expect(try await world.send(world.request("POST", "stores/A/reset"), "{}").status == 503)
        #expect(try await world.liveRecords().map(\.recordName) == ["first"])
        world.clock.advance(by: 4000)
        for _ in 0..<20 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(try await world.liveRecords().map(\.recordName) == ["first"])
        world.clock.advance(by: 2000)
        while try await world.liveRecords().count < 2 {
          try await Task.sleep(for: .milliseconds(1))
          world.clock.advance(by: 100)
        }
        #expect(try await world.get("A/changes").status == 200)
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an update of an object that nobody has heard of is refused, naming it, and nothing is stored`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.save("A", tag("T") + "," + tag("gone"), query: ["wait": "export"])
      try await world.save("A", #"{"changeType":"delete","entity":"Tag","objectID":"gone"}"#, query: ["wait": "export"])
      let refused = try await world.save("A", tag("U") + "," + tag("nobody", "y", "update"))
      #expect(refused.status == 404 && refused.code == "NOT_FOUND")
      #expect(refused.reason == "transactions[0]: changes[1]: Tag nobody: there is no such object")
      #expect(try await world.get("A/history").json["transactions"]?.count == 2)
      for known in [
        tag("U") + "," + tag("U", "y", "update"), tag("T", "y", "update"), tag("gone", "y", "update"),
        #"{"changeType":"delete","entity":"Tag","objectID":"never"}"#,
      ] {
        #expect(try await world.save("A", known).status == 200, "\(known)")
      }
      // Saved, and not exported yet.
      let change = HistoryChange(changeType: .insert, entity: "Tag", objectID: "pending")
      try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "p", timestamp: 0, changes: [change])], to: "A")
      #expect(try await world.save("A", tag("pending", "y", "update"), query: ["wait": "export"]).status == 200)
      #expect(try await world.liveRecords().first { $0.recordName == "pending" }?.fields.string("CD_name") == "y")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-S09 a field that production's schema lacks is held back, and goes through when it has been added`(
    _ kind: StoreKind
  )
    async throws
  {
    try await ObjectPlaneWorld.with(kind, models: [.development: [], .production: [PhotoModel.model]]) { world in
      let full = try await world.schemas.schema(of: ObjectPlaneWorld.container, .production).schema
      func send(_ method: String, _ path: String, _ body: String, query: [String: String] = [:]) async throws
        -> PlaneReply
      {
        try await world.send(world.request(method, "stores/A\(path)", query: query, environment: .production), body)
      }
      #expect(try await send("PUT", "", #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"}"#).status == 200)
      var lacking = full
      for index in lacking.recordTypes.indices where lacking.recordTypes[index].name == "CD_Photo" {
        lacking.recordTypes[index].fields.removeAll { $0.name == "CD_views" }
      }
      lacking.recordTypes.removeAll { $0.name == "CD_Rating" }
      world.schemas.replaceSchema(lacking, in: .production)
      let changes =
        #"""
        {"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"x","views":3}},\#
        {"changeType":"insert","entity":"Rating","objectID":"R"},\#(tag("T"))
        """#
      let reply = try await send(
        "POST", "/transactions", #"{"transactions":[{"transactionID":"1","changes":[\#(changes)]}]}"#,
        query: ["wait": "export"])
      #expect(
        reply.json["event"]?["error"]?["partialErrors"]?.elements.map { $0["reason"]?.string } == [
          "Cannot create or modify field 'CD_views' in record 'CD_Photo' in production schema",
          "Cannot create new type CD_Rating in production schema",
        ])
      #expect(reply.json["event"]?["counts"]?["saved"]?.int64 == 1)
      #expect(
        try await send("GET", "/quarantine", "").json["quarantined"]?.elements.map { $0["cause"]?.string } == [
          "schema", "schema",
        ])
      try await world.withExports {
        world.schemas.replaceSchema(full, in: .production)
        world.plane.objects.schemasChanged()
        while try await send("GET", "/status", "").json["quarantined"]?.int64 != 0 {
          try await Task.sleep(for: .milliseconds(1))
        }
      }
      #expect(try await world.store.read { try $0.counts().records } == 3)
    }
  }

  @Test func `a record that would be larger than a record can be is held back, and the others go`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      let schema = try await world.schemas.schema(of: ObjectPlaneWorld.container, .development).schema
      let note = Schema.RecordType(name: "CD_Photo", fields: [Schema.Field(name: "note", type: .string)], grants: [])
      world.schemas.replaceSchema(
        schema.merging(Schema(recordTypes: [note]), replacesConflicts: false), in: .development)
      try await world.setUp("A")
      try await world.save(
        "A", #"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"x"}}"#,
        query: ["wait": "export"])
      let filling = String(repeating: "f", count: 999_950)
      let body =
        #"""
        {"zoneID":{"zoneName":"com.apple.coredata.cloudkit.zone"},"operations":[{"operationType":"forceUpdate",\#
        "record":{"recordType":"CD_Photo","recordName":"P","fields":{"note":{"value":"\#(filling)"}}}}]}
        """#
      let answer = try await world.records.respond(
        to: world.request("POST", "records/modify", on: .record), body: Array(body.utf8), in: world.store, startNext: {}
      )
      #expect(answer.status == 200, "\(String(decoding: answer.body.prefix(300), as: UTF8.self))")
      let target = String(repeating: "D", count: 200)
      let reply = try await world.save(
        "A",
        #"""
        {"changeType":"update","entity":"Photo","objectID":"P","relationships":{"photoData":"\#(target)"}},\#(tag("T"))
        """#,
        query: ["wait": "export"])
      let error = try #require(reply.json["event"]?["error"]?["partialErrors"]?.elements.first)
      #expect(
        error["objectID"]?.string == "P" && error["cocoaErrorCode"]?.int64 == 134_411
          && error["serverErrorCode"]?.string == "QUOTA_EXCEEDED")
      #expect(try await world.get("A/quarantine").json["quarantined"]?.elements.map { $0["cause"]?.string } == ["size"])
      #expect(try await world.liveRecords().map(\.recordName) == ["P", "T"])
    }
  }
}

extension ObjectPlaneWorld {
  /// The run with which a drain exports a store.
  func exportRun(_ mirrorKey: Int64) async throws -> ExportRun {
    let schema = try await schemas.schema(of: Self.container, .development)
    return ExportRun(
      mirrorKey: mirrorKey, shard: 0, database: request("GET", "stores/A").database,
      model: try #require(schema.mirrorModels[Self.modelHash]), schema: schema,
      context: plane.context.object)
  }
}
