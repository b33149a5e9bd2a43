// Conflicts that wait for a person: what an app is told of them. Against the real server.

import AquiferClient
import Foundation
import ReplicaWorld
import Testing

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct ConflictTests {
  /// A status of the private store that counts so many conflicts.
  private func counts(_ count: Int, _ container: PersistentContainer) async throws {
    let store = try #require(container.store(.private))
    for await status in container.sync.status(of: store) where status.conflictCount == count { return }
    throw Unexpected("the status ended")
  }

  @Test func `the status counts conflicts that wait for a decision, also offline and after a restart`() async throws {
    try await Server.runPhotos { server in
      try server.leaveTitlesToPeople()
      let ada = try await server.user("ada")
      let (phone, laptop) = (try await server.app("phone", of: ada), try await server.app("laptop", of: ada))
      let photo = try await phone.save { try $0.insert(Photo(title: "Sea")) }.value
      for container in [phone, laptop] { try await container.sync.syncNow() }
      try await counts(0, laptop)
      await laptop.sync.setPaused(true)
      try await phone.save { _ = try $0.update(photo.id) { $0.title = "Waves" } }
      try await phone.sync.syncNow()
      try await laptop.save { _ = try $0.update(photo.id) { $0.title = "Surf" } }
      await laptop.sync.setPaused(false)
      for container in [laptop, phone] {
        try await container.sync.syncNow()
        try await counts(1, container)
        #expect(try await container.fetch(Photo.all).map(\.title) == ["Waves"])
      }
      await laptop.close()
      // Nobody is signed in, so nothing is imported.
      let later = try await server.app("laptop", account: server.account(KeptTokens()))
      later.sync.start()
      try await counts(1, later)
      await later.close()
      try server.aquifer(
        "conflicts", "resolve", "1", "--pick", "client", "--container", Server.container, "--owner", ada.recordName,
        "--zone", "com.apple.coredata.cloudkit.zone")
      try await phone.sync.syncNow()
      try await counts(0, phone)
      #expect(try await phone.fetch(Photo.all).map(\.title) == ["Surf"])
      await phone.close()
    }
  }
}

extension Server {
  /// The operator pushes the model once more: two edits of a photo's title wait for a person from now on.
  fileprivate func leaveTitlesToPeople() throws {
    let tests = URL(filePath: #filePath).deletingLastPathComponent()
    let version = "Photos.xcdatamodeld/Photos 2.xcdatamodel"
    let model = folder.appending(path: "ByHand.xcdatamodel")
    try FileManager.default.createDirectory(at: model, withIntermediateDirectories: true)
    let text = try String(contentsOf: tests.appending(path: "\(version)/contents"), encoding: .utf8)
    let policy = #"<userInfo><entry key="AquiferConflictPolicy" value="manual"/></userInfo></attribute>"#
    let changed = text.replacing(#"elementID="caption"/>"#, with: #"elementID="caption">"# + policy)
    guard changed != text else { throw Unexpected("the title is not found in the model") }
    try changed.write(to: model.appending(path: "contents"), atomically: true, encoding: .utf8)
    try aquifer("model", "push", model.path, "--container", Self.container, "--environment", "development")
  }
}
