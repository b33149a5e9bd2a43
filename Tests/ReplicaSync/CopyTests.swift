// Copied files: another device, which knows what the copied one knew. Against the real server's processes.

import Foundation
import MirrorWire
import ReplicaSync
import ReplicaWorld
import Testing

@testable import ReplicaStore

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct CopyTests {
  private func copy(_ first: String, to second: String, _ server: Server) throws {
    for name in try FileManager.default.contentsOfDirectory(atPath: server.folder.path) where name.hasPrefix(first) {
      let copy = name.replacing(first, with: second)
      try FileManager.default.copyItem(atPath: "\(server.folder.path)/\(name)", toPath: "\(server.folder.path)/\(copy)")
    }
  }

  @Test func `a copied file is another device: it imports from the beginning, and neither hides the other's changes`()
    async throws
  {
    try await Server.run { server in
      let user = try await server.user("grace")
      let path = "\(server.folder.path)/first"
      let first = try await StoredReplica(path, modelHash: server.modelHash)
      let phone = try await Device(user, replica: first)
      try await phone.sync()
      try await phone.replica.save { $0.insert("Tag", "t1", ["name": .string("sea")]) }
      try await phone.sync()
      await phone.mirroring.stop()
      let former = try await first.replica.position().storeIdentifier
      await first.replica.close()
      try copy("first", to: "second", server)
      let replicas = [
        try await StoredReplica(path, modelHash: server.modelHash),
        try await StoredReplica("\(server.folder.path)/second", modelHash: server.modelHash),
      ]
      #expect(try await replicas[0].replica.position().storeIdentifier == former)
      #expect(try await replicas[1].replica.position().storeIdentifier != former)
      let devices = [try await Device(user, replica: replicas[0]), try await Device(user, replica: replicas[1])]
      for (index, device) in devices.enumerated() {
        try await device.replica.save { $0.insert("Tag", "of-\(index)", ["name": .string("sand")]) }
      }
      for _ in 0..<2 { for device in devices { try await device.sync() } }
      for device in devices {
        #expect(try await device.shown().count == 3)
        await device.mirroring.stop()
      }
    }
  }

  @Test func `a copy loses what was purged before the server knew it, and sends what waits in it`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let path = "\(server.folder.path)/first"
      let first = try await StoredReplica(path, modelHash: server.modelHash)
      let former = try await Device(user, replica: first)
      try await former.replica.save { edit in
        edit.insert("Tag", "t1", ["name": .string("sea")])
        edit.insert("Post", "p1", ["title": .string("Dunes")])
        edit.pair("p1", "t1", isMade: true)
      }
      try await former.sync()
      await former.mirroring.stop()
      try await former.replica.save { $0.insert("Tag", "t2", ["name": .string("waits")]) }
      await first.replica.close()
      try copy("first", to: "second", server)
      let phone = try await Device(user, replica: try await StoredReplica(path, modelHash: server.modelHash))
      try await phone.sync()
      try await server.end("com.apple.coredata.cloudkit.zone", of: user, "purged")
      try await phone.sync()
      try await phone.replica.save { $0.insert("Tag", "t3", ["name": .string("later")]) }
      try await phone.sync()
      let second = try await StoredReplica("\(server.folder.path)/second", modelHash: server.modelHash)
      let copied = try await Device(user, replica: second)
      try await copied.replica.save { $0.insert("Tag", "t4", ["name": .string("own")]) }
      for device in [copied, phone, copied] { try await device.sync() }
      let expected = ["t2: name=string(\"waits\")", "t3: name=string(\"later\")", "t4: name=string(\"own\")"]
      for device in [phone, copied] { #expect(try await Set(device.shown()) == Set(expected.map { "Tag \($0)" })) }
      #expect(try await second.replica.position().resetReason == nil)
      #expect(try await second.replica.rejected().isEmpty)
      for device in [phone, copied] { await device.mirroring.stop() }
    }
  }

  @Test func `a copy loses what was shared when the owner took it back before the server knew it`() async throws {
    try await Server.run { server in
      let (grace, ida) = (try await server.user("grace"), try await server.user("ida"))
      let phone = try await Device(
        grace, replica: try await StoredReplica("\(server.folder.path)/phone", modelHash: server.modelHash))
      try await phone.sync()
      try await phone.replica.save { $0.insert("Post", "p1", ["title": .string("Dunes")]) }
      let sharing = Sharing(phone.loop, surroundings: .quick, syncLimit: .seconds(3000))
      var (share, _) = try await sharing.share(["p1"], to: nil, title: "Our dunes", publicPermission: .none)
      let people = try await sharing.participants(matching: [.emailAddress("ida@example.org")])
      for person in people { share.addParticipant(person) }
      share = try await sharing.persist(share)
      func tablet(_ name: String) async throws -> Device {
        let path = "\(server.folder.path)/\(name)"
        let replica = try await StoredReplica(path, modelHash: server.modelHash, isShared: true)
        return try await Device(ida, scope: "shared", replica: replica)
      }
      let former = try await tablet("first")
      try await former.sync()
      _ = try await Sharing(former.loop, surroundings: .quick, syncLimit: .seconds(3000)).accept([share.url])
      #expect(try await former.shown().count == 1)
      await former.mirroring.stop()
      await former.replica.close()
      try copy("first", to: "second", server)
      share.removeParticipant(
        try #require(share.participants.first { $0.userRecordName == ida.recordName }?.id))
      _ = try await sharing.persist(share)
      for name in ["second", "first"] {
        let device = try await tablet(name)
        try await device.sync()
        #expect(try await device.shown().isEmpty)
        await device.mirroring.stop()
      }
      await phone.mirroring.stop()
    }
  }
}
