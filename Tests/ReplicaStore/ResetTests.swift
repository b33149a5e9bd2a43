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
