// Contents beside a store that keeps few of them: what goes, and what the server lacks.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

extension TestStore {
  /// Imports an object whose content the server has.
  fileprivate func hear(of text: String, at photo: String) async throws {
    let name = name(text)
    let asset = AssetReference(fileChecksum: name.fileChecksum, size: name.byteCount, downloadURL: "http://127.0.0.1/a")
    try await replica.apply(page("t", saved("Photo", photo, ["image": .asset(asset)])), event: nil)
  }

  /// Imports an object whose content the server has, and lets the content arrive.
  fileprivate func fetch(_ text: String, of photo: String) async throws {
    try await hear(of: text, at: photo)
    let (data, name) = (Data(text.utf8), name(text))
    let partial = replica.partialPath(of: name.checksum)
    try FileManager.default.createDirectory(atPath: replica.contents.path(of: ""), withIntermediateDirectories: true)
    try data.write(to: URL(filePath: partial))
    #expect(try await replica.acceptContent(name.checksum))
  }

  /// Saves an object with a content.
  /// - Parameter hasBytes: false: the app copies the attribute of another object.
  fileprivate func insert(_ photo: String, _ text: String, hasBytes: Bool = true) async throws {
    let name = name(text)
    let contents: [String: ContentSource] = hasBytes ? [name.checksum: .data(Data(text.utf8))] : [:]
    try await save { save in
      let columns = try save.schema.entity("Photo").columns
      try save.insert(
        AnyObjectID(entityName: "Photo", recordName: photo),
        columns.map { $0.name == "image" ? .text(name.text) : .null }, contents: contents)
    }
  }

  fileprivate func isHere(_ text: String) -> Bool { replica.contents.localPath(of: name(text)) != nil }

  fileprivate func name(_ text: String) -> ContentName {
    let data = Data(text.utf8)
    return ContentName(checksum: SHA256.name(of: data), byteCount: Int64(data.count))
  }
}

@Test func `contents go when others arrive, but none that the server lacks: made here, or to be sent again`()
  async throws
{
  let store = try await TestStore.make { $0.contentByteLimit = 1 }
  try await store.insert("own", "made here")
  try await store.fetch("first", of: "P1")
  try await store.fetch("second", of: "P2")
  #expect(store.isHere("second") && !store.isHere("first") && store.isHere("made here"))
  let end = EndedZone(zoneID: zone, reason: "deleted", action: .reupload)
  try await store.replica.apply(page("t", .zone(end)), event: nil)
  #expect(try await store.values("Photo", "P1")?["image"] == nil)
  try await store.fetch("third", of: "P3")
  #expect(store.isHere("second") && store.isHere("third") && store.isHere("made here"))
  // Once they are sent, they may go.
  try await store.export()
  try await store.fetch("fourth", of: "P4")
  #expect(!store.isHere("second") && !store.isHere("third") && !store.isHere("made here") && store.isHere("fourth"))
}

@Test(arguments: [true, false])
func `a content that the server has stays while a save names it that waits to be sent`(hasBytes: Bool) async throws {
  let store = try await TestStore.make { $0.contentByteLimit = 1 }
  try await store.fetch("first", of: "P1")
  try await store.insert("own", "first", hasBytes: hasBytes)
  try await store.hear(of: "first", at: "P3")
  try await store.replica.apply(
    page(
      "t", .delete(entity: "Photo", objectID: "P1", zoneID: zone),
      .delete(entity: "Photo", objectID: "P3", zoneID: zone)),
    event: nil)
  try await store.fetch("second", of: "P2")
  #expect(store.isHere("first"))
  try await store.export()
  try await store.fetch("third", of: "P4")
  #expect(!store.isHere("first") && !store.isHere("second"))
}

@Test(arguments: [true, false])
func `a content that two saves name stays until both are sent`(isRefused: Bool) async throws {
  let store = try await TestStore.make { $0.contentByteLimit = 1 }
  try await store.insert("own", "first")
  try await store.insert("copy", "first", hasBytes: false)
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1 << 20))
  try await store.replica.acknowledge(batch, historyToken: "h")
  var kept: String?
  if isRefused {
    let copy = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1 << 20))
    let error = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "no")
    kept = try await store.replica.refuse(copy, at: nil, error: error).first?.identifier
    try await store.replica.keep(try #require(kept))
  }
  try await store.fetch("second", of: "P2")
  #expect(store.isHere("first"))
  if let kept { try await store.replica.retry(kept) }
  try await store.export()
  try await store.fetch("third", of: "P3")
  #expect(!store.isHere("first"))
}

@Test func `a content of a save that was undone goes like others once the server is known to have it`() async throws {
  let store = try await TestStore.make { $0.contentByteLimit = 1 }
  try await store.insert("own", "first")
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1 << 20))
  let error = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "no")
  let refused = try #require(try await store.replica.refuse(batch, at: nil, error: error).first?.identifier)
  try await store.replica.revert(refused)
  try await store.hear(of: "first", at: "P1")
  try await store.fetch("second", of: "P2")
  #expect(store.isHere("first"), "the app may try the save again")
  try await store.replica.discard(refused)
  try await store.hear(of: "first", at: "P3")
  try await store.fetch("third", of: "P4")
  #expect(!store.isHere("first") && store.isHere("third"))
}

@Test func `a content that was forgotten while a waiting save names it is asked for before that save leaves`()
  async throws
{
  let store = try await TestStore.make()
  try await store.hear(of: "theirs", at: "P1")
  try await store.insert("own", "theirs", hasBytes: false)
  // That save waits, and no object here has the content any more.
  try await store.save { try $0.update("Photo", "own", ["image": .null]) }
  try await store.replica.apply(page("t", .delete(entity: "Photo", objectID: "P1", zoneID: zone)), event: nil)
  let theirs = store.name("theirs").checksum
  try await store.replica.forgetAddress(of: theirs)
  #expect(try await store.replica.content(theirs) == nil)
  let batch = try #require(try await store.replica.nextBatch(transactionLimit: 100, byteLimit: 1 << 20))
  let contents = try await store.replica.contentsToUpload(for: batch, validAt: .distantPast)
  #expect(contents.map(\.checksum) == [theirs] && contents.first?.path == nil)
}
