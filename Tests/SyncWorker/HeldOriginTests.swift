// Held-back changes go through by the rules of the transactions that they came with.

import FixedClocks
import History
import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing

extension ObjectPlaneWorld {
  private var database: DatabaseID { request("GET", "stores/x").database }

  fileprivate func sequence() async throws -> Int64 {
    let id = database
    return try await store.read { try $0.database(id)?.sequence ?? 0 }
  }

  /// A save by alice that is exported when this returns.
  /// - Parameter quota: the bytes that she may have; 0: as many as she likes.
  fileprivate func put(
    _ store: String, _ changes: String..., author: String = "app", token: String? = nil, quota: Int64 = 0
  ) async throws {
    let request = DatabaseRequest(
      plane: .object, method: "POST", path: ["stores", store, "transactions"], query: ["wait": "export"],
      database: database, scope: .private,
      caller: Caller(userRecordName: "_alice", standing: UserStanding(quotaByteCount: quota)),
      requestID: random.uuid(), baseURL: "https://host")
    let token = token.map { #","importToken":"\#($0)""# } ?? ""
    let reply = try await send(
      request,
      #"""
      {"transactions":[{"transactionID":"\#(random.uuid())","timestamp":"2026-11-20T07:33:24.123Z",\#
      "author":"\#(author)","changes":[\#(changes.joined(separator: ","))]\#(token)}]}
      """#)
    try #require(reply.status == 200, "\(reply.text)")
  }

  /// A change that was accepted while there was room for it.
  fileprivate func accept(_ change: HistoryChange, author: String, base: Int64, from store: String) async throws {
    var accepted = HistoryTransaction(
      transactionID: random.uuid(), timestamp: 0, author: author, changes: [change])
    accepted.edit = HistoryTransaction.Edit(base: base, time: 0)
    try await appendWithoutExport([accepted], to: store)
  }

  /// Two devices with a photo: A's edit of it waits, and A has imported that of B, which had not heard of A's.
  fileprivate func devicesOfWaitingEdit() async throws -> (a: Device, b: Device) {
    let (a, b) = (try await Device("A", self), try await Device("B", self))
    try await put("A", photo("insert", #""displayName":"start""#), tag)
    for device in [a, b] { try await device.pull() }
    let known = try await sequence()
    try await accept(
      photo(.update, ["displayName": .string(large)]), author: "app", base: known, from: "A")
    try await put("A", again, quota: quota)
    #expect(try await held("A") == ["P space"])
    try await put("B", photo("update", #""displayName":"B's""#), token: b.token)
    try await a.pull()
    return (a, b)
  }

  fileprivate func held(_ store: String) async throws -> [String] {
    let rows = try await get("\(store)/quarantine").json["quarantined"]?.elements ?? []
    return rows.map { "\($0["objectID"]?.string ?? "") \($0["cause"]?.string ?? "")" }
  }

  fileprivate func photoFields() async throws -> Fields {
    try #require(try await liveRecords().first { $0.recordName == "P" }).fields
  }
}

private func photo(_ kind: String, _ attributes: String) -> String {
  #"{"changeType":"\#(kind)","entity":"Photo","objectID":"P","attributes":{\#(attributes)}}"#
}

private func photo(_ kind: HistoryChange.ChangeType, _ attributes: [String: AttributeValue]) -> HistoryChange {
  HistoryChange(
    changeType: kind, entity: "Photo", objectID: "P",
    attributes: attributes.sorted { $0.key < $1.key }.map { NamedValue(name: $0.key, value: $0.value) })
}

private let tag = #"{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"x"}}"#
private let again = #"{"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"y"}}"#
/// No room for this is left.
private let large = String(repeating: "x", count: 5000)
private let quota: Int64 = 3000

@Test(arguments: StoreKind.engines)
func `T-R01 what is sent again and held back takes back nothing that others edit until it goes through`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    try await world.put("A", photo("insert", #""displayName":"\#(large)","views":1"#))
    for device in [a, b] { try await device.pull() }
    try await world.endZone()
    for device in [a, b] { try await device.pull() }
    let present: [String: AttributeValue] = [
      "displayName": .string(large), "ratio": .double(1.5), "views": .integer(1),
    ]
    try await world.accept(
      photo(.insert, present), author: ReservedName.reuploadAuthor, base: world.sequence(), from: "A")
    try await world.put("A", tag, quota: quota)
    #expect(try await world.held("A") == ["P space"])
    // An edit of A's own waits with it.
    try await world.put("A", photo("update", #""views":9"#), quota: quota)
    #expect(try await world.held("A") == ["P space"])
    try await world.put(
      "B", photo("insert", #""displayName":"\#(large)","views":1"#), author: ReservedName.reuploadAuthor)
    try await world.put("B", photo("update", #""displayName":"B's""#))
    world.clock.advance(by: 61_000)
    try await world.put("A", again)
    #expect(try await world.held("A") == [])
    let fields = try await world.photoFields()
    #expect(fields.string("CD_displayName") == "B's", "the edit is newer than what A sends again")
    #expect(fields["CD_views"]?.value == .int64(9), "A's edit is an edit")
    #expect(fields["CD_ratio"]?.value == .double(1.5), "nobody else had this value")
    for device in [a, b] { try await device.pull() }
    #expect(a.graph.objects["P"] == b.graph.objects["P"] && a.graph.objects["P"]?["displayName"] == #""B's""#)
  }
}

@Test(arguments: StoreKind.engines)
func `an edit that waits is judged by what its device knew then, also if the device edits the object once more`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.withPolicies(kind) { world in
    let a = try await world.devicesOfWaitingEdit().a
    try await world.put("A", photo("update", #""ratio":2.5"#), token: a.token)
    #expect(try await world.held("A") == [])
    let fields = try await world.photoFields()
    #expect(fields.string("CD_displayName") == "B's" && fields["CD_ratio"]?.value == .double(2.5))
    let conflicts = try await world.conflicts("A")
    #expect(conflicts.map { $0["kind"]?.string } == ["undecided"])
    #expect(conflicts.first?["client"]?["displayName"]?.string == large)
  }
}

@Test(arguments: StoreKind.engines)
func `an edit that waited shows on its own device again, if the device imported another's edit in the meantime`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = try await world.devicesOfWaitingEdit()
    world.clock.advance(by: 61_000)
    try await world.put("A", again)
    #expect(try await world.held("A") == [])
    #expect(try await world.photoFields().string("CD_displayName") == large)
    for device in [a, b] {
      try await device.pull()
      #expect(device.graph.objects["P"]?["displayName"] == "\"\(large)\"", "\(device.store)")
    }
    #expect(try await a.pull().isEmpty)
  }
}

@Test(arguments: StoreKind.engines)
func `a pair whose parting waits is parted on the device that parted it, too`(_ kind: StoreKind) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    let (a, b) = (try await Device("A", world), try await Device("B", world))
    func pair(_ edit: String) -> String {
      #"{"changeType":"update","entity":"Photo","objectID":"P","relationships":{"tags":{"\#(edit)":["T"]}}}"#
    }
    let whole = [photo("insert", #""views":1"#), tag, pair("add")].joined(separator: ",")
    try await world.put("A", whole)
    for device in [a, b] { try await device.pull() }
    try await world.endZone()
    // A has not heard of it, and nobody has sent the photo again yet.
    try await world.put("A", pair("remove"))
    #expect(try await world.held("A").count == 1)
    try await b.pull()
    try await world.put("B", whole, author: ReservedName.reuploadAuthor)
    try await a.pull()
    #expect(a.graph.links.count == 1)
    world.clock.advance(by: 61_000)
    try await world.put("A", photo("update", #""views":2"#))
    #expect(try await world.held("A") == [])
    for device in [a, b] {
      try await device.pull()
      #expect(device.graph.links.isEmpty, "\(device.store)")
    }
  }
}
