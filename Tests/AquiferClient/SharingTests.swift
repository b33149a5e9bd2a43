// Sharing as an app sees it, with an owner, one who may write and one who may read. Against the real server.

import AquiferClient
import Foundation
import ReplicaWorld
import Synchronization
import Testing

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct SharingTests {
  /// Three people's apps, and a photo of Ada's with a tag that Ida may change and Hedy may see.
  private struct World {
    let ada, ida, hedy: User
    let owner, writer, reader: PersistentContainer
    let photo: Photo
    let tag: Tag
    private(set) var share: Share

    /// - Parameter decide: the writer's hook for zones that end.
    init(
      _ server: Server, _ decide: (@Sendable (ZoneEnd) async -> StoreHooks.ZoneDecision)? = nil
    ) async throws {
      ada = try await server.user("ada")
      ida = try await server.user("ida")
      hedy = try await server.user("hedy")
      owner = try await server.app("owner", of: ada, [.private, .shared])
      writer = try await server.app("writer", of: ida, [.private, .shared]) { $0.hooks.zoneEnded = decide }
      reader = try await server.app("reader", of: hedy, [.shared])
      let (photo, tag) = (Photo(title: "Dunes"), Tag(name: "sea"))
      (self.photo, self.tag) = (photo, tag)
      try await owner.save { save in
        try save.insert(photo)
        try save.insert(tag)
        try save.add(tag.id, to: \.tags, of: photo.id)
        try save.insert(Photo(title: "alone"))
      }
      let made = try await owner.share([photo.id], title: "Our dunes")
      #expect(made.moved == [photo.id.any, tag.id.any] && made.share.title == "Our dunes")
      share = made.share
      let store = try #require(owner.store(.private))
      let people = try await owner.fetchParticipants(
        matching: [
          .emailAddress("ida@example.org"), .userRecordName(hedy.recordName), .emailAddress("nobody@example.org"),
        ], into: store)
      #expect(Set(people.compactMap(\.userRecordName)) == [ida.recordName, hedy.recordName])
      for var person in people {
        person.permission = person.userRecordName == ida.recordName ? .readWrite : .readOnly
        share.addParticipant(person)
      }
      share = try await owner.persistUpdatedShare(share, in: store)
      for guest in [writer, reader] {
        let shared = try #require(guest.store(.shared))
        let accepted = try await guest.acceptShareInvitations(from: [share.url], into: shared)
        #expect(accepted.map(\.zone) == [share.zone])
      }
    }

    func close() async { for container in [owner, writer, reader] { await container.close() } }
  }

  @Test func `a share is made, joined, seen offline, and its permissions hold before a save is local`() async throws {
    try await Server.runPhotos { server in
      let world = try await World(server)
      let (owner, writer, reader, photo) = (world.owner, world.writer, world.reader, world.photo)
      for container in [owner, writer, reader] { await container.sync.setPaused(true) }
      for container in [owner, writer, reader] {
        #expect(try await container.share(of: photo.id)?.zone == world.share.zone)
        #expect(try await container.shares().map(\.title) == ["Our dunes"])
        #expect(try await container.fetch(photo.tags).map(\.id) == [world.tag.id])
      }
      #expect(try await owner.shares(in: owner.stores[1]).isEmpty)
      let mayUpdate = [
        await owner.canUpdateRecord(for: photo.id), await writer.canUpdateRecord(for: photo.id),
        await reader.canUpdateRecord(for: photo.id),
      ]
      #expect(mayUpdate == [true, true, false])
      let mayDelete = [await writer.canDeleteRecord(for: photo.id), await reader.canDeleteRecord(for: photo.id)]
      #expect(mayDelete == [true, false])
      #expect(writer.canModifyManagedObjects(in: writer.stores[1]))
      await #expect(throws: StoreError.permission(photo.id.any)) {
        try await reader.save { try $0.update(photo.id) { $0.title = "Hedy's" } }
      }
      let stray = Tag(name: "of no zone")
      await #expect(throws: StoreError.noZone(stray.id.any)) {
        try await writer.save(in: writer.stores[1]) { try $0.insert(stray) }
      }
      // Offline edits of two people meet.
      try await writer.save { try $0.update(photo.id) { $0.title = "Ida's" } }
      try await owner.save { try $0.update(photo.id) { $0.size = 7 } }
      for container in [owner, writer, reader] { await container.sync.setPaused(false) }
      for container in [writer, owner, writer, reader] { try await container.sync.syncNow() }
      for container in [owner, writer, reader] {
        let found = try await container.read { try $0.object(photo.id) }
        #expect(found?.title == "Ida's" && found?.size == 7)
      }
      let record = String(decoding: try #require(try await reader.record(for: photo.id)), as: UTF8.self)
      #expect(record.contains("Ida's"))
      await world.close()
    }
  }

  @Test func `a share that two devices change has both changes, and who is removed loses the objects`() async throws {
    try await Server.runPhotos { server in
      let world = try await World(server)
      let store = try #require(world.owner.store(.private))
      var (renamed, shortened) = (world.share, world.share)
      renamed.title = "Dunes for all"
      let hedys = try #require(world.share.participants.first { $0.userRecordName == world.hedy.recordName })
      shortened.removeParticipant(hedys.id)
      // History has no changes of shares.
      var changes = world.writer.remoteChanges().makeAsyncIterator()
      _ = try await world.owner.persistUpdatedShare(renamed, in: store)
      try await world.writer.sync.syncNow()
      repeat {
        #expect(try #require(await changes.next()).isImport)
      } while try await world.writer.shares().first?.title != "Dunes for all"
      let both = try await world.owner.persistUpdatedShare(shortened, in: store)
      #expect(both.title == "Dunes for all")
      #expect(!both.participants.contains { $0.userRecordName == world.hedy.recordName })
      try await world.reader.sync.syncNow()
      #expect(try await world.reader.count(Photo.all) == 0)
      // What moves home leaves the share.
      #expect(try await world.owner.move([world.photo.id], to: nil) == [world.photo.id.any, world.tag.id.any])
      #expect(try await world.owner.share(of: world.photo.id) == nil)
      try await world.writer.sync.syncNow()
      #expect(try await world.writer.count(Photo.all) == 0)
      await world.close()
    }
  }

  @Test func `a participant leaves, and the owner ends a zone and keeps copies`() async throws {
    try await Server.runPhotos { server in
      let ends = Mutex<[ZoneEnd]>([])
      let world = try await World(server) { end in
        ends.withLock { $0.append(end) }
        return .delete
      }
      let zone = world.share.zone
      try await world.reader.purgeObjectsAndRecordsInZone(zone, in: world.reader.stores[0])
      #expect(try await world.reader.count(Photo.all) == 0)
      #expect(try await world.owner.count(Photo.all) == 2)
      let store = try #require(world.owner.store(.private))
      // Before the end, because the writer's own syncing may import it at any time after.
      let objectCount =
        try await world.writer.count(Photo.all) + world.writer.count(Tag.all) + world.writer.count(Album.all)
      try await world.owner.purgeObjectsAndRecordsInZone(zone, in: store, keepCopy: true)
      let copies = try await world.owner.fetch(Photo.filter { $0.title == "Dunes" })
      #expect(copies.count == 1 && copies.first?.id != world.photo.id)
      #expect(try await world.owner.fetch(try #require(copies.first).tags).map(\.name) == ["sea"])
      #expect(try await world.owner.shares().isEmpty)
      try await world.writer.sync.syncNow()
      #expect(try await world.writer.count(Photo.all) == 0)
      #expect(ends.withLock { $0.map(\.zone) } == [zone])
      #expect(ends.withLock { $0.map { [$0.objectCount, $0.unexportedCount] } } == [[objectCount, 0]])
      #expect(objectCount > 0)
      await world.close()
    }
  }
}
