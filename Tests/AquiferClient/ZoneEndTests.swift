// Zones that end, and what an app decides about their objects. Against the real server.

import AquiferClient
import Foundation
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
      // Both go on with the zone.
      try await phone.save { try $0.insert(Photo(title: "later")) }
      for container in [phone, laptop] { try await container.sync.syncNow() }
      #expect(try await laptop.count(Photo.filter { $0.title == "later" }) == 1)
      for container in [phone, laptop] { await container.close() }
    }
  }
}
