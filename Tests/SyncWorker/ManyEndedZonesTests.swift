// Many zones that come and go: what each costs the pages and the rows of a store that hears of them.

import JSON
import RecordStore
import Records
import ServiceBus
import Testing

@testable import ObjectPlane

extension ObjectPlaneWorld {
  /// Makes zones and deletes them again, as a record client does.
  fileprivate func comeAndGo(_ names: [String]) async throws {
    for operation in ["create", "delete"] { try await change(names, operation) }
  }

  fileprivate func change(_ names: some Sequence<String>, _ operation: String) async throws {
    let operations = names.map { #"{"operationType":"\#(operation)","zone":{"zoneID":{"zoneName":"\#($0)"}}}"# }
    let reply = try await callRecords("zones/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#)
    let refused = reply["zones"]?.elements.filter { $0["serverErrorCode"] != nil } ?? []
    #expect(refused.isEmpty, "\(reply.text)")
  }

  fileprivate func insertTag(by store: String) async throws {
    let saved = try await save(
      store, #"{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"one"}}"#,
      query: ["wait": "export"])
    #expect(saved.status == 200, "\(saved.text)")
  }

  fileprivate func holds(of storeIdentifier: String) async throws -> [String] {
    let id = request("GET", "x").database
    return try await store.read { snapshot in
      let mirror = try snapshot.database(id).flatMap { try snapshot.mirror(storeIdentifier, in: $0.key) }
      return try mirror.map { try snapshot.zoneHolds(of: $0.key).map(\.zoneName) } ?? []
    }
  }
}

private func endedZones(_ page: JSONValue) -> [String] {
  (page["changes"]?.elements ?? []).filter { $0["changeType"]?.string == "zone" }.compactMap {
    $0["zoneID"]?["zoneName"]?.string
  }
}

@Suite struct `Many zones that end` {
  @Test(arguments: StoreKind.allCases)
  func `are told a page's worth at a time, each once, and records come after the last of them`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let b = try await Device("B", world)
      try await world.makeZone("known", photo: "P")
      try await world.makeZone("again", photo: "Q")
      try await b.pull()
      let names = (0..<100).map { "zone\($0)" }
      try await world.comeAndGo(names)
      try await world.change(["known", "again"], "delete")
      try await world.makeZone("again", photo: "R")
      try await world.insertTag(by: "A")
      var told: [String] = []
      var isLast = false
      while !isLast {
        let token = b.token
        let page = try await b.page(limit: 30)
        let next = b.token
        #expect((page["changes"]?.count ?? 0) <= 30)
        #expect(b.graph.objects["T"] == nil || told.count + endedZones(page).count == 102)
        // The client lost the answer and asks again.
        b.token = token
        #expect(endedZones(try await b.page(limit: 30)) == endedZones(page))
        b.token = next
        told += endedZones(page)
        isLast = page["moreComing"]?.bool != true
      }
      #expect(told.sorted() == (names + ["known", "again"]).sorted())
      #expect(b.graph.objects["T"] != nil && b.graph.objects["R"] != nil)
      #expect(try await b.pull().isEmpty)
      let events = try await world.get("B/events").json["events"]?.elements ?? []
      let imports = events.filter { $0["type"]?.string == "import" }
      #expect(imports.compactMap { $0["counts"]?["deleted"]?.int64 }.max() == 102, "\(imports.map(\.text))")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `are on hold until the store has heard of them, or longer where objects were, and a repeated page is the same`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let b = try await Device("B", world)
      try await world.makeZone("known", photo: "P")
      try await b.pull()
      let token = b.token
      try await world.comeAndGo(["one", "two"])
      try await world.change(["known"], "delete")
      let told = try await b.page()["changes"]?.text
      let next = b.token
      #expect(try await world.holds(of: "B") == ["known", "one", "two"])
      // A token that has not passed the ends forgets nothing.
      b.token = token
      #expect(try await b.page()["changes"]?.text == told)
      #expect(try await world.holds(of: "B") == ["known", "one", "two"])
      b.token = next
      #expect(try await b.pull().isEmpty)
      #expect(try await world.holds(of: "B") == ["known"])
      b.token = token
      #expect(try await b.page()["changes"]?.text == told)
      try await world.comeAndGo(["three"])
      try await b.pull()
      #expect(try await b.pull().isEmpty)
      #expect(try await world.holds(of: "B") == ["known"])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `stay on hold when the decision is not that of the store's policy`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let b = try await Device("B", world)
      try await world.setUp("B", more: #","zonePolicy":{"deleted":"keep-and-pause"}"#)
      try await world.change(["known"], "create")
      try await b.pull()
      let token = b.token
      try await world.change(["known"], "delete")
      #expect(endedZones(try await b.page()) == ["known"])
      let resumed = try await world.send(
        world.request("POST", "stores/B/zones/known/resume"), #"{"action":"delete"}"#)
      #expect(resumed.status == 200, "\(resumed.text)")
      try await b.pull()
      try await b.pull()
      #expect(try await world.holds(of: "B") == ["known"])
      b.token = token
      let told = try await b.page()["changes"]?.elements.first { $0["changeType"]?.string == "zone" }
      #expect(told?["action"]?.string == "delete")
    }
  }

  @Test func `cost later imports no look-up in the writer, also where one stays on hold`() async throws {
    try await ObjectPlaneWorld.with(.postgreSQL) { world in
      try await world.setUp("A")
      let b = try await Device("B", world)
      try await world.insertTag(by: "A")
      try await b.pull()
      try await world.change([ReservedName.privateMirrorZone], "delete")
      for _ in 0..<3 { try await b.pull() }
      func lookups() -> Double { world.store.statistics.first { $0.name == "unexpected_lookups_total" }?.value ?? .nan }
      for number in 0..<3 {
        try await world.makeZone("zone\(number)", photo: "P\(number)")
        let before = lookups()
        #expect(try await b.pull().count == 1)
        #expect(lookups() == before)
        #expect(try await world.holds(of: "B") == [ReservedName.privateMirrorZone])
      }
    }
  }

  @Test(arguments: [100, 30])
  func `are told in the end, though those that are told make room in a token that was full`(limit: Int) async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let b = try await Device("B", world)
      try await world.setUp("B", more: #","zonePolicy":{"deleted":"keep-and-pause","purged":"delete"}"#)
      // A token has room for 32 zones, and takes them by their hashes.
      let names = (0..<40).map { "zone\($0)" }.sorted { ImportPosition.hash(of: $0) < ImportPosition.hash(of: $1) }
      try await world.change(names, "create")
      try await b.pull()
      for name in names.prefix(30) {
        let purged = try await world.send(world.request("POST", "stores/A/purge"), #"{"zoneID":"\#(name)"}"#)
        #expect(purged.status < 300, "\(purged.text)")
      }
      try await world.change(names.suffix(8), "delete")
      var told: [String] = []
      var isLast = false
      while !isLast {
        let page = try await b.page(limit: limit)
        told += endedZones(page)
        isLast = page["moreComing"]?.bool != true
      }
      #expect(told.sorted() == (names.prefix(30) + names.suffix(8)).sorted())
      #expect(Set(try await world.holds(of: "B")).isSuperset(of: names.suffix(8)))
    }
  }
}
