// The container as an app uses it, without a server.

import AquiferClient
import FoundationEssentials
import Testing

@Test func `objects are values that a save writes and a request finds`() async throws {
  let test = try await TestContainer()
  let container = test.container
  let date = Date(timeIntervalSince1970: 1_700_000_000.5)
  let saved = try await container.save(author: "app") { save in
    let tag = try save.insert(Tag(name: "sea"))
    let album = try save.insert(Album(name: "Coast"))
    let photo = try save.insert(
      Photo(
        title: "Dunes", size: 3, taken: date, price: Decimal(string: "12.50"),
        place: Photo.Place(latitude: 54.5, name: "Sylt"), album: album.id))
    try save.add(tag.id, to: \.tags, of: photo.id)
    try save.insertAll((0..<3).map { Photo(title: "Waves \($0)", size: Int64($0)) })
    return photo
  }
  let found = try await container.fetch(Photo.filter { $0.title.hasPrefix("dÚ") && $0.tags.any { $0.name == "sea" } })
  #expect(found.count == 1)
  let photo = try #require(found.first)
  #expect(
    photo.id == saved.value.id && photo.taken == date && photo.price == Decimal(string: "12.5")
      && photo.place?.name == "Sylt" && photo.tagCount == 1)
  #expect(try await container.fetch(photo.tags).map(\.name) == ["sea"])
  #expect(try await container.fetch(Photo.filter { $0.album[\.name] == "Coast" }).map(\.id) == [photo.id])
  let sorted = try await container.fetch(Photo.all.sorted(\.size.descending).prefix(2).dropFirst(1))
  #expect(sorted.map(\.title) == ["Waves 2"])
  let including = try await container.read { try $0.fetch(Photo.all.sorted(\.size.ascending), including: \.tags) }
  #expect(including.map(\.1.count) == [0, 0, 0, 1])
  try await container.save { save in
    try save.update(photo.id) { $0.album = nil }
    #expect(try save.updateAll(Photo.filter { $0.size < 2 }) { $0.size += 10 } == 2)
    #expect(try save.deleteAll(Photo.filter { $0.size == 2 }) == 1)
    #expect(try save.count(Photo.all) == 3)
  }
  #expect(try await container.count(Photo.filter { $0.album == nil && $0.size > 9 }) == 2)
  // Each object that a batch made, changed or deleted is in history, in one transaction.
  var request = HistoryRequest()
  request.changeTypes = [.update]
  request.updatedProperties = ["size"]
  let updates = try await container.history(request)
  #expect(updates.transactions.map(\.changes.count) == [2])
  request = HistoryRequest()
  let all = try await container.history(request).transactions
  #expect(all.map { $0.changes.count { $0.kind == .insert } } == [6, 0])
  #expect(all.map { $0.changes.count { $0.kind == .delete } } == [0, 1])
}

@Test func `a store is chosen by what a save names first`() async throws {
  let test = try await TestContainer { folder in
    [
      StoreDescription(path: "\(folder)/private.sqlite", configuration: "Cloud"),
      StoreDescription(path: "\(folder)/local.sqlite", configuration: "Local"),
      StoreDescription(path: nil, configuration: "Cloud"),
    ]
  }
  let container = test.container
  let stores = container.stores
  try await container.save { try $0.insert(Draft(text: "later")) }
  let first = try await container.save { try $0.insert(Photo(title: "b")) }.value
  let third = try await container.save(in: stores[2]) { try $0.insert(Photo(title: "a", size: 1)) }.value
  #expect(try await container.fetch(Photo.all.sorted(\.title.ascending)).map(\.id) == [third.id, first.id])
  #expect(try await container.fetch(Photo.all.inStores(stores[0])).map(\.id) == [first.id])
  #expect(try await container.count(Photo.all) == 2)
  // An object of another store is found there.
  try await container.save { try $0.update(third.id) { $0.size = 2 } }
  #expect(try await container.fetch(Photo.filter { $0.size == 2 }).map(\.id) == [third.id])
  #expect(try await container.fetch(Draft.all).map(\.text) == ["later"])
}

@Test func `one container writes to a file, another one may read it`() async throws {
  let test = try await TestContainer()
  try await test.container.save { try $0.insert(Photo(title: "a")) }
  let path = "\(test.folder)/photos.sqlite"
  let processID = ProcessInfo.processInfo.processIdentifier
  await #expect(throws: StoreError.inUse(processID: processID)) {
    try await PersistentContainer(.photos, stores: [StoreDescription(path: path, configuration: "Cloud")])
  }
  var description = StoreDescription(path: path, configuration: "Cloud")
  description.isReadOnly = true
  let reader = try await PersistentContainer(.photos, stores: [description])
  #expect(try await reader.fetch(Photo.all).map(\.title) == ["a"])
  try await test.container.save { try $0.insert(Photo(title: "b")) }
  #expect(try await reader.count(Photo.all) == 2)
  #expect(!reader.canModifyManagedObjects(in: reader.stores[0]))
  await #expect(throws: StoreError.readOnly) { try await reader.save { try $0.insert(Photo(title: "c")) } }
  await reader.close()
}

@Test func `a pinned generation stays what it is, and edits based on it meet the merge policy`() async throws {
  let test = try await TestContainer()
  let container = test.container
  let id = try await container.save { try $0.insert(Photo(title: "a", size: 1)) }.value.id
  let generation = try await container.currentQueryGeneration()
  try await container.save(author: "other") { try $0.update(id) { $0.title = "b" } }
  #expect(generation.age == 1)
  #expect(try await container.read(at: generation) { try $0.object(id)?.title } == "a")
  await #expect(throws: StoreError.conflicts([.init(object: id.any, property: "title", changedBy: "other")])) {
    try await container.save(basedOn: generation, mergePolicy: .error) { try $0.update(id) { $0.title = "c" } }
  }
  func title(_ policy: MergePolicy) async throws -> Photo? {
    try await container.save(author: "mine", basedOn: generation, mergePolicy: policy) { save in
      try save.update(id) { photo in
        photo.title = "mine"
        photo.size += 1
      }
    }
    let photo = try await container.read { try $0.object(id) }
    try await container.save(author: "other") { try $0.update(id) { photo in (photo.title, photo.size) = ("b", 1) } }
    return photo
  }
  #expect(try await title(.mergeByPropertyObjectTrump).map { "\($0.title ?? "") \($0.size)" } == "mine 2")
  #expect(try await title(.mergeByPropertyStoreTrump).map { "\($0.title ?? "") \($0.size)" } == "b 1")
  #expect(try await title(.rollback).map { "\($0.title ?? "") \($0.size)" } == "b 1")
  #expect(try await title(.overwrite).map { "\($0.title ?? "") \($0.size)" } == "mine 2")
  generation.release()
  await #expect(throws: StoreError.generationExpired) { try await container.read(at: generation) { try $0.object(id) } }
}

@Test func `watched requests tell different results once`() async throws {
  let test = try await TestContainer()
  let container = test.container
  var values = container.values(of: Photo.filter { $0.size > 0 }.sorted(\.size.ascending)).makeAsyncIterator()
  #expect(try await values.next() == [])
  try await container.save { try $0.insert(Photo(title: "out", size: 0)) }
  try await container.save { try $0.insert(Tag(name: "sea")) }
  let photo = try await container.save { try $0.insert(Photo(title: "in", size: 1)) }.value
  #expect(try await values.next()?.map(\.id) == [photo.id])
  for size in 2...5 { try await container.save { try $0.update(photo.id) { $0.size = Int64(size) } } }
  var last: Int64 = 1
  while last < 5 {
    let next = try #require(try await values.next()?.first?.size)
    #expect(next > last)
    last = next
  }
}

@Test func `a named reader gets each transaction, and again after an interruption`() async throws {
  struct Interruption: Error {}
  let test = try await TestContainer()
  let container = test.container
  let start = container.currentHistoryToken
  for number in 0..<5 {
    try await container.save(author: number == 2 ? "other" : "app") { try $0.insert(Tag(name: "\(number)")) }
  }
  var request = HistoryRequest()
  request.excludedAuthors = ["other"]
  request.limit = 2
  let seen = Seen()
  await #expect(throws: Interruption.self) {
    try await container.consume("reader", request) { page in
      await seen.add(page.transactions.map(\.transactionNumber))
      if page.transactions.contains(where: { $0.transactionNumber == 4 }) { throw Interruption() }
    }
  }
  try await container.consume("reader", request) { page in await seen.add(page.transactions.map(\.transactionNumber)) }
  #expect(await seen.numbers == [1, 2, 4, 4, 5])
  #expect(try await container.purgeHistory(before: Date.distantFuture, in: container.stores[0]) == 5)
  await #expect(throws: StoreError.historyTokenExpired) { try await container.history(HistoryRequest(after: start)) }
}

private actor Seen {
  private(set) var numbers: [Int64] = []
  func add(_ new: [Int64]) { numbers += new }
}

@Test func `a store's folder is made, and a place where none can be is named`() async throws {
  let folder = FileManager.default.temporaryDirectory.appending(path: "folders-\(UUID().uuidString)").path
  defer { try? FileManager.default.removeItem(atPath: folder) }
  let path = "\(folder)/of/an app/notes.sqlite"
  let container = try await PersistentContainer(.photos, stores: [StoreDescription(path: path, configuration: "Cloud")])
  try await container.save { try $0.insert(Tag(name: "sea")) }
  await container.close()
  #expect(FileManager.default.fileExists(atPath: path))
  let error = await #expect(throws: StoreError.self) {
    try await PersistentContainer(.photos, stores: [StoreDescription(path: "\(path)/below.sqlite")])
  }
  guard case .damaged(let text)? = error else { throw try #require(error) }
  #expect(text.contains(path))
}

@Test func `content lies beside the store and is read by its name`() async throws {
  let test = try await TestContainer()
  let bytes = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
  let id = try await test.container.save { try $0.insert(Photo(image: ExternalData(bytes))) }.value.id
  let image = try #require(try await test.container.read { try $0.object(id)?.image })
  #expect(image.isLocal && image.byteCount == bytes.count)
  #expect("\(image)" == "3000000 bytes, local")
  #expect(try await image.data() == bytes)
  #expect(image == ExternalData(bytes))
}

@Test func `the log tells how many bytes of contents an opening removes that nothing names`() async throws {
  let test = try await TestContainer()
  await test.container.close()
  let contents = "\(test.folder)/photos.sqlite-contents"
  try FileManager.default.createDirectory(atPath: contents, withIntermediateDirectories: true)
  let lost = "\(contents)/\(ExternalData(Data("lost".utf8)).checksum)"
  try Data("lost".utf8).write(to: URL(filePath: lost))
  try FileManager.default.setAttributes([.modificationDate: Date(timeIntervalSince1970: 0)], ofItemAtPath: lost)
  let (lines, log) = AsyncStream<String>.makeStream()
  let store = StoreDescription(path: "\(test.folder)/photos.sqlite", configuration: "Cloud")
  let container = try await PersistentContainer(.photos, stores: [store], logLevel: .events, log: { log.yield($0) })
  for await line in lines {
    #expect(line == "contents: removed files that nothing names: 1, 4 bytes")
    break
  }
  #expect(!FileManager.default.fileExists(atPath: lost))
  await container.close()
}
