// Saves that the server refused: decisions about them, and what becomes of them.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

@Test func `a rejected save that is kept stays the user's until it is sent again or discarded`() async throws {
  let store = try await TestStore.make()
  try await store.replica.apply(
    page(
      "t1", saved("Photo", "P1", ["title": .string("a"), "size": .integer(1)]), saved("Tag", "T1"), saved("Tag", "T2")),
    event: nil)
  try await store.save { save in
    try save.update("Photo", "P1", ["title": .text("mine"), "size": .integer(2)])
    try save.link("Photo", "P1", "tags", "T1", true)
    try save.insert("Tag", "T3", ["name": .text("new")])
    try save.delete("Tag", "T2")
  }
  let error = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "no")
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
  let identifier = try #require(try await store.replica.refuse(batch, at: nil, error: error).first?.identifier)
  try await store.replica.keep(identifier)
  // Twice is once; what the server has does not undo it.
  try await store.replica.keep(identifier)
  try await store.replica.reread(AnyObjectID(entityName: "Tag", recordName: "T3"), as: nil)
  try await store.replica.apply(
    page(
      "t2", saved("Photo", "P1", ["title": .string("b"), "size": .integer(1), "isHidden": .boolean(true)]),
      saved("Tag", "T2"), .unlink(link("P1", "T1"))), event: nil)
  let kept: [String: Literal] = [
    "title": .text("mine"), "size": .integer(2), "isHidden": .integer(1), "tagCount": .integer(1),
  ]
  #expect(try await store.values("Photo", "P1") == kept)
  #expect(try await store.names(Query("Tag")) == ["T1", "T3"])
  // What a later save changed is that save's.
  try await store.save { try $0.update("Photo", "P1", ["size": .integer(3)]) }
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 3)
  try await store.replica.retry(identifier)
  let changes = try #require(try await store.outbox().first?.changes)
  #expect(changes.map(\.objectID) == ["P1", "T3", "T2"] && changes[0].attributes == ["title": .string("mine")])
  #expect(changes[0].relationships == ["tags": .toManyEdits(add: ["T1"], remove: [])])
  // Refused and kept once more, then discarded.
  let again = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
  _ = try await store.replica.refuse(again, at: nil, error: error)
  try await store.replica.keep(identifier)
  try await store.replica.discard(identifier)
  #expect(try await store.replica.rejected().isEmpty)
  #expect(try await store.replica.figures().pendingObjects == 0)
  let rest = try await store.replica.objectsToReread(limit: 10).map(\.recordName)
  #expect(Set(rest) == ["P1", "T2", "T3"])
}

@Test func `a kept save leaves what a later save has changed alone when the app tries it again`() async throws {
  let store = try await TestStore.make()
  try await store.replica.apply(page("t1", saved("Photo", "P1", ["size": .integer(1)])), event: nil)
  try await store.save { try $0.update("Photo", "P1", ["size": .integer(2)]) }
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
  let error = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "no")
  let identifier = try #require(try await store.replica.refuse(batch, at: nil, error: error).first?.identifier)
  try await store.replica.keep(identifier)
  try await store.save { try $0.update("Photo", "P1", ["size": .integer(3)]) }
  try await store.export()
  try await store.replica.retry(identifier)
  #expect(try await store.values("Photo", "P1")?["size"] == .integer(3))
  #expect(try await store.outbox().isEmpty)
  #expect(try await store.replica.rejected().isEmpty)
}

@Test func `a decision about a refused save is asked for until there is one, also by a later process`() async throws {
  let folder = try World.folder()
  let path = "\(folder.path)/store.sqlite"
  var store = TestStore(folder: folder, replica: try await Replica.open(World.configuration(path), Photos.model))
  for name in ["T1", "T2", "T3", "T4"] { try await store.save { try $0.insert("Tag", name) } }
  let error = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "no")
  for _ in 0..<4 {
    let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
    _ = try await store.replica.refuse(batch, at: nil, error: error)
  }
  let identifiers = try await store.replica.undecided().map(\.identifier)
  #expect(try await store.replica.rejected().map(\.identifier) == identifiers && identifiers.count == 4)
  let decisions: [(Replica) async throws -> Void] = [
    { try await $0.keep(identifiers[0]) }, { try await $0.revert(identifiers[1]) },
    { try await $0.discard(identifiers[2]) },
    { try await $0.adopt([AnyObjectID(entityName: "Tag", recordName: "T4"): "W"], for: [identifiers[3]]) },
  ]
  for (count, decide) in decisions.enumerated() {
    await store.replica.close()
    let configuration = World.configuration(path, seed: 1000 * (count + 1))
    store = TestStore(folder: folder, replica: try await Replica.open(configuration, Photos.model))
    #expect(try await store.replica.undecided().map(\.identifier) == Array(identifiers[count...]))
    try await decide(store.replica)
  }
  #expect(try await store.replica.undecided().isEmpty)
  // Kept and undone ones wait until they are retried or discarded.
  #expect(try await store.replica.rejected().map(\.identifier) == Array(identifiers[..<2]))
  // A kept one that is sent again and refused again is asked about again.
  try await store.replica.retry(identifiers[0])
  while let batch = try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1) {
    _ = try await store.replica.refuse(batch, at: nil, error: error)
  }
  #expect(try await store.replica.undecided().map(\.identifier).contains(identifiers[0]))
}

@Test func `an object of a refused save is asked for once no waiting save names it, because nobody else tells of that`()
  async throws
{
  let store = try await TestStore.make()
  try await store.replica.apply(page("t1", saved("Photo", "P1"), saved("Tag", "T1")), event: nil)
  try await store.save { try $0.update("Tag", "T1", ["name": .text("refused")]) }
  try await store.save { save in
    try save.insert("Tag", "T2", ["name": .text("new")])
    try save.link("Photo", "P1", "tags", "T1", true)
  }
  // It changes the first tag, too, and so it is refused with the first save.
  try await store.save { save in
    try save.update("Tag", "T1", ["name": .text("later")])
    try save.delete("Tag", "T2")
  }
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
  let error = ServerError(status: 404, serverErrorCode: "NOT_FOUND", reason: "there is no such object")
  #expect(try await store.replica.refuse(batch, at: nil, error: error).count == 2)
  #expect(try await store.replica.objectsToReread(limit: 10).isEmpty)
  try await store.export()
  let listed = try await store.replica.objectsToReread(limit: 10)
  #expect(Set(listed.map(\.recordName)) == ["T1", "T2"])
  #expect(try await store.replica.objectsToReread(limit: 1).count == 1)
  let json = #"""
    {"entity":"Tag","objectID":"T2","zoneID":{"zoneName":"\#(zone.zoneName)"},"attributes":{"name":"new"},\#
    "relationships":{},"syncState":"waiting"}
    """#
  let answer = try JSONDecoder().decode(ObjectAnswer.self, from: Data(json.utf8))
  try await store.replica.reread(AnyObjectID(entityName: "Tag", recordName: "T2"), as: answer)
  #expect(try await store.values("Tag", "T2") == ["name": .text("new")])
}

@Test func `an object is not asked for while a save names it whose row has the key of a refused one`() async throws {
  let store = try await TestStore.make()
  let name = "AB000000-0000-0000-0000-0000000000FF"
  try await store.replica.apply(page("t1", saved("Tag", name), saved("Tag", "T2")), event: nil)
  let error = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "no")
  for (tag, listed) in [(name, [name]), ("T2", [name, "T2"])] {
    try await store.save { try $0.update("Tag", tag, ["name": .text("refused")]) }
    _ = try await store.replica.objectsToReread(limit: 10)
    let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
    _ = try await store.replica.refuse(batch, at: nil, error: error)
    #expect(try await store.replica.objectsToReread(limit: 10).map(\.recordName) == listed)
  }
  try await store.save { try $0.update("Tag", name, ["name": .text("later")]) }
  #expect(try await store.replica.objectsToReread(limit: 10).map(\.recordName) == ["T2"])
  try await store.export()
  #expect(try await store.replica.objectsToReread(limit: 10).map(\.recordName) == [name, "T2"])
}

@Test func `an object that is saved while the server is asked for it is asked for again, and keeps no refused pair`()
  async throws
{
  let store = try await TestStore.make()
  let photo = AnyObjectID(entityName: "Photo", recordName: "P1")
  try await store.replica.apply(page("t1", saved("Photo", "P1"), saved("Tag", "T1")), event: nil)
  try await store.save { try $0.link("Photo", "P1", "tags", "T1", true) }
  try await store.replica.apply(
    page(
      "t2", .delete(entity: "Photo", objectID: "P1", zoneID: zone), .delete(entity: "Tag", objectID: "T1", zoneID: zone)
    ), event: nil)
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
  let error = ServerError(status: 404, serverErrorCode: "NOT_FOUND", reason: "there is no such object")
  _ = try await store.replica.refuse(batch, at: nil, error: error)
  #expect(try await store.replica.objectsToReread(limit: 10) == [photo])
  try await store.save { try $0.insert("Photo", "P1", ["title": .text("anew")]) }
  try await store.replica.reread(photo, as: nil)
  #expect(try await store.values("Photo", "P1")?["title"] == .text("anew"))
  try await store.export()
  #expect(try await store.replica.objectsToReread(limit: 10) == [photo])
  let json = #"""
    {"entity":"Photo","objectID":"P1","zoneID":{"zoneName":"\#(zone.zoneName)"},"attributes":{"title":"anew"},\#
    "relationships":{"tags":[]},"syncState":"exported"}
    """#
  try await store.replica.reread(photo, as: try JSONDecoder().decode(ObjectAnswer.self, from: Data(json.utf8)))
  // Another device makes the tag again.
  try await store.replica.apply(page("t3", saved("Tag", "T1")), event: nil)
  #expect(try await store.values("Photo", "P1")?["tagCount"] == .integer(0))
  #expect(try await store.replica.objectsToReread(limit: 10).isEmpty)
}

/// A store whose only save the server refused: it is to be undone, and no object was read anew.
private struct Refused {
  let store: TestStore
  let identifier: String
  let sent: Transaction

  init(_ author: String? = nil, _ body: @escaping @Sendable (SaveTransaction) throws -> Void) async throws {
    store = try await TestStore.make()
    try await store.replica.apply(
      page(
        "t1", saved("Photo", "P1", ["title": .string("a"), "size": .integer(1)]), saved("Tag", "T1"),
        saved("Tag", "T2"), saved("Tag", "T4"), .link(link("P1", "T2"))), event: nil)
    var options = SaveOptions()
    options.author = author
    _ = try await store.replica.save(options, body)
    sent = try #require(try await store.outbox().first)
    let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
    let error = ServerError(status: 400, serverErrorCode: "UNIQUE_FIELD_ERROR", reason: "a duplicate")
    identifier = try #require(try await store.replica.refuse(batch, at: nil, error: error).first?.identifier)
    try await store.replica.revert(identifier)
  }

  /// What waits to be sent, in one order of objects.
  func waiting() async throws -> [[ObjectChange]] {
    try await store.outbox().map { $0.changes.sorted { $0.objectID < $1.objectID } }
  }

  var sentChanges: [ObjectChange] { sent.changes.sorted { $0.objectID < $1.objectID } }
}

/// An insertion, an update with pairs, and a deletion.
private func everything(_ save: SaveTransaction) throws {
  try save.update("Photo", "P1", ["title": .text("mine"), "size": .null, "album": .object("A9")])
  try save.link("Photo", "P1", "tags", "T1")
  try save.link("Photo", "P1", "tags", "T2", false)
  try save.insert("Tag", "T3", ["name": .text("new")])
  try save.link("Photo", "P1", "tags", "T3")
  try save.delete("Tag", "T4")
}

@Test func `a refused save that is tried again before its objects are read anew is sent whole`() async throws {
  let refused = try await Refused(nil, everything)
  let store = refused.store
  let lastNumber = store.replica.lastNumber
  try await store.replica.retry(refused.identifier)
  #expect(try await refused.waiting() == [refused.sentChanges] && refused.sentChanges.count == 3)
  #expect(try await store.replica.rejected().isEmpty)
  // Nothing changes here, so no history tells of it.
  #expect(store.replica.lastNumber == lastNumber)
  // All of it is the user's again.
  for name in ["T3", "P1", "T4"] {
    let entity = name == "P1" ? "Photo" : "Tag"
    try await store.replica.reread(AnyObjectID(entityName: entity, recordName: name), as: nil)
  }
  try await store.replica.apply(
    page("t2", saved("Photo", "P1", ["title": .string("theirs")]), saved("Tag", "T4"), .unlink(link("P1", "T1"))),
    event: nil)
  #expect(try await store.values("Photo", "P1") == ["title": .text("mine"), "tagCount": .integer(2)])
  #expect(try await store.names(Query("Tag")) == ["T1", "T2", "T3"])
  #expect(try await store.replica.objectsToReread(limit: 10).isEmpty)
  // Twice is once.
  try await store.replica.retry(refused.identifier)
  try await store.export()
  #expect(try await store.outbox().isEmpty)
  #expect(try await store.replica.objectsToReread(limit: 10).count == 3)
}

@Test(arguments: ["P1", "T3", "T4"])
func `a refused save of which one object was read anew is one save again`(name: String) async throws {
  let refused = try await Refused(nil, everything)
  let store = refused.store
  if name == "T3" {
    try await store.replica.reread(AnyObjectID(entityName: "Tag", recordName: name), as: nil)
  } else {
    let entity = name == "P1" ? "Photo" : "Tag"
    let values = name == "P1" ? #""title":"a","size":1"# : ""
    let pairs = name == "P1" ? #""tags":["T2"],"album":null"# : ""
    let json = #"""
      {"entity":"\#(entity)","objectID":"\#(name)","zoneID":\#
      {"zoneName":"\#(zone.zoneName)","ownerRecordName":"_me"},\#
      "attributes":{\#(values)},"relationships":{\#(pairs)},"syncState":"exported"}
      """#
    let answer = try JSONDecoder().decode(ObjectAnswer.self, from: Data(json.utf8))
    try await store.replica.reread(AnyObjectID(entityName: entity, recordName: name), as: answer)
  }
  try await store.replica.retry(refused.identifier)
  #expect(try await refused.waiting() == [refused.sentChanges])
  #expect(try await Set(store.names(Query("Tag"))) == ["T1", "T2", "T3"])
  #expect(try await store.related("Photo", "P1", "tags") == ["T1", "T3"])
}

@Test func `what another device changed since a refusal is the retried save's again, here and at the server`()
  async throws
{
  let refused = try await Refused(nil, everything)
  let store = refused.store
  try await store.replica.apply(
    page("t2", saved("Photo", "P1", ["title": .string("theirs")]), .unlink(link("P1", "T1"))), event: nil)
  try await store.replica.retry(refused.identifier)
  #expect(try await refused.waiting() == [refused.sentChanges])
  #expect(try await store.values("Photo", "P1")?["title"] == .text("mine"))
  #expect(try await store.related("Photo", "P1", "tags") == ["T1", "T3"])
}

@Test func `objects that were sent again after their zone's end, and refused, are sent when the app tries again`()
  async throws
{
  let refused = try await Refused(MirroringAuthor.reupload) { try $0.insert("Tag", "T3", ["name": .text("new")]) }
  #expect(try await refused.store.replica.objectsToReread(limit: 10).isEmpty)
  try await refused.store.replica.retry(refused.identifier)
  #expect(try await refused.waiting() == [refused.sentChanges])
}

/// A tag that the server refuses as a duplicate of another, and a photo that leads to it.
private func refuseDuplicate(_ winner: ImportedChange) async throws -> (store: TestStore, identifiers: [String]) {
  let store = try await TestStore.make()
  try await store.replica.apply(page("t1", saved("Photo", "P1"), winner), event: nil)
  try await store.save { save in
    try save.insert("Tag", "L", ["name": .text("sea")])
    try save.link("Photo", "P1", "tags", "L")
  }
  try await store.save { save in
    try save.insert("Photo", "P2", ["title": .text("mine")])
    try save.insert("PhotoData", "D1", ["photo": .object("P2")])
  }
  let error = ServerError(status: 409, serverErrorCode: "CONFLICT", reason: "there is such an object")
  while let batch = try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1) {
    _ = try await store.replica.refuse(batch, at: nil, error: error)
  }
  return (store, try await store.replica.undecided().map(\.identifier))
}

@Test func `a winner of a zone that the photo is not known to lie in takes the duplicate's place all the same`()
  async throws
{
  // Another device has moved the photo there; no page has told it yet.
  let share = ZoneID(zoneName: "share", ownerRecordName: "_me")
  let winner = ImportedObject(entity: "Tag", objectID: "W", zoneID: share, attributes: [:], recordChangeTag: "1")
  let (store, identifiers) = try await refuseDuplicate(.save(winner))
  try await store.replica.adopt([AnyObjectID(entityName: "Tag", recordName: "L"): "W"], for: [identifiers[0]])
  #expect(try await store.related("Photo", "P1", "tags") == ["W"])
  #expect(try await store.names(Query("Tag")) == ["W"])
  let sent = try await store.outbox().flatMap(\.changes).map(\.relationships)
  #expect(sent.contains(["tags": .toManyEdits(add: ["W"], remove: [])]))
}

@Test func `a save is undone whose duplicate's place the winner can't take, and mirroring goes on`() async throws {
  let (store, identifiers) = try await refuseDuplicate(saved("Tag", "W"))
  // The data of a photo can't lead to a tag.
  try await store.replica.adopt([AnyObjectID(entityName: "Photo", recordName: "P2"): "W"], for: identifiers)
  #expect(try await store.replica.undecided().isEmpty)
  #expect(try await store.replica.rejected().map(\.identifier) == identifiers)
  #expect(try await store.outbox().isEmpty)
  #expect(try await store.names(Query("PhotoData")) == ["D1"])
  let waiting = try await store.replica.objectsToReread(limit: 10).map(\.recordName)
  #expect(Set(waiting) == ["P1", "P2", "L", "D1"])
}
