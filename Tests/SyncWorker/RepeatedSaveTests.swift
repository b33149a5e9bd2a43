// A transaction that is sent again after the purge of its history gets its first answer and does not run again.

import FixedClocks
import History
import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
import WebServices
@testable import WorkerHost

private func tag(_ id: String, _ name: String, _ changeType: String = "insert") -> String {
  #"{"changeType":"\#(changeType)","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

private let deletion = #"{"changeType":"delete","entity":"Tag","objectID":"Y"}"#

/// How a store's history may go.
enum HistoryLoss: CaseIterable, Sendable {
  case purge, forcedPurge, reset, keeper, removal
}

extension ObjectPlaneWorld {
  fileprivate func lose(_ loss: HistoryLoss, of store: String) async throws {
    switch loss {
    case .purge, .forcedPurge:
      let last = try #require(
        try await get("\(store)/history", ["resultType": "statusOnly"]).json["historyToken"]?.string)
      let query = ["before": last, "force": loss == .forcedPurge ? "true" : "false"]
      let purged = try await send(request("DELETE", "stores/\(store)/history", query: query))
      try #require(purged.status == 200 && purged.json["deletedTransactions"]?.int64 ?? 0 > 0, "\(purged.text)")
    case .reset:
      try #require(
        try await send(request("POST", "stores/\(store)/reset"), #"{"reason":"HistoryExpired"}"#).status == 200)
    case .keeper:
      clock.advance(by: 100 * 86_400_000)
      await runRound(on: self.store) {
        HistoryKeeper(retention: .seconds(90 * 86_400), clock: self.clock, log: .silent, pause: $0)
      }
    case .removal:
      try #require(try await send(request("DELETE", "stores/\(store)")).status == 200)
      try await setUp(store)
    }
  }

  fileprivate func values() async throws -> [String: String] {
    Dictionary(
      try await liveRecords().map { ($0.recordName, $0.fields.string("CD_name") ?? "") },
      uniquingKeysWith: { first, _ in first })
  }
}

@Test(arguments: StoreKind.allCases, HistoryLoss.allCases)
func `a transaction that is sent again when its history is gone changes nothing, and is answered as it was`(
  _ kind: StoreKind, _ loss: HistoryLoss
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    let b = try await Device("B", world)
    try await world.setUp("A")
    try await world.save("A", tag("X", "ORIGINAL"), id: "T0", query: ["wait": "export"])
    try await world.save("A", tag("X", "OLD", "update"), id: "T1", query: ["wait": "export"])
    try await world.save("A", tag("Y", "y"), id: "T2", query: ["wait": "export"])
    try await b.pull()
    try await world.save("B", tag("X", "NEW", "update") + "," + deletion, query: ["wait": "export"])
    let before = try await world.values()
    #expect(before.keys.sorted() == ["X"] && before["X"]?.contains("NEW") == true)
    try await world.lose(loss, of: "A")
    for _ in 0..<2 {
      let again = try await world.save("A", tag("X", "OLD", "update"), id: "T1", query: ["wait": "export"])
      #expect(
        again.status == 200 && again.json["transactions"]?.elements.first?["transactionNumber"]?.int64 == 2,
        "\(again.text)")
      #expect(try await world.save("A", tag("Y", "y"), id: "T2").status == 200)
      #expect(try await world.values() == before)
    }
    #expect(try await world.get("A/status").json["pendingUploads"]?.int64 == 0)
    // A new transaction goes on, also next to a repeated one.
    let more = #"{"transactionID":"T2","timestamp":"2026-11-20T07:33:24.123Z","changes":[\#(tag("Y", "y"))]}"#
    let new = #"{"transactionID":"T3","timestamp":"2026-11-20T07:33:24.123Z","changes":[\#(tag("Z", "z"))]}"#
    let both = try await world.send(
      world.request("POST", "stores/A/transactions", query: ["wait": "export"]), #"{"transactions":[\#(more),\#(new)]}"#
    )
    #expect(
      both.status == 200 && both.json["transactions"]?.elements.map { $0["transactionNumber"]?.int64 } == [3, 4],
      "\(both.text)")
    #expect(try await world.values().keys.sorted() == ["X", "Z"])
  }
}

extension ObjectPlaneWorld {
  /// Sends one request of several transactions, each with its identifier.
  fileprivate func send(_ transactions: [(id: String, changes: String)], to store: String, waits: Bool = true)
    async throws -> PlaneReply
  {
    let list = transactions.map {
      #"{"transactionID":"\#($0.id)","timestamp":"2026-11-20T07:33:24.123Z","changes":[\#($0.changes)]}"#
    }
    return try await send(
      request("POST", "stores/\(store)/transactions", query: waits ? ["wait": "export"] : [:]),
      #"{"transactions":[\#(list.joined(separator: ","))]}"#)
  }
}

@Test(arguments: StoreKind.allCases) func `wait=export answers the save's own event and never another save's`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let own = try await world.save("A", tag("X", "x"), id: "T1", query: ["wait": "export"])
    let first = try #require(own.json["event"]?["identifier"]?.string)
    // An object of another entity under the name: this save's export fails for it.
    let photo = #"{"changeType":"insert","entity":"Photo","objectID":"X"}"#
    let failed = try await world.save("A", photo, id: "T2", query: ["wait": "export"])
    #expect(failed.json["event"]?["succeeded"]?.bool == false && failed.json["event"]?["identifier"]?.string != first)
    // A save without changes has no event of its own.
    #expect(
      try await world.save("A", tag("V", "v"), query: ["wait": "export"]).json["event"]?["succeeded"]?.bool == true)
    #expect(
      try await world.save("A", tag("V", "v", "update"), id: "T3", query: ["wait": "export"]).json["event"] == nil)
    #expect(
      try await world.save(
        "A", tag("X", "y"), id: "T4", author: "NSCloudKitMirroringDelegate.import", query: ["wait": "export"]
      ).json["event"] == nil)
    // Nor has what is sent again, but for its own where that is still known.
    let again = try await world.save("A", tag("X", "x"), id: "T1", query: ["wait": "export"])
    #expect([first, nil].contains(again.json["event"]?["identifier"]?.string))
    // Several saves whose exports come in one commit have one event, which is each one's.
    async let one = world.save("A", tag("P", "p"), query: ["wait": "export"])
    async let two = world.save("A", tag("Q", "q"), query: ["wait": "export"])
    for reply in try await [one, two] {
      #expect(reply.json["event"]?["succeeded"]?.bool == true && reply.json["event"]?["identifier"]?.string != first)
    }
  }
}

private func photo(_ id: String, tags: String) -> String {
  #"{"changeType":"insert","entity":"Photo","objectID":"\#(id)","relationships":{"tags":[\#(tags)]}}"#
}

@Test(arguments: StoreKind.allCases, [0, 1000])
func `nothing points to an object that a transaction makes and deletes when it ends`(_ kind: StoreKind, _ more: Int)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let others = (0..<more).map { tag("other \($0)", "o") + "," }.joined()
    let saved = try await world.send(
      [
        ("T1", others + tag("Y", "y") + "," + photo("M", tags: #""Y","Z""#) + "," + deletion + "," + tag("Z", "z")),
        // By pointers of the object, and from the other side of the relationship.
        (
          "T2",
          others + tag("S", "s") + #"""
            ,{"changeType":"insert","entity":"PhotoData","objectID":"D"},{"changeType":"insert","entity":"Photo",\#
            "objectID":"N","relationships":{"photoData":"D"}},{"changeType":"insert","entity":"Rating",\#
            "objectID":"R"},{"changeType":"insert","entity":"Photo","objectID":"O","relationships":{"ratings":["R"]}},\#
            {"changeType":"delete","entity":"PhotoData","objectID":"D"},{"changeType":"delete","entity":"Rating",\#
            "objectID":"R"}
            """#
        ),
        // Objects made and deleted in an earlier transaction of the batch.
        ("T3", photo("P", tags: more == 0 ? #""Y","Z""# : #""Z""#)),
        (
          "T4",
          #"""
          {"changeType":"insert","entity":"Rating","objectID":"Q","relationships":{"photo":"W"}},\#
          {"changeType":"insert","entity":"Photo","objectID":"W"},{"changeType":"delete","entity":"Photo",\#
          "objectID":"W"}
          """#
        ),
      ], to: "A")
    #expect(saved.status == 200 && saved.json["event"]?["succeeded"]?.bool == true, "\(saved.text)")
    let records = try await world.liveRecords()
    let names = Set(records.map(\.recordName))
    for link in records.compactMap({ LinkRecord($0) }) {
      #expect(names.contains(link.ends.first) && names.contains(link.ends.second), "\(link.ends)")
    }
    #expect(records.filter { $0.recordType == "CDMR" }.count == 2)
    #expect(records.first { $0.recordName == "N" }?.fields["CD_photoData"] == nil)
    #expect(records.first { $0.recordName == "Q" }?.fields["CD_photo"] == nil)
    #expect(try await world.get("A/quarantine").json["quarantined"]?.count == 0)
  }
}

@Test(arguments: StoreKind.allCases)
func `a transaction that may be older than what the server remembers is refused, naming it`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let b = try await Device("B", world)
    try await world.setUp("A")
    let saved = world.clock.now
    func save(_ id: String, _ changes: String, at date: Int64) async throws -> PlaneReply {
      try await world.send(
        world.request("POST", "stores/A/transactions", query: ["wait": "export"]),
        #"""
        {"transactions":[{"transactionID":"\#(id)","timestamp":"\#(MirrorDate.text(date))","changes":[\#(changes)]}]}
        """#
      )
    }
    #expect(try await save("T1", tag("X", "OLD"), at: saved).status == 200)
    try await b.pull()
    try await world.save("B", tag("X", "NEW", "update"), query: ["wait": "export"])
    try await world.lose(.purge, of: "A")
    func round() async {
      await runRound(on: world.store) { TransactionKeeper(clock: world.clock, log: .silent, pause: $0) }
    }
    world.clock.advance(by: TransactionKeeper.memory)
    await round()
    #expect(
      try await save("T1", tag("X", "OLD"), at: saved).json["transactions"]?.elements.first?["transactionNumber"]?.int64
        == 1)
    world.clock.advance(by: 1)
    await round()
    let refused = try await save("T1", tag("X", "OLD"), at: saved)
    #expect(
      refused.status == 409 && refused.code == "CONFLICT" && refused.reason?.hasPrefix("transactions[0]: ") == true,
      "\(refused.text)")
    #expect(try await world.values() == ["X": "NEW"])
    // A transaction made since then is new; a known one gets its answer.
    #expect(try await save("T2", tag("Z", "z"), at: saved + EditTime.tolerance).status == 409)
    #expect(try await save("T2", tag("Z", "z"), at: saved + EditTime.tolerance + 1).status == 200)
    #expect(try await save("T2", tag("Z", "z"), at: saved).status == 200)
    #expect(try await world.values() == ["X": "NEW", "Z": "z"])
    // The other store forgot nothing.
    #expect(try await world.save("B", tag("W", "w"), query: ["wait": "export"]).status == 200)
  }
}

@Suite struct `Shared stores that send again` {
  private func loseHistory(of user: String, _ world: SharedWorld) async throws {
    world.clock.advance(by: 100 * 86_400_000)
    let store = try world.store(of: user)
    await runRound(on: store) {
      HistoryKeeper(retention: .seconds(90 * 86_400), clock: world.clock, log: .silent, pause: $0)
    }
    #expect(
      try await store.read { snapshot in
        try snapshot.mirrors(afterKey: 0, limit: 9).allSatisfy {
          try snapshot.transactions(of: $0.key, after: 0, limit: 9).isEmpty
        }
      })
  }

  @Test(arguments: [true, false])
  func `a shared store's transaction runs once, though its home's and its guest's history are gone`(_ resets: Bool)
    async throws
  {
    try await SharedWorld.withTrip { world in
      #expect(try await world.save(SharedChange.rename("P", "OLD"), id: "T1").status == 200)
      #expect(try await world.save(SharedChange.rating("R", of: "P"), id: "T2").status == 200)
      try await world.put("P", "Photo", ["displayName": "NEW"], in: "Trip", of: "_alice")
      try await world.bury("R", in: "Trip", of: "_alice")
      if resets {
        #expect(try await world.send("POST", "reset", [:], #"{"reason":"HistoryExpired"}"#).status == 200)
      } else {
        for user in ["_bob", "_alice"] { try await loseHistory(of: user, world) }
      }
      for _ in 0..<2 {
        let again = try await world.save(SharedChange.rename("P", "OLD"), id: "T1")
        #expect(
          again.status == 200 && again.json["transactions"]?.elements.first?["transactionNumber"]?.int64 == 1,
          "\(again.text)")
        #expect(try await world.save(SharedChange.rating("R", of: "P"), id: "T2").status == 200)
        #expect(try await world.records("Trip", of: "_alice") == ["P": "NEW"])
      }
      #expect(try await world.conflicts().isEmpty)
    }
  }

  @Test
  func
    `a part forwarded again runs once when the guest's history is gone, and a late part of its transaction runs`()
    async throws
  {
    try await SharedWorld.withTrip { world in
      // Done, and its home does not hear of it.
      world.owners.fail("forward", .after)
      #expect(try await world.save(SharedChange.rename("P", "OLD"), id: "T1", waits: false).status == 200)
      _ = try await world.send("GET", "changes")
      #expect(try await world.records("Trip", of: "_alice") == ["P": "OLD"])
      try await world.put("P", "Photo", ["displayName": "NEW"], in: "Trip", of: "_alice")
      try await loseHistory(of: "_alice", world)
      world.clock.advance(by: 400_000)
      _ = try await world.send("GET", "changes")
      #expect(try await world.save(SharedChange.rating("R", of: "P")).status == 200)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "NEW", "R": "P"])
    }
  }
}
