// Which file of a store is whose: no account comes to another one's objects.

import Foundation
import ReplicaStore
import ReplicaSync
import Synchronization
import Testing

@testable import AquiferClient

struct AccountFileTests {
  private let folder: String
  private var path: String { "\(folder)/store.sqlite" }

  init() throws { folder = try TestContainer.makeFolder() }

  @Test func `the number of a file that was to be removed is no later account's`() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let files = AccountFiles(path)
    func change(from former: String, to account: String) throws -> String {
      let file = try files.reserve(account, former: former)
      try files.select(account)
      return file
    }
    let bens = try change(from: "_ada", to: "_ben")
    _ = try change(from: "_ben", to: "_ada")
    #expect(FileManager.default.createFile(atPath: bens, contents: nil))
    try files.remove("_ben")
    // The process ended before it removed the file.
    #expect(FileManager.default.createFile(atPath: bens, contents: nil))
    #expect(try change(from: "_ada", to: "_cleo") != bens)
    // Ben begins anew.
    #expect(try change(from: "_cleo", to: "_ben") != bens)
  }

  @Test func `a named reader is told nothing of another account's file, which takes the place of its own meanwhile`()
    async throws
  {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let description = StoreDescription(path: path, configuration: "Cloud", cloudOptions: .photos())
    let container = try await PersistentContainer(.photos, stores: [description])
    let store = container.opened[0]
    for title in ["a", "b"] { try await container.save { try $0.insert(Photo(title: title)) } }
    let adas = store.file.identifier
    var request = HistoryRequest()
    request.limit = 1
    let told = Mutex<[HistoryToken]>([])
    try await container.consume("reader", request) { page in
      told.withLock { $0 += page.transactions.map(\.token) }
      guard store.file.identifier == adas else { return }
      let release = try await store.change(from: "_ada", to: "_ben", .keepApart).release
      try await container.save { try $0.insert(Photo(title: "ben's")) }
      await release()
    }
    #expect(told.withLock(\.self) == [HistoryToken([adas: 1])])
    try await container.consume("reader", request) { page in told.withLock { $0 += page.transactions.map(\.token) } }
    #expect(told.withLock(\.self) == [HistoryToken([adas: 1]), HistoryToken([store.file.identifier: 1])])
    // Nobody kept the position of the first page, so it is told again.
    try await store.change(from: "_ben", to: "_ada", .keepApart).release()
    try await container.consume("reader", request) { page in told.withLock { $0 += page.transactions.map(\.token) } }
    #expect(told.withLock(\.self).suffix(2) == [HistoryToken([adas: 1]), HistoryToken([adas: 2])])
    await container.close()
  }

  @Test func `a save that comes while a former account's objects are copied runs in the file that has them then`()
    async throws
  {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let description = StoreDescription(path: path, configuration: "Cloud", cloudOptions: .photos())
    // Identifiers that are made after the call that sets it: of the new file, and then of the copy's event.
    let countdown = Mutex<Int?>(nil)
    let edit = Mutex<(@Sendable () async throws -> Void)?>(nil)
    let edits = Mutex<[Task<Void, any Error>]>([])
    var surroundings = Surroundings.system
    surroundings.makeUUID = {
      let isCopied = countdown.withLock { count in
        count = count.map { $0 - 1 }
        return count == 0
      }
      // It goes on until it waits for the former file, so it comes there before the other account's takes its place.
      if isCopied, let edit = edit.withLock(\.self) {
        let task = Task.immediate { try await edit() }
        edits.withLock { $0.append(task) }
      }
      return .random()
    }
    let container = try await PersistentContainer(
      .photos, stores: [description], account: nil, surroundings: surroundings, transport: CurlTransport())
    let (kept, gone) = try await container.save { save in
      (try save.insert(Photo(title: "before")), try save.insert(Photo(title: "gone")))
    }.value
    edit.withLock {
      $0 = {
        try await container.save { save in
          let album = try save.insert(Album(name: "Coast"))
          try save.update(kept.id) { photo in (photo.title, photo.album) = ("after", album.id) }
          try save.delete(gone.id)
          try save.insert(Photo(title: "beside"))
        }
      }
    }
    countdown.withLock { $0 = 2 }
    try await container.opened[0].change(from: "_ada", to: "_ben", .reupload).release()
    let tasks = edits.withLock(\.self)
    #expect(tasks.count == 1)
    for task in tasks { try await task.value }
    edit.withLock { $0 = nil }
    #expect(try await container.fetch(Photo.all.sorted(\.title.ascending)).map(\.title) == ["after", "beside"])
    #expect(try await container.fetch(Photo.filter { $0.album[\.name] == "Coast" }).map(\.id) == [kept.id])
    await container.close()
  }

  @Test func `a file with objects of another account is refused, and stays that account's`() async throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let description = StoreDescription(path: path, configuration: "Cloud", cloudOptions: .photos())
    var store = try await OpenStore(description, .photos, .system)
    try await store.change(from: "_ada", to: "_ben", .keepApart).release()
    #expect(try await store.replica.position().account == "_ben")
    await store.close()
    // An earlier version gave Ben's number to Cleo.
    try Data(#"{"numbers":{"_ada":0,"_cleo":1},"current":0}"#.utf8).write(to: URL(filePath: "\(path)-accounts"))
    store = try await OpenStore(description, .photos, .system)
    let error = await #expect(throws: StoreError.self) {
      _ = try await store.change(from: "_ada", to: "_cleo", .keepApart)
    }
    guard case .damaged? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(try await store.replica.position().account == nil)
    await store.close()
  }
}
