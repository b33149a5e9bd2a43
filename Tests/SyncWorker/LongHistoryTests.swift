// Stores with a long history: its end goes a slice at a time, so that others' commits take turns with it.

import FixedClocks
import History
import JSON
import Mirroring
import ObjectModel
import RecordStore
import ServiceBus
import Testing

@testable import ObjectPlane
@testable import WorkerHost
@testable import ZoneCommit

private func inserts(_ count: Int) -> [HistoryTransaction] {
  (1...count).map { number in
    HistoryTransaction(
      transactionID: "number \(number)", timestamp: 0,
      changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "T\(number)")])
  }
}

extension ObjectPlaneWorld {
  /// The turns that a call takes at the shard.
  fileprivate func turns(_ method: String, _ path: String, query: [String: String] = [:], _ body: String = "")
    async throws -> Int
  {
    let lines = Lines()
    let answer = try await plane.respond(
      to: request(method, path, query: query), body: Array(body.utf8),
      in: LineShard(base: store, lines: lines, party: "_alice"), startNext: {})
    #expect(answer.status == 200)
    return lines.all.count
  }

  /// A store with a history of so many exported transactions.
  fileprivate func setUp(_ store: String, with transactionCount: Int) async throws {
    let device = try await Device(store, self)
    try await appendWithoutExport(inserts(transactionCount), to: store)
    try await device.pull()
  }

  /// Has the store hold back so many changes, of objects that nobody knows.
  fileprivate func holdBack(_ count: Int, in store: String) async throws {
    let changes = (1...count).map { number in
      HistoryChange(
        changeType: .update, entity: "Tag", objectID: "unknown \(number)",
        attributes: [NamedValue(name: "name", value: .string("x"))])
    }
    try await appendWithoutExport([HistoryTransaction(transactionID: "t", timestamp: 0, changes: changes)], to: store)
    _ = try await get("\(store)/changes")
    #expect(try await heldCount(store) == Int64(count))
  }

  fileprivate func heldCount(_ store: String) async throws -> Int64? {
    try await get("\(store)/status").json["quarantined"]?.int64
  }

  fileprivate func historyCount() async throws -> Int64? {
    try await get("A/history", ["resultType": "count"]).json["count"]?.int64
  }
}

@Suite struct `A long history` {
  @Test(arguments: StoreKind.allCases) func `is purged in slices`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A", with: 1700)
      for isForced in [false, true] {
        let query = ["beforeTransaction": isForced ? "1701" : "1201", "force": "\(isForced)"]
        #expect(try await world.turns("DELETE", "stores/A/history", query: query) >= (isForced ? 1 : 3))
        #expect(try await world.historyCount() == (isForced ? 0 : 500))
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `goes in slices before its store is reset or removed`(_ kind: StoreKind)
    async throws
  {
    var few: [Int] = []
    for count in [2, 1200] {
      try await ObjectPlaneWorld.with(kind) { world in
        try await world.setUp("A", with: count)
        var turns = [try await world.turns("POST", "stores/A/reset", #"{"reason":"user"}"#)]
        #expect(try await world.historyCount() == 0)
        try await world.setUp("B", with: count)
        turns.append(try await world.turns("DELETE", "stores/B"))
        #expect(try await world.get("B/status").status == 404)
        if few.isEmpty { few = turns }
        if count > 2 { #expect(zip(turns, few).allSatisfy { $0 >= $1 + 2 }, "\(turns) \(few)") }
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `stays when an answered reset is asked for again`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A", with: 2)
      let reset = world.request("POST", "stores/A/reset")
      let body = #"{"reason":"user"}"#
      let first = try await world.send(reset, body)
      #expect(first.status == 200)
      let more = (1...600).map { number in
        HistoryTransaction(
          transactionID: "later \(number)", timestamp: 0,
          changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "L\(number)")])
      }
      try await world.appendWithoutExport(more, to: "A")
      #expect(try await world.send(reset, body).text == first.text)
      #expect(try await world.historyCount() == 600)
    }
  }

  @Test(arguments: StoreKind.allCases) func `held-back changes of a removed store are journaled page by page`(
    _ kind: StoreKind
  ) async throws {
    var few = 0
    for count in [1, 250] {
      try await ObjectPlaneWorld.with(kind) { world in
        try await world.setUp("A")
        try await world.setUp("B")
        try await world.holdBack(count, in: "A")
        let turns = try await world.turns("DELETE", "stores/A")
        var journaled = 0
        var last: Int64 = 0
        while case let page = try await world.conflicts("B", ["after": "\(last)"]), let end = page.last {
          journaled += page.count
          last = try #require(end["number"]?.int64)
        }
        #expect(journaled == count)
        if few == 0 { few = turns }
        if count > 1 { #expect(turns >= few + 2, "\(turns) \(few)") }
      }
    }
  }

  @Test func `a removal that breaks off leaves the store with its held-back changes`() async throws {
    let commits = FailingCommits()
    try await ObjectPlaneWorld.with(.memory, commitFailure: { _ in commits.next() }) { world in
      try await world.setUp("A", with: 1200)
      try await world.holdBack(150, in: "A")
      commits.fail(3)
      #expect(try await world.send(world.request("DELETE", "stores/A")).status != 200)
      #expect(!commits.isDue)
      #expect(try await world.historyCount() ?? .max < 1201, "the removal had begun")
      #expect(try await world.heldCount("A") == 150)
      #expect(try await world.send(world.request("DELETE", "stores/A")).status == 200)
      #expect(try await world.get("A/status").status == 404)
    }
  }
}
