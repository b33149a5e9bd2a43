// Saves of a container with several stores: where they go, and what they refuse.

import AquiferClient
import ReplicaSync
import Synchronization
import Testing

struct SeveralStoresTests {
  /// Two stores of the same entities, and one of drafts alone.
  private static func makeContainer() async throws -> TestContainer {
    try await TestContainer { folder in
      [
        StoreDescription(path: "\(folder)/first.sqlite", configuration: "Cloud"),
        StoreDescription(path: "\(folder)/second.sqlite", configuration: "Cloud"),
        StoreDescription(path: "\(folder)/drafts.sqlite", configuration: "Local"),
      ]
    }
  }

  private let test: TestContainer
  private var container: PersistentContainer { test.container }
  private var stores: [PersistentStore] { container.stores }

  init() async throws { test = try await Self.makeContainer() }

  private func album(in store: Int, _ name: String) async throws -> ObjectID<Album> {
    try await container.save(in: stores[store]) { try $0.insert(Album(name: name)).id }.value
  }

  private func titles(in store: Int) async throws -> [String?] {
    try await container.fetch(Photo.all.sorted(\.title.ascending).inStores(stores[store])).map(\.title)
  }

  @Test func `a new object goes to the store of the object that its relationship names`() async throws {
    let album = try await album(in: 1, "Coast")
    let photo = try await container.save { try $0.insert(Photo(title: "Dunes", album: album)) }.value
    #expect(try await titles(in: 0) == [])
    #expect(try await titles(in: 1) == ["Dunes"])
    #expect(try await container.read { try $0.object(photo.id)?.album } == album)
  }

  @Test func `what a save inserts first goes along with what it relates to later`() async throws {
    let album = try await album(in: 1, "Coast")
    try await container.save { save in
      let tag = try save.insert(Tag(name: "sea"))
      let photo = try save.insert(Photo(title: "Dunes"))
      try save.add(tag.id, to: \.tags, of: photo.id)
      try save.add(photo.id, to: \.photos, of: album)
    }
    #expect(try await container.count(Tag.all.inStores(stores[0])) == 0)
    #expect(try await titles(in: 1) == ["Dunes"])
    #expect(try await container.fetch(Photo.filter { $0.tags.any { $0.name == "sea" } }).map(\.album) == [album])
  }

  @Test(arguments: ["insert", "update", "add", "reverse"])
  func `a relationship between objects of two stores is refused, and nothing is saved`(edit: String) async throws {
    let near = try await album(in: 0, "Near")
    let far = try await album(in: 1, "Far")
    let photo = try await container.save { try $0.insert(Photo(title: "Dunes", album: near)) }.value
    await #expect(throws: StoreError.otherStore(far.any)) {
      try await container.save { save in
        try save.update(near) { $0.name = "Changed" }
        switch edit {
        case "insert": try save.insert(Photo(title: "Waves", album: far))
        case "update": try save.update(photo.id) { $0.album = far }
        case "add": try save.add(photo.id, to: \.photos, of: far)
        default: try save.updateAll(Photo.all) { $0.album = far }
        }
      }
    }
    #expect(try await container.read { try $0.object(near)?.name } == "Near")
    #expect(try await container.fetch(Photo.all).map(\.album) == [near])
  }

  @Test func `a save in a named store refuses objects of another one, and says which`() async throws {
    let far = try await album(in: 1, "Far")
    await #expect(throws: StoreError.otherStore(far.any)) {
      try await container.save(in: stores[0]) { try $0.insert(Photo(title: "Waves", album: far)) }
    }
    await #expect(throws: StoreError.otherStore(far.any)) {
      try await container.save(in: stores[0]) { try $0.delete(far) }
    }
    await #expect(throws: StoreError.missing(ObjectID<Album>(recordName: "nobody").any)) {
      try await container.save(in: stores[0]) { try $0.delete(ObjectID<Album>(recordName: "nobody")) }
    }
    #expect(try await container.count(Photo.all) == 0)
  }

  @Test func `one save over objects of two stores is refused, in either order`() async throws {
    let near = try await album(in: 0, "Near")
    let far = try await album(in: 1, "Far")
    for (first, second) in [(near, far), (far, near)] {
      await #expect(throws: StoreError.otherStore(second.any)) {
        try await container.save { save in
          for id in [first, second] { try save.update(id) { $0.name = "Changed" } }
        }
      }
    }
    for all in [Album.all, Album.filter { $0.name != "" }] {
      await #expect(throws: StoreError.otherStore(far.any)) {
        try await container.save { _ = try $0.updateAll(all) { $0.name = "Changed" } }
      }
      await #expect(throws: StoreError.otherStore(far.any)) { try await container.save { _ = try $0.deleteAll(all) } }
    }
    #expect(try await container.fetch(Album.all.sorted(\.name.ascending)).map(\.name) == ["Far", "Near"])
  }

  @Test func `a save without a named store finds objects of all stores, and goes where what it edits is`() async throws
  {
    let far = try await album(in: 1, "Coast")
    let inbox: @Sendable (SaveContext) throws -> Photo = { save in
      let album = try save.first(Album.filter { $0.name == "Coast" }) ?? save.insert(Album(name: "Coast"))
      return try save.insert(Photo(title: "Dunes", album: album.id))
    }
    let photo = try await container.save(inbox).value
    #expect(photo.album == far)
    #expect(try await container.count(Album.all) == 1)
    #expect(try await container.save { try $0.updateAll(Album.all) { $0.name = "Beach" } }.value == 1)
    #expect(try await container.save { try $0.deleteAll(Photo.all) }.value == 1)
    // A named store sees its own objects alone.
    #expect(try await container.save(in: stores[0]) { try $0.count(Album.all) }.value == 0)
    try await container.save(in: stores[0], inbox)
    #expect(try await titles(in: 0) == ["Dunes"])
  }

  @Test func `a save's own edits are found among the objects of all stores`() async throws {
    _ = try await album(in: 1, "Far")
    let names = try await container.save { save in
      try save.insert(Album(name: "New"))
      return try save.fetch(Album.all.sorted(\.name.descending)).map(\.name)
    }.value
    #expect(names == ["New", "Far"])
  }

  @Test func `an entity of another store leads the save there, unless the save named an object here`() async throws {
    let near = try await album(in: 0, "Near")
    try await container.save { try $0.insert(Draft(text: "later")) }
    #expect(try await container.count(Draft.all) == 1)
    let draft = Draft(text: "never")
    await #expect(throws: StoreError.otherStore(draft.id.any)) {
      try await container.save { save in
        try save.update(near) { $0.name = "Changed" }
        try save.insert(draft)
      }
    }
    #expect(try await container.fetch(Draft.all).map(\.text) == ["later"])
  }

  /// Ten photos in each of two stores, whose titles follow one another in turn, each with a tag of its title.
  private func tellInTurn() async throws {
    for store in 0..<2 {
      try await container.save(in: stores[store]) { save in
        for number in 0..<10 {
          let title = "\(Character(UnicodeScalar(UInt8(97 + 2 * number + store))))"
          let tag = try save.insert(Tag(name: title))
          try save.add(tag.id, to: \.tags, of: try save.insert(Photo(title: title)).id)
        }
      }
    }
  }

  @Test func `photos of several stores come with their tags, wherever a page begins`() async throws {
    try await tellInTurn()
    let page = Photo.all.sorted(\.title.ascending).dropFirst(10).prefix(10)
    let found = try await container.read { context in try context.fetch(page, including: \.tags) }
    #expect(found.compactMap(\.0.title).joined() == "klmnopqrst")
    for (photo, tags) in found { #expect(tags.map(\.name) == [photo.title]) }
    let rest = try await container.fetch(Photo.all.sorted(\.title.ascending).dropFirst(18).prefix(.max))
    #expect(rest.compactMap(\.title).joined() == "st")
  }

  @Test func `a save deletes what the same request finds, over all stores`() async throws {
    try await tellInTurn()
    let last = Photo.all.sorted(\.title.ascending).dropFirst(19)
    #expect(try await container.save { try $0.deleteAll(last) }.value == 1)
    #expect(try await container.count(Photo.all) == 19)
    try await container.save(in: stores[0]) { try $0.insertAll(["1", "2", "3"].map { Photo(title: $0) }) }
    let first = Photo.all.sorted(\.title.ascending).prefix(4)
    #expect(try await container.save { try $0.deleteAll(first) }.value == 4)
    #expect(try await titles(in: 0).first == "c")
  }

  @Test(.timeLimit(.minutes(1))) func `a sync that the app asks for waits for all stores at a time`() async throws {
    let waiting = Mutex(0)
    var surroundings = Surroundings.system
    surroundings.sleep = { duration in
      guard duration == .seconds(77) else { return try await Task.sleep(for: .seconds(3600)) }
      waiting.withLock { $0 += 1 }
      // The time is over for one once the other waits, too.
      while waiting.withLock({ $0 }) < 2 { try await Task.sleep(for: .milliseconds(1)) }
    }
    let stores = [DatabaseScope.private, .shared].map { scope in
      StoreDescription(
        path: "\(test.folder)/\(scope.rawValue).sqlite", configuration: "Cloud", cloudOptions: .photos(scope))
    }
    let account = Account(server: "http://127.0.0.1:9", apiToken: "", tokens: KeptTokens("token"))
    let alone = try await PersistentContainer(
      .photos, stores: stores, account: account, surroundings: surroundings, transport: CurlTransport())
    alone.sync.start()
    await #expect(throws: StoreError.offline) { try await alone.sync.syncNow(timeout: .seconds(77)) }
    await alone.close()
  }

  @Test func `a relationship to an object that no store has yet stays in the save's store`() async throws {
    let photo = try await container.save {
      try $0.insert(Photo(title: "Dunes", album: ObjectID(recordName: "to-come")))
    }.value
    #expect(try await titles(in: 0) == ["Dunes"])
    #expect(try await container.read { try $0.object(photo.id)?.album } == nil)
  }
}
