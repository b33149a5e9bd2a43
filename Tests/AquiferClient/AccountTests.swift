// Several accounts on one device: each has files of its own, also when one follows the other while the app runs.

import AquiferClient
import Foundation
import ReplicaStore
import ReplicaWorld
import Testing

@Test func `an account that comes back finds its file as it left it`() throws {
  let folder = try TestContainer.makeFolder()
  defer { try? FileManager.default.removeItem(atPath: folder) }
  let files = AccountFiles("\(folder)/store.sqlite")
  func change(from former: String, to account: String) throws {
    let (present, reserved) = (try files.current(), try files.reserve(account, former: former))
    // A process that ends here goes on with the former account.
    #expect(try files.current() == present)
    try files.select(account)
    #expect(try files.current() == reserved)
  }
  let first = try files.current()
  #expect(first == "\(folder)/store.sqlite")
  try change(from: "_a", to: "_b")
  let second = try files.current()
  #expect(second != first)
  try change(from: "_b", to: "_c")
  let third = try files.current()
  #expect(Set([first, second, third]).count == 3)
  try change(from: "_c", to: "_a")
  #expect(try files.current() == first)
  try change(from: "_a", to: "_c")
  #expect(try files.current() == third)
  // The file of an account that is removed is not that of a later account.
  #expect(FileManager.default.createFile(atPath: second, contents: nil))
  try files.remove("_b")
  #expect(!FileManager.default.fileExists(atPath: second))
  try files.remove("_c")
  #expect(try files.current() == third)
  try change(from: "_c", to: "_d")
  #expect(try ![first, third].contains(files.current()))
}

@Test func `nothing stays of an account that is removed, also if the process ends meanwhile or left a reset's file`()
  throws
{
  let folder = try TestContainer.makeFolder()
  defer { try? FileManager.default.removeItem(atPath: folder) }
  let files = AccountFiles("\(folder)/store.sqlite")
  let ben = try files.reserve("_ben", former: "_ada")
  let suffixes = ["", "-wal", "-shm", "-lock", "-reset", "-reset-wal", "-reset-shm"]
  func make(_ suffixes: [String]) throws {
    for suffix in suffixes { #expect(FileManager.default.createFile(atPath: ben + suffix, contents: nil)) }
    try FileManager.default.createDirectory(atPath: "\(ben)-contents/a", withIntermediateDirectories: true)
  }
  func left() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: folder) }
  try make(suffixes)
  // As if the process had ended before it removed the files.
  try Data(#"{"numbers":{"_ada":0},"current":0,"last":1,"removing":[1]}"#.utf8).write(
    to: URL(filePath: "\(folder)/store.sqlite-accounts"))
  _ = try files.current()
  #expect(try left() == ["store.sqlite-accounts"])
  // What somebody made there since is theirs.
  try make([""])
  _ = try files.current()
  #expect(FileManager.default.fileExists(atPath: ben))
  let cid = try files.reserve("_cid", former: "_ada")
  #expect(cid != ben)
  #expect(FileManager.default.createFile(atPath: "\(cid)-reset", contents: nil))
  try files.remove("_cid")
  #expect(!FileManager.default.fileExists(atPath: "\(cid)-reset"))
}

@Test func `a new account's file is none that is left over of another account`() throws {
  let folder = try TestContainer.makeFolder()
  defer { try? FileManager.default.removeItem(atPath: folder) }
  #expect(FileManager.default.createFile(atPath: "\(folder)/store.sqlite-account-1", contents: nil))
  let files = AccountFiles("\(folder)/store.sqlite")
  #expect(try files.reserve("_ben", former: "_ada") == "\(folder)/store.sqlite-account-2")
  // It is Ben's from now on, whether it is there or not.
  #expect(FileManager.default.createFile(atPath: "\(folder)/store.sqlite-account-2", contents: nil))
  #expect(try files.reserve("_ben", former: "_ada") == "\(folder)/store.sqlite-account-2")
}

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct AccountChangeTests {
  private func titles(_ container: PersistentContainer) async throws -> [String] {
    try await container.fetch(Photo.all.sorted(\.title.ascending)).compactMap(\.title)
  }

  @Test func `another user signs in while the app runs, and nothing of one is sent as the other`() async throws {
    try await Server.runPhotos { server in
      let (ada, ben) = (try await server.user("ada"), try await server.user("ben"))
      for name in ["ada", "ben"] { try await server.setPassword(of: name) }
      let transport = WatchedTransport()
      let (tokens, account) = { ($0, server.account($0)) }(KeptTokens(ada.token))
      let container = try await server.app("phone", account: account, [.private, .shared], transport: transport)
      var users = account.changes.makeAsyncIterator()
      #expect(await users.next() == .some(nil))
      container.sync.start()
      #expect(await users.next() == ada.recordName)
      let store = try #require(container.store(.private))
      let adasStore = store.identifier
      try await container.save { try $0.insert(Photo(title: "ada's first")) }
      try await container.sync.syncNow()

      // The server stores the second save, and the answer is under way when Ben signs in.
      transport.keepAnswers(to: "/transactions")
      try await container.save { try $0.insert(Photo(title: "ada's second")) }
      try await until("an export is under way") { transport.isKeeping }
      try await container.save { try $0.insert(Photo(title: "ada's third")) }
      let generation = try await container.currentQueryGeneration()
      var values = container.values(of: Photo.all.sorted(\.title.ascending)).makeAsyncIterator()
      #expect(try await values.next()?.count == 3)
      let view = await MainActor.run { container.viewContext }
      var changes = await view.changes.makeAsyncIterator()
      #expect(try await container.sync.signIn { try await Server.signIn("ben", at: $0) } == ben.recordName)
      transport.keepAnswers(to: nil)
      #expect(await users.next() == ben.recordName)
      try await container.sync.syncNow()
      let bensToken = try #require(tokens.tokens.last ?? nil)
      #expect(try await titles(container) == [] && account.userRecordName == ben.recordName)
      #expect(try await values.next() == [] && store.identifier != adasStore)
      #expect(await changes.next()?.invalidatedAllObjects == true)
      #expect(try await view.fetch(Photo.all) == [])
      await #expect(throws: StoreError.generationExpired) {
        try await container.read(at: generation) { try $0.count(Photo.all) }
      }
      try await container.save { try $0.insert(Photo(title: "ben's")) }
      try await container.sync.syncNow()
      #expect(try await values.next()?.compactMap(\.title) == ["ben's"])
      let bensStore = store.identifier

      // Ada is back: what she saved last is sent, once.
      #expect(try await container.sync.signIn { try await Server.signIn("ada", at: $0) } == ada.recordName)
      try await container.sync.syncNow()
      let all = ["ada's first", "ada's second", "ada's third"]
      #expect(try await titles(container) == all && store.identifier == adasStore)
      for (user, expected) in [(ada, all), (ben, ["ben's"])] {
        let laptop = try await server.app("laptop-\(user.recordName)", of: user)
        try await laptop.sync.syncNow()
        #expect(try await titles(laptop) == expected)
        await laptop.close()
      }
      await container.close()

      let sent = transport.sent.filter { $0.token != nil }
      #expect(sent.contains { $0.token == bensToken } && sent.contains { $0.token == ada.token })
      for request in sent {
        let foreign =
          request.token == bensToken
          ? ["ada's", adasStore.uuidString, ada.recordName] : ["ben's", bensStore.uuidString, ben.recordName]
        for text in foreign {
          #expect(!request.body.contains(text) && !request.url.contains(text), "\(request.method) \(request.url)")
        }
      }
    }
  }

  @Test func `what a user saves before the server has heard of their file is nobody else's`() async throws {
    try await Server.runPhotos { server in
      let (ada, ben) = (try await server.user("ada"), try await server.user("ben"))
      for name in ["ada", "ben"] { try await server.setPassword(of: name) }
      let transport = WatchedTransport()
      let container = try await server.app("phone", of: ada, transport: transport)
      let store = try #require(container.store(.private))
      try await container.sync.syncNow()
      let adasStore = store.identifier
      transport.loseRequests(to: "/mirror/")
      _ = try await container.sync.signIn { try await Server.signIn("ben", at: $0) }
      try await until("the store has Ben's file") { store.identifier != adasStore }
      try await container.save { try $0.insert(Photo(title: "ben's")) }
      _ = try await container.sync.signIn { try await Server.signIn("ada", at: $0) }
      transport.loseRequests(to: nil)
      try await container.sync.syncNow()
      #expect(try await titles(container) == [] && store.identifier == adasStore)
      #expect(!transport.sent.contains { $0.body.contains("ben's") })
      _ = try await container.sync.signIn { try await Server.signIn("ben", at: $0) }
      try await container.sync.syncNow()
      for (user, expected) in [(ada, []), (ben, ["ben's"])] {
        let laptop = try await server.app("laptop-\(user.recordName)", of: user)
        try await laptop.sync.syncNow()
        #expect(try await titles(laptop) == expected)
        await laptop.close()
      }
      await container.close()
    }
  }

  @Test func `who signs out goes on with the app, and what they save waits for them`() async throws {
    try await Server.runPhotos { server in
      let ada = try await server.user("ada")
      try await server.setPassword(of: "ada")
      let transport = WatchedTransport()
      let account = server.account(KeptTokens(ada.token))
      let container = try await server.app("phone", account: account, transport: transport)
      container.sync.start()
      let store = try #require(container.store(.private))
      try await container.sync.syncNow()
      await account.signOut()
      let count = transport.sent.count
      for await status in container.sync.status(of: store) where status.idle == .signedOut { break }
      try await container.save { try $0.insert(Photo(title: "later")) }
      await #expect(throws: StoreError.signedOut) { try await container.sync.syncNow() }
      #expect(transport.sent.count == count)
      _ = try await container.sync.signIn { try await Server.signIn("ada", at: $0) }
      try await container.sync.syncNow()
      let laptop = try await server.app("laptop", of: ada)
      try await laptop.sync.syncNow()
      #expect(try await titles(laptop) == ["later"])
      for container in [container, laptop] { await container.close() }
    }
  }

  @Test(arguments: [StoreHooks.AccountDecision.keepApart, .delete])
  func `an app that starts with another account's token opens that account's file`(
    _ decision: StoreHooks.AccountDecision
  ) async throws {
    try await Server.runPhotos { server in
      let (ada, ben) = (try await server.user("ada"), try await server.user("ben"))
      // Offline: nothing of it is sent.
      let first = try await server.app("phone", of: ada)
      try await first.sync.syncNow()
      await first.sync.setPaused(true)
      try await first.save { try $0.insert(Photo(title: "ada's")) }
      await first.close()
      let second = try await server.app("phone", of: ben) { store in
        store.hooks.accountChanged = { former, user in
          #expect(former == ada.recordName && user == ben.recordName)
          return decision
        }
      }
      try await second.sync.syncNow()
      #expect(try await titles(second) == [])
      await second.close()
      let third = try await server.app("phone", of: ada)
      try await third.sync.syncNow()
      #expect(try await titles(third) == (decision == .keepApart ? ["ada's"] : []))
      await third.close()
    }
  }

  @Test(arguments: [true, false])
  func `a user who signs in has the former one's objects when the app says so, and no duplicate of their own`(
    _ isInMemory: Bool
  ) async throws {
    try await Server.runPhotos(["--asset-threshold", "1000"]) { server in
      try server.refuseTagsOfOneName()
      let (ada, ben) = (try await server.user("ada"), try await server.user("ben"))
      for name in ["ada", "ben"] { try await server.setPassword(of: name) }
      let laptop = try await server.app("laptop", of: ben)
      let sea = Tag(name: "sea")
      try await laptop.save { try $0.insert(sea) }
      try await laptop.sync.syncNow()
      let account = server.account(KeptTokens(ada.token))
      let phone = try await server.app("phone", account: account) { store in
        if isInMemory { store.path = nil }
        store.hooks.accountChanged = { _, _ in .reupload }
      }
      phone.sync.start()
      let image = Data((0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
      let photo = try await phone.save { save in
        let (album, tag) = (try save.insert(Album(name: "Coast")), try save.insert(Tag(name: "sea")))
        let photo = try save.insert(
          Photo(title: "Dunes", secret: "key under the mat", image: ExternalData(image), album: album.id))
        for tag in [tag, try save.insert(Tag(name: "sand"))] { try save.add(tag.id, to: \.tags, of: photo.id) }
        return photo
      }.value
      try await phone.sync.syncNow()
      for name in ["ben", "ada", "ben"] {
        _ = try await phone.sync.signIn { try await Server.signIn(name, at: $0) }
        try await phone.sync.syncNow()
      }
      try await laptop.sync.syncNow()
      for container in [phone, laptop] {
        let found = try #require(try await container.read { try $0.object(photo.id) })
        #expect(found.secret == "key under the mat" && found.tagCount == 2)
        #expect(try await found.image?.data() == image)
        #expect(try await container.fetch(Photo.filter { $0.album[\.name] == "Coast" }).count == 1)
        #expect(Set(try await container.fetch(photo.tags).compactMap(\.name)) == ["sea", "sand"])
        #expect(try await container.fetch(Tag.filter { $0.name == "sea" }).map(\.id) == [sea.id])
      }
      let store = try #require(phone.store(.private))
      #expect(try await phone.sync.rejections(in: store).isEmpty)
      #expect(try await phone.events(type: .import).contains { $0.succeeded && $0.savedCount == 4 })
      for container in [phone, laptop] { await container.close() }
    }
  }

  @Test func `a store in memory keeps what each account has not sent until they are back`() async throws {
    try await Server.runPhotos { server in
      let (ada, ben) = (try await server.user("ada"), try await server.user("ben"))
      for name in ["ada", "ben"] { try await server.setPassword(of: name) }
      let account = server.account(KeptTokens(ada.token))
      let container = try await server.app("none", account: account) { $0.path = nil }
      container.sync.start()
      try await container.sync.syncNow()
      await container.sync.setPaused(true)
      try await container.save { try $0.insert(Photo(title: "ada's")) }
      for (name, expected) in [("ben", []), ("ada", ["ada's"])] {
        await container.sync.setPaused(false)
        _ = try await container.sync.signIn { try await Server.signIn(name, at: $0) }
        try await container.sync.syncNow()
        #expect(try await titles(container) == expected)
        await container.sync.setPaused(true)
      }
      #expect(account.userRecordName != ben.recordName)
      await container.close()
    }
  }
}
