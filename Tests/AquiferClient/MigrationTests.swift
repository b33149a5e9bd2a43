// A later version of an app opens the files of an earlier one, with saves that wait to be sent.

import AquiferClient
import Foundation
import ReplicaWorld
import Testing

/// A photo of the model's first version, whose title was a caption.
private struct FormerPhoto: ManagedObject {
  struct Columns: Sendable { let caption = Attribute<String?>("caption") }
  static let entityName = "Photo"
  static let columns = Columns()

  let id: ObjectID<FormerPhoto>
  var caption: String?

  init(_ caption: String) { (id, self.caption) = (ObjectID(), caption) }
  init(_ row: borrowing Row) { (id, caption) = (row.objectID(FormerPhoto.self), row.value(1)) }
  func write(to row: inout RowWriter) {
    row.value(1, caption)
    row.value(2, Int64(0))
  }
}

private let former = ManagedObjectModel.photos.earlierVersions[0]

/// Fills what no rule of lightweight migration can infer.
private let step = MigrationStep(from: former) { save in
  try save.updateAll(Photo.all) { $0.secret = "of \($0.title ?? "")" }
}

/// Makes a file of the first version with three saves that were not sent.
private func makeFormerFile(_ store: StoreDescription) async throws {
  let container = try await PersistentContainer(former, stores: [store])
  for caption in ["a", "b", "c"] { try await container.save(author: "app") { try $0.insert(FormerPhoto(caption)) } }
  try await container.save(author: "app") { save in
    let found = try save.fetch(FormerPhoto.filter { $0.caption == "b" })
    for photo in found { try save.delete(photo.id) }
  }
  await container.close()
}

@Test func `a file of an earlier version is migrated when it opens, and a step in code runs once`() async throws {
  let folder = try TestContainer.makeFolder()
  defer { try? FileManager.default.removeItem(atPath: folder) }
  var store = StoreDescription(path: "\(folder)/photos.sqlite", configuration: "Cloud", cloudOptions: .photos())
  try await makeFormerFile(store)
  store.migrationStages = [step]
  let first = try await PersistentContainer(.photos, stores: [store])
  let photos = try await first.fetch(Photo.all.sorted(\.title.ascending))
  #expect(photos.map(\.title) == ["a", "c"] && photos.map(\.secret) == ["of a", "of c"])
  let history = try await first.history(HistoryRequest()).transactions
  #expect(history.map(\.author) == ["app", "app", "app", "app", MirroringAuthor.migration])
  #expect(history.last?.changes.map(\.updatedProperties) == [["secret"], ["secret"]])
  try await first.save { save in _ = try save.updateAll(Photo.all) { $0.secret = nil } }
  await first.close()
  let second = try await PersistentContainer(.photos, stores: [store])
  #expect(try await second.fetch(Photo.all).allSatisfy { $0.secret == nil })
  await second.close()
  await #expect(throws: StoreError.unknownModel(hash: ManagedObjectModel.photos.hash)) {
    try await PersistentContainer(former, stores: [store])
  }
}

@Suite(.enabled(if: Server.binaries != nil)) struct MigratedOutboxTests {
  @Test func `saves of the earlier version are sent in the words of the later one`() async throws {
    try await Server.runPhotos { server in
      let ada = try await server.user("ada")
      let path = "\(server.folder.path)/phone-private.sqlite"
      try await makeFormerFile(StoreDescription(path: path, configuration: "Cloud", cloudOptions: .photos()))
      let phone = try await server.app("phone", of: ada) { $0.migrationStages = [step] }
      let store = try #require(phone.store(.private))
      try await phone.sync.syncNow()
      #expect(try await phone.sync.rejections(in: store).isEmpty)
      let laptop = try await server.app("laptop", of: ada)
      try await laptop.sync.syncNow()
      let photos = try await laptop.fetch(Photo.all.sorted(\.title.ascending))
      #expect(photos.map(\.title) == ["a", "c"] && photos.map(\.secret) == ["of a", "of c"])
      for container in [phone, laptop] { await container.close() }
    }
  }
}
