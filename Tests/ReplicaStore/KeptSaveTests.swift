// Refused saves that are kept for later, beside other saves of the same objects.

import FoundationEssentials
import MirrorWire
import SQLite
import Testing

@testable import ReplicaStore

/// A store with a photo and a tag of the server.
private struct KeptSaves {
  let store: TestStore

  init() async throws {
    store = try await TestStore.make()
    try await store.replica.apply(
      page("t1", saved("Photo", "P1", ["size": .integer(1)]), saved("Tag", "T1")), event: nil)
  }

  func setSize(_ size: Int64) async throws {
    try await store.save { try $0.update("Photo", "P1", ["size": .integer(size)]) }
  }

  /// Refuses the save that is next, and those that build on it.
  func refuse() async throws -> [String] {
    let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
    let error = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "no")
    return try await store.replica.refuse(batch, at: nil, error: error).map(\.identifier)
  }

  /// Keeps what the server refuses next.
  func keep() async throws -> String {
    let identifier = try #require(try await refuse().first)
    try await store.replica.keep(identifier)
    return identifier
  }

  /// Saves these sizes, each by a save of its own. The server refuses the first, and all are kept.
  func keepSizes(_ sizes: Int64...) async throws -> [String] {
    for size in sizes { try await setSize(size) }
    let refused = try await refuse()
    for identifier in refused { try await store.replica.keep(identifier) }
    return refused
  }

  /// Undoes what the server refuses next.
  func undo() async throws { for identifier in try await refuse() { try await store.replica.revert(identifier) } }

  /// The server's answer about the photo, which has no tags there.
  func reread(size: Int64) async throws {
    let json = #"""
      {"entity":"Photo","objectID":"P1","zoneID":{"zoneName":"\#(zone.zoneName)","ownerRecordName":"_me"},\#
      "attributes":{"size":\#(size)},"relationships":{"tags":[]},"syncState":"exported"}
      """#
    let answer = try JSONDecoder().decode(ObjectAnswer.self, from: Data(json.utf8))
    try await store.replica.reread(AnyObjectID(entityName: "Photo", recordName: "P1"), as: answer)
  }

  /// The server's answer about the tag.
  func rereadTag() async throws {
    let json = #"""
      {"entity":"Tag","objectID":"T1","zoneID":{"zoneName":"\#(zone.zoneName)","ownerRecordName":"_me"},\#
      "attributes":{},"relationships":{},"syncState":"exported"}
      """#
    let answer = try JSONDecoder().decode(ObjectAnswer.self, from: Data(json.utf8))
    try await store.replica.reread(AnyObjectID(entityName: "Tag", recordName: "T1"), as: answer)
  }

  /// Keeps a deletion of the tag, and makes the tag again.
  func remakeTag() async throws -> String {
    try await store.save { try $0.delete("Tag", "T1") }
    let deletion = try await keep()
    try await store.save { try $0.insert("Tag", "T1", ["name": .text("mine")]) }
    return deletion
  }

  /// The sizes that wait to be sent.
  func waitingSizes() async throws -> [AttributeValue] {
    try await store.outbox().flatMap(\.changes).compactMap { $0.attributes?["size"] }
  }

  /// Runs a statement on the saves that were refused.
  func changeRefused(_ sql: String) async throws {
    try await store.replica.write { writer, _ in try writer.connection.execute(sql) }
  }

  func size() async throws -> Literal? { try await store.values("Photo", "P1")?["size"] }
}

@Test func `a kept save is shown again when a later one is refused and undone, and sent when the app tries it again`()
  async throws
{
  let saves = try await KeptSaves()
  let store = saves.store
  try await store.save { save in
    try save.update("Photo", "P1", ["size": .integer(2)])
    try save.link("Photo", "P1", "tags", "T1")
  }
  let first = try await saves.keep()
  try await store.save { save in
    try save.update("Photo", "P1", ["size": .integer(3)])
    try save.link("Photo", "P1", "tags", "T1", false)
  }
  try await saves.undo()
  try await saves.reread(size: 1)
  #expect(try await saves.size() == .integer(2))
  #expect(try await store.related("Photo", "P1", "tags") == ["T1"])
  #expect(try await store.replica.objectsToReread(limit: 10).isEmpty)
  try await store.replica.retry(first)
  let change = try #require(try await store.outbox().last?.changes.first)
  #expect(change.attributes == ["size": .integer(2)])
  #expect(change.relationships == ["tags": .toManyEdits(add: ["T1"], remove: [])])
  #expect(try await saves.size() == .integer(2))
  // From now on they are the server's.
  try await store.export()
  try await store.replica.apply(
    page("t2", saved("Photo", "P1", ["size": .integer(9)]), .unlink(link("P1", "T1"))), event: nil)
  #expect(try await saves.size() == .integer(9))
  #expect(try await store.related("Photo", "P1", "tags").isEmpty)
}

@Test func `a kept insertion is shown again when its deletion is refused and undone`() async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  try await store.save { try $0.insert("Tag", "T3", ["name": .text("new")]) }
  let first = try await saves.keep()
  try await store.save { try $0.delete("Tag", "T3") }
  try await saves.undo()
  try await store.replica.reread(AnyObjectID(entityName: "Tag", recordName: "T3"), as: nil)
  #expect(try await store.values("Tag", "T3") == ["name": .text("new")])
  try await store.replica.retry(first)
  #expect(try await store.outbox().flatMap(\.changes).map(\.objectID) == ["T3"])
}

@Test(arguments: [[0, 1], [1, 0]])
func `of two kept saves of one property the later one is sent last, in whatever order the app tries them again`(
  order: [Int]
) async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  let refused = try await saves.keepSizes(2, 3)
  for place in order { try await store.replica.retry(refused[place]) }
  #expect(try await saves.waitingSizes().last == .integer(3))
  try await store.export()
  #expect(try await saves.size() == .integer(3))
  #expect(try await store.replica.rejected().isEmpty)
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test func `a kept save stays the user's when an earlier one of the same property is sent`() async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  let refused = try await saves.keepSizes(2, 3)
  try await store.replica.retry(refused[0])
  #expect(try await saves.waitingSizes() == [.integer(2)])
  try await store.export()
  try await store.replica.apply(page("t2", saved("Photo", "P1", ["size": .integer(9)])), event: nil)
  #expect(try await saves.size() == .integer(3))
  try await store.replica.retry(refused[1])
  #expect(try await saves.waitingSizes() == [.integer(3)])
}

@Test func `a kept save does not send what the server has taken of a later one, whatever becomes of those after it`()
  async throws
{
  let saves = try await KeptSaves()
  let store = saves.store
  try await saves.setSize(2)
  let first = try await saves.keep()
  try await saves.setSize(3)
  try await saves.setSize(4)
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
  try await store.replica.acknowledge(batch, historyToken: "h")
  try await saves.undo()
  try await saves.reread(size: 3)
  #expect(try await saves.size() == .integer(3))
  // Twice is once.
  try await store.replica.keep(first)
  try await store.replica.retry(first)
  #expect(try await store.outbox().isEmpty)
  #expect(try await saves.size() == .integer(3))
}

@Test func `a kept save that is tried again leaves alone what a later one tells that waits`() async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  try await store.save { try $0.update("Photo", "P1", ["title": .text("mine"), "size": .integer(2)]) }
  let first = try await saves.keep()
  try await saves.setSize(3)
  try await store.replica.retry(first)
  #expect(
    try await store.outbox().flatMap(\.changes).map(\.attributes) == [
      ["size": .integer(3)], ["title": .string("mine")],
    ])
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test(arguments: [true, false])
func `a kept insertion is not sent when the user has deleted its object since`(isSent: Bool) async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  try await store.save { try $0.insert("Tag", "T3", ["name": .text("new")]) }
  let first = try await saves.keep()
  try await store.save { try $0.delete("Tag", "T3") }
  if isSent { try await store.export() }
  try await store.replica.retry(first)
  #expect(try await store.outbox().flatMap(\.changes).allSatisfy { $0.changeType == .delete })
  try await store.export()
  #expect(try await store.replica.rejected().isEmpty)
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test func `a save that waits keeps its property from imports when a later one of that property is refused`()
  async throws
{
  let saves = try await KeptSaves()
  let store = saves.store
  try await store.save { try $0.update("Tag", "T1", ["name": .text("refused")]) }
  try await saves.setSize(2)
  // It goes with the first one, because it changes the tag as well.
  try await store.save { save in
    try save.update("Photo", "P1", ["size": .integer(3)])
    try save.update("Tag", "T1", ["name": .text("later")])
  }
  try await saves.undo()
  #expect(try await saves.waitingSizes() == [.integer(2)])
  try await store.replica.apply(page("t2", saved("Photo", "P1", ["size": .integer(9)])), event: nil)
  #expect(try await saves.size() != .integer(9))
  // The server says what it has once the photo's save is sent.
  try await store.export()
  #expect(try await store.replica.objectsToReread(limit: 10).map(\.recordName) == ["P1", "T1"])
}

@Test func `kept saves are not read when their objects are read anew, as long as none is undone`() async throws {
  let saves = try await KeptSaves()
  try await saves.setSize(2)
  _ = try await saves.keep()
  // Nobody can read it.
  try await saves.changeRefused("UPDATE rejected SET body = x'00'")
  try await saves.reread(size: 1)
  #expect(try await saves.size() == .integer(2))
}

@Test func `of the parts of a kept save those alone are read that name the object`() async throws {
  let saves = try await KeptSaves()
  try await saves.setSize(2)
  _ = try await saves.keep()
  try await saves.changeRefused(
    "INSERT INTO rejected(identifier, number, body, error, isConsequence, at, isDecided) "
      + "SELECT 'part', number, x'00', error, isConsequence, at, isDecided FROM rejected")
  try await saves.setSize(3)
  try await saves.undo()
  try await saves.reread(size: 1)
  #expect(try await saves.size() == .integer(2))
}

@Test func `a kept save is shown again when a later one is kept, too, and then discarded`() async throws {
  let saves = try await KeptSaves()
  try await saves.setSize(2)
  _ = try await saves.keep()
  try await saves.setSize(3)
  let later = try await saves.keep()
  try await saves.reread(size: 1)
  #expect(try await saves.size() == .integer(3))
  try await saves.store.replica.discard(later)
  try await saves.reread(size: 1)
  #expect(try await saves.size() == .integer(2))
}

@Test func `a refused save and those that build on it leave no mark behind, and the others keep theirs`() async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  try await saves.setSize(2)
  try await store.save { try $0.update("Tag", "T1", ["name": .text("mine")]) }
  for size: Int64 in 3...5 { try await saves.setSize(size) }
  try await saves.undo()
  #expect(try await store.outbox().flatMap(\.changes).map(\.objectID) == ["T1"])
  #expect(try await store.replica.figures().pendingObjects == 1)
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test func `of two kept edits of a pair the later one is shown again, whichever end tells it`() async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  try await store.save { try $0.link("Tag", "T1", "photos", "P1") }
  _ = try await saves.keep()
  try await store.save { try $0.link("Photo", "P1", "tags", "T1", false) }
  _ = try await saves.keep()
  try await saves.setSize(2)
  try await saves.undo()
  try await saves.reread(size: 1)
  #expect(try await store.related("Photo", "P1", "tags").isEmpty)
}

@Test(arguments: [true, false])
func `a kept deletion is not sent when the user has made its object again since`(isSent: Bool) async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  let deletion = try await saves.remakeTag()
  if isSent { try await store.export() }
  try await store.replica.retry(deletion)
  #expect(try await store.outbox().flatMap(\.changes).allSatisfy { $0.changeType == .insert })
  try await store.export()
  #expect(try await store.replica.rejected().isEmpty)
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test(arguments: [true, false])
func `imports tell of an object that is made again over a kept deletion`(isSent: Bool) async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  _ = try await saves.remakeTag()
  if isSent { try await store.export() }
  try await store.replica.apply(
    page("t2", saved("Tag", "T1", ["name": .string("theirs")]), .link(link("P1", "T1"))), event: nil)
  #expect(try await store.values("Tag", "T1") == ["name": .text(isSent ? "theirs" : "mine")])
  #expect(try await store.related("Photo", "P1", "tags") == ["T1"])
}

@Test func `an object that is made again over a kept deletion is gone when that save is undone`() async throws {
  let saves = try await KeptSaves()
  let store = saves.store
  let deletion = try await saves.remakeTag()
  try await saves.undo()
  try await saves.rereadTag()
  #expect(try await store.values("Tag", "T1") == nil)
  try await store.replica.retry(deletion)
  #expect(try await store.outbox().flatMap(\.changes).map(\.changeType) == [.delete])
}
