// Objects of a zone that ended: what waits to be sent again, and what goes before it.

import FoundationEssentials
import MirrorWire
import SQLite
import Testing

@testable import ReplicaStore

let trips = ZoneID(zoneName: "Trips", ownerRecordName: "_me")

func ended(_ action: EndedZone.Action, _ zoneID: ZoneID = zone) -> ImportedChange {
  .zone(EndedZone(zoneID: zoneID, reason: "deleted", action: action))
}

extension TestStore {
  /// Has an album with a photo and its tag in the default zone, and a tag in another one.
  static func withZones(_ change: (inout ReplicaConfiguration) -> Void = { _ in }) async throws -> TestStore {
    let store = try await make(change)
    try await store.replica.apply(
      page(
        "t1", saved("Album", "A1", ["name": .string("Coast")]),
        saved("Photo", "P1", ["title": .string("Dunes"), "size": .integer(3)], ["album": "A1", "data": "D9"]),
        saved("Tag", "T1", ["name": .string("sea")]), saved("SmartTag", "S1", ["rule": .string("r")]),
        .link(link("P1", "T1")), .link(link("P1", "S1")),
        .link(Link(relationship: "related", entity: "Tag", objectID: "S1", targetEntity: "Tag", targetID: "T1")),
        .save(ImportedObject(entity: "Tag", objectID: "T2", zoneID: trips, attributes: [:], recordChangeTag: "1"))),
      event: nil)
    return store
  }

  /// What waits to be sent again, by object.
  func sentAgain() async throws -> [String: ObjectChange] {
    let again = try await outbox().filter { $0.author == MirroringAuthor.reupload }.flatMap(\.changes)
    return Dictionary(again.map { ($0.objectID, $0) }) { first, _ in first }
  }
}

@Test func `the objects of a zone that ended wait to be sent again once its end is known, with all that they had`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.save { save in
    try save.insert("Photo", "new", ["album": .object("A1")])
    try save.update("Photo", "P1", ["size": .integer(4)])
  }
  let applied = try await store.replica.apply(page("t2", ended(.reupload), saved("Tag", "T3")), event: nil)
  #expect(applied.sendsAgain && applied.errors.isEmpty && applied.endedZones.count == 1)
  let again = try await store.sentAgain()
  #expect(Set(again.keys) == ["A1", "P1", "T1", "S1"] && again.values.allSatisfy { $0.changeType == .insert })
  let photo = try #require(again["P1"])
  #expect(photo.attributes == ["title": .string("Dunes"), "size": .integer(4)])
  #expect(photo.relationships?["album"] == .toOne("A1") && photo.relationships?["data"] == .toOne("D9"))
  guard case .toManyEdits(let tags, let removed)? = photo.relationships?["tags"] else {
    throw StoreError.damaged("no tags")
  }
  #expect(Set(tags) == ["T1", "S1"] && removed.isEmpty)
  #expect([again["T1"], again["S1"]].contains { $0?.relationships?["related"] != nil })
  #expect(again["S1"]?.entity == "SmartTag")
  let outbox = try await store.outbox()
  #expect(outbox.map(\.author) == [nil, MirroringAuthor.reupload] && outbox.last?.importToken == "t2")
  #expect(
    try await store.replica.zone(of: AnyObjectID(entityName: "Photo", recordName: "P1"))?.zoneName == zone.zoneName)
  // The end that is told again, before it was sent or after.
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  #expect(try await store.outbox().count == 3)
  #expect(try await store.sentAgain()["T3"] != nil)
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 0)
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  #expect(try await Set(store.sentAgain().keys) == ["A1", "P1", "T1", "S1", "T3", "new"])
}

@Test func `what another device has sent again and edited goes before what waits, and the user's edits before both`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.save { try $0.update("Photo", "P1", ["size": .integer(4)]) }
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  try await store.replica.apply(
    page(
      "t3", saved("Photo", "P1", ["title": .string("theirs"), "size": .integer(9)], ["album": nil]),
      .delete(entity: "Tag", objectID: "T1", zoneID: zone)), event: nil)
  #expect(
    try await store.values("Photo", "P1") == [
      "title": .text("theirs"), "size": .integer(4), "tagCount": .integer(1),
    ])
  #expect(try await store.values("Tag", "T1") == nil)
  // A refused edit has the server asked for its object, which the server does not have yet.
  try await store.replica.reread(AnyObjectID(entityName: "Album", recordName: "A1"), as: nil)
  #expect(try await store.values("Album", "A1") != nil)
  try await store.export()
  try await store.replica.reread(AnyObjectID(entityName: "Album", recordName: "A1"), as: nil)
  #expect(try await store.values("Album", "A1") == nil)
}

@Test func `an object that was gone and comes back has the user's edits, and not what waits to be sent again`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  try await store.save { try $0.update("Photo", "P1", ["size": .integer(4)]) }
  try await store.replica.apply(
    page(
      "t3", .delete(entity: "Photo", objectID: "P1", zoneID: zone),
      saved("Photo", "P1", ["isHidden": .boolean(true)])), event: nil)
  let shown = try #require(try await store.values("Photo", "P1"))
  #expect(shown["size"] == .integer(4) && shown["isHidden"] == .integer(1) && shown["title"] != .text("Dunes"))
}

@Test func `a guest's store sends nothing of another's zone again`() async throws {
  let store = try await TestStore.withZones { $0.isShared = true }
  #expect(try await !store.replica.apply(page("t2", ended(.reupload)), event: nil).sendsAgain)
  #expect(try await store.outbox().isEmpty)
  #expect(try await store.names(Query("Album")) == ["A1"])
}

@Test func `a reset that tells a zone's end keeps its objects, and they wait to be sent again`() async throws {
  let store = try await TestStore.withZones()
  try await store.replica.beginReset(reason: "test")
  let isUnderWay = ImportPage.Reset(reason: "test", done: false)
  try await store.replica.apply(page("r1", ended(.reupload), saved("Tag", "T1"), reset: isUnderWay), event: nil)
  let done = ImportPage.Reset(reason: "test", done: true)
  let swapped = try await store.replica.apply(
    page(
      "r2",
      .save(ImportedObject(entity: "Tag", objectID: "T2", zoneID: trips, attributes: [:], recordChangeTag: "1")),
      reset: done), event: nil)
  #expect(swapped.didSwap)
  #expect(try await Set(store.names(Query("Tag"))) == ["T1", "S1", "T2"])
  #expect(try await store.values("Photo", "P1")?["album"] == .object("A1"))
  #expect(try await store.related("Photo", "P1", "tags") == ["T1", "S1"])
  #expect(try await Set(store.sentAgain().keys) == ["A1", "P1", "T1", "S1"])
}

@Test func `contents that are here are sent again, and those that are not are emptied and named`() async throws {
  let store = try await TestStore.withZones()
  let far = AssetReference(fileChecksum: "AQIDBAUGBwgJCgsMDQ4PEBESExQV", size: 9, downloadURL: "http://127.0.0.1/a")
  try await store.replica.apply(
    page(
      "t2", saved("Photo", "P2", ["title": .string("far"), "image": .asset(far)]),
      saved("Photo", "P3", ["image": .string(Data("picture".utf8).base64EncodedString())])), event: nil)
  let applied = try await store.replica.apply(page("t3", ended(.reupload)), event: nil)
  #expect(applied.errors.map(\.object?.recordName) == ["P2"] && applied.errors.first?.error.ckErrorCode == 35)
  #expect(try await store.values("Photo", "P2")?["image"] == nil)
  #expect(try await store.sentAgain()["P2"]?.attributes == ["title": .string("far")])
  let history = try await store.replica.history(HistoryQuery()).transactions
  #expect(history.last?.changes.map(\.object.recordName) == ["P2"])
  // The only copy is not trimmed.
  let isAtServer = try await store.replica.read {
    try $0.rows("SELECT isAtServer FROM content WHERE checksum = ?", [.text(SHA256.name(of: Data("picture".utf8)))])
  }
  #expect(isAtServer == [[.integer(0)]])
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20))
  let wanted = try await store.replica.contentsToUpload(for: batch, validAt: Date(milliseconds: 0))
  #expect(wanted.map(\.checksum) == [SHA256.name(of: Data("picture".utf8))] && wanted.first?.path != nil)
}

@Test func `a large zone goes in transactions of their own, and one that is refused takes no other along`() async throws
{
  let store = try await TestStore.make()
  let count = 2300
  let tags = (0..<count).map { saved("Tag", "T\($0)", ["name": .string("n")]) }
  try await store.replica.apply(
    ImportPage(
      changes: tags + [saved("Photo", "P1")] + (0..<count).map { .link(link("P1", "T\($0)")) }, importToken: "t1"),
    event: nil)
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  try await store.save { try $0.insert("Album", "A1", ["name": .text("later")]) }
  let outbox = try await store.outbox().filter { $0.author == MirroringAuthor.reupload }
  #expect(outbox.map(\.changes.count) == [1000, 1000, 303] && Set(outbox.map(\.transactionID)).count == 3)
  let linked = outbox.flatMap(\.changes).filter { $0.objectID == "P1" }.map { change -> Int in
    guard case .toManyEdits(let add, _)? = change.relationships?["tags"] else { return 0 }
    return add.count
  }
  #expect(linked == [1000, 1000, 300])
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1 << 20))
  let error = ServerError(status: 413, serverErrorCode: "QUOTA_EXCEEDED", reason: "transactions[0]: no")
  let refused = try await store.replica.refuse(batch, at: 0, error: error)
  #expect(refused.map(\.objects.count) == [1000])
  #expect(try await store.outbox().map(\.changes.count) == [1000, 303, 1])
  // The server does not have the refused ones, and is not asked whether they are gone.
  try await store.export()
  #expect(try await store.replica.objectsToReread(limit: 10).isEmpty)
  #expect(try await store.names(Query("Tag")).count == count)
}

@Test func `the app saves while objects of an ended zone are put into the outbox, and its saves are sent after them`()
  async throws
{
  let store = try await TestStore.make()
  let count = 3000
  let tags = (0..<count).map { saved("Tag", "T\($0)", ["name": .string("n")]) }
  try await store.replica.apply(ImportPage(changes: tags, importToken: "t1"), event: nil)
  let app = Task {
    var number = 0
    while true {
      number += 1
      try await store.save { [number] in try $0.update("Tag", "T\(count - 1)", ["name": .text("\(number)")]) }
      // At least one knows of the end.
      if Task.isCancelled, try await store.outbox().last?.importToken == "t2" { return }
    }
  }
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  app.cancel()
  try await app.value
  let outbox = try await store.outbox()
  let authors = outbox.drop { $0.importToken == "t1" }.map(\.author)
  let again = authors.prefix { $0 == MirroringAuthor.reupload }
  #expect(again.count == 3 && again.count < authors.count && authors.dropFirst(3).allSatisfy { $0 == nil })
  #expect(try await store.sentAgain().count == count)
  var sent: [String] = []
  while let batch = try await store.replica.nextBatch(transactionLimit: 10, byteLimit: 1 << 20) {
    for body in batch.transactions { sent.append(try Transaction(json: body).transactionID) }
    try await store.replica.acknowledge(batch, historyToken: "h")
  }
  #expect(sent == outbox.map(\.transactionID))
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test func `a store that was closed before all objects of an ended zone were in the outbox goes on with them`()
  async throws
{
  let folder = try World.folder()
  let path = "\(folder.path)/store.sqlite"
  var store = TestStore(folder: folder, replica: try await Replica.open(World.configuration(path), Photos.model))
  let tags = (0..<2500).map { saved("Tag", "T\($0)", ["name": .string("n")]) }
  try await store.replica.apply(ImportPage(changes: tags, importToken: "t1"), event: nil)
  try await store.replica.write { writer, outcome in
    try ZoneReupload.begin(1, writer.connection)
    _ = try ZoneReupload.nextSlice(writer, &outcome)
  }
  #expect(try await store.sentAgain().count == 1000)
  #expect(try await store.replica.figures().pendingTransactions == 2)
  try await store.save { try $0.update("Tag", "T2499", ["name": .text("mine")]) }
  await store.replica.close()
  store = TestStore(
    folder: folder, replica: try await Replica.open(World.configuration(path, seed: 1000), Photos.model))
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 10, byteLimit: 1 << 20))
  let sent = try batch.transactions.map { try Transaction(json: $0) }
  #expect(sent.map(\.changes.count) == [1000, 1000, 500, 1] && sent.last?.author == nil)
  #expect(sent[2].changes.last?.attributes == ["name": .string("mine")])
  #expect(Set(sent.flatMap(\.changes).map(\.objectID)).count == 2500)
}

extension TestStore {
  /// The process ends before any object of the default zone is in the outbox.
  fileprivate func endZone() async throws {
    try await replica.write { writer, _ in try ZoneReupload.begin(1, writer.connection) }
  }
}

@Test func `contents that only this device has are not trimmed before their objects are in the outbox`() async throws {
  let store = try await TestStore.withZones()
  let picture = Data("picture".utf8)
  try await store.replica.apply(
    page("t2", saved("Photo", "P3", ["image": .string(picture.base64EncodedString())])), event: nil)
  try await store.endZone()
  try await store.replica.write { writer, _ in try ContentTrimming(writer).trim(to: 0, keeping: "") }
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20))
  let wanted = try await store.replica.contentsToUpload(for: batch, validAt: Date(milliseconds: 0))
  #expect(wanted.map(\.checksum) == [SHA256.name(of: picture)] && wanted.first?.path != nil)
}

@Test func `an object of an ended zone that the server does not know stays, also before it is in the outbox`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.endZone()
  try await store.replica.reread(AnyObjectID(entityName: "Album", recordName: "A1"), as: nil)
  #expect(try await store.values("Album", "A1") != nil)
  #expect(try await store.sentAgain()["A1"] != nil)
}

@Test func `no batch reaches beyond the place of objects that are not in the outbox yet`() async throws {
  let store = try await TestStore.withZones()
  try await store.save { try $0.update("Tag", "T1", ["name": .text("before")]) }
  try await store.endZone()
  try await store.save { try $0.update("Tag", "T1", ["name": .text("after")]) }
  let batch = try await store.replica.write { writer, _ in
    try Outbox(writer).nextBatch(transactionLimit: 100, byteLimit: 1 << 20)
  }
  #expect(batch?.transactions.count == 1)
  try await store.replica.acknowledge(try #require(batch), historyToken: "h")
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test func `objects of an ended zone name no position of the server's former life`() async throws {
  let store = try await TestStore.withZones()
  try await store.endZone()
  try await store.replica.sendAgain()
  _ = try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20)
  let outbox = try await store.outbox()
  #expect(outbox.count == 1 && outbox.allSatisfy { $0.importToken == nil })
}

@Test func `an object that is sent again is not asked for before the server has it, also if no row names it yet`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.save { try $0.update("Tag", "T1", ["name": .text("refused")]) }
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
  let error = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "no")
  _ = try await store.replica.refuse(batch, at: nil, error: error)
  try await store.endZone()
  #expect(try await store.replica.objectsToReread(limit: 10).isEmpty)
  try await store.export()
  #expect(try await store.replica.objectsToReread(limit: 10).map(\.recordName) == ["T1"])
}

@Test func `what a process began that ended is told by the page that goes on with it`() async throws {
  let store = try await TestStore.withZones()
  let far = AssetReference(fileChecksum: "AQIDBAUGBwgJCgsMDQ4PEBESExQV", size: 9, downloadURL: "http://127.0.0.1/a")
  try await store.replica.apply(page("t2", saved("Photo", "P2", ["image": .asset(far)])), event: nil)
  try await store.endZone()
  let applied = try await store.replica.apply(page("t3", saved("Tag", "T3")), event: nil)
  #expect(applied.sendsAgain && applied.errors.map(\.object?.recordName) == ["P2"])
  #expect(try await store.sentAgain()["T3"] == nil)
}

@Test func `a page counts although the objects of its ended zone can't be put into the outbox, and the export says so`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.replica.write { writer, _ in
    try writer.connection.execute(
      "CREATE TEMP TRIGGER noRoom BEFORE INSERT ON main.outbox BEGIN SELECT RAISE(ABORT, 'full'); END")
  }
  let share = ImportedChange.share(zone)
  let applied = try await store.replica.apply(page("t2", ended(.reupload), share), event: nil)
  #expect(applied.sendsAgain && applied.importToken == "t2")
  let position = try await store.replica.position()
  #expect(position.importToken == "t2" && position.staleShares == [zone])
  #expect(try await store.replica.figures().pendingTransactions == 1)
  await #expect(throws: StoreError.self) {
    _ = try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20)
  }
  try await store.replica.write { writer, _ in try writer.connection.execute("DROP TRIGGER noRoom") }
  _ = try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20)
  #expect(try await Set(store.sentAgain().keys) == ["A1", "P1", "T1", "S1"])
}
