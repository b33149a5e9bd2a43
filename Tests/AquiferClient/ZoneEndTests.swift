// Zones that end, and what an app decides about their objects. Against the real server.

import AquiferClient
import Foundation
import ReplicaSync
import ReplicaWorld
import Testing

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct ZoneEndTests {
  /// What the laptop decides when it hears of the end, and at last.
  @Test(
    arguments: [(.delete, nil), (.reupload, nil), (.pause, .reupload), (.pause, .delete)]
      as [(StoreHooks.ZoneDecision, StoreHooks.ZoneDecision?)])
  func `an app decides what becomes of a purged zone's objects on its device, and the server knows`(
    first: StoreHooks.ZoneDecision, last: StoreHooks.ZoneDecision?
  ) async throws {
    try await Server.runPhotos { server in
      let ada = try await server.user("ada")
      let phone = try await server.app("phone", of: ada)
      let laptop = try await server.app("laptop", of: ada) { $0.hooks.zoneEnded = { _ in first } }
      try await phone.save { save in
        let album = try save.insert(Album(name: "Coast"))
        try save.insert(Photo(title: "Dunes", album: album.id))
      }
      for container in [phone, laptop] { try await container.sync.syncNow() }
      let zone = Zone(zoneName: "com.apple.coredata.cloudkit.zone", ownerRecordName: ada.recordName)
      try await phone.purgeObjectsAndRecordsInZone(zone, in: phone.stores[0])
      #expect(try await phone.count(Photo.all) == 0)
      try await laptop.sync.syncNow()
      if let last {
        // The server waits, and so do the objects.
        try await phone.sync.syncNow()
        #expect(try await [laptop.count(Photo.all), phone.count(Photo.all)] == [1, 0])
        try await laptop.sync.decide(last, about: zone, in: laptop.stores[0])
      }
      let isKept = last ?? first == .reupload
      for container in [laptop, phone] { try await container.sync.syncNow() }
      let photos = try await laptop.fetch(Photo.filter { $0.album[\.name] == "Coast" })
      #expect(photos.map(\.title) == (isKept ? ["Dunes"] : []))
      #expect(try await phone.count(Photo.filter { $0.album[\.name] == "Coast" }) == (isKept ? 1 : 0))
      // Both go on with the zone.
      try await phone.save { try $0.insert(Photo(title: "later")) }
      for container in [phone, laptop] { try await container.sync.syncNow() }
      #expect(try await laptop.count(Photo.filter { $0.title == "later" }) == 1)
      for container in [phone, laptop] { await container.close() }
    }
  }

  @Test(arguments: ["deleted", "encryptedDataReset"])
  func `every device gets back what one of them still has of a zone that ended, and nobody's later edit is lost`(
    reason: String
  ) async throws {
    try await Server.runPhotos { server in
      let ada = try await server.user("ada")
      let phone = try await server.app("phone", of: ada)
      let laptop = try await server.app("laptop", of: ada)
      let image = Data((0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
      let (album, sea, sky, bin) = (Album(name: "Coast"), Tag(name: "sea"), Tag(name: "sky"), Tag(name: "bin"))
      let dunes = Photo(
        title: "Dunes", secret: "key under the mat", image: ExternalData(image), album: album.id)
      try await phone.save { save in
        try save.insert(album)
        for tag in [sea, sky, bin] { try save.insert(tag) }
        try save.insert(dunes)
        for tag in [sea, sky] { try save.add(tag.id, to: \.tags, of: dunes.id) }
      }
      for container in [phone, laptop] { try await container.sync.syncNow() }
      // The laptop is offline, and its user goes on.
      await laptop.sync.setPaused(true)
      try await laptop.save { save in
        _ = try save.update(dunes.id) { $0.size = 5 }
        try save.insert(Photo(title: "offline", album: album.id))
      }
      try await server.end("com.apple.coredata.cloudkit.zone", of: ada, reason)
      try await phone.sync.syncNow()
      try await phone.save { save in
        _ = try save.update(dunes.id) { $0.title = "Dunes at dawn" }
        try save.delete(bin.id)
      }
      try await phone.sync.syncNow()
      // A device that never had them.
      let tablet = try await server.app("tablet", of: ada)
      try await tablet.sync.syncNow()
      let found = try #require(try await tablet.fetch(Photo.filter { $0.album[\.name] == "Coast" }).first)
      #expect(found.title == "Dunes at dawn" && found.secret == "key under the mat")
      #expect(try await found.image?.data() == image)
      #expect(try await [tablet.count(found.tags), tablet.count(Tag.all)] == [2, 2])
      await laptop.sync.setPaused(false)
      for container in [laptop, phone, tablet, laptop] { try await container.sync.syncNow() }
      for container in [phone, laptop, tablet] {
        let photos = try await container.fetch(Photo.all.sorted(\.title.ascending))
        #expect(photos.map(\.title) == ["Dunes at dawn", "offline"] && photos.first?.size == 5)
        #expect(photos.allSatisfy { $0.album == album.id } && photos.first?.secret == "key under the mat")
        #expect(try await photos.first?.image?.data() == image)
        #expect(try await Set(container.fetch(Tag.all).map(\.id)) == [sea.id, sky.id])
        #expect(try await Set(container.fetch(dunes.tags).map(\.id)) == [sea.id, sky.id])
        #expect(try await container.sync.rejections(in: container.stores[0]).isEmpty)
      }
      for container in [phone, laptop, tablet] { await container.close() }
    }
  }
}
