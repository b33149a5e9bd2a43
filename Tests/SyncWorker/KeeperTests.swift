// The keepers of workers forget history that every consumer has read, and past states of records.

import FixedClocks
import History
import JSON
import Mirroring
@testable import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
@testable import WorkerHost
@testable import ZoneCommit

private func insertTag(_ id: String) -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(id)"}}"#
}

/// Runs a keeper's first round.
func runRound(on store: any ShardStore, _ keeper: (@escaping @Sendable (Duration) async -> Void) -> any ShardWork) async
{
  let (rounds, round) = AsyncStream.makeStream(of: Void.self)
  let work = keeper { duration in
    // Pauses between slices are short.
    guard duration >= .seconds(1) else { return }
    round.finish()
    // Dropped because only the cancellation ends it.
    try? await Task.sleep(for: .seconds(60))
  }
  let task = Task { await work.run(on: store) }
  for await _ in rounds {}
  task.cancel()
  await task.value
}

@Test(arguments: StoreKind.allCases)
func `H8 old history goes, never above the low-water mark, and a dead consumer holds it no longer`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    for number in 1...3 { try await world.save("A", insertTag("T\(number)"), query: ["wait": "export"]) }
    let tokens =
      try await world.get("A/history").json["transactions"]?.elements.compactMap { $0["token"]?.string } ?? []
    _ = try await world.send(world.request("PUT", "stores/A/consumers/slow"), #"{"historyToken":"\#(tokens[0])"}"#)
    world.clock.advance(by: 11_000)
    try await world.save("A", insertTag("T4"), query: ["wait": "export"])
    let late = HistoryTransaction(
      transactionID: "late", timestamp: 0,
      changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "late")])
    try await world.appendWithoutExport([late], to: "A")
    func round(_ retention: Duration) async throws -> [Int64] {
      await runRound(on: world.store) {
        HistoryKeeper(retention: retention, clock: world.clock, log: .silent, pause: $0)
      }
      return try await world.get("A/history").json["transactions"]?.elements.compactMap {
        $0["transactionNumber"]?.int64
      } ?? []
    }
    #expect(try await round(.seconds(3600)) == [1, 2, 3, 4, 5])
    #expect(try await round(.seconds(10)) == [2, 3, 4, 5], "the consumer has not dealt with the rest")
    #expect(try await world.get("A/history", ["consumer": "slow", "after": tokens[2]]).status == 200)
    #expect(try await round(.seconds(10)) == [4, 5])
    world.clock.advance(by: 41_000)
    #expect(try await round(.seconds(10)) == [5], "what is not exported stays, however old it is")
    #expect(try await world.get("A/consumers").json["consumers"]?.count == 0)
    #expect(try await world.liveRecords().count == 4)
  }
}

@Test func `H8 a long history goes slice by slice, and for ever means that nothing goes`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    for number in 0..<12 {
      let transactions = (0..<100).map { #"{"transactionID":"\#(number) \#($0)","changes":[]}"# }.joined(separator: ",")
      #expect(
        try await world.send(
          world.request("POST", "stores/A/transactions", query: ["wait": "export"]),
          #"{"transactions":[\#(transactions)]}"#
        ).status == 200)
    }
    world.clock.advance(by: 100_000)
    // Returns at once.
    await HistoryKeeper(retention: .zero, clock: world.clock, log: .silent, pause: { _ in }).run(on: world.store)
    #expect(try await world.get("A/history", ["resultType": "count"]).json["count"]?.int64 == 1200)
    await runRound(on: world.store) {
      HistoryKeeper(retention: .seconds(1), clock: world.clock, log: .silent, pause: $0)
    }
    #expect(try await world.get("A/history", ["resultType": "count"]).json["count"]?.int64 == 0)
  }
}

@Test(arguments: StoreKind.allCases)
func `earlier states of records are forgotten when they are old, or when none are to be kept`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    try await world.setUp("A")
    let ids = (0..<450).map { "T\($0)" }
    func update() async throws {
      let changes = ids.map {
        #"{"changeType":"update","entity":"Tag","objectID":"\#($0)","attributes":{"name":"\#(world.random.uuid())"}}"#
      }
      try await world.save("A", changes.joined(separator: ","), query: ["wait": "export"])
    }
    func counts() async throws -> [Int] {
      try await world.store.read { snapshot in
        let database = try #require(try snapshot.database(world.request("GET", "x").database))
        let zone = try #require(try snapshot.zone(named: ReservedName.privateMirrorZone, in: database.key))
        return try ["T0", "T449"].map {
          try snapshot.pastStates(of: $0, in: zone.key, after: 0, limit: .max, byteLimit: .max).count + 1
        }
      }
    }
    try await world.save("A", ids.map(insertTag).joined(separator: ","), query: ["wait": "export"])
    try await update()
    // States were replaced long after the world's clock, or, in memory, long before it.
    await runRound(on: world.store) {
      PastKeeper(retention: .seconds(3_000_000_000), clock: world.clock, log: .silent, pause: $0)
    }
    #expect(try await counts() == [2, 2])
    world.clock.advance(by: 6_000_000_000_000)
    await runRound(on: world.store) { PastKeeper(retention: .seconds(60), clock: world.clock, log: .silent, pause: $0) }
    #expect(try await counts() == [1, 1])
    try await update()
    #expect(try await counts() == [2, 2])
    await runRound(on: world.store) { PastKeeper(retention: .zero, clock: world.clock, log: .silent, pause: $0) }
    #expect(try await counts() == [1, 1])
  }
}

@Test(arguments: StoreKind.allCases) func `losses of conflicts are forgotten when they are old`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let id = world.request("GET", "x").database
    func count(_ seconds: Int64) async throws -> Int {
      await runRound(on: world.store) {
        PastKeeper(subject: .conflicts, retention: .seconds(seconds), clock: world.clock, log: .silent, pause: $0)
      }
      return try await world.store.read { snapshot in
        let database = try #require(try snapshot.database(id))
        return try snapshot.conflicts(in: database.key, afterNumber: 0, ConflictFilter(), limit: .max).count
      }
    }
    let start = world.clock.now
    try await world.store.enqueue { transaction in
      let database = try transaction.makeDatabase(id)
      for index in 0..<450 {
        let loss = ConflictLoss(
          kind: .unexported, objectID: "T", entity: "Tag", lost: [], edit: Stamp(timestamp: 1, userRecordName: "_u"))
        try ConflictJournal(transaction: transaction, databaseKey: database.key, now: start + Int64(index) * 1000)
          .append(loss, inZone: "z")
      }
    }.value
    #expect(try await count(460) == 450)
    world.clock.advance(by: 500_000)
    #expect(try await count(460) == 410)
    #expect(try await count(0) == 0)
  }
}
