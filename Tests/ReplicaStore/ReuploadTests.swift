// Objects of a former account's file in the file of the user who signed in.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

/// Two accounts' files; the former one has an album with a photo, its data and its tags.
private struct Accounts {
  let former: TestStore
  let present: TestStore

  init() async throws {
    (former, present) = (try await TestStore.make(), try await TestStore.make())
    try await former.replica.apply(
      page(
        "t1", saved("Album", "A1", ["name": .string("Coast")]), saved("Tag", "T1", ["name": .string("sea")]),
        // No album of this name is here, and other clients may save what the model does not allow.
        saved("Photo", "P1", ["title": .string("Dunes")], ["album": "A9"]), saved("Album", "A2", ["name": .null])),
      event: nil)
    try await former.save { save in
      let image = Data("picture".utf8)
      let name = ContentName(checksum: SHA256.name(of: image), byteCount: Int64(image.count))
      let columns = try save.schema.entity("Photo").columns
      let values: [String: Literal] = [
        "title": .text("Waves"), "note": .text("mine alone"), "image": .text(name.text), "album": .object("A1"),
      ]
      try save.insert(
        AnyObjectID(entityName: "Photo", recordName: "P2"), columns.map { values[$0.name] ?? .null },
        contents: [name.checksum: .data(image)])
      try save.insert("PhotoData", "D2", ["photo": .object("P2")])
      try save.insert("SmartTag", "S1", ["rule": .text("r")])
      for tag in ["T1", "S1"] { try save.link("Photo", "P2", "tags", tag) }
      try save.link("Tag", "T1", "related", "S1")
      try save.delete("Album", "A2")
    }
  }

  func reupload() async throws { try await present.replica.reupload(former.replica) }
}

@Test func `a user who signed in gets the former account's objects in one save, with all that leads to them`()
  async throws
{
  let accounts = try await Accounts()
  try await accounts.reupload()
  let (former, present) = (accounts.former, accounts.present)
  for (entity, name) in [("Album", "A1"), ("Photo", "P1"), ("Photo", "P2"), ("PhotoData", "D2"), ("SmartTag", "S1")] {
    #expect(try await present.values(entity, name) == former.values(entity, name), "\(name)")
  }
  #expect(try await present.names(Query("Album")) == ["A1"])
  #expect(try await present.related("Photo", "P2", "tags") == ["T1", "S1"])
  #expect(try await present.related("Tag", "S1", "related") == ["T1"])
  let outbox = try await present.outbox()
  #expect(outbox.map(\.author) == [MirroringAuthor.reupload])
  #expect(Set(outbox[0].changes.map(\.objectID)) == ["A1", "T1", "P1", "P2", "D2", "S1"])
  #expect(outbox[0].changes.allSatisfy { $0.changeType == .insert && $0.attributes?["note"] == nil })
  let image = Data("picture".utf8)
  let path = try #require(try await present.replica.content(SHA256.name(of: image))?.content.path)
  let content = try ContentFile.contents(of: path)
  #expect(content == image && path.hasPrefix(present.folder.path))
  let events = try await present.replica.mirrorEvents(after: nil, afterEvent: nil, type: .import)
  #expect(events.map(\.savedCount) == [6] && events.allSatisfy { $0.succeeded && $0.endDate != nil })
  // The former user finds what they left.
  #expect(try await former.outbox().count == 1)
}

@Test func `what the user has or has deleted stays as it is when a former account's objects come again`() async throws {
  let accounts = try await Accounts()
  try await accounts.reupload()
  let (former, present) = (accounts.former, accounts.present)
  try await present.save { save in
    try save.update("Photo", "P2", ["title": .text("Ben's waves"), "data": .null])
    try save.delete("Tag", "T1")
  }
  let count = try await present.outbox().count
  try await accounts.reupload()
  #expect(try await present.outbox().count == count)
  try await former.save { save in
    try save.insert("Photo", "P3", ["album": .object("A1")])
    try save.insert("PhotoData", "D3", ["photo": .object("P2")])
    for tag in ["T1", "S1"] { try save.link("Photo", "P3", "tags", tag) }
  }
  try await accounts.reupload()
  #expect(try await present.values("Photo", "P3")?["album"] == .object("A1"))
  #expect(try await present.related("Photo", "P3", "tags") == ["S1"])
  #expect(try await present.values("Photo", "P2")?["title"] == .text("Ben's waves"))
  #expect(try await present.values("Photo", "P2")?["data"] == nil)
  #expect(try await present.values("PhotoData", "D3") == [:])
  #expect(try await present.names(Query("Tag")) == ["S1"])
}

@Test func `a content that only the former account's server has is left out, and an event names its object`()
  async throws
{
  let accounts = try await Accounts()
  let asset = AssetReference(fileChecksum: "AQIDBAUGBwgJCgsMDQ4PEBESExQV", size: 9, downloadURL: "http://127.0.0.1/a")
  try await accounts.former.replica.apply(
    page("t2", saved("Photo", "P4", ["title": .string("far"), "image": .asset(asset)])), event: nil)
  #expect(try await accounts.former.values("Photo", "P4")?["image"] != nil)
  try await accounts.reupload()
  #expect(try await accounts.present.values("Photo", "P4")?["title"] == .text("far"))
  #expect(try await accounts.present.values("Photo", "P4")?["image"] == nil)
  let event = try #require(
    try await accounts.present.replica.mirrorEvents(after: nil, afterEvent: nil, type: .import).first)
  #expect(!event.succeeded && event.savedCount == 7)
  #expect(event.errors.map(\.object?.recordName) == ["P4"] && event.errors.first?.error.ckErrorCode == 35)
}

@Test func `an object that the user moved to another zone is not led to by what comes`() async throws {
  let accounts = try await Accounts()
  let trips = ZoneID(zoneName: "Trips")
  try await accounts.present.replica.apply(
    page(
      "t1",
      .save(
        ImportedObject(
          entity: "Album", objectID: "A1", zoneID: trips, attributes: ["name": .string("x")], recordChangeTag: "1")),
      .save(
        ImportedObject(
          entity: "Tag", objectID: "T1", zoneID: ZoneID(zoneName: "Shares"), attributes: [:], recordChangeTag: "1"))),
    event: nil)
  try await accounts.reupload()
  #expect(try await accounts.present.values("Photo", "P2")?["title"] == .text("Waves"))
  #expect(try await accounts.present.values("Photo", "P2")?["album"] == nil)
  #expect(try await accounts.present.related("Photo", "P2", "tags") == ["S1"])
}
