// Which file of a store is whose: no account comes to another one's objects.

import Foundation
import ReplicaStore
import ReplicaSync
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
