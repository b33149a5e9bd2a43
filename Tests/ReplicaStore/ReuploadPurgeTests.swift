// Purges of zones while objects wait to be sent again.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

extension TestStore {
  /// The server refuses the save that is next.
  /// - Returns: its identifier.
  fileprivate func refuseNext(_ status: Int, _ code: String) async throws -> String {
    let batch = try #require(try await replica.nextBatch(transactionLimit: 1, byteLimit: 1 << 20))
    let error = ServerError(status: status, serverErrorCode: code, reason: "no")
    return try #require(try await replica.refuse(batch, at: nil, error: error).first?.identifier)
  }
}

@Test func `a zone that is purged before its objects are sent again takes them along`() async throws {
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload), ended(.reupload, trips)), event: nil)
  try await store.replica.apply(page("t3", ended(.delete)), event: nil)
  #expect(try await store.names(Query("Tag")) == ["T2"])
  #expect(try await Set(store.sentAgain().keys) == ["T2"])
  #expect(try await store.replica.figures().pendingObjects == 1)
}

@Test func `a reset that tells of a purge takes along what waited to be sent again after another end`() async throws {
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload), ended(.reupload, trips)), event: nil)
  try await store.replica.beginReset(reason: "test")
  let done = ImportPage.Reset(reason: "test", done: true)
  try await store.replica.apply(page("r1", ended(.delete), saved("Tag", "T9"), reset: done), event: nil)
  #expect(try await Set(store.names(Query("Tag"))) == ["T2", "T9"])
  #expect(try await Set(store.sentAgain().keys) == ["T2"])
}

@Test func `a purge takes what lies in its zone alone, and what waits in the same row for another zone stays`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  let before = try await store.sentAgain()
  // The batch was handed out, and nobody knows whether it arrived.
  let sent = try #require(try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20))
  try await store.replica.apply(
    page("t3", .move(objectID: "T1", from: zone, to: trips), ended(.delete, trips)), event: nil)
  #expect(try await store.names(Query("Tag")) == ["S1"])
  let after = try await store.sentAgain()
  #expect(Set(after.keys) == ["A1", "P1", "S1"] && after["P1"] == before["P1"] && after["A1"] == before["A1"])
  let again = try #require(try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20))
  #expect(again.rows == sent.rows && again.isRepeated && again.savedCount == 3)
  #expect(
    try again.transactions.map { try Transaction(json: $0).transactionID }
      == sent.transactions.map { try Transaction(json: $0).transactionID })
  // A purge of the first zone finds the rest.
  try await store.replica.apply(page("t4", ended(.delete)), event: nil)
  #expect(try await store.outbox().isEmpty)
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test func `a purge takes an object out of all rows that tell its pairs`() async throws {
  let store = try await TestStore.make()
  let count = 1200
  let tags = (0..<count).map { saved("Tag", "T\($0)", ["name": .string("n")]) }
  try await store.replica.apply(
    ImportPage(
      changes: [saved("Photo", "P1")] + tags + (0..<count).map { .link(link("P1", "T\($0)")) }, importToken: "t1"),
    event: nil)
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  #expect(try await store.outbox().flatMap(\.changes).count { $0.objectID == "P1" } == 2)
  try await store.replica.apply(
    page("t3", .move(objectID: "P1", from: zone, to: trips), ended(.delete, trips)), event: nil)
  let waiting = try await store.outbox().flatMap(\.changes).map(\.objectID)
  #expect(waiting.count == count && !waiting.contains("P1"))
}

@Test func `objects that are sent again, refused and kept go when another device deletes them or purges their zone`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  let identifier = try await store.refuseNext(403, "ACCESS_DENIED")
  try await store.replica.keep(identifier)
  // Another device has sent the photo again, and deleted a tag since.
  let deletion = ImportedChange.delete(entity: "Tag", objectID: "T1", zoneID: zone)
  try await store.replica.apply(
    page("t3", saved("Photo", "P1", ["title": .string("theirs")]), deletion), event: nil)
  #expect(try await store.values("Photo", "P1")?["title"] == .text("theirs"))
  #expect(try await store.names(Query("Tag")) == ["S1", "T2"])
  // A reset spares them, as before the refusal.
  try await store.replica.beginReset(reason: "test")
  let done = ImportPage.Reset(reason: "test", done: true)
  try await store.replica.apply(page("r1", saved("Photo", "P1"), reset: done), event: nil)
  #expect(try await store.names(Query("Tag")) == ["S1"])
  try await store.replica.apply(page("t4", ended(.delete)), event: nil)
  #expect(try await store.names(Query("Tag")).isEmpty)
  #expect(try await store.names(Query("Photo")).isEmpty)
}

@Test func `refused objects that are sent again stay when the app reverts that, also over a reset, until it discards`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  let identifier = try await store.refuseNext(413, "QUOTA_EXCEEDED")
  try await store.replica.revert(identifier)
  #expect(try await store.replica.undecided().isEmpty)
  #expect(try await store.replica.rejected().map(\.identifier) == [identifier])
  #expect(try await store.replica.figures().pendingObjects == 4)
  try await store.replica.beginReset(reason: "test")
  let done = ImportPage.Reset(reason: "test", done: true)
  try await store.replica.apply(page("r1", saved("Tag", "T9"), reset: done), event: nil)
  #expect(try await Set(store.names(Query("Tag"))) == ["T1", "S1", "T9"])
  #expect(try await store.values("Photo", "P1")?["album"] == .object("A1"))
  #expect(try await store.related("Photo", "P1", "tags") == ["T1", "S1"])
  // Another device has sent one of them.
  try await store.replica.discard(identifier)
  #expect(try await store.replica.figures().pendingObjects == 0)
  let listed = try await store.replica.objectsToReread(limit: 10)
  #expect(Set(listed.map(\.recordName)) == ["A1", "P1", "T1", "S1"])
  let json = #"""
    {"entity":"Tag","objectID":"T1","zoneID":{"zoneName":"\#(zone.zoneName)","ownerRecordName":"_me"},\#
    "attributes":{"name":"sea"},"relationships":{},"syncState":"exported"}
    """#
  let answer = try JSONDecoder().decode(ObjectAnswer.self, from: Data(json.utf8))
  for object in listed { try await store.replica.reread(object, as: object.recordName == "T1" ? answer : nil) }
  #expect(try await Set(store.names(Query("Tag"))) == ["T1", "T9"])
  #expect(try await store.names(Query("Photo")).isEmpty)
}

@Test func `objects that are sent again, refused and kept are sent when the app tries again, and acknowledged once`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  let before = try await store.sentAgain()
  let identifier = try await store.refuseNext(403, "ACCESS_DENIED")
  try await store.replica.keep(identifier)
  try await store.replica.retry(identifier)
  #expect(try await store.sentAgain() == before && before.count == 4)
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test func `a purge leaves objects of a former account that are new here, and what waits of them`() async throws {
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  var options = SaveOptions()
  options.author = MirroringAuthor.reupload
  _ = try await store.replica.save(options) { try $0.insert("Tag", "T9", ["name": .text("former")]) }
  try await store.replica.apply(page("t3", ended(.delete)), event: nil)
  #expect(try await store.names(Query("Tag")) == ["T2", "T9"])
  #expect(try await store.outbox().flatMap(\.changes).map(\.objectID) == ["T9"])
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test(arguments: [true, false])
func `a purge leaves a former account's objects that the server refused, and the app sends them again`(isKept: Bool)
  async throws
{
  let store = try await TestStore.withZones()
  var options = SaveOptions()
  options.author = MirroringAuthor.reupload
  _ = try await store.replica.save(options) { try $0.insert("Tag", "T9", ["name": .text("former")]) }
  let identifier = try await store.refuseNext(413, "QUOTA_EXCEEDED")
  if isKept { try await store.replica.keep(identifier) } else { try await store.replica.revert(identifier) }
  try await store.replica.apply(page("t2", ended(.delete)), event: nil)
  #expect(try await store.names(Query("Tag")) == ["T2", "T9"])
  #expect(try await store.replica.figures().pendingObjects == 1)
  try await store.replica.retry(identifier)
  #expect(try await store.outbox().flatMap(\.changes).map(\.objectID) == ["T9"])
  // As before it was refused.
  try await store.replica.apply(page("t3", ended(.delete)), event: nil)
  #expect(try await store.names(Query("Tag")) == ["T2", "T9"])
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test func `a purge takes along what was refused of its zone, and nobody is offered to send it again`() async throws {
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  let identifier = try await store.refuseNext(413, "QUOTA_EXCEEDED")
  try await store.replica.revert(identifier)
  // Another device has moved one object since.
  try await store.replica.apply(page("t3", .move(objectID: "S1", from: zone, to: trips), ended(.delete)), event: nil)
  #expect(try await store.replica.rejected().map { $0.objects.map(\.recordName) } == [["S1"]])
  try await store.replica.apply(page("t4", ended(.delete, trips)), event: nil)
  #expect(try await store.names(Query("Tag")).isEmpty)
  #expect(try await store.replica.rejected().isEmpty)
  #expect(try await store.replica.figures().pendingObjects == 0)
}

@Test func `an object that the user deletes after the server refused to take it again is not sent any more`()
  async throws
{
  let store = try await TestStore.withZones()
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  let identifier = try await store.refuseNext(413, "QUOTA_EXCEEDED")
  try await store.replica.revert(identifier)
  try await store.save { try $0.delete("Tag", "T1") }
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 3)
  try await store.replica.retry(identifier)
  let again = try await store.sentAgain()
  #expect(Set(again.keys) == ["A1", "P1", "S1"])
  #expect(again["P1"]?.relationships?["tags"] == .toManyEdits(add: ["S1"], remove: []))
  try await store.export()
  #expect(try await store.replica.figures().pendingObjects == 0)
}
