// Imports: pages in one commit, and the user's pending edits untouched.

import FoundationEssentials
import Glibc
import MirrorWire
import Testing

@testable import ReplicaStore

let zone = ZoneID(zoneName: "com.apple.coredata.cloudkit.zone", ownerRecordName: "_me")

func saved(
  _ entity: String, _ name: String, _ attributes: [String: AttributeValue] = [:],
  _ relationships: [String: String?] = [:]
) -> ImportedChange {
  .save(
    ImportedObject(
      entity: entity, objectID: name, zoneID: zone, attributes: attributes, relationships: relationships,
      recordChangeTag: "1"))
}

func page(_ token: String, _ changes: ImportedChange..., reset: ImportPage.Reset? = nil) -> ImportPage {
  ImportPage(changes: changes, importToken: token, reset: reset)
}

func link(_ photo: String, _ tag: String) -> Link {
  Link(relationship: "tags", entity: "Photo", objectID: photo, targetEntity: "Tag", targetID: tag)
}

extension TestStore {
  /// Acknowledges all that is pending.
  func export() async throws {
    while let batch = try await replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20) {
      try await replica.acknowledge(batch, historyToken: "h")
    }
  }
}

@Test func `a page is applied in one commit with its token and history`() async throws {
  let store = try await TestStore.make()
  let applied = try await store.replica.apply(
    page(
      "t1", .link(link("P1", "T1")),
      saved(
        "Photo", "P1", ["title": .string("a"), "taken": .string("2023-11-14T22:13:20.123Z"), "score": .integer(2)],
        ["album": "A1", "data": nil]),
      saved("Tag", "T1"), saved("SmartTag", "S1", ["rule": .string("r")])), event: nil)
  #expect(applied.savedCount == 4)
  #expect(try await store.replica.position().importToken == "t1")
  #expect(
    try await store.values("Photo", "P1") == [
      "title": .text("a"), "taken": .integer(1_700_000_000_123), "score": .real(2), "tagCount": .integer(1),
    ])
  #expect(try await store.names(Query("Tag")) == ["T1", "S1"])
  // A pointer is kept until its target arrives (K7).
  try await store.replica.apply(page("t2", saved("Album", "A1", ["name": .string("Coast")])), event: nil)
  #expect(try await store.values("Photo", "P1")?["album"] == .object("A1"))
  #expect(try await store.related("Album", "A1", "photos") == ["P1"])
  let history = try await store.replica.history(HistoryQuery())
  #expect(history.transactions.map(\.author) == [MirroringAuthor.importing, MirroringAuthor.importing])
  #expect(try await store.outbox().isEmpty)
}

@Test func `pending properties and pairs stay the user's, and the rest is imported`() async throws {
  let store = try await TestStore.make()
  try await store.replica.apply(
    page(
      "t1", saved("Photo", "P1", ["title": .string("a"), "size": .integer(1)]), saved("Tag", "T1"),
      .link(link("P1", "T1"))), event: nil)
  try await store.save { save in
    try save.update("Photo", "P1", ["title": .text("mine")])
    try save.link("Tag", "T1", "photos", "P1", false)
  }
  try await store.replica.apply(
    page("t2", saved("Photo", "P1", ["title": .string("b"), "size": .integer(2)]), .link(link("P1", "T1"))), event: nil)
  #expect(
    try await store.values("Photo", "P1") == ["title": .text("mine"), "size": .integer(2), "tagCount": .integer(0)])
  try await store.export()
  try await store.replica.apply(
    page("t3", saved("Photo", "P1", ["title": .string("c"), "size": .integer(3)]), .link(link("P1", "T1"))), event: nil)
  #expect(try await store.values("Photo", "P1") == ["title": .text("c"), "size": .integer(3), "tagCount": .integer(1)])
}

@Test func `an object that is made here takes what its insert does not tell from another device's object of that name`()
  async throws
{
  let store = try await TestStore.make()
  try await store.replica.apply(page("t1", saved("Album", "A1"), saved("Album", "A2")), event: nil)
  try await store.save { save in
    try save.insert("Photo", "P1", ["title": .text("mine")])
    try save.insert("Photo", "P2", ["album": .object("A1")])
  }
  func photo(_ name: String, _ album: String?) -> ImportedChange {
    saved("Photo", name, ["title": .string("theirs"), "size": .integer(2)], ["album": album])
  }
  try await store.replica.apply(page("t2", photo("P1", "A1"), photo("P2", "A2")), event: nil)
  #expect(
    try await store.values("Photo", "P1") == [
      "title": .text("mine"), "size": .integer(2), "album": .object("A1"), "tagCount": .integer(0),
    ])
  #expect(
    try await store.values("Photo", "P2") == [
      "title": .text("theirs"), "size": .integer(2), "album": .object("A1"), "tagCount": .integer(0),
    ])
  // What came with the import goes with its target; what the insert tells is the user's.
  try await store.replica.apply(page("t3", .delete(entity: "Album", objectID: "A1", zoneID: zone)), event: nil)
  try await store.replica.apply(page("t4", saved("Album", "A1")), event: nil)
  #expect(try await store.related("Album", "A1", "photos") == ["P2"])
}

@Test(arguments: [true, false])
func `the default zone's end takes what this device has sent, known to lie there or not, and spares what it has not`(
  isToldOf: Bool
) async throws {
  let store = try await TestStore.make()
  if isToldOf { try await store.replica.apply(page("t1", saved("Album", "A1")), event: nil) }
  try await store.save { try $0.insert("Photo", "sent") }
  try await store.export()
  try await store.save { save in
    try save.insert("Photo", "new")
    try save.update("Photo", "sent", ["title": .text("edited")])
  }
  let known = try #require(try await store.replica.zones().first)
  #expect(known.zoneID.zoneName == zone.zoneName && known.isPaused == false)
  #expect(known.objectCount == (isToldOf ? 3 : 2) && known.pendingCount == 2)
  let end = EndedZone(zoneID: zone, reason: "purged", action: .delete)
  let applied = try await store.replica.apply(page("t2", .zone(end)), event: nil)
  #expect(applied.deletedCount == known.objectCount - 1 && applied.endedZones == [end])
  #expect(try await store.names(Query("Photo")) == ["new"])
  #expect(try await store.names(Query("Album")).isEmpty)
}

@Test func `an imported deletion is applied, and a deletion that is pending is not undone`() async throws {
  let store = try await TestStore.make()
  try await store.replica.apply(page("t1", saved("Tag", "T1"), saved("Tag", "T2")), event: nil)
  try await store.save { save in
    try save.update("Tag", "T1", ["name": .text("mine")])
    try save.delete("Tag", "T2")
  }
  try await store.replica.apply(
    page("t2", .delete(entity: "Tag", objectID: "T1", zoneID: zone), saved("Tag", "T2", ["name": .string("back")])),
    event: nil)
  #expect(try await store.names(Query("Tag")).isEmpty)
  // It comes back with what the outbox still has.
  try await store.replica.apply(page("t3", saved("Tag", "T1", ["name": .string("theirs")])), event: nil)
  #expect(try await store.values("Tag", "T1") == ["name": .text("mine")])
}

@Test func `what led to a deleted object does not lead to another one that gets its name`() async throws {
  let store = try await TestStore.make()
  func photo(_ name: String, _ album: String?) -> ImportedChange { saved("Photo", name, [:], ["album": album]) }
  try await store.replica.apply(
    page("t1", saved("Album", "A1"), photo("P1", "A1"), photo("P2", nil), saved("Tag", "T1"), .link(link("P1", "T1"))),
    event: nil)
  try await store.save { try $0.update("Photo", "P2", ["album": .object("A1")]) }
  try await store.replica.apply(
    page(
      "t2", .delete(entity: "Album", objectID: "A1", zoneID: zone), .delete(entity: "Tag", objectID: "T1", zoneID: zone)
    ), event: nil)
  try await store.replica.apply(page("t3", saved("Album", "A1"), saved("Tag", "T1")), event: nil)
  // The server decides about the edit when it arrives, and tells.
  #expect(try await store.related("Album", "A1", "photos") == ["P2"])
  #expect(try await store.related("Tag", "T1", "photos").isEmpty)
}

@Test(arguments: [true, false])
func `history tells once what an imported deletion empties, whatever its page tells first`(isDeletionFirst: Bool)
  async throws
{
  let store = try await TestStore.make()
  func photo(_ album: String?) -> ImportedChange { saved("Photo", "P1", [:], ["album": album]) }
  let related = Link(relationship: "related", entity: "Tag", objectID: "T1", targetEntity: "Tag", targetID: "T2")
  try await store.replica.apply(
    page(
      "t1", saved("Album", "A1"), photo("A1"), saved("Tag", "T1"), saved("Tag", "T2"), .link(link("P1", "T1")),
      .link(related)), event: nil)
  let deletions = [("Album", "A1"), ("Tag", "T1")].map {
    ImportedChange.delete(entity: $0, objectID: $1, zoneID: zone)
  }
  let rest = [photo(nil), .unlink(link("P1", "T1")), .unlink(related)]
  try await store.replica.apply(
    ImportPage(changes: isDeletionFirst ? deletions + rest : rest + deletions, importToken: "t2"), event: nil)
  var told: [String: [String]] = [:]
  let history = try await store.replica.history(HistoryQuery()).transactions
  for change in history.last?.changes ?? [] {
    told[change.object.recordName, default: []] += change.kind == .delete ? ["-"] : change.updatedProperties.sorted()
  }
  #expect(told["P1"]?.sorted() == ["album", "tags"] && told["A1"] == ["-"])
  #expect(told["T1"]?.last == "-" && (told["T2"] ?? []) + (told["T1"] ?? []).dropLast() == ["related"])
  // What goes along with a zone is deleted, and not emptied first.
  try await store.replica.apply(page("t3", saved("Album", "A2"), photo("A2"), .link(link("P1", "T2"))), event: nil)
  let end = EndedZone(zoneID: zone, reason: "purged", action: .delete)
  try await store.replica.apply(page("t4", .zone(end)), event: nil)
  let last = try #require(try await store.replica.history(HistoryQuery()).transactions.last)
  #expect(last.changes.count == 3 && last.changes.allSatisfy { $0.kind == .delete })
}

@Test func `an import points to nothing that is deleted here, since the server clears it without a word`() async throws
{
  let store = try await TestStore.make()
  try await store.replica.apply(
    page("t1", saved("Album", "A1"), saved("Photo", "P1"), saved("Tag", "T1"), saved("Tag", "T2")), event: nil)
  try await store.save { save in
    try save.delete("Album", "A1")
    try save.delete("Tag", "T1")
  }
  try await store.save { try $0.insert("Tag", "T1") }
  try await store.replica.apply(
    page("t2", saved("Photo", "P1", [:], ["album": "A1"]), .link(link("P1", "T1")), .link(link("P1", "T2"))), event: nil
  )
  try await store.export()
  try await store.replica.apply(page("t3", saved("Album", "A1")), event: nil)
  #expect(try await store.related("Album", "A1", "photos").isEmpty)
  #expect(try await store.related("Photo", "P1", "tags") == ["T2"])
}

@Test func `a reset shows nothing until it is done, and then the server's state with the pending edits`() async throws {
  let store = try await TestStore.make()
  try await store.replica.apply(
    page(
      "t1", saved("Photo", "P1", ["title": .string("a")]), saved("Photo", "P2"), saved("Tag", "T1"),
      .link(link("P1", "T1")), .link(link("P2", "T1"))), event: nil)
  try await store.save { save in
    try save.update("Photo", "P1", ["size": .integer(9), "note": .text("here")])
    try save.insert("Tag", "T9")
  }
  let generation = try store.replica.pin()
  try await store.replica.beginReset(reason: "test")
  #expect(try await store.replica.position().importToken == nil)
  let reset = ImportPage.Reset(reason: "test", done: false)
  try await store.replica.apply(
    page("r1", saved("Photo", "P1", ["title": .string("b"), "size": .integer(1)]), saved("Photo", "P3"), reset: reset),
    event: nil)
  #expect(try await store.names(Query("Photo")) == ["P1", "P2"])
  let swapped = try await store.replica.apply(
    page("r2", saved("Tag", "T1"), .link(link("P3", "T1")), reset: ImportPage.Reset(reason: "test", done: true)),
    event: nil)
  #expect(swapped.didSwap)
  #expect(try await store.names(Query("Photo")) == ["P1", "P3"])
  #expect(
    try await store.values("Photo", "P1") == [
      "title": .text("b"), "size": .integer(9), "note": .text("here"), "tagCount": .integer(0),
    ])
  #expect(try await Set(store.names(Query("Tag"))) == ["T1", "T9"])
  #expect(try await store.related("Tag", "T1", "photos") == ["P3"])
  #expect(try await generation.read { try $0.names(Query("Photo")) } == ["P1", "P2"])
  let position = try await store.replica.position()
  #expect(position.importToken == "r2" && position.resetReason == nil)
}

@Test func `a batch is the same until it is answered, and a refused one is halved to the refused transaction`()
  async throws
{
  let store = try await TestStore.make()
  for number in 0..<4 { try await store.save { try $0.insert("Tag", "T\(number)", ["name": .text("n")]) } }
  try await store.save { try $0.update("Tag", "T1", ["name": .text("m")]) }
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 4, byteLimit: 1 << 20))
  try await store.save { try $0.insert("Tag", "T5") }
  let again = try #require(try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20))
  #expect(
    again.transactions == batch.transactions && again.isRepeated && !batch.isRepeated && batch.transactions.count == 4)
  let error = ServerError(status: 400, serverErrorCode: "BAD_REQUEST", reason: "no")
  // The server refuses the insertion of `T1`.
  var refused: Rejected?
  while refused == nil, let next = try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20) {
    let holdsT1 = next.transactions.contains {
      String(decoding: $0, as: UTF8.self).contains(#""insert","entity":"Tag","objectID":"T1""#)
    }
    if holdsT1 {
      refused = try await store.replica.refuse(next, at: nil, error: error).first
    } else {
      try await store.replica.acknowledge(next, historyToken: "h")
    }
  }
  #expect(refused?.objects.map(\.recordName) == ["T1"])
  #expect(try await store.replica.rejected().map(\.isConsequence) == [false, true])
  #expect(try await store.replica.objectsToReread(limit: 10).map(\.recordName) == ["T1"])
  try await store.replica.reread(AnyObjectID(entityName: "Tag", recordName: "T1"), as: nil)
  #expect(try await store.names(Query("Tag")) == ["T0", "T2", "T3", "T5"])
  try await store.export()
  let identifiers = try await store.replica.rejected().map(\.identifier)
  try await store.replica.retry(identifiers[0])
  try await store.replica.discard(identifiers[1])
  #expect(try await store.outbox().map { $0.changes.map(\.objectID) } == [["T1"]])
  // What was refused is there again, and pending.
  #expect(try await store.values("Tag", "T1") == ["name": .text("n")])
  #expect(try await store.replica.rejected().isEmpty)
  #expect(try await store.replica.figures().pendingObjects == 1)
}

@Test func `a copied file takes another identifier and imports from the beginning`() async throws {
  let folder = try World.folder()
  let path = "\(folder.path)/store.sqlite"
  let replica = try await Replica.open(World.configuration(path), Photos.model)
  try await replica.apply(page("t1", saved("Tag", "T1")), event: nil)
  let first = try await replica.position()
  await replica.close()
  try FileManager.default.copyItem(atPath: path, toPath: "\(folder.path)/copy.sqlite")
  let copy = try await Replica.open(World.configuration("\(folder.path)/copy.sqlite", seed: 5), Photos.model)
  let position = try await copy.position()
  #expect(position.storeIdentifier != first.storeIdentifier && position.importToken == nil)
  // What ended before the server knew the copy is never told, so the first import is a second copy.
  #expect(position.resetReason == MirrorPosition.copyReason && first.resetReason == nil)
  #expect(try await copy.read { try $0.names(Query("Tag")) } == ["T1"])
  try await copy.apply(page("t2", saved("Tag", "T2")), event: nil)
  #expect(try await copy.read { try $0.names(Query("Tag")) } == ["T2"])
  #expect(try await copy.position().resetReason == nil)
}

@Test func `one process writes, and another may read`() async throws {
  let store = try await TestStore.make()
  try await store.save { try $0.insert("Tag", "T1") }
  await #expect(throws: StoreError.self) { try await Replica.open(store.replica.configuration, Photos.model) }
  var configuration = store.replica.configuration
  configuration.isReadOnly = true
  let reader = TestStore(folder: store.folder, replica: try await Replica.open(configuration, Photos.model))
  #expect(try await reader.names(Query("Tag")) == ["T1"])
  #expect(try await reader.replica.figures().pendingTransactions == 1)
  try await store.save { try $0.insert("Tag", "T2") }
  #expect(try await reader.replica.figures().pendingTransactions == 2)
  await #expect(throws: StoreError.readOnly) { try await reader.save { try $0.insert("Tag", "T3") } }
}

@Test func `a store opens again while a process that is being started has a copy of its lock's file`() async throws {
  let store = try await TestStore.make()
  let path = "\(store.folder.path)/store.sqlite-lock"
  let file = try #require(
    (0..<1024).first { (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == path })
  let copy = dup(Int32(file))
  defer { close(copy) }
  await store.replica.close()
  let again = try await Replica.open(store.replica.configuration, Photos.model)
  await again.close()
}
