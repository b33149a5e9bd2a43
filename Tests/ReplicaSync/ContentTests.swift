// Large values: sent once, named by others, fetched when they are wanted. Against the real server's processes.

import Foundation
import MirrorWire
import ReplicaSync
import ReplicaWorld
import Synchronization
import Testing

@testable import ReplicaStore

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct ContentTests {
  private func stored(_ server: Server) async throws -> StoredReplica {
    try await StoredReplica("\(server.folder.path)/\(UUID().uuidString)", modelHash: server.modelHash)
  }

  @Test func `contents go before their save; small ones come with their objects, large ones when they are read`()
    async throws
  {
    try await Server.run(["--asset-threshold", "1000"]) { server in
      let user = try await server.user("grace")
      let (phone, laptop) = (try await stored(server), try await stored(server))
      let devices = [try await Device(user, replica: phone), try await Device(user, replica: laptop)]
      for device in devices { try await device.sync() }
      let contents = [20_000, 4_000_000].map { count in
        Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 256) })
      }
      let names = try contents.map { content in
        let file = server.folder.appending(path: UUID().uuidString)
        try content.write(to: file)
        return try ContentFile.measure(file.path)
      }
      _ = try await phone.replica.save(SaveOptions()) { save in
        for (place, name) in names.enumerated() {
          let columns = try save.schema.entity("Post").columns
          let values = columns.map { $0.name == "photo" ? Literal.text(name.text) : .null }
          let id = AnyObjectID(entityName: "Post", recordName: "p\(place)")
          try save.insert(id, values, contents: [name.checksum: .data(contents[place])])
        }
      }
      try await devices[0].sync()
      try await devices[1].sync()
      try await until { try await laptop.replica.figures().missingContents == 1 }
      let missing = try await laptop.replica.contentsToDownload(byteLimit: .max, limit: 10)
      let checksum = try #require(missing.first?.checksum)
      #expect(missing.count == 1 && missing[0].byteCount == 4_000_000 && missing[0].path == nil)
      // A part of an earlier attempt is gone on with; a wrong part is not taken.
      let partial = URL(filePath: laptop.replica.partialPath(of: checksum))
      try FileManager.default.createDirectory(
        at: partial.deletingLastPathComponent(), withIntermediateDirectories: true)
      try contents[1].prefix(300_000).write(to: partial)
      try await devices[1].loop.fetchContent(checksum)
      let path = try #require(try await laptop.replica.content(checksum)?.content.path)
      #expect(try Data(contentsOf: URL(filePath: path)) == contents[1])
      // A third device, whose part is of other bytes.
      let tablet = try await stored(server)
      let third = try await Device(user, replica: tablet)
      try await third.sync()
      let wrong = URL(filePath: tablet.replica.partialPath(of: checksum))
      try FileManager.default.createDirectory(at: wrong.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(repeating: 1, count: 300_000).write(to: wrong)
      try await third.loop.fetchContent(checksum)
      let again = try #require(try await tablet.replica.content(checksum)?.content.path)
      #expect(try Data(contentsOf: URL(filePath: again)) == contents[1])
      for device in devices + [third] { await device.mirroring.stop() }
    }
  }

  @Test func `a content whose receipt the server does not take is sent again, and its save is not lost`() async throws {
    try await Server.run(["--asset-threshold", "1000"]) { server in
      let user = try await server.user("grace")
      let replica = try await stored(server)
      let phone = try await Device(user, replica: replica)
      try await phone.sync()
      await phone.mirroring.stop()
      let content = Data(repeating: 7, count: 50_000)
      let file = server.folder.appending(path: UUID().uuidString)
      try content.write(to: file)
      let name = try ContentFile.measure(file.path)
      try await insert("p1", name, into: replica, [name.checksum: .data(content)])
      // As if it were of long ago, or of another server.
      let wrong = AssetReference(fileChecksum: name.fileChecksum, size: name.byteCount, receipt: "no receipt")
      try await replica.replica.keepReceipt(wrong, for: name.checksum, until: .distantFuture)
      try await phone.sync()
      #expect(try await replica.replica.rejected().isEmpty)
      let laptop = try await stored(server)
      let other = try await Device(user, replica: laptop)
      try await other.sync()
      #expect(try await other.shown().count == 1)
      // Several readers, beside the loop's own fetch of small contents.
      let (loop, checksum) = (other.loop, name.checksum)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<4 { group.addTask { try await loop.fetchContent(checksum) } }
        try await group.waitForAll()
      }
      for device in [phone, other] { await device.mirroring.stop() }
    }
  }

  @Test func `a content that another object has is named, although it is not here, and not sent again`() async throws {
    try await Server.run(["--asset-threshold", "1000"]) { server in
      let user = try await server.user("grace")
      let (phone, laptop) = (try await stored(server), try await stored(server))
      let uploadCount = Mutex(0)
      let transport = FaultyTransport(inner: CurlTransport()) { request in
        if request.body?.count ?? 0 >= 1_000_000 { uploadCount.withLock { $0 += 1 } }
        return .none
      }
      let devices = [
        try await Device(user, replica: phone, transport: transport),
        try await Device(user, replica: laptop, transport: transport),
      ]
      let content = Data(repeating: 7, count: 1_000_000)
      let file = server.folder.appending(path: UUID().uuidString)
      try content.write(to: file)
      let name = try ContentFile.measure(file.path)
      try await insert("p1", name, into: phone, [name.checksum: .data(content)])
      for device in devices { try await device.sync() }
      let known = try #require(try await laptop.replica.content(name.checksum))
      #expect(known.content.path == nil && known.owner.recordName == "p1")
      try await insert("p2", name, into: laptop, [:])
      for device in [devices[1], devices[0]] { try await device.sync() }
      #expect(uploadCount.withLock { $0 } == 1)
      #expect(try await laptop.replica.rejected().isEmpty)
      #expect(try await phone.shown().count == 2)
      // The address of the import has ended meanwhile: another one is asked for.
      try await misplace(name, at: devices[1], until: .distantPast)
      try await devices[1].loop.fetchContent(name.checksum)
      let path = try #require(try await laptop.replica.content(name.checksum)?.content.path)
      #expect(try Data(contentsOf: URL(filePath: path)) == content)
      for device in devices { await device.mirroring.stop() }
    }
  }

  /// Two devices, and a content that neither of them keeps.
  private func withTwoDevices(
    transport: any Transport = CurlTransport(),
    _ body: (_ phone: Device, _ laptop: Device, _ content: Data, _ name: ContentName) async throws -> Void
  ) async throws {
    try await Server.run(["--asset-threshold", "1000"]) { server in
      let user = try await server.user("grace")
      let phone = try await Device(user, replica: try await stored(server))
      let laptop = try await Device(user, replica: try await stored(server), transport: transport)
      for device in [phone, laptop] { try await device.sync() }
      let content = Data(repeating: 7, count: 1_000_000)
      try await body(phone, laptop, content, try measured(content, server))
      for device in [phone, laptop] { await device.mirroring.stop() }
    }
  }

  private func measured(_ content: Data, _ server: Server) throws -> ContentName {
    let file = server.folder.appending(path: UUID().uuidString)
    try content.write(to: file)
    return try ContentFile.measure(file.path)
  }

  private func replica(_ device: Device) throws -> StoredReplica { try #require(device.replica as? StoredReplica) }

  private func expect(_ content: Data, _ name: ContentName, at device: Device) async throws {
    try await device.loop.fetchContent(name.checksum)
    let path = try #require(try await device.replica.store.content(name.checksum)?.content.path)
    #expect(try Data(contentsOf: URL(filePath: path)) == content)
  }

  /// Gives a content an address that leads nowhere.
  private func misplace(_ name: ContentName, at device: Device, until expiry: Date) async throws {
    let owner = try #require(try await device.replica.store.content(name.checksum)?.owner)
    let gone = "\(device.user.server.gateway)/gone"
    try await device.replica.store.keepAddress(gone, of: owner, for: name.checksum, until: expiry)
  }

  @Test func `a content is fetched from another object that has it when the one that was told last is deleted`()
    async throws
  {
    try await withTwoDevices { phone, laptop, content, name in
      for post in ["p1", "p2"] {
        try await insert(post, name, into: try replica(phone), [name.checksum: .data(content)])
        for device in [phone, laptop] { try await device.sync() }
      }
      try await phone.replica.save { $0.delete("p2") }
      for device in [phone, laptop] { try await device.sync() }
      try await misplace(name, at: laptop, until: .distantPast)
      try await expect(content, name, at: laptop)
      // From then on that object is known to have it.
      #expect(try await laptop.replica.store.content(name.checksum)?.owner.recordName == "p1")
    }
  }

  @Test func `a content that the server has no more is asked for once, and again when it is read`() async throws {
    try await withTwoDevices { phone, laptop, content, name in
      try await insert("p1", name, into: try replica(phone), [name.checksum: .data(content)])
      for device in [phone, laptop] { try await device.sync() }
      try await phone.replica.save { $0.delete("p1") }
      for device in [phone, laptop] { try await device.sync() }
      try await misplace(name, at: laptop, until: .distantPast)
      for _ in 0..<2 {
        await #expect(throws: StoreError.damaged("the server has no content \(name.checksum)")) {
          try await laptop.loop.fetchContent(name.checksum)
        }
        #expect(try await laptop.replica.store.figures().missingContents == 0)
      }
      try await insert("p2", name, into: try replica(phone), [name.checksum: .data(content)])
      for device in [phone, laptop] { try await device.sync() }
      try await expect(content, name, at: laptop)
    }
  }

  @Test func `a content is fetched from the copy that this device made when the original is deleted`() async throws {
    try await withTwoDevices { phone, laptop, content, name in
      try await insert("p1", name, into: try replica(phone), [name.checksum: .data(content)])
      for device in [phone, laptop] { try await device.sync() }
      try await insert("p2", name, into: try replica(laptop), [:])
      for device in [laptop, phone] { try await device.sync() }
      try await phone.replica.save { $0.delete("p1") }
      for device in [phone, laptop] { try await device.sync() }
      try await misplace(name, at: laptop, until: .distantPast)
      // A copy of the copy needs a receipt, and nobody here has the bytes.
      let store = try replica(laptop).replica
      let reference = AssetReference(fileChecksum: name.fileChecksum, size: name.byteCount, receipt: "old")
      try await store.keepReceipt(reference, for: name.checksum, until: .distantPast)
      try await insert("p3", name, into: try replica(laptop), [:])
      for device in [laptop, phone] { try await device.sync() }
      #expect(try await store.rejected().isEmpty)
      #expect(try await phone.shown().count == 2)
      try await expect(content, name, at: laptop)
    }
  }

  @Test func `two contents of one length in one object are told apart`() async throws {
    try await withTwoDevices { phone, laptop, content, photo in
      var other = content
      other[0] = 8
      let sketch = try measured(other, phone.user.server)
      _ = try await replica(phone).replica.save(SaveOptions()) { [content, other] save in
        let names = ["photo": photo.text, "sketch": sketch.text]
        let values = try save.schema.entity("Post").columns.map { names[$0.name].map(Literal.text) ?? .null }
        try save.insert(
          AnyObjectID(entityName: "Post", recordName: "p1"), values,
          contents: [photo.checksum: .data(content), sketch.checksum: .data(other)])
      }
      for device in [phone, laptop] { try await device.sync() }
      for (bytes, name) in [(content, photo), (other, sketch)] {
        try await misplace(name, at: laptop, until: .distantPast)
        try await expect(bytes, name, at: laptop)
      }
    }
  }

  @Test func `an address that the server refuses before its time is replaced`() async throws {
    try await withTwoDevices { phone, laptop, content, name in
      try await insert("p1", name, into: try replica(phone), [name.checksum: .data(content)])
      for device in [phone, laptop] { try await device.sync() }
      try await misplace(name, at: laptop, until: .distantFuture)
      try await expect(content, name, at: laptop)
    }
  }

  @Test func `a save whose content nobody has is set aside, and others go on`() async throws {
    try await withTwoDevices { phone, laptop, content, name in
      await phone.mirroring.stop()
      let stored = try replica(phone)
      try await insert("p1", name, into: stored, [name.checksum: .data(content)])
      try await phone.replica.save { $0.insert("Tag", "t1", ["name": .string("sea")]) }
      let path = try #require(try await stored.replica.content(name.checksum)?.content.path)
      try FileManager.default.removeItem(atPath: path)
      for device in [phone, laptop] { try await device.sync() }
      #expect(try await stored.replica.rejected().map { $0.objects.map(\.recordName) } == [["p1"]])
      #expect(try await laptop.shown() == ["Tag t1: name=string(\"sea\")"])
    }
  }

  /// Streams that are silent until they are cancelled.
  private struct SilentStreams: Transport {
    let inner = CurlTransport()
    let streams = AsyncStream<Void>.makeStream()

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
      try await inner.send(request)
    }

    func stream(_ request: TransportRequest, silence: Duration) async throws(TransportError) -> TransportStream {
      let (chunks, pieces) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
      pieces.yield([7, 7, 7])
      pieces.onTermination = { _ in withExtendedLifetime(pieces) {} }
      streams.continuation.yield()
      return TransportStream(status: 200, chunks: chunks)
    }
  }

  @Test(.timeLimit(.minutes(1))) func `mirroring that stops ends a silent download, and keeps what has arrived`()
    async throws
  {
    let transport = SilentStreams()
    try await withTwoDevices(transport: transport) { phone, laptop, content, name in
      try await insert("p1", name, into: try replica(phone), [name.checksum: .data(content)])
      for device in [phone, laptop] { try await device.sync() }
      let loop = laptop.loop
      let reader = Task { try await loop.fetchContent(name.checksum) }
      for await _ in transport.streams.stream { break }
      let partial = laptop.replica.store.partialPath(of: name.checksum)
      try await until { FileManager.default.contents(atPath: partial)?.count == 3 }
      await laptop.mirroring.stop()
      await #expect(throws: StoreError.offline) { try await reader.value }
      #expect(FileManager.default.contents(atPath: partial)?.count == 3)
    }
  }

  @Test func `a content of an object that a reset tells is fetched, and named by another object`() async throws {
    try await Server.run(["--asset-threshold", "1000"]) { server in
      let user = try await server.user("grace")
      let (phone, laptop) = (try await stored(server), try await stored(server))
      let devices = [try await Device(user, replica: phone), try await Device(user, replica: laptop)]
      try await devices[1].sync()
      let content = Data(repeating: 7, count: 1_000_000)
      let file = server.folder.appending(path: UUID().uuidString)
      try content.write(to: file)
      let name = try ContentFile.measure(file.path)
      try await insert("p1", name, into: phone, [name.checksum: .data(content)])
      await devices[1].mirroring.stop()
      try await devices[0].sync()
      await devices[1].loop.take(.resetWanted)
      try await devices[1].sync()
      #expect(try await laptop.replica.content(name.checksum)?.owner.recordName == "p1")
      try await insert("p2", name, into: laptop, [:])
      for device in [devices[1], devices[0]] { try await device.sync() }
      #expect(try await laptop.replica.rejected().isEmpty)
      #expect(try await phone.shown().count == 2)
      try await devices[1].loop.fetchContent(name.checksum)
      let path = try #require(try await laptop.replica.content(name.checksum)?.content.path)
      #expect(try Data(contentsOf: URL(filePath: path)) == content)
      for device in devices { await device.mirroring.stop() }
    }
  }

  private func insert(
    _ post: String, _ photo: ContentName, into replica: StoredReplica, _ contents: [String: ContentSource]
  ) async throws {
    _ = try await replica.replica.save(SaveOptions()) { save in
      let values = try save.schema.entity("Post").columns.map { $0.name == "photo" ? Literal.text(photo.text) : .null }
      try save.insert(AnyObjectID(entityName: "Post", recordName: post), values, contents: contents)
    }
  }

  private func until(_ condition: () async throws -> Bool) async throws {
    for _ in 0..<2000 {
      if try await condition() { return }
      try await Task.sleep(for: .milliseconds(5))
    }
    throw Unexpected("the condition did not come true")
  }
}
