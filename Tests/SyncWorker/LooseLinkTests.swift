// A scrub finds link records that lead nowhere, and removes them if an operator asks.

import FixedClocks
import JSON
import Mirroring

@testable import ObjectPlane
import RecordStore
import Records
import Testing
@testable import SharedStores
@testable import WorkerHost

@Test(arguments: StoreKind.allCases)
func `links that lead nowhere are found and removed for every device, and those that may still lead somewhere stay`(
  _ kind: StoreKind
)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let device = try await Device("B", world)
    func insert(_ entity: String, _ id: String, _ more: String = "") -> String {
      #"{"changeType":"insert","entity":"\#(entity)","objectID":"\#(id)"\#(more)}"#
    }
    let links = { (tags: String) in #","relationships":{"tags":[\#(tags)]}"# }
    // `gone` never comes; of `late` there is something that is held back.
    try await world.save(
      "A", insert("Tag", "T") + "," + insert("Photo", "P", links(#""T","gone","late""#)), query: ["wait": "export"])
    let mirrorKey = try await world.appendWithoutExport([], to: "A")
    try await world.store.enqueue { transaction in
      let held = StoredQuarantine(
        mirror: mirrorKey, name: "late", entity: "Tag", cause: QuarantineCause.other.rawValue, code: "INTERNAL_ERROR",
        reason: "r", firstAt: 1, lastAt: 1,
        attempts: 1, dueAt: StoredQuarantine.never, schemaVersion: 0)
      try transaction.putQuarantined(held, changes: [], assets: [])
    }.value
    try await device.pull()
    #expect(device.graph.links.count == 3)
    let found = LooseLinks(store: world.store, context: world.plane.context.commits)
    #expect(try await found.run(removes: true) == LooseLinks.Report(), "they are young")
    world.clock.advance(by: LooseLinks.age + 1)
    #expect(try await found.run(removes: false) == LooseLinks.Report(looseCount: 1, removedCount: 0))
    #expect(try await found.run(removes: true) == LooseLinks.Report(looseCount: 1, removedCount: 1))
    #expect(try await found.run(removes: true) == LooseLinks.Report())
    let told = try await device.pull()
    #expect(told.map { $0["changeType"]?.string } == ["unlink"])
    #expect(device.graph.links.count == 2 && !device.graph.links.contains { $0.contains("gone") })
    #expect(try await Device("C", world).pull().count { $0["changeType"]?.string == "link" } == 2)
  }
}

@Test func `a link whose object was deleted by a record client is loose, however many there are`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    let tags = (0..<700).map { #"{"changeType":"insert","entity":"Tag","objectID":"T\#($0)"}"# }.joined(separator: ",")
    let names = (0..<1300).map { #""T\#($0)""# }.joined(separator: ",")
    try await world.save("A", tags, query: ["wait": "export"])
    try await world.save(
      "A", #"{"changeType":"insert","entity":"Photo","objectID":"P","relationships":{"tags":[\#(names)]}}"#,
      query: ["wait": "export"])
    world.clock.advance(by: LooseLinks.age + 1)
    #expect(
      try await LooseLinks(store: world.store, context: world.plane.context.commits).run(removes: true)
        == LooseLinks.Report(looseCount: 600, removedCount: 600))
    #expect(try await world.liveRecords().count { LinkRecord($0) != nil } == 700)
  }
}
