// Networks that cut a connection at any byte: against the real server's processes.

import CuttingProxy
import Foundation
import MirrorWire
import ReplicaSync
import ReplicaWorld
import Testing

@testable import ReplicaStore

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct CutTests {
  private func stored(_ server: Server) async throws -> StoredReplica {
    try await StoredReplica("\(server.folder.path)/\(UUID().uuidString)", modelHash: server.modelHash)
  }

  @Test func `a cut at any byte of a request or an answer loses nothing and doubles nothing`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let proxy = try CuttingProxy(to: server.gateway)
      let account = user.account(gateway: proxy.address, hasPings: false)
      let (replica, other) = (try await stored(server), try await Device(user, replica: try await stored(server)))
      let mirroring = Mirroring(
        account: account, container: Server.container, environment: "development", transport: CurlTransport(),
        surroundings: .quick)
      var options = MirrorOptions()
      options.lease = nil
      let loop = try await mirroring.add(replica.replica, scope: "private", options: options)
      try await other.sync()
      var (saved, number) = (0, 0)
      // Every place of the first exchange, then every 37th: an exchange has some 2000 bytes.
      for place in Array(1..<60) + stride(from: 60, to: 2200, by: 37) {
        for isRequest in [true, false] {
          number += 1
          let name = "t\(number)"
          try await replica.save { $0.insert("Tag", name, ["name": .string("tag")]) }
          try await other.replica.save { $0.insert("Tag", "o\(name)", ["name": .string("other")]) }
          saved += 2
          try await other.sync()
          proxy.set(.init(requestByteCount: isRequest ? place : nil, answerByteCount: isRequest ? nil : place))
          try await mirroring.start()
          await loop.take(.pinged)
          for _ in 0..<20 { try await Task.sleep(for: .milliseconds(1)) }
          proxy.set(.init())
          try await loop.syncNow(timeout: .seconds(6000))
        }
      }
      try await other.sync()
      let (shown, others) = (try await replica.shown(), try await other.shown())
      #expect(shown.count == saved && shown == others)
      await mirroring.stop()
      await other.mirroring.stop()
    }
  }

  @Test func `a content whose download is cut goes on where it ended`() async throws {
    try await Server.run(["--asset-threshold", "1000"]) { server in
      let user = try await server.user("grace")
      let phone = try await stored(server)
      let sender = try await Device(user, replica: phone)
      try await sender.sync()
      let content = Data((0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 256) })
      let file = server.folder.appending(path: UUID().uuidString)
      try content.write(to: file)
      let name = try ContentFile.measure(file.path)
      _ = try await phone.replica.save(SaveOptions()) { save in
        let values = try save.schema.entity("Post").columns.map { $0.name == "photo" ? Literal.text(name.text) : .null }
        let id = AnyObjectID(entityName: "Post", recordName: "p1")
        try save.insert(id, values, contents: [name.checksum: .data(content)])
      }
      try await sender.sync()
      let proxy = try CuttingProxy(to: server.gateway)
      let laptop = try await stored(server)
      let mirroring = Mirroring(
        account: user.account(gateway: proxy.address, hasPings: false), container: Server.container,
        environment: "development", transport: DetouredTransport(from: server.gateway, to: proxy.address),
        surroundings: .quick)
      let loop = try await mirroring.add(laptop.replica, scope: "private", options: MirrorOptions())
      try await mirroring.start()
      try await loop.syncNow(timeout: .seconds(6000))
      await mirroring.stop()
      proxy.set(.init(answerByteCount: 2_000_000))
      await #expect(throws: StoreError.offline) { try await loop.fetchContent(name.checksum) }
      proxy.set(.init())
      try await loop.fetchContent(name.checksum)
      // Some of it came with the first attempt.
      #expect(proxy.passedByteCounts.answer < 4_500_000)
      let path = try #require(try await laptop.replica.content(name.checksum)?.content.path)
      #expect(try Data(contentsOf: URL(filePath: path)) == content)
      await sender.mirroring.stop()
    }
  }

  @Test func `a cut at any byte of an upload loses no content, and its save is there once`() async throws {
    try await Server.run(["--asset-threshold", "1000"] + Server.unlimited) { server in
      let user = try await server.user("grace")
      let phone = try await CutDevice(user)
      try await phone.sync()
      var contents: [String: Data] = [:]
      // A token of 1 kB, a content of 3 kB and a save of 1 kB.
      for (number, cut) in CutDevice.cuts(to: 6000, by: 113).enumerated() {
        let content = Data((0..<3000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ number &* 7 &+ $0 / 256) })
        let name = ContentName(checksum: SHA256.name(of: content), byteCount: 3000)
        contents[name.checksum] = content
        try await phone.cutting(cut) {
          _ = try await phone.replica.replica.save(SaveOptions()) { save in
            let columns = try save.schema.entity("Post").columns
            let values = columns.map { $0.name == "photo" ? Literal.text(name.text) : .null }
            let id = AnyObjectID(entityName: "Post", recordName: "p\(number)")
            try save.insert(id, values, contents: [name.checksum: .data(content)])
          }
        }
        try await phone.sync()
      }
      await phone.mirroring.stop()
      let laptop = try await stored(server)
      let other = try await Device(user, replica: laptop)
      try await other.sync()
      #expect(try await other.shown().count == contents.count)
      for (checksum, content) in contents {
        try await other.loop.fetchContent(checksum)
        let path = try #require(try await laptop.replica.content(checksum)?.content.path)
        #expect(try Data(contentsOf: URL(filePath: path)) == content)
      }
      await other.mirroring.stop()
    }
  }

  @Test func `a cut at any byte while a share is made, changed and ended leaves one share or none`() async throws {
    try await Server.run(Server.unlimited) { server in
      let user = try await server.user("grace")
      let phone = try await CutDevice(user)
      try await phone.sync()
      let sharing = phone.sharing
      for (number, cut) in CutDevice.cuts(to: 2000, by: 197).enumerated() {
        let name = "p\(number)"
        try await phone.replica.save { $0.insert("Post", name, ["title": .string("Dunes")]) }
        let (share, moved) = try await phone.cutting(cut) {
          try await sharing.share([name], to: nil, title: "first", publicPermission: .none)
        }
        #expect(moved == [name] && share.title == "first")
        #expect(try await phone.loop.plane.shares().shares.count == 1)
        var changed = share
        changed.title = "second"
        let draft = changed
        let saved = try await phone.cutting(cut) { try await sharing.persist(draft) }
        #expect(saved.title == "second")
        try await phone.cutting(cut) { try await sharing.purge(saved.zone, keepCopy: false) }
        #expect(try await phone.loop.plane.shares().shares.isEmpty)
        #expect(try await phone.replica.shown().isEmpty)
      }
      await phone.mirroring.stop()
    }
  }
}
