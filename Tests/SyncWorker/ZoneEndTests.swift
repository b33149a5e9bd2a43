// Ends of zones: reasons, policies, pauses, and changes that devices had not exported by then.

import History
import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import Testing

private func insertTag(_ id: String, _ name: String = "") -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

private func updateTag(_ id: String, _ name: String) -> String {
  #"{"changeType":"update","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

private let zoneName = ReservedName.privateMirrorZone

extension ObjectPlaneWorld {
  /// Ends alice's mirror zone, as its deletion by another program does.
  func endZone(_ end: ZoneEnd = .deleted) async throws {
    let id = request("GET", "stores/x").database
    try await store.enqueue { store in
      guard let database = try store.database(id), let zone = try store.zone(named: zoneName, in: database.key) else {
        throw CancellationError()
      }
      try store.deleteZone(zone.key, as: end)
    }.value
  }

  fileprivate func post(_ path: String, _ body: String, user: String = "_alice", scope: DatabaseScope = .private)
    async throws -> PlaneReply
  {
    try await send(request("POST", "stores/\(path)", user: user, scope: scope), body)
  }

  fileprivate func held(_ store: String) async throws -> [String: String] {
    let rows = try await get("\(store)/quarantine").json["quarantined"]?.elements ?? []
    return Dictionary(
      rows.map { ($0["objectID"]?.string ?? "", $0["cause"]?.string ?? "") }, uniquingKeysWith: { first, _ in first })
  }
}

private func zoneChange(_ changes: [JSONValue]) -> [String] {
  changes.filter { $0["changeType"]?.string == "zone" }.map {
    "\($0["reason"]?.string ?? "") \($0["action"]?.string ?? "") \($0["recovery"]?.int64 ?? -1)"
  }
}

private func saved(_ changes: [JSONValue]) -> [String] {
  changes.compactMap { $0["changeType"]?.string == "save" ? $0["objectID"]?.string : nil }
}

@Test(arguments: StoreKind.allCases)
func `T-R01 a zone that was deleted is made again, and what every device has of it is sent again without duplicates`(
  _ kind: StoreKind
)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.save("A", insertTag("T", "one") + "," + insertTag("U", "two"), query: ["wait": "export"])
    try await a.pull()
    try await b.pull()
    try await world.endZone(.deleted)
    #expect(zoneChange(try await a.pull()) == ["deleted reupload 298"])
    // The device keeps its objects, and saves them again under their names.
    try await world.save("A", insertTag("T", "one") + "," + insertTag("U", "two"), query: ["wait": "export"])
    let news = try await b.pull()
    #expect(zoneChange(news) == ["deleted reupload 298"] && saved(news) == ["T", "U"])
    try await world.save("B", insertTag("T", "one") + "," + insertTag("U", "two"), query: ["wait": "export"])
    #expect(try await world.liveRecords().map(\.recordName) == ["T", "U"])
    #expect(b.graph.objects.mapValues { $0["name"] } == ["T": "\"one\"", "U": "\"two\""])
    #expect(try await a.pull().isEmpty, "what B sent again is what A sent")
    #expect(try await b.pull().isEmpty)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-R01 what a device sends again gives the zone what it lacks, and takes back no edit or deletion since`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    func photo(_ more: String, _ data: String) -> String {
      #"""
      {"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"Dunes","ratio":1.5\#(more)},\#
      "relationships":{"photoData":"\#(data)","tags":{"add":["T"]}}}
      """#
    }
    func data(_ id: String) -> String { #"{"changeType":"insert","entity":"PhotoData","objectID":"\#(id)"}"# }
    func save(_ store: String, _ author: String, _ changes: String...) async throws {
      let reply = try await world.save(
        store, changes.joined(separator: ","), author: author, query: ["wait": "export"])
      #expect(reply.status == 200 && reply.json["event"]?["succeeded"]?.bool != false, "\(reply.text)")
    }
    let mine = [insertTag("T", "one"), insertTag("U", "two"), photo("", "D1"), data("D1")]
    try await save("A", "app", mine.joined(separator: ","))
    for device in [a, b] { try await device.pull() }
    try await world.endZone(.deleted)
    for device in [a, b] { #expect(zoneChange(try await device.pull()) == ["deleted reupload 298"]) }
    try await save("A", ReservedName.reuploadAuthor, mine.joined(separator: ","))
    try await save(
      "A", "app", data("D2"),
      #"""
      {"changeType":"update","entity":"Photo","objectID":"P","attributes":{"displayName":"Dawn","ratio":null},\#
      "relationships":{"photoData":"D2","tags":{"remove":["T"]}}}
      """#, #"{"changeType":"delete","entity":"Tag","objectID":"U"}"#)
    // B hears of all that, but what it sends again was put together before.
    try await b.pull()
    // B has all as it was, a value that A lacked, and a tag that A never had.
    let stale = [
      insertTag("T", "one"), insertTag("U", "two"), insertTag("V", "three"), photo(#","views":7"#, "D1"), data("D1"),
    ]
    try b.edit(#"{"changeType":"save","entity":"Tag","objectID":"U","attributes":{"name":"two"}}"#)
    try b.edit(#"{"changeType":"save","entity":"Tag","objectID":"V","attributes":{"name":"three"}}"#)
    try await save("B", ReservedName.reuploadAuthor, stale.joined(separator: ","))
    let records = try await world.liveRecords()
    let present = try #require(records.first { $0.recordName == "P" }?.fields)
    #expect(present.string("CD_displayName") == "Dawn" && present["CD_ratio"] == nil)
    #expect(present.string("CD_photoData") == "D2" && present["CD_views"]?.value == .int64(7))
    #expect(records.filter { $0.recordType == "CD_Tag" }.map(\.recordName) == ["T", "V"])
    // No record tells that the pair was ended, so it comes back everywhere.
    #expect(records.filter { $0.recordType == "CDMR" }.count == 1)
    try await b.pull()
    let fresh = try await Device("C", world)
    try await fresh.pull()
    for id in ["P", "U", "V", "T", "D1", "D2"] {
      #expect(b.graph.objects[id]?["name"] == fresh.graph.objects[id]?["name"], "\(id)")
    }
    #expect(b.graph.objects["P"] == fresh.graph.objects["P"] && b.graph.objects["U"] == nil)
    #expect(b.graph.links == fresh.graph.links && !fresh.graph.links.isEmpty)
    // The same again is no news to anybody.
    for device in [a, b] { try await device.pull() }
    try await save("B", ReservedName.reuploadAuthor, insertTag("T", "one"), insertTag("V", "three"))
    for device in [a, b, fresh] { #expect(try await device.pull().isEmpty) }
  }
}

@Test(arguments: StoreKind.allCases)
func `T-R01 a device that sends a partner of a one-to-one relationship again hears what the other end has become`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    let data = #"{"changeType":"insert","entity":"PhotoData","objectID":"D"}"#
    let photo = #"{"changeType":"insert","entity":"Photo","objectID":"P","relationships":{"photoData":"D"}}"#
    func save(_ store: String, _ author: String, _ changes: String...) async throws {
      let reply = try await world.save(
        store, changes.joined(separator: ","), author: author, query: ["wait": "export"])
      #expect(reply.status == 200 && reply.json["event"]?["succeeded"]?.bool != false, "\(reply.text)")
    }
    try await save("A", "app", data, photo)
    for device in [a, b] { try await device.pull() }
    try await world.endZone(.deleted)
    // Somebody uses the name for another object, which has no partner.
    try await save("A", "app", data)
    for device in [a, b] { try await device.pull() }
    try await save("B", ReservedName.reuploadAuthor, photo, data)
    #expect(try await world.liveRecords().first { $0.recordName == "D" }?.fields.string("CD_photo") == "P")
    let fresh = try await Device("C", world)
    for device in [a, b, fresh] { try await device.pull() }
    for device in [a, b] {
      #expect(device.graph.objects["D"] == fresh.graph.objects["D"], "\(device.store)")
      #expect(device.graph.objects["P"] == fresh.graph.objects["P"], "\(device.store)")
    }
    #expect(fresh.graph.objects["D"]?["photo"] == #""P""#)
  }
}

@Test(arguments: StoreKind.allCases)
func `T-R02 a purged zone takes its objects along everywhere, and nothing that was saved before brings it back`(
  _ kind: StoreKind
)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.save("A", insertTag("T", "one"), query: ["wait": "export"])
    try await a.pull()
    try await b.pull()
    let reply = try await world.post("A/purge", #"{"zoneID":{"zoneName":"\#(zoneName)"}}"#)
    #expect(reply.status == 200 && reply.json["purged"]?.int64 == 1)
    #expect(
      try await world.post("A/purge", #"{"zoneID":{"zoneName":"\#(zoneName)"}}"#).json["purged"]?.int64 == 0,
      "said again it finds nothing")
    // B has not heard of it.
    #expect(
      try await world.save("B", updateTag("T", "late") + "," + insertTag("L", "late"), query: ["wait": "export"]).status
        == 200)
    #expect(try await world.liveRecords().isEmpty)
    let event = try #require(try await world.get("B/events", ["type": "export"]).json["events"]?.elements.last)
    #expect(
      event["succeeded"]?.bool == false
        && event["error"]?["partialErrors"]?.elements.map { $0["ckErrorCode"]?.int64 } == [28, 28])
    #expect(zoneChange(try await b.pull()) == ["purged delete 9"])
    #expect(zoneChange(try await a.pull()) == ["purged delete 9"])
    #expect(try await b.pull().isEmpty)
    // From now on the zone is wanted again.
    try await world.save("B", insertTag("N", "new"), query: ["wait": "export"])
    #expect(try await world.liveRecords().map(\.recordName) == ["N"])
    #expect(saved(try await a.pull()) == ["N"])
    // The store that purged knows of it without an import.
    _ = try await world.post("B/purge", #"{"zoneID":"\#(zoneName)"}"#)
    try await world.save("B", insertTag("O"), query: ["wait": "export"])
    #expect(try await world.liveRecords().map(\.recordName) == ["O"])
    let news = try await a.pull()
    #expect(zoneChange(news) == ["purged delete 9"] && saved(news) == ["O"])
  }
}

@Test(arguments: StoreKind.allCases) func `T-R03 after a reset of encrypted data every device sends again what it has`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    let a = try await Device("A", world)
    try await world.save("A", insertTag("T", "one"), query: ["wait": "export"])
    try await a.pull()
    func end(_ body: String, isOperator: Bool = true) async throws -> PlaneReply {
      let id = world.request("GET", "stores/x").database
      return try await world.send(
        DatabaseRequest(
          plane: .object, method: "POST", path: ["zones", zoneName, "end"], query: [:], database: id, scope: .private,
          caller: Caller(userRecordName: isOperator ? nil : "_alice", isOperator: isOperator), requestID: "r",
          baseURL: "https://host"), body)
    }
    #expect(try await end(#"{"reason":"encryptedDataReset"}"#, isOperator: false).status == 403)
    #expect(try await end(#"{"reason":"lunch"}"#).status == 400)
    #expect(try await end(#"{"reason":"encryptedDataReset"}"#).json["deleted"]?.int64 == 1)
    #expect(try await end(#"{"reason":"encryptedDataReset"}"#).code == "ZONE_NOT_FOUND")
    #expect(zoneChange(try await a.pull()) == ["encryptedDataReset reupload 298"])
    try await world.save("A", insertTag("T", "one"), query: ["wait": "export"])
    #expect(try await world.liveRecords().map(\.recordName) == ["T"])
  }
}

@Test(arguments: ["delete", "reupload"])
func `T-R02 a store that keeps and pauses stands still for the zone until its user decides`(_ decision: String)
  async throws
{
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.setUp("B", more: #","zonePolicy":{"purged":"keep-and-pause"}"#)
    try await world.save("A", insertTag("T", "one"), query: ["wait": "export"])
    try await a.pull()
    try await b.pull()
    _ = try await world.post("A/purge", #"{"zoneID":"\#(zoneName)"}"#)
    #expect(zoneChange(try await b.pull()) == ["purged pause 0"])
    try await world.save("A", insertTag("N", "new"), query: ["wait": "export"])
    #expect(
      try await world.save("B", updateTag("T", "edited"), query: ["wait": "export"]).status == 200,
      "its user goes on with what he has")
    #expect(try await world.held("B") == ["T": "zonePaused"])
    #expect(try await b.pull().isEmpty, "nothing of the zone arrives, and the end is told once")
    let status = try await world.get("B/status").json
    #expect(status["heldZones"]?.elements.map { $0["zoneID"]?["zoneName"]?.string } == [zoneName])
    #expect(status["heldZones"]?.elements.first?["reason"]?.string == "purged")
    #expect(try await world.post("B/zones/Other/resume", #"{"action":"delete"}"#).status == 404)
    #expect(try await world.post("B/zones/\(zoneName)/resume", #"{"action":"pause"}"#).status == 400)
    try await world.withExports {
      let reply = try await world.post("B/zones/\(zoneName)/resume", #"{"action":"\#(decision)"}"#)
      #expect(reply.status == 200 && reply.json["recovery"]?.int64 == (decision == "delete" ? 9 : 298), "\(reply.text)")
      let news = try await b.pull()
      #expect(zoneChange(news) == ["purged \(decision) \(decision == "delete" ? 9 : 298)"] && saved(news) == ["N"])
      if decision == "reupload" { try await world.save("B", insertTag("T", "one"), query: ["wait": "export"]) }
      let names = decision == "delete" ? ["N"] : ["N", "T"]
      #expect(try await world.liveRecords().map(\.recordName) == names)
      if decision == "reupload" {
        #expect(
          try await world.liveRecords().last?.fields.string("CD_name") == "one",
          "the device's whole object is newer than its edit")
      }
    }
    #expect(try await world.post("B/zones/\(zoneName)/resume", #"{"action":"\#(decision)"}"#).status == 200)
    #expect(
      try await world.post(
        "B/zones/\(zoneName)/resume", #"{"action":"\#(decision == "delete" ? "reupload" : "delete")"}"#
      ).status == 409)
    #expect(try await world.get("B/status").json["heldZones"]?.count == 0)
    #expect(try await b.pull().isEmpty)
  }
}

@Test func `a policy may have a deleted zone's objects deleted, and what a zone policy may say is checked`()
  async throws
{
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let a = try await Device("A", world)
    try await world.setUp("A", more: #","zonePolicy":{"deleted":"delete"}"#)
    try await world.save("A", insertTag("T", "one"), query: ["wait": "export"])
    try await a.pull()
    try await world.endZone(.deleted)
    #expect(zoneChange(try await a.pull()) == ["deleted delete 9"])
    for policy in [#"{"lost":"delete"}"#, #"{"deleted":"burn"}"#, #"{"deleted":5}"#, #""delete""#] {
      let reply = try await world.send(
        world.request("PUT", "stores/A"), #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)","zonePolicy":\#(policy)}"#)
      #expect(reply.status == 400 && reply.reason?.contains("zonePolicy") == true, "\(reply.text)")
    }
  }
}

@Test func `zones are purged where they are one's own, and nowhere else`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.setUp("P", scope: .public)
    try await world.setUp("S", scope: .shared)
    try await world.save("A", insertTag("T"), query: ["wait": "export"])
    for (body, status) in [
      ("{}", 400), (#"{"zoneID":5}"#, 400), (#"{"zoneID":{"zoneName":"_defaultZone"}}"#, 404),
      (#"{"zoneID":{"zoneName":"\#(zoneName)","ownerRecordName":"_bob"}}"#, 404),
    ] {
      #expect(try await world.post("A/purge", body).status == status, "\(body)")
    }
    let wrongScope = try await world.post("P/purge", #"{"zoneID":{"zoneName":"_defaultZone"}}"#, scope: .public)
    #expect(wrongScope.status == 400 && wrongScope.json["cocoaErrorCode"]?.int64 == 134060)
    #expect(try await world.post("S/purge", #"{"zoneID":{"zoneName":"x"}}"#, scope: .shared).code == "ZONE_NOT_FOUND")
    #expect(try await world.post("A/purge", #"{"zoneID":{"zoneName":"x"}}"#, user: "_bob").status == 404)
    #expect(try await world.liveRecords().map(\.recordName) == ["T"])
  }
}

@Test(arguments: StoreKind.allCases)
func `a store that never imported what it saved itself is told of its zone's end all the same`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.setUp("P", more: #","zonePolicy":{"purged":"keep-and-pause"}"#)
    try await world.save("A", insertTag("T"), query: ["wait": "export"])
    try await world.save("P", insertTag("U"), query: ["wait": "export"])
    _ = try await world.post("B/purge", #"{"zoneID":"\#(zoneName)"}"#)
    try await world.save("B", insertTag("N"), query: ["wait": "export"])
    let news = try await a.pull()
    #expect(zoneChange(news) == ["purged delete 9"] && saved(news) == ["N"])
    #expect(try await a.pull().isEmpty)
    #expect(zoneChange(try await b.pull()) == ["purged delete 9"])
    let first = try await world.get("P/changes").json
    #expect(zoneChange(first["changes"]?.elements ?? []) == ["purged pause 0"] && first["changes"]?.count == 1)
    let query = ["after": try #require(first["importToken"]?.string)]
    #expect(try await world.get("P/changes", query).json["changes"]?.count == 0)
    _ = try await world.post("P/zones/\(zoneName)/resume", #"{"action":"delete"}"#)
    let second = try await world.get("P/changes", query).json["changes"]?.elements ?? []
    #expect(zoneChange(second) == ["purged delete 9"] && saved(second) == ["N"])
  }
}

@Test func `a store that is set up after the end of a zone knows of it`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let a = try await Device("A", world)
    try await world.save("A", insertTag("T"), query: ["wait": "export"])
    try await a.pull()
    _ = try await world.post("A/purge", #"{"zoneID":"\#(zoneName)"}"#)
    try await world.setUp("N")
    try await world.save("N", insertTag("U"), query: ["wait": "export"])
    #expect(try await world.liveRecords().map(\.recordName) == ["U"])
  }
}
