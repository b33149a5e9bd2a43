// Objects that are made again under the names of deleted ones: where they lie.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

struct RebornTests {
  private let store: TestStore
  private let share = ZoneID(zoneName: "share", ownerRecordName: "_me")

  /// A tag of a shared zone, which is deleted at the server, too, and a photo of the default zone.
  init() async throws {
    store = try await TestStore.make()
    let tag = ImportedObject(entity: "Tag", objectID: "sea", zoneID: share, attributes: [:], recordChangeTag: "1")
    try await store.replica.apply(page("t1", .save(tag), saved("Photo", "P1"), saved("Photo", "P2")), event: nil)
    try await store.save { try $0.delete("Tag", "sea") }
    try await store.export()
  }

  private func zone(of name: String) async throws -> Int64? {
    try await store.replica.read { try $0.find(name)?.zone }
  }

  @Test func `an object that is made again lies where the objects do that it is related to`() async throws {
    try await store.save { save in
      try save.insert("Tag", "sea")
      try save.link("Photo", "P1", "tags", "sea")
    }
    let home = try #require(try await zone(of: "P1"))
    #expect(try await zone(of: "sea") == home)
    // The end of its former zone takes it along no more.
    try await store.replica.apply(
      page("t2", .zone(EndedZone(zoneID: share, reason: "deleted", action: .delete))), event: nil)
    #expect(try await store.names(Query("Tag")) == ["sea"])
  }

  @Test func `an object that is made again alone returns to its zone`() async throws {
    let former = try await zone(of: "sea")
    try await store.save { try $0.insert("Tag", "sea") }
    #expect(try await zone(of: "sea") == former)
    #expect(try await zone(of: "P1") != former)
  }
}
