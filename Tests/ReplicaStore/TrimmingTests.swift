// Contents beside a store that keeps few of them: what goes, and what the server lacks.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

extension TestStore {
  /// Imports an object whose content the server has, and lets the content arrive.
  fileprivate func fetch(_ text: String, of photo: String) async throws {
    let data = Data(text.utf8)
    let name = ContentName(checksum: SHA256.name(of: data), byteCount: Int64(data.count))
    let asset = AssetReference(fileChecksum: name.fileChecksum, size: name.byteCount, downloadURL: "http://127.0.0.1/a")
    try await replica.apply(page("t", saved("Photo", photo, ["image": .asset(asset)])), event: nil)
    let partial = replica.partialPath(of: name.checksum)
    try FileManager.default.createDirectory(atPath: replica.contents.path(of: ""), withIntermediateDirectories: true)
    try data.write(to: URL(filePath: partial))
    #expect(try await replica.acceptContent(name.checksum))
  }

  fileprivate func isHere(_ text: String) -> Bool {
    let data = Data(text.utf8)
    return replica.contents.localPath(of: ContentName(checksum: SHA256.name(of: data), byteCount: Int64(data.count)))
      != nil
  }
}

@Test func `contents go when others arrive, but none that the server lacks: made here, or to be sent again`()
  async throws
{
  let store = try await TestStore.make { $0.contentByteLimit = 1 }
  let own = Data("made here".utf8)
  let name = ContentName(checksum: SHA256.name(of: own), byteCount: Int64(own.count))
  try await store.save { save in
    let columns = try save.schema.entity("Photo").columns
    try save.insert(
      AnyObjectID(entityName: "Photo", recordName: "own"),
      columns.map { $0.name == "image" ? .text(name.text) : .null },
      contents: [name.checksum: .data(own)])
  }
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
