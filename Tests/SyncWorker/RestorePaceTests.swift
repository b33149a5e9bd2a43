// Restores of large zones: their reads, and how long a page is.

import FixedClocks
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Testing
import WebServices

@testable import WorkerHost
@testable import ZoneCommit

private func tag(_ kind: String, _ id: String, _ name: String) -> String {
  objectChange(kind, "Tag", id, "", #""name":"\#(name)""#)
}

@Suite struct `The pace of a restore` {
  private func restore(_ world: ObjectPlaneWorld, _ body: String, in store: any ShardStore) async throws -> JSONValue {
    let request = world.request("POST", "zones/\(ReservedName.privateMirrorZone)/restore")
    return try JSONValue(
      parsing: try await world.plane.respond(to: request, body: Array(body.utf8), in: store, startNext: {}).body)
  }

  @Test(arguments: StoreKind.allCases)
  func `a date is looked up before the commit, and later saves stay`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      try await world.setUp("A")
      try await world.save("A", tag("insert", "T", "one") + "," + tag("insert", "U", "one"), query: ["wait": "export"])
      let date = MirrorDate.text(world.clock.now)
      world.clock.advance(by: 1000)
      try await world.save("A", tag("update", "T", "two") + "," + tag("update", "U", "two"), query: ["wait": "export"])
      let meddling = MeddlingStore(world.store, behindRead: 1) {
        try await world.save("A", tag("update", "U", "meanwhile"), query: ["wait": "export"])
      }
      let answer = try await restore(world, #"{"date":"\#(date)"}"#, in: meddling)
      #expect(meddling.readCount == 1)
      #expect(answer["restored"]?.int64 == 1 && answer["moreComing"]?.bool == false, "\(answer.text)")
      let names = try await world.liveRecords().map { $0.fields.string("CD_name") }
      #expect(names == ["one", "meanwhile"])
    }
  }

  @Test(arguments: StoreKind.allCases) func `a page of large records is short`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      try await world.setUp("A")
      let large = String(repeating: "x", count: 200_000)
      for number in 0..<24 {
        try await world.save("A", tag("insert", "T\(number)", "small"), query: ["wait": "export"])
      }
      let before = try await world.zoneSequence()
      for number in 0..<24 {
        try await world.save("A", tag("update", "T\(number)", large), query: ["wait": "export"])
      }
      let first = try await restore(world, #"{"sequence":\#(before)}"#, in: world.store)
      let count = try #require(first["restored"]?.int64)
      #expect(count > 0 && count <= 10 && first["moreComing"]?.bool == true, "\(count)")
      #expect(try await world.restore(#""sequence":\#(before)"#) == (24 - count, 0))
      #expect(try await world.liveRecords().allSatisfy { $0.fields.string("CD_name") == "small" })
    }
  }
}
