// Duplicates become one: found, followed and removed (D3, D4, D5).

import FixedClocks
import JSON
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Testing
@testable import ZoneCommit

@Test(arguments: StoreKind.allCases)
func `T-D01 two devices that make the same tag offline end with the lowest one, and the photos of both are its`(
  _ kind: StoreKind
) async throws {
  for (first, second) in [("T1", "T2"), ("T2", "T1")] {
    try await ObjectPlaneWorld.with(kind) { world in
      world.declareTags()
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      let saved = try await world.export("A", Edit.insertTag(first), Edit.insertPhoto("P-\(first)", tags: [first]))
      #expect(saved.json["event"]?["succeeded"]?.bool == true)
      try await world.export("B", Edit.insertTag(second), Edit.insertPhoto("P-\(second)", tags: [second]))
      #expect(try await world.tags() == ["T1=x", "T2=x"], "the duplicate goes later")
      #expect(try await world.pairs() == ["P-T1:T1", "P-T2:T1"])
      #expect(try await world.redirect(of: "T2")?.survivor == "T1")
      let fresh = try await Device("C", world)
      try await fresh.pull()
      #expect(fresh.graph.links == ["Photo.tags P-T1→T1", "Photo.tags P-T2→T1"])
      // Each hears of its own photo, too: that is the server's doing.
      for (device, photo) in [(a, "P-\(first)"), (b, "P-\(second)")] {
        let heard = try await device.pull().filter { $0["changeType"]?.string == "link" }.map {
          "\($0["objectID"]?.string ?? "") \($0["target"]?["objectID"]?.string ?? "")"
        }
        #expect(heard.contains("\(photo) T1") || photo == "P-T1")
      }
    }
  }
}

@Test func `T-D02 a late photo that points to the duplicate is the survivor's, and its device hears so`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags()
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.export("A", Edit.insertTag("T1"))
    try await world.export("B", Edit.insertTag("T2"))
    // Waiting to be removed, removed, and from the record plane.
    try await world.export("B", Edit.insertPhoto("P1", tags: ["T2"]))
    #expect(try await world.pairs() == ["P1:T1"])
    #expect(
      try await b.pull().contains { $0["changeType"]?.string == "link" && $0["target"]?["objectID"]?.string == "T1" })
    let answer = try await world.modify(linkOperation("L2", "P1", "T2"), linkOperation("L3", "P3", "T2"))
    #expect(answer.records.allSatisfy { $0.code == nil })
    #expect(try await world.pairs() == ["P1:T1", "P3:T1"])
    for _ in 0..<2 {
      try await a.pull()
      try await world.export("A", Edit.insertPhoto("Q\(world.clock.now)"))
    }
    #expect(try await world.tags() == ["T1=x"], "removed by now")
    try await world.export(
      "B", Edit.insertPhoto("P4", tags: ["T2"]), Edit.setTags("P1", #"{"add":["T2"],"remove":[]}"#))
    #expect(try await world.pairs() == ["P1:T1", "P3:T1", "P4:T1"])
    #expect(try await b.pull().contains { $0["changeType"]?.string == "link" && $0["objectID"]?.string == "P4" })
    #expect(try await world.modify(linkOperation("L5", "P5", "T2")).records.allSatisfy { $0.code == nil })
    #expect(try await world.pairs().contains("P5:T1"))
    // Taking it away means the survivor, too.
    try await world.export("B", Edit.setTags("P4", #"{"add":[],"remove":["T2"]}"#))
    #expect(try await !world.pairs().contains("P4:T1"))
  }
}

@Test(arguments: [["export", "import"], ["import", "export"]])
func `T-D03 a duplicate is not deleted before an export and an import that began after it was found`(_ order: [String])
  async throws
{
  try await ObjectPlaneWorld.with(.memory) { world in
    world.declareTags()
    let a = try await Device("A", world)
    try await world.export("A", Edit.insertTag("T1"))
    try await a.pull()
    try await world.setUp("B")
    try await world.export("B", Edit.insertTag("T2"))
    for (index, step) in order.enumerated() {
      #expect(try await world.tags() == ["T1=x", "T2=x"], "before the \(step)")
      world.clock.advance(by: 1000)
      if step == "export" {
        try await world.export("A", Edit.insertPhoto("P\(index)"))
        try await world.export("A", Edit.insertPhoto("Q\(index)"))
      } else {
        try await a.pull()
      }
    }
    #expect(try await world.tags() == ["T1=x"])
    let redirect = try #require(try await world.redirect(of: "T2"))
    #expect(redirect.removedAt != nil && redirect.survivor == "T1", "whom it stands for is kept")
    #expect(try await a.pull().contains { $0["changeType"]?.string == "delete" && $0["objectID"]?.string == "T2" })
  }
}

@Test func `T-D04 tags of the same name in two zones stay two, and two of one zone become one`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags()
    try await world.setUp("A")
    let id = world.request("GET", "stores/x").database
    try await world.store.enqueue { transaction in
      let database = try transaction.makeDatabase(id)
      for name in ["one", "two"] { _ = try transaction.makeZone(named: name, in: database.key) }
    }.value
    for zone in ["one", "two"] {
      #expect(
        try await world.modify(tagOperation("create", "T-\(zone)"), zone: zone).records.allSatisfy { $0.code == nil })
    }
    #expect(try await world.redirect(of: "T-two", zone: "two") == nil)
    try await world.export("A", Edit.insertTag("T-three"))
    #expect(try await world.redirect(of: "T-three") == nil)
    let reply = try await world.modify(tagOperation("create", "T-a"), zone: "two")
    #expect(try await world.redirect(of: "T-two", zone: "two")?.survivor == "T-a")
    #expect(reply.records.first?.code == nil)
  }
}

@Test func `T-D05 in the public database only who may write to both merges them`() async throws {
  for (mayWriteAll, isMerged) in [(false, false), (true, true)] {
    try await ObjectPlaneWorld.with(.memory) { world in
      world.declareTags()
      if mayWriteAll {
        var schema = try await world.schemas.schema(of: ObjectPlaneWorld.container, .development).schema
        for index in schema.recordTypes.indices where schema.recordTypes[index].name.hasPrefix("CD") {
          schema.recordTypes[index].grants = [Schema.Grant(permissions: [.read, .create, .write], role: "_icloud")]
        }
        world.schemas.replaceSchema(schema, in: .development)
      }
      try await world.setUp("A", scope: .public)
      try await world.setUp("B", user: "_bob", scope: .public)
      try await world.export("A", Edit.insertTag("T1"), scope: .public)
      let saved = try await world.export("B", Edit.insertTag("T2"), user: "_bob", scope: .public)
      #expect(saved.json["event"]?["succeeded"]?.bool == true)
      let public_ = world.request("GET", "stores/x", scope: .public).database
      let redirect = { name in
        try await world.store.read { snapshot in
          let row = try #require(try snapshot.database(public_))
          return try snapshot.redirect(
            of: name, in: try #require(try snapshot.zone(named: ReservedName.defaultZone, in: row.key)).key)?.survivor
        }
      }
      #expect(try await redirect("T2") == (isMerged ? "T1" : nil))
      // A user merges their own records; the background merges none here.
      try await world.settleDuplicates()
      #expect(try await redirect("T2") == (isMerged ? "T1" : nil))
      #expect(
        try await world.modify(
          tagOperation("create", "T0"), zone: ReservedName.defaultZone, user: "_bob", scope: .public
        ).records.first?.code == nil)
      #expect(try await redirect("T2") == "T0")
    }
  }
}

@Test(arguments: StoreKind.allCases)
func `T-D07 a chain of three found in any order has one survivor, and everything leads to it`(_ kind: StoreKind)
  async throws
{
  for order in [
    ["T1", "T2", "T3"], ["T1", "T3", "T2"], ["T2", "T1", "T3"], ["T2", "T3", "T1"], ["T3", "T1", "T2"],
    ["T3", "T2", "T1"],
  ] {
    try await ObjectPlaneWorld.with(kind) { world in
      world.declareTags()
      for tag in order {
        try await world.setUp("S\(tag)")
        try await world.export("S\(tag)", Edit.insertTag(tag), Edit.insertPhoto("P\(tag)", tags: [tag]))
      }
      #expect(
        try await [world.redirect(of: "T2"), world.redirect(of: "T3")].map { $0?.survivor } == ["T1", "T1"], "\(order)")
      #expect(try await world.pairs() == ["PT1:T1", "PT2:T1", "PT3:T1"])
      try await world.export("ST3", Edit.insertPhoto("late", tags: ["T3"]))
      #expect(try await world.pairs().contains("late:T1"))
    }
  }
}

@Test func `an edit of the duplicate is the survivor's, on both planes and after it is removed`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags()
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.export("A", Edit.insertTag("T1"))
    try await world.export("B", Edit.insertTag("T2"))
    try await world.export("B", Edit.renameTag("T2", "y"))
    #expect(try await world.tags() == ["T1=y", "T2=x"])
    #expect(
      try await world.modify(tagOperation("forceUpdate", "T2", name: "z")).records.first?.value("CD_name")?.string
        == "z")
    #expect(try await world.tags() == ["T1=z", "T2=z"])
    // Its new name may be another's.
    try await world.export("A", Edit.insertTag("T0", "w"))
    #expect(try await world.modify(tagOperation("forceUpdate", "T2", name: "w")).records.first?.code == nil)
    #expect(try await world.redirect(of: "T1")?.survivor == "T0")
    #expect(try await world.redirect(of: "T2")?.survivor == "T0")
    world.clock.advance(by: 1000)
    let heard = Set(
      try await b.pull().filter { $0["changeType"]?.string == "save" }.compactMap { $0["objectID"]?.string })
    #expect(
      heard.contains("T0") && heard.contains("T1") && heard.contains("T2"), "the device is told of all that it spoke of"
    )
    for _ in 0..<3 {
      try await a.pull()
      try await world.export("A", Edit.insertPhoto("Q\(world.clock.now)"))
    }
    #expect(try await world.tags() == ["T0=w"])
    try await world.export("B", Edit.renameTag("T2", "again"))
    #expect(try await world.tags() == ["T0=again"])
    #expect(try await world.get("B/quarantine").json["quarantined"]?.count == 0)
  }
}

@Test
func
  `a device deletes the survivor by the tag it knows, and only the duplicate if it has heard of the merge`()
  async throws
{
  for hasImported in [false, true] {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      world.declareTags()
      let b = try await Device("B", world)
      try await world.setUp("A")
      try await world.export("A", Edit.insertTag("T1"), Edit.insertPhoto("P", tags: ["T1"]))
      try await world.export("B", Edit.insertTag("T2"))
      if hasImported { try await b.pull() }
      world.clock.advance(by: 1000)
      try await world.export("B", Edit.delete("Tag", "T2"))
      #expect(try await world.tags() == (hasImported ? ["T1=x"] : []))
      #expect(try await world.pairs() == (hasImported ? ["P:T1"] : []))
      if !hasImported {
        #expect(try await b.pull().contains { $0["changeType"]?.string == "delete" && $0["objectID"]?.string == "T1" })
      }
    }
  }
}

@Test func `deleting the survivor deletes what waits behind it, and late photos point nowhere`() async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    world.declareTags()
    let a = try await Device("A", world)
    try await world.setUp("B")
    try await world.export("B", Edit.insertTag("T2"))
    try await world.export("A", Edit.insertTag("T1"))
    try await a.pull()
    try await world.export("A", Edit.delete("Tag", "T1"))
    #expect(try await world.tags() == [])
    try await world.export("B", Edit.insertPhoto("P", tags: ["T2"]))
    #expect(try await world.pairs() == [])
    // The name is free again, and the duplicate's, too.
    try await world.export("B", Edit.insertTag("T2"))
    #expect(try await world.tags() == ["T2=x"])
    #expect(try await world.redirect(of: "T2") == nil)
    try await world.export("B", Edit.setTags("P", #"["T2"]"#))
    #expect(try await world.pairs() == ["P:T2"])
  }
}

@Test func `an object that is made again under a deleted duplicate's name is an object of its own`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags()
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.export("A", Edit.insertTag("T1"))
    try await world.export("B", Edit.insertTag("T2"))
    try await b.pull()
    try await world.export("B", Edit.delete("Tag", "T2"))
    try await world.export("B", Edit.insertTag("T2", "another"))
    try await world.export("B", Edit.renameTag("T2", "third"))
    for _ in 0..<2 {
      try await a.pull()
      try await world.export("A", Edit.insertPhoto("Q\(world.clock.now)"))
    }
    try await world.settleDuplicates()
    #expect(try await world.tags() == ["T1=x", "T2=third"])
    #expect(try await world.redirect(of: "T2") == nil)
  }
}

@Test func `T-D02 a late pair both ends of which are duplicates is the survivors'`() async throws {
  for isRemoved in [false, true] {
    try await ObjectPlaneWorld.with(.memory) { world in
      world.schemas.declare(
        EnvironmentRules.Unique(entity: "Tag", attributes: ["name"], policy: .mergeLowestUUID),
        EnvironmentRules.Unique(entity: "Photo", attributes: ["displayName"], policy: .mergeLowestUUID))
      let a = try await Device("A", world)
      try await world.setUp("B")
      func photo(_ id: String) -> String {
        #"{"changeType":"insert","entity":"Photo","objectID":"\#(id)","attributes":{"displayName":"Dunes"}}"#
      }
      try await world.export("A", Edit.insertTag("T1"), photo("P1"))
      try await world.export("B", Edit.insertTag("T2"), photo("P2"))
      if isRemoved {
        for _ in 0..<2 {
          try await a.pull()
          try await world.export("A", Edit.insertPhoto("Q\(world.clock.now)"))
        }
        #expect(try await world.tags() == ["T1=x"])
      }
      #expect(try await world.modify(linkOperation("L", "P2", "T2")).records.first?.code == nil)
      #expect(try await world.pairs() == ["P1:T1"])
    }
  }
}

@Test func `a tag that is renamed to another's name is merged, and one that never had it is not`() async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    world.declareTags()
    try await world.setUp("A")
    try await world.export(
      "A", Edit.insertTag("T1", "x"), Edit.insertTag("T2", "y"),
      #"{"changeType":"insert","entity":"Tag","objectID":"T3"}"#)
    try await world.export("A", #"{"changeType":"insert","entity":"Tag","objectID":"T4"}"#)
    #expect(try await world.redirect(of: "T4") == nil, "tags without a name are not the same")
    try await world.export("A", Edit.renameTag("T2", "x"))
    #expect(try await world.redirect(of: "T2")?.survivor == "T1")
  }
}

@Test func `T-H04 nothing is sent back and forth about a merge in 100 cycles`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    world.declareTags()
    let devices = [try await Device("A", world), try await Device("B", world)]
    try await world.export("A", Edit.insertTag("T1"), Edit.insertPhoto("P1", tags: ["T1"]))
    try await world.export("B", Edit.insertTag("T2"), Edit.insertPhoto("P2", tags: ["T2"]))
    for device in devices { try await device.pull() }
    try await world.settleDuplicates()
    let before = try await world.liveRecords()
    for cycle in 0..<100 {
      for device in devices {
        world.clock.advance(by: 1000)
        #expect(try await device.pull().isEmpty, "cycle \(cycle)")
        try await world.save(
          device.store, Edit.renameTag("T2", "x"), author: "NSCloudKitMirroringDelegate.import",
          query: ["wait": "export"])
      }
    }
    #expect(try await world.liveRecords() == before)
  }
}

@Test func `a database whose environment has no rules has no index of them`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.export("A", Edit.insertTag("T1"), Edit.insertTag("T2"))
    try await world.settleDuplicates()
    #expect(try await world.store.read { try $0.indexes(afterKey: 0, limit: 9) }.isEmpty)
    #expect(try await world.tags() == ["T1=x", "T2=x"])
    world.declareTags(.report)
    try await world.settleDuplicates()
    #expect(try await world.store.read { try $0.indexes(afterKey: 0, limit: 9) }.map(\.isReady) == [true])
    world.schemas.declare()
    try await world.settleDuplicates()
    #expect(try await world.store.read { try $0.indexes(afterKey: 0, limit: 9) }.isEmpty)
  }
}
