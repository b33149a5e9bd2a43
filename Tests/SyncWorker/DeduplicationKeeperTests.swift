// Duplicates beyond a single commit: those older than their rule, and groups that are too large.

import FixedClocks
import JSON
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Testing
@testable import WorkerHost
@testable import ZoneActions
@testable import ZoneCommit

@Test(arguments: StoreKind.allCases) func `duplicates from before the rule are merged when their index is ready`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    let a = try await Device("A", world)
    for index in 0..<6 {
      try await world.export(
        "A", Edit.insertTag("T\(index)", "n\(index % 2)"), Edit.insertPhoto("P\(index)", tags: ["T\(index)"]))
    }
    try await world.settleDuplicates()
    #expect(try await world.redirect(of: "T5") == nil)
    world.declareTags()
    try await world.settleDuplicates()
    #expect(try await world.pairs() == ["P0:T0", "P1:T1", "P2:T0", "P3:T1", "P4:T0", "P5:T1"])
    for _ in 0..<2 {
      try await a.pull()
      try await world.export("A", Edit.insertPhoto("Q\(world.clock.now)"))
    }
    try await world.settleDuplicates()
    #expect(try await world.tags() == ["T0=n0", "T1=n1"])
  }
}

@Test func `a group larger than a commit and a tag with more photos than a commit moves become one, a part at a time`()
  async throws
{
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let a = try await Device("A", world)
    let count = DuplicateMerge.groupLimit * 2 + 50
    for start in stride(from: 0, to: count, by: 100) {
      let tags = (start..<min(start + 100, count)).map { Edit.insertTag("T\(10_000 + $0)") }
      try await world.save("A", tags.joined(separator: ","), query: ["wait": "export"])
    }
    let photos = (0..<DuplicateMerge.pointerLimit * 2 + 10).map {
      Edit.insertPhoto("P\(10_000 + $0)", tags: ["T10007"])
    }
    try await world.save("A", photos.joined(separator: ","), query: ["wait": "export"])
    world.declareTags()
    try await world.settleDuplicates()
    #expect(try await world.redirect(of: "T\(10_000 + count - 1)")?.survivor == "T10000")
    let pairs = try await world.pairs()
    #expect(pairs.count == photos.count && pairs.allSatisfy { $0.hasSuffix(":T10000") })
    for _ in 0..<3 {
      world.clock.advance(by: 1000)
      try await a.pull()
      try await world.export("A", Edit.insertPhoto("Q\(world.clock.now)"))
    }
    try await world.settleDuplicates()
    #expect(try await world.tags() == ["T10000=x"])
    #expect(try await world.pairs().count == photos.count)
    // A device that reads from the beginning sees one tag with all photos.
    let fresh = try await Device("F", world)
    try await fresh.pull(limit: 500)
    #expect(fresh.graph.links.count == photos.count)
  }
}

@Test func `a save that meets more duplicates than a commit merges leaves the rest to the background`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    let count = DuplicateMerge.groupLimit + 20
    let tags = (0..<count).map { Edit.insertTag("T\(10_000 + $0)") }
    try await world.save("A", tags.joined(separator: ","), query: ["wait": "export"])
    world.declareTags(.report)
    try await world.settleDuplicates()
    world.declareTags()
    try await world.export("A", Edit.insertTag("T00000"))
    #expect(try await world.redirect(of: "T10000")?.survivor == "T00000")
    try await world.settleDuplicates()
    for name in ["T10000", "T\(10_000 + count - 1)"] {
      #expect(try await world.redirect(of: name)?.survivor == "T00000")
    }
  }
}

@Test func `where no device has a store a duplicate goes at once, and its name stays the survivor's`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags()
    let id = world.request("GET", "stores/x").database
    try await world.store.enqueue {
      _ = try $0.makeZone(named: ReservedName.privateMirrorZone, in: try $0.makeDatabase(id).key)
    }.value
    _ = try await world.modify(
      tagOperation("create", "T1"), tagOperation("create", "T2"), linkOperation("L", "P", "T2"))
    #expect(try await world.tags() == ["T1=x", "T2=x"])
    try await world.settleDuplicates()
    #expect(try await world.tags() == ["T1=x"])
    _ = try await world.modify(linkOperation("M", "Q", "T2"))
    #expect(try await world.pairs() == ["P:T1", "Q:T1"])
  }
}

@Test func `a damaged record keeps what it is part of apart, and holds up no save, import or removal of others`()
  async throws
{
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags()
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.export("A", Edit.insertTag("T2"), Edit.insertPhoto("P", tags: ["T2"]), Edit.insertTag("U2", "u"))
    try world.damage("record SET sum = sum + 1 WHERE type = (SELECT id FROM symbol WHERE text = 'CDMR')")
    // Its pair can't be moved; the tags are one all the same, and others are removed.
    #expect(
      try await world.export("B", Edit.insertTag("T1"), Edit.insertTag("U1", "u")).json["event"]?["succeeded"]?.bool
        == true)
    #expect(try await world.redirect(of: "T2")?.survivor == "T1")
    // The import that meets the damaged record has not succeeded, later ones have.
    for device in [a, b, a, b] {
      try await device.pull()
      #expect(
        try await world.export(device.store, Edit.insertPhoto("Q-\(world.clock.now)")).json["event"]?["succeeded"]?.bool
          == true)
    }
    await world.duplicates.advance(world.store)
    #expect(try await world.redirect(of: "T2")?.isPending == true)
    #expect(try await world.redirect(of: "U2")?.isPending == false)
    // A damaged tag stays what it is.
    try world.damage("record SET sum = sum + 1 WHERE name = 'U1'")
    for policy in [EnvironmentRules.Unique.Policy.mergeLowestUUID, .reject] {
      world.declareTags(policy)
      #expect(
        try await world.export("A", Edit.insertTag("U\(policy.rawValue)", "u")).json["event"]?["succeeded"]?.bool
          == true)
    }
  }
}

@Test func `duplicates are reported with what they share, and those that are merged are told apart`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags(.report)
    try await world.setUp("A")
    try await world.export("A", Edit.insertTag("T1"), Edit.insertTag("T2"), Edit.insertTag("T3", "y"))
    try await world.settleDuplicates()
    let reports = WorkerReports(stores: [world.store], openingCount: 0, pendingPingCount: 0)
    func rows() async throws -> [String] {
      let answer = try JSONValue(parsing: try await reports.answer(WorkerReport(subject: "duplicates", query: [:])))
      return (answer["duplicates"]?.elements ?? []).map { row in
        """
        \(row["owner"]?.string ?? "") \(row["zone"]?.string ?? "") \(row["recordType"]?.string ?? "") \
        \(row["fields"]?.string ?? "") \(row["count"]?.int64 ?? -1) \(row["merging"]?.int64 ?? -1) \
        \(row["records"]?.elements.compactMap(\.string) ?? [])
        """
      }
    }
    #expect(try await rows() == ["_alice com.apple.coredata.cloudkit.zone CD_Tag CD_name 2 0 [\"T1\", \"T2\"]"])
    #expect(try await world.redirect(of: "T2") == nil)
    world.declareTags()
    try await world.settleDuplicates()
    #expect(try await rows() == ["_alice com.apple.coredata.cloudkit.zone CD_Tag CD_name 1 1 [\"T1\"]"])
  }
}

@Test func `a zone that is restored to before a merge, or imported with duplicates, is merged again`() async throws {
  try await ObjectPlaneWorld.with(.sqlite, keepsPastStates: true) { world in
    let a = try await Device("A", world)
    func call(_ verb: String, _ body: String, query: [String: String] = [:]) async throws -> JSONValue {
      let request = DatabaseRequest(
        plane: .object, method: "POST", path: ["zones", ReservedName.privateMirrorZone, verb], query: query,
        database: world.request("GET", "stores/x").database,
        scope: .private, caller: Caller(userRecordName: "_alice"), requestID: "r", baseURL: "https://host")
      return try JSONValue(
        parsing: try await world.plane.respond(to: request, body: Array(body.utf8), in: world.store, startNext: {}).body
      )
    }
    try await world.export("A", Edit.insertTag("T1"), Edit.insertPhoto("P1", tags: ["T1"]))
    try await world.export("A", Edit.insertTag("T2"), Edit.insertPhoto("P2", tags: ["T2"]))
    let database = world.request("GET", "stores/x").database
    let sequence = try await world.store.read { try $0.database(database)?.sequence ?? 0 }
    world.declareTags()
    try await world.settleDuplicates()
    for _ in 0..<2 {
      try await a.pull()
      try await world.export("A", Edit.insertPhoto("Q\(world.clock.now)"))
    }
    #expect(try await world.tags() == ["T1=x"])
    try await world.export("A", Edit.renameTag("T2", "x"))
    _ = try await call("restore", #"{"sequence":\#(sequence)}"#)
    #expect(try await world.redirect(of: "T2")?.isPending == true)
    #expect(try await world.pairs() == ["P1:T1", "P2:T1"])
    let stamp = #"{"userRecordName":"_alice","timestamp":1}"#
    let line =
      #"""
      {"record":{"recordName":"T0","recordType":"CD_Tag","fields":{"CD_entityName":{"type":"STRING","value":"Tag"},\#
      "CD_name":{"type":"STRING","value":"x"}},"created":\#(stamp),"modified":\#(stamp)}}
      """#
    _ = try await call("import", line + "\n", query: ["merge": "true"])
    #expect(try await world.redirect(of: "T1")?.survivor == "T0")
    #expect(try await world.pairs() == ["P1:T0", "P2:T0"])
  }
}
