// Mirroring as an app sees it: what arrives, what is told of it, and what can be asked. Against the real server.

import AquiferClient
import Foundation
import ReplicaWorld
import Synchronization
import Testing

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct MirroringTests {
  @Test func `what one device saves is on another, with every type of value and every relationship`() async throws {
    try await Server.runPhotos(["--asset-threshold", "1000"]) { server in
      let ada = try await server.user("ada")
      let phone = try await server.app("phone", of: ada)
      let laptop = try await server.app("laptop", of: ada)
      let image = Data((0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
      let id = try await phone.save { save in
        let (album, tag) = (try save.insert(Album(name: "Coast")), try save.insert(Tag(name: "sea")))
        let photo = try save.insert(
          Photo(
            title: "Dünes", size: .max, taken: Date(timeIntervalSince1970: 1_700_000_000.5),
            price: Decimal(string: "1234567890123456789.01"), secret: "key under the mat",
            place: Photo.Place(latitude: 54.5, name: "Sylt"), image: ExternalData(image), album: album.id))
        try save.add(tag.id, to: \.tags, of: photo.id)
        return photo.id
      }.value
      try await phone.sync.syncNow()
      try await laptop.sync.syncNow()
      let (own, other) = (try await phone.read { try $0.object(id) }, try await laptop.read { try $0.object(id) })
      #expect(own == other)
      #expect(other?.secret == "key under the mat" && other?.tagCount == 1)
      #expect(try await laptop.fetch(Photo.filter { $0.album[\.name] == "Coast" }).first?.image?.data() == image)
      let tags = try await laptop.read { try $0.fetch(Photo.all, including: \.tags) }
      #expect(tags.flatMap(\.1).map(\.name) == ["sea"])
      let bytes = try #require(try await laptop.record(for: id))
      let record = try #require(try JSONSerialization.jsonObject(with: bytes) as? [String: Any])
      #expect(record["recordName"] as? String == id.recordName && record["recordType"] as? String == "CD_Photo")
      #expect((record["fields"] as? [String: Any])?["CD_title"] != nil)
      await laptop.sync.setPaused(true)
      let unsent = try await laptop.save { try $0.insert(Tag(name: "unsent")) }.value
      #expect(try await laptop.record(for: unsent.id) == nil)
      try await laptop.save { try $0.delete(unsent.id) }
      await laptop.sync.setPaused(false)
      // Watched requests of one device follow the other's edits by pings alone.
      var values = laptop.values(of: Photo.all).makeAsyncIterator()
      #expect(try await values.next()?.first?.title == "Dünes")
      try await phone.save { try $0.update(id) { $0.title = "Waves" } }
      #expect(try await values.next()?.first?.title == "Waves")
      for container in [phone, laptop] { await container.close() }
    }
  }

  @Test func `large values come when they are read, and go again when the device keeps fewer bytes`() async throws {
    try await Server.runPhotos(["--asset-threshold", "1000"]) { server in
      let ada = try await server.user("ada")
      let phone = try await server.app("phone", of: ada)
      let images = (0..<3).map { number in Data(repeating: UInt8(number), count: 600_000) }
      try await phone.save { save in
        for (number, image) in images.enumerated() {
          try save.insert(Photo(title: "\(number)", image: ExternalData(image)))
        }
      }
      try await phone.sync.syncNow()
      let laptop = try await server.app("laptop", of: ada) { $0.cloudOptions?.contentByteLimit = 1_000_000 }
      try await laptop.sync.syncNow()
      func all() async throws -> [ExternalData] {
        try await laptop.fetch(Photo.all.sorted(\.title.ascending)).compactMap(\.image)
      }
      #expect(try await all().map(\.isLocal) == [false, false, false])
      for (place, image) in try await all().enumerated() { #expect(try await image.data() == images[place]) }
      #expect(try await all().map(\.isLocal) == [false, false, true])
      #expect(try await all()[0].data() == images[0])
      #expect(try await all().count { $0.isLocal } == 1)
      // What this device has made stays until the server has it.
      await laptop.sync.setPaused(true)
      let own = Data(repeating: 9, count: 2_000_000)
      try await laptop.save { try $0.insert(Photo(title: "9", image: ExternalData(own))) }
      #expect(try await all().last?.data() == own)
      for container in [phone, laptop] { await container.close() }
    }
  }

  @Test func `events are told as they happen and kept, the status says what waits, and requests are logged`()
    async throws
  {
    try await Server.runPhotos { server in
      let ada = try await server.user("ada")
      let lines = Mutex<[String]>([])
      let path = "\(server.folder.path)/phone.sqlite"
      let phone = try await PersistentContainer(
        .photos, stores: [StoreDescription(path: path, configuration: "Cloud", cloudOptions: .photos())],
        account: server.account(KeptTokens(ada.token)), log: { line in lines.withLock { $0.append(line) } })
      let store = try #require(phone.store(.private))
      var statuses = phone.sync.status(of: store).makeAsyncIterator()
      let photo = try await phone.save { try $0.insert(Photo(title: "secret words")) }.value
      var live = phone.events.makeAsyncIterator()
      await phone.sync.setPaused(true)
      phone.sync.start()
      while let status = try await statuses.next(), status.pendingTransactions == 0 {}
      #expect(phone.sync.isPaused && lines.withLock { $0.isEmpty })
      await phone.sync.setPaused(false)
      var ended: [Event] = []
      while ended.count < 3, let event = await live.next() { if event.endDate != nil { ended.append(event) } }
      #expect(ended.map(\.kind) == [.setup, .export, .import])
      #expect(ended.allSatisfy { $0.succeeded && $0.store == store })
      #expect(ended[1].savedCount == 1 && ended.allSatisfy(\.errors.isEmpty))
      while let status = try await statuses.next(), !status.isCaughtUp {}
      #expect(try await phone.sync.state(of: photo.id.any).state == "clean")
      await #expect(throws: StoreError.missing(ObjectID<Photo>(recordName: "nobody").any)) {
        try await phone.sync.state(of: ObjectID<Photo>(recordName: "nobody").any)
      }
      await phone.close()
      let again = try await PersistentContainer(
        .photos, stores: [StoreDescription(path: path, configuration: "Cloud", cloudOptions: .photos())])
      let kept = try await again.events()
      #expect(kept.prefix(3).map(\.id) == ended.map(\.id))
      #expect(try await again.events(type: .export).map(\.id) == [ended[1].id])
      #expect(try await again.events(afterEvent: ended[0].id).first?.id == ended[1].id)
      #expect(try await again.events(after: .distantFuture).isEmpty)
      await again.close()
      let log = lines.withLock { $0 }
      #expect(log.contains { $0.contains(/POST \/transactions [0-9A-F-]{36} 200/) })
      #expect(log.contains("private export: 1 saved, 0 deleted"))
      #expect(!log.contains { $0.contains("secret words") || $0.contains(ada.token) })
    }
  }

  @Test func `a log has the lines of its level and of those before it, and none with a value`() async throws {
    try await Server.runPhotos { server in
      try server.refuseTagsOfOneName()
      for level in LogLevel.allCases {
        let ada = try await server.user("ada-\(level)")
        let lines = Mutex<[String]>([])
        let store = StoreDescription(path: nil, configuration: "Cloud", cloudOptions: .photos())
        let phone = try await PersistentContainer(
          .photos, stores: [store], account: server.account(KeptTokens(ada.token)), logLevel: level,
          log: { line in lines.withLock { $0.append(line) } })
        phone.sync.start()
        for _ in 0..<2 {
          try await phone.save { try $0.insert(Tag(name: "secret words")) }
          try await phone.sync.syncNow()
        }
        await phone.close()
        let log = lines.withLock { $0 }
        #expect(log.contains { $0.contains("private export failed: 409") }, "\(level): \(log)")
        #expect(log.contains("private export: 1 saved, 0 deleted") == (level >= .events), "\(level): \(log)")
        #expect(log.contains { $0.hasPrefix("POST /transactions") } == (level >= .requests), "\(level): \(log)")
        #expect(!log.contains { $0.contains("secret words") || $0.contains(ada.token) }, "\(level)")
      }
    }
  }

  @Test func `mirroring that is stopped right after its start stays stopped, and starts again`() async throws {
    try await Server.runPhotos { server in
      let ada = try await server.user("ada")
      let phone = try await server.app("phone", account: server.account(KeptTokens(ada.token)))
      let store = try #require(phone.store(.private))
      for _ in 0..<20 {
        phone.sync.start()
        await phone.sync.stop()
        for _ in 0..<100 { await Task.yield() }
        #expect(await phone.sync.status(of: store).first { _ in true }?.idle == .paused)
      }
      phone.sync.start()
      try await phone.sync.syncNow()
      await phone.close()
    }
  }

  @Test func `a reset imports everything anew, and keeps what is not sent`() async throws {
    try await Server.runPhotos { server in
      let ada = try await server.user("ada")
      let phone = try await server.app("phone", of: ada)
      let laptop = try await server.app("laptop", of: ada)
      try await phone.save { save in try save.insertAll((0..<20).map { Tag(name: "\($0)") }) }
      for container in [phone, laptop] { try await container.sync.syncNow() }
      let store = try #require(laptop.store(.private))
      await laptop.sync.setPaused(true)
      try await laptop.save { save in _ = try save.updateAll(Tag.filter { $0.name == "7" }) { $0.name = "seven" } }
      try await laptop.sync.reset(store)
      let before = laptop.currentHistoryToken
      await laptop.sync.setPaused(false)
      try await laptop.sync.syncNow()
      try await phone.sync.syncNow()
      let names = Set((0..<20).map { $0 == 7 ? "seven" : "\($0)" })
      for container in [phone, laptop] {
        #expect(Set(try await container.fetch(Tag.all).compactMap(\.name)) == names)
      }
      #expect(try await laptop.history(HistoryRequest(after: before)).transactions.isEmpty)
      for container in [phone, laptop] { await container.close() }
    }
  }

  @Test func `a local store sends nothing, and without a network everything waits`() async throws {
    try await Server.runPhotos { server in
      let ada = try await server.user("ada")
      let transport = WatchedTransport()
      let local = StoreDescription(path: "\(server.folder.path)/local.sqlite", configuration: "Local")
      let cloud = StoreDescription(
        path: "\(server.folder.path)/cloud.sqlite", configuration: "Cloud", cloudOptions: .photos())
      let container = try await PersistentContainer(
        .photos, stores: [cloud, local], account: server.account(KeptTokens(ada.token)), surroundings: .system,
        transport: transport)
      container.sync.start()
      let store = try #require(container.store(.private))
      try await container.sync.syncNow()
      await container.sync.networkChanged(isOnline: false)
      try await container.save { try $0.insert(Draft(text: "of nobody else")) }
      try await container.save { try $0.insert(Tag(name: "sea")) }
      for await status in container.sync.status(of: store) where status.pendingTransactions == 1 {
        #expect(status.idle == .offline)
        break
      }
      #expect(!transport.sent.contains { $0.url.contains("/transactions") })
      await container.sync.networkChanged(isOnline: true)
      try await container.sync.syncNow()
      #expect(transport.sent.contains { $0.url.contains("/transactions") })
      #expect(!transport.sent.contains { $0.body.contains("of nobody else") })
      for await _ in container.sync.status(of: container.stores[1]) { Issue.record("a local store has no status") }
      await container.close()
    }
  }

  @Test func `what a user saves in the public database is everybody's`() async throws {
    try await Server.runPhotos { server in
      let (ada, ben) = (try await server.user("ada"), try await server.user("ben"))
      let scopes: [DatabaseScope] = [.private, .public]
      let phone = try await server.app("phone", of: ada, scopes)
      let tablet = try await server.app("tablet", of: ben, scopes)
      for container in [phone, tablet] { try await container.sync.syncNow() }
      let everybodys = try #require(phone.store(.public))
      try await phone.save { try $0.insert(Tag(name: "ada's alone")) }
      let tag = try await phone.save(in: everybodys) { try $0.insert(Tag(name: "everybody's")) }.value
      for container in [phone, tablet] { try await container.sync.syncNow() }
      #expect(try await tablet.fetch(Tag.all).map(\.id) == [tag.id])
      for container in [phone, tablet] { await container.close() }
    }
  }
}
