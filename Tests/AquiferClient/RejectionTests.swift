// Saves that the server refuses, and what an app decides about them. Against the real server.

import AquiferClient
import Foundation
import ReplicaWorld
import Testing

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct RejectionTests {
  private struct World {
    let phone, laptop: PersistentContainer
    let store: PersistentStore
    /// The tag that the server has, and the laptop's of the same name.
    let winner, loser: Tag
    /// The laptop's photo, which has its tag.
    let photo: Photo

    init(_ server: Server, _ decision: StoreHooks.RejectionDecision?) async throws {
      try server.refuseTagsOfOneName()
      let ada = try await server.user("ada")
      phone = try await server.app("phone", of: ada)
      laptop = try await server.app("laptop", of: ada) { store in
        if let decision { store.hooks.saveRejected = { _ in decision } }
      }
      store = try #require(laptop.store(.private))
      let (winner, loser, photo) = (Tag(name: "sea"), Tag(name: "sea"), Photo(title: "Dunes"))
      (self.winner, self.loser, self.photo) = (winner, loser, photo)
      try await laptop.sync.syncNow()
      await laptop.sync.setPaused(true)
      try await phone.save { try $0.insert(winner) }
      try await phone.sync.syncNow()
      try await laptop.save { try $0.insert(photo) }
      try await laptop.save { save in
        try save.insert(loser)
        try save.add(loser.id, to: \.tags, of: photo.id)
      }
      await laptop.sync.setPaused(false)
      try await laptop.sync.syncNow()
      try await phone.sync.syncNow()
    }

    func tags(_ container: PersistentContainer) async throws -> Set<ObjectID<Tag>> {
      Set(try await container.fetch(Tag.all).map(\.id))
    }

    func close() async { for container in [phone, laptop] { await container.close() } }
  }

  @Test func `a refused save is undone without a decision, and waits with the object to use instead`() async throws {
    try await Server.runPhotos { server in
      let world = try await World(server, nil)
      let rejections = try await world.laptop.sync.rejections(in: world.store)
      let rejection = try #require(rejections.first)
      #expect(rejections.count == 1 && rejection.winner == world.winner.id.any && !rejection.isConsequence)
      #expect(Set(rejection.objects) == [world.loser.id.any, world.photo.id.any])
      guard case .server(19, _, _, _) = rejection.error else { throw Unexpected("\(rejection.error)") }
      #expect(try await world.tags(world.laptop) == [world.winner.id])
      #expect(try await world.laptop.count(world.photo.tags) == 0)
      for await status in world.laptop.sync.status(of: world.store) where status.idle == .rejected {
        #expect(status.rejectedCount == 1)
        break
      }
      try await until("an export's event names the object") {
        let exports = try await world.laptop.events(type: .export)
        return exports.contains { !$0.succeeded && $0.errors.contains { $0.object == world.loser.id.any } }
      }
      // The server takes it once the other tag is gone.
      try await world.phone.save { try $0.delete(world.winner.id) }
      try await world.phone.sync.syncNow()
      try await world.laptop.sync.retry(rejection, in: world.store)
      try await world.laptop.sync.syncNow()
      #expect(try await world.laptop.sync.rejections(in: world.store).isEmpty)
      try await world.phone.sync.syncNow()
      for container in [world.laptop, world.phone] {
        #expect(try await container.fetch(world.photo.tags).map(\.id) == [world.loser.id])
      }
      await world.close()
    }
  }

  @Test func `a refused save of many objects is undone at once, and all of them are sent when it is tried again`()
    async throws
  {
    try await Server.runPhotos { server in
      let world = try await World(server, nil)
      try await world.laptop.sync.discard(
        try #require(try await world.laptop.sync.rejections(in: world.store).first), in: world.store)
      await world.laptop.sync.setPaused(true)
      try await world.laptop.save { save in
        for number in 0..<300 { try save.insert(Tag(name: number == 150 ? "sea" : "\(number)")) }
      }
      await world.laptop.sync.setPaused(false)
      try await world.laptop.sync.syncNow()
      #expect(try await world.tags(world.laptop) == [world.winner.id])
      let rejection = try #require(try await world.laptop.sync.rejections(in: world.store).first)
      #expect(rejection.objects.count == 300)
      try await world.phone.save { try $0.delete(world.winner.id) }
      try await world.phone.sync.syncNow()
      try await world.laptop.sync.retry(rejection, in: world.store)
      for container in [world.laptop, world.phone] {
        try await container.sync.syncNow()
        #expect(try await world.tags(container).count == 300)
      }
      await world.close()
    }
  }

  @Test func `a refused save that is kept is shown until it is discarded`() async throws {
    try await Server.runPhotos { server in
      let world = try await World(server, .keepForLater)
      #expect(try await world.tags(world.laptop) == [world.winner.id, world.loser.id])
      #expect(try await world.laptop.fetch(world.photo.tags).map(\.id) == [world.loser.id])
      #expect(try await world.tags(world.phone) == [world.winner.id])
      let rejection = try #require(try await world.laptop.sync.rejections(in: world.store).first)
      try await world.laptop.sync.discard(rejection, in: world.store)
      try await world.laptop.sync.syncNow()
      #expect(try await world.tags(world.laptop) == [world.winner.id])
      #expect(try await world.laptop.count(world.photo.tags) == 0)
      #expect(try await world.laptop.sync.rejections(in: world.store).isEmpty)
      await world.close()
    }
  }

  @Test func `the rest of a save with a refused duplicate goes on when the app adopts the winner`() async throws {
    try await Server.runPhotos { server in
      let world = try await World(server, .adoptWinner)
      await world.laptop.sync.setPaused(true)
      // More than one part (K11): the duplicate is in the first, and objects of all parts lead to it.
      let ids = try await world.laptop.save { save in
        let (album, tag) = (try save.insert(Album(name: "Coast")), try save.insert(Tag(name: "sea")))
        return try (0..<1500).map { number in
          let photo = try save.insert(Photo(title: "\(number)", album: album.id))
          if number % 100 == 0 { try save.add(tag.id, to: \.tags, of: photo.id) }
          return photo.id
        }
      }.value
      try await world.laptop.save { try $0.update(ids[1400]) { $0.title = "last" } }
      await world.laptop.sync.setPaused(false)
      for container in [world.laptop, world.phone] { try await container.sync.syncNow() }
      for container in [world.laptop, world.phone] {
        #expect(try await world.tags(container) == [world.winner.id])
        #expect(try await container.count(Photo.filter { $0.album[\.name] == "Coast" }) == 1500)
        let tagged = try await container.fetch(world.winner.photos).compactMap(\.title)
        #expect(Set(tagged) == Set((0..<15).map { $0 == 14 ? "last" : "\($0 * 100)" } + ["Dunes"]))
      }
      #expect(try await world.laptop.sync.rejections(in: world.store).isEmpty)
      await world.close()
    }
  }

  @Test func `what led to a refused duplicate leads to the winner when the app adopts it`() async throws {
    try await Server.runPhotos { server in
      let world = try await World(server, .adoptWinner)
      try await world.laptop.sync.syncNow()
      try await world.phone.sync.syncNow()
      for container in [world.laptop, world.phone] {
        #expect(try await world.tags(container) == [world.winner.id])
        #expect(try await container.fetch(world.photo.tags).map(\.id) == [world.winner.id])
      }
      await world.close()
    }
  }
}
