// Resets: what the second file tells besides objects and pairs, and what stays although no page tells it.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

private func resetPage(_ token: String, isDone: Bool, _ changes: ImportedChange...) -> ImportPage {
  ImportPage(changes: changes, importToken: token, reset: ImportPage.Reset(reason: "test", done: isDone))
}

@Test func `after a reset a store knows where the contents are that it heard of meanwhile`() async throws {
  let store = try await TestStore.make()
  let far = ContentName(checksum: String(repeating: "ab", count: 20), byteCount: 1000)
  let near = Data(repeating: 7, count: 50)
  let asset = AssetReference(fileChecksum: far.fileChecksum, size: far.byteCount, downloadURL: "https://far")
  try await store.replica.beginReset(reason: "test")
  try await store.replica.apply(
    resetPage("r1", isDone: false, saved("Photo", "P1", ["image": .asset(asset)])), event: nil)
  try await store.replica.apply(
    resetPage("r2", isDone: true, saved("Photo", "P2", ["image": .string(near.base64EncodedString())])), event: nil)
  #expect(try await store.values("Photo", "P1")?["image"] == .text(far.text))
  let found = try #require(try await store.replica.content(far.checksum))
  #expect(found.owner.recordName == "P1" && found.content.downloadURL == "https://far" && found.content.path == nil)
  #expect(try await store.replica.contentsToDownload(byteLimit: .max, limit: 10).map(\.checksum) == [far.checksum])
  // A content that came within its page is here.
  let kept = try #require(try await store.replica.content(SHA256.name(of: near)))
  #expect(try kept.content.path.map { try Data(contentsOf: URL(filePath: $0)) } == near)
  // A save that names a content of the server asks for a receipt.
  try await store.save { try $0.insert("Photo", "P3", ["image": .text(far.text)]) }
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1))
  let toSend = try await store.replica.contentsToUpload(for: batch, validAt: Date(milliseconds: 0))
  #expect(toSend.map(\.checksum) == [far.checksum])
}

@Test(arguments: [true, false])
func `objects of a paused zone stay through a reset, whose pages do not tell them, until somebody decides`(
  isPausedBefore: Bool
) async throws {
  let store = try await TestStore.make()
  try await store.replica.apply(
    page("t1", saved("Photo", "P1"), saved("Tag", "T1"), .link(link("P1", "T1"))), event: nil)
  let pause = EndedZone(zoneID: zone, reason: "purged", action: .pause)
  if isPausedBefore { try await store.replica.apply(page("t2", .zone(pause)), event: nil) }
  try await store.replica.beginReset(reason: "test")
  try await store.replica.apply(resetPage("r1", isDone: false, .zone(pause)), event: nil)
  try await store.replica.apply(resetPage("r2", isDone: true), event: nil)
  #expect(try await store.related("Photo", "P1", "tags") == ["T1"])
  #expect(try await store.replica.zones().map(\.isPaused) == [true])
  let end = EndedZone(zoneID: zone, reason: "purged", action: .delete)
  try await store.replica.apply(page("t3", .zone(end)), event: nil)
  #expect(try await store.names(Query("Photo")).isEmpty)
  #expect(try await store.replica.zones().map(\.isPaused) == [false])
}

@Test func `a save that is made during a reset is based on what the store shows, and not on the second file`()
  async throws
{
  let store = try await TestStore.make()
  try await store.replica.apply(page("t1", saved("Photo", "P1", ["size": .integer(1)])), event: nil)
  func save(_ size: Int64, basedOn generation: Generation? = nil) async throws -> String? {
    var options = SaveOptions()
    options.base = generation
    _ = try await store.replica.save(options) { try $0.update("Photo", "P1", ["size": .integer(size)]) }
    return try await store.outbox().last?.importToken
  }
  try await store.replica.beginReset(reason: "test")
  try await store.replica.apply(
    resetPage("r1", isDone: false, saved("Photo", "P1", ["size": .integer(7)])), event: nil)
  #expect(try await save(2) == "t1")
  let generation = try store.replica.pin()
  #expect(try await save(3, basedOn: generation) == "t1")
  try await store.replica.apply(resetPage("r2", isDone: true), event: nil)
  #expect(try await save(4) == "r2")
  // A restored server refuses all tokens of its former life.
  try await store.replica.sendAgain()
  #expect(try await save(5) == nil)
  try await store.replica.beginReset(reason: "test")
  try await store.replica.apply(resetPage("r3", isDone: false), event: nil)
  #expect(try await save(6) == nil)
  try await store.replica.apply(resetPage("r4", isDone: true, saved("Photo", "P1")), event: nil)
  #expect(try await save(7) == "r4")
}

@Test func `a save that is based on a state from before the server was restored names no position of its former life`()
  async throws
{
  let store = try await TestStore.make()
  try await store.replica.apply(page("t1", saved("Photo", "P1", ["size": .integer(1)])), event: nil)
  let before = try store.replica.pin()
  try await store.replica.sendAgain()
  let meanwhile = try store.replica.pin()
  try await store.replica.beginReset(reason: "test")
  try await store.replica.apply(resetPage("r1", isDone: true, saved("Photo", "P1")), event: nil)
  let after = try store.replica.pin()
  func token(of generation: Generation) async throws -> String? {
    var options = SaveOptions()
    options.base = generation
    let number = store.replica.lastNumber
    _ = try await store.replica.save(options) { try $0.insert("Tag", "T\(number)") }
    return try await store.outbox().last?.importToken
  }
  #expect(try await token(of: before) == nil)
  #expect(try await token(of: meanwhile) == nil)
  #expect(try await token(of: after) == "r1")
}

@Test func `a reset has the shares asked for that the store knows, because no page tells of one that is gone`()
  async throws
{
  let store = try await TestStore.make()
  try await store.replica.apply(page("t1", saved("Photo", "P1")), event: nil)
  try await store.replica.cacheShare(Data("{}".utf8), permission: .owner, of: zone)
  try await store.replica.beginReset(reason: "test")
  try await store.replica.apply(resetPage("r1", isDone: false, saved("Photo", "P1")), event: nil)
  #expect(try await store.replica.position().staleShares == nil)
  try await store.replica.apply(resetPage("r2", isDone: true), event: nil)
  #expect(try await store.replica.position().staleShares == [zone])
}

@Test func `a reset that tells of a zone's end ends its share and its pause here`() async throws {
  let store = try await TestStore.make()
  try await store.replica.apply(page("t1", saved("Photo", "P1")), event: nil)
  try await store.replica.cacheShare(Data("{}".utf8), permission: .owner, of: zone)
  try await store.replica.apply(
    page("t2", .zone(EndedZone(zoneID: zone, reason: "purged", action: .pause))), event: nil)
  try await store.replica.beginReset(reason: "test")
  try await store.replica.apply(
    resetPage("r1", isDone: true, .zone(EndedZone(zoneID: zone, reason: "purged", action: .delete))), event: nil)
  #expect(try await store.names(Query("Photo")).isEmpty)
  let known = try #require(try await store.replica.zones().first)
  #expect(known.share == nil && !known.isPaused)
}
