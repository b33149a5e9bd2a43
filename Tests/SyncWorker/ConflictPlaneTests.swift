// Conflicts through the object plane: the devices' view, the journal, and the ways to settle an entry.

import History
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing

private func change(
  _ type: String, _ entity: String, _ id: String, _ attributes: String = "", _ relationships: String = ""
) -> String {
  #"""
  {"changeType":"\#(type)","entity":"\#(entity)","objectID":"\#(id)","attributes":{\#(attributes)},\#
  "relationships":{\#(relationships)}}
  """#
}

@Test(arguments: StoreKind.allCases)
func `T-C02 the value that arrives later is everywhere, the other one is in the journal and can be brought back`(
  _ kind: StoreKind
)
  async throws
{
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.edit("A", change("insert", "Tag", "T", #""name":"start""#))
    try await b.pull()
    try await a.pull()
    try await world.edit("A", change("update", "Tag", "T", #""name":"A's""#))
    try await world.edit("B", change("update", "Tag", "T", #""name":"B's""#))
    try await a.pull()
    try await b.pull()
    #expect(a.graph.objects["T"]?["name"] == #""B's""# && b.graph.objects["T"]?["name"] != #""A's""#)
    let entries = try await world.conflicts("B")
    let entry = try #require(entries.first)
    #expect(
      entries.count == 1 && entry["kind"]?.string == "lostValue" && entry["state"]?.string == "lost"
        && entry["objectID"]?.string == "T")
    #expect(
      entry["lost"]?["name"]?.string == "A's" && entry["kept"]?["name"]?.string == "B's"
        && entry["ancestor"]?["name"]?.string == "start")
    #expect(entry["lostBy"]?["deviceID"]?.string == "A" && entry["lostBy"]?["userRecordName"]?.string == "_alice")
    let number = try #require(entry["number"]?.int64)
    for _ in 0..<2 {
      let reply = try await world.send(world.request("POST", "stores/A/conflicts/\(number)/restore"))
      #expect(
        reply.status == 200 && reply.json["state"]?.string == "restored" && reply.json["settledDate"]?.string != nil)
    }
    #expect(try await world.liveRecords().map { $0.fields.string("CD_name") } == ["A's"])
    #expect(try await b.pull().count == 1, "once: the second time changed nothing")
    #expect(b.graph.objects["T"]?["name"] == #""A's""#)
    #expect(try await world.conflicts("A", ["state": "lost"]).isEmpty)
    #expect(try await world.conflicts("A", ["state": "restored", "objectID": "T"]).count == 1)
    // An edit that knew what it overwrites is no conflict.
    try await world.edit("B", change("update", "Tag", "T", #""name":"again""#))
    #expect(try await world.conflicts("A").count == 1)
    // The journal is the database's: it outlives the store that lost.
    #expect(try await world.send(world.request("DELETE", "stores/A")).status == 200)
    #expect(try await world.conflicts("B").count == 1)
  }
}

@Test(arguments: StoreKind.allCases)
func `a purged zone takes its journal along, and only what was saved before and not exported is written down after it`(
  _ kind: StoreKind
)
  async throws
{
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.edit("A", change("insert", "Tag", "T", #""name":"start""#))
    try await b.pull()
    try await a.pull()
    try await world.edit("A", change("update", "Tag", "T", #""name":"A's""#))
    try await world.edit("B", change("update", "Tag", "T", #""name":"B's""#))
    #expect(try await world.conflicts("A").map { $0["kind"]?.string } == ["lostValue"])
    let purged = try await world.send(
      world.request("POST", "stores/A/purge"), #"{"zoneID":{"zoneName":"\#(ReservedName.privateMirrorZone)"}}"#)
    #expect(purged.status == 200)
    #expect(try await world.conflicts("A").isEmpty)
    // B has not heard of it.
    try await world.edit("B", change("update", "Tag", "T", #""name":"late""#))
    #expect(try await world.conflicts("B").map { $0["kind"]?.string } == ["unexported"])
  }
}

@Test(arguments: StoreKind.allCases)
func `T-C03 a saved edit that waits for its export stays in its store, and is everywhere afterwards`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.edit("A", change("insert", "Photo", "P", #""displayName":"start","views":1"#))
    try await b.pull()
    let waiting = HistoryTransaction(
      transactionID: "waits", timestamp: 0,
      changes: [
        HistoryChange(
          changeType: .update, entity: "Photo", objectID: "P",
          attributes: [NamedValue(name: "displayName", value: .string("B's"))])
      ])
    try await world.appendWithoutExport([waiting], to: "B")
    try await world.edit("A", change("update", "Photo", "P", #""displayName":"A's","views":2"#))
    try await b.pull()
    try await a.pull()
    #expect(b.graph.objects["P"]?["displayName"] == #""B's""# && b.graph.objects["P"]?["views"] == "2")
    #expect(a.graph.objects["P"]?["displayName"] == #""B's""#)
  }
}

@Test(arguments: StoreKind.allCases)
func
  `T-C05 an edit of what was deleted meanwhile is in the journal with the whole object, and can be brought back`(
    _ kind: StoreKind
  ) async throws
{
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.edit(
      "A",
      [
        change("insert", "Tag", "T", #""name":"tag""#),
        change("insert", "Photo", "P", #""displayName":"start","views":3"#, #""tags":["T"]"#),
        change("insert", "Rating", "R", #""value":5"#, #""photo":"P""#),
      ].joined(separator: ","))
    try await b.pull()
    try await a.pull()
    try await world.edit("A", change("delete", "Photo", "P"))
    let saved = try await world.edit("B", change("update", "Photo", "P", #""displayName":"B's""#))
    #expect(saved["event"]?["succeeded"]?.bool == false)
    #expect(saved["event"]?["error"]?["partialErrors"]?.elements.first?["objectID"]?.string == "P")
    try await b.pull()
    #expect(b.graph.objects["P"] == nil)
    #expect(try await world.get("B/quarantine").json["quarantined"]?.count == 0, "it is not held back besides")
    let entry = try #require(try await world.conflicts("B", ["objectID": "P"]).first)
    #expect(entry["kind"]?.string == "lostObject" && entry["lostBy"]?["deviceID"]?.string == "B")
    let whole = try #require(entry["changes"]?.elements.first)
    #expect(
      whole["changeType"]?.string == "insert" && whole["attributes"]?["displayName"]?.string == "B's"
        && whole["attributes"]?["views"]?.int64 == 3)
    #expect(whole["relationships"]?["tags"]?["add"]?.elements.first?.string == "T")
    let reply = try await world.send(world.request("POST", "stores/B/conflicts/\(entry["number"]?.int64 ?? 0)/restore"))
    #expect(reply.status == 200, "\(reply.text)")
    try await a.pull()
    try await b.pull()
    for device in [a, b] {
      #expect(device.graph.objects["P"]?["displayName"] == #""B's""# && device.graph.objects["P"]?["views"] == "3")
      #expect(device.graph.objects["R"]?["photo"] == #""P""#, "what pointed to it does again")
    }
    #expect(try await world.liveRecords().filter { $0.recordType == "CDMR" }.count == 1)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-C06 where edits win, an edit brings back what was deleted meanwhile, and all agree`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.withPolicies(kind) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.edit(
      "A", change("insert", "Photo", "P") + "," + change("insert", "Rating", "R", #""value":1"#, #""photo":"P""#))
    try await b.pull()
    try await a.pull()
    try await world.edit("A", change("delete", "Rating", "R"))
    try await world.edit("B", change("update", "Rating", "R", #""value":2"#))
    for _ in 0..<3 {
      try await a.pull()
      try await b.pull()
    }
    for device in [a, b] {
      #expect(device.graph.objects["R"]?["value"] == "2" && device.graph.objects["R"]?["photo"] == #""P""#)
    }
    #expect(try await a.pull().isEmpty)
    #expect(try await b.pull().isEmpty, "nobody goes on telling the other")
    // The other way round: an edit that a deletion did not know of.
    try await world.edit("A", change("update", "Rating", "R", #""value":3"#))
    try await world.edit("B", change("delete", "Rating", "R"))
    try await b.pull()
    #expect(b.graph.objects["R"]?["value"] == "3")
    #expect(try await world.conflicts("A").isEmpty)
    try await world.edit("B", change("delete", "Rating", "R"))
    #expect(try await world.liveRecords().count == 1)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-C13 two devices that count one each make two, with an import token and without`(_ kind: StoreKind) async throws
{
  try await ObjectPlaneWorld.withPolicies(kind) { world in
    let (a, b, late) = (try await Device("A", world), try await Device("B", world), try await Device("late", world))
    try await world.edit("A", change("insert", "Photo", "P", #""views":0"#))
    for device in [a, b, late] { try await device.pull() }
    let known = try #require(late.token)
    try await world.edit("A", change("update", "Photo", "P", #""views":1"#))
    try await world.edit("B", change("update", "Photo", "P", #""views":1"#))
    try await b.pull()
    try await a.pull()
    #expect(a.graph.objects["P"]?["views"] == "2" && b.graph.objects["P"]?["views"] == "2")
    // B was sent the two, and counts on from it; an edit that comes late says with its token that it did not know.
    try await world.edit("B", change("update", "Photo", "P", #""views":3"#))
    try await world.edit("A", change("update", "Photo", "P", #""views":3"#))
    try await a.pull()
    #expect(a.graph.objects["P"]?["views"] == "4")
    try await late.pull()
    try await world.edit("late", change("update", "Photo", "P", #""views":1"#), token: known)
    try await late.pull()
    #expect(late.graph.objects["P"]?["views"] == "5")
    let refused = try await world.send(
      world.request("POST", "stores/late/transactions"),
      #"{"transactions":[{"transactionID":"x","changes":[]},{"transactionID":"y","changes":[],"importToken":"no"}]}"#)
    #expect(
      refused.status == 400 && refused.json["reason"]?.string?.contains("transactions[1]: importToken") == true,
      "\(refused.text)")
    #expect(try await world.get("late/history").json["transactions"]?.count == 1)
  }
}

@Test(arguments: StoreKind.allCases) func `where somebody has to decide, the object is in conflict until somebody does`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.withPolicies(kind) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    func dispute() async throws -> Int64 {
      try await world.edit("A", change("update", "Photo", "P", #""displayName":"A's""#))
      let saved = try await world.edit("B", change("update", "Photo", "P", #""displayName":"B's","ratio":1"#))
      #expect(saved["event"]?["error"]?["partialErrors"]?.elements.first?["serverErrorCode"]?.string == "CONFLICT")
      try await b.pull()
      #expect(b.graph.objects["P"]?["displayName"] == #""A's""#)
      #expect(try await world.get("B/status").json["pending"]?["conflicts"]?.int64 == 1)
      #expect(try await world.get("B/changes", ["after": #require(b.token)]).json["openConflicts"]?.int64 == 1)
      let entry = try #require(try await world.conflicts("A", ["state": "open"]).first)
      #expect(
        entry["kind"]?.string == "undecided" && entry["client"]?["displayName"]?.string == "B's"
          && entry["server"]?["displayName"]?.string == "A's")
      #expect(entry["ancestor"]?["displayName"]?.string == "start")
      for path in ["B/objects/P", "A/objects/P/explain"] {
        #expect(try await world.get(path).json["syncState"]?.string == "conflict")
      }
      return try #require(entry["number"]?.int64)
    }
    func resolve(_ number: Int64, _ body: String) async throws -> PlaneReply {
      try await world.send(world.request("POST", "stores/A/conflicts/\(number)/resolve"), body)
    }
    try await world.edit("A", change("insert", "Photo", "P", #""displayName":"start""#))
    for (body, expected) in [
      (#"{"pick":"client"}"#, "B's"), (#"{"pick":"server"}"#, "A's"), (#"{"pick":"ancestor"}"#, "start"),
      (#"{"value":"both"}"#, "both"),
    ] {
      try await world.edit("A", change("update", "Photo", "P", #""displayName":"start""#))
      try await a.pull()
      try await b.pull()
      let number = try await dispute()
      for bad in ["{}", #"{"pick":"mine"}"#, #"{"pick":"client","value":1}"#, #"{"value":7}"#] {
        #expect(try await resolve(number, bad).status == 400)
      }
      for _ in 0..<2 { #expect(try await resolve(number, body).json["state"]?.string == "resolved") }
      try await a.pull()
      try await b.pull()
      #expect(a.graph.objects["P"]?["displayName"] == "\"\(expected)\"" && b.graph.objects["P"] == a.graph.objects["P"])
      #expect(try await world.get("B/objects/P").json["syncState"]?.string == "clean")
      #expect(try await world.get("B/changes", ["after": #require(b.token)]).json["openConflicts"] == nil)
    }
    #expect(try await resolve(99, #"{"pick":"client"}"#).status == 404)
    #expect(try await world.get("A/conflicts", ["state": "closed"]).status == 400)
    #expect(try await world.send(world.request("POST", "stores/A/conflicts/one/restore")).status == 400)
  }
}

@Test(arguments: StoreKind.allCases) func `a loss that can't be restored says why, and stays in the journal`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    try await world.edit("A", change("insert", "Tag", "T", #""name":"start""#))
    _ = try await world.get("B/changes")
    try await world.edit("A", change("update", "Tag", "T", #""name":"A's""#))
    try await world.edit("B", change("update", "Tag", "T", #""name":"B's""#))
    try await world.edit("B", change("delete", "Tag", "T"))
    let entry = try #require(try await world.conflicts("A").first)
    let path = "stores/A/conflicts/\(entry["number"]?.int64 ?? 0)"
    let refused = try await world.send(world.request("POST", path + "/restore"))
    #expect(
      refused.status == 404 && refused.json["reason"]?.string?.hasPrefix("T: the object was deleted") == true,
      "\(refused.text)")
    #expect(
      try await world.send(world.request("POST", path + "/resolve"), #"{"pick":"client"}"#).status == 400,
      "nobody has to decide")
    #expect(try await world.conflicts("A").first?["state"]?.string == "lost")
  }
}

@Test(arguments: StoreKind.allCases) func `in the public database everybody sees what he lost himself`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    for (store, user) in [("A", "_alice"), ("B", "_alice"), ("C", "_bob")] {
      try await world.setUp(store, user: user, scope: .public)
    }
    try await world.edit("A", change("insert", "Tag", "T", #""name":"start""#), scope: .public)
    _ = try await world.get("B/changes", scope: .public)
    try await world.edit("A", change("update", "Tag", "T", #""name":"one""#), scope: .public)
    try await world.edit("B", change("update", "Tag", "T", #""name":"two""#), scope: .public)
    #expect(try await world.conflicts("B", scope: .public).count == 1)
    #expect(try await world.conflicts("C", user: "_bob", scope: .public).isEmpty)
    let number = try #require(try await world.conflicts("A", scope: .public).first?["number"]?.int64)
    #expect(
      try await world.send(world.request("POST", "stores/C/conflicts/\(number)/restore", user: "_bob", scope: .public))
        .status == 404)
  }
}

@Test(arguments: StoreKind.allCases) func `a zone's owner and operators settle its conflicts without a store`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    try await world.edit("A", change("insert", "Tag", "T", #""name":"start""#))
    _ = try await world.get("B/changes")
    try await world.edit("A", change("update", "Tag", "T", #""name":"A's""#))
    try await world.edit("B", change("update", "Tag", "T", #""name":"B's""#))
    let path = "zones/\(ReservedName.privateMirrorZone)/conflicts"
    let listed = try await world.send(world.request("GET", path))
    let number = try #require(listed.json["conflicts"]?.elements.first?["number"]?.int64)
    #expect(listed.json["lastConflict"]?.string == "\(number)")
    #expect(try await world.send(world.request("POST", path), #"{"number":\#(number)}"#).status == 400)
    #expect(
      try await world.send(world.request("POST", path), #"{"number":\#(number),"action":"restore"}"#).json["state"]?
        .string == "restored")
    #expect(try await world.liveRecords().map { $0.fields.string("CD_name") } == ["A's"])
    #expect(
      try await world.send(world.request("GET", path, query: ["after": "\(number)"])).json["conflicts"]?.count == 0)
    #expect(try await world.send(world.request("GET", "zones/nowhere/conflicts")).status == 404)
  }
}

@Test(arguments: StoreKind.allCases, ["insert", "update"])
func `a store that never imported knew nothing: what it overwrites is in the journal`(
  _ kind: StoreKind, _ changeType: String
) async throws {
  for keepsPastStates in [true, false] {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: keepsPastStates) { world in
      let a = try await Device("A", world)
      try await world.setUp("B")
      try await world.edit("A", change("insert", "Tag", "T", #""name":"A's""#))
      try await world.edit("B", change(changeType, "Tag", "T", #""name":"B's""#))
      let entries = try await world.conflicts("A")
      #expect(
        entries.count == 1 && entries.first?["lost"]?["name"]?.string == "A's"
          && entries.first?["kept"]?["name"]?.string == "B's")
      // A device knows its own write, and an equal value loses nothing.
      try await world.edit("B", change("update", "Tag", "T", #""name":"B's again""#))
      try await world.edit("B", change(changeType, "Tag", "T", #""name":"B's again""#))
      #expect(try await world.conflicts("A").count == 1)
      try await a.pull()
      try await world.edit("A", change("update", "Tag", "T", #""name":"A knows""#))
      #expect(try await world.conflicts("A").count == 1)
    }
  }
}
