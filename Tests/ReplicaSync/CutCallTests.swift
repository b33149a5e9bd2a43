// Cuts at any byte of calls that a store makes now and then: set-ups, resets, acceptances, and receipts for contents
// that the server has. Against the real server's processes.

import CuttingProxy
import Foundation
import MirrorWire
import ReplicaSync
import ReplicaWorld
import Testing

@testable import ReplicaStore

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct CutCallTests {
  private func device(_ user: User) async throws -> Device {
    let path = "\(user.server.folder.path)/\(UUID().uuidString)"
    return try await Device(user, replica: try await StoredReplica(path, modelHash: user.server.modelHash))
  }

  @Test func `a cut at any byte of a set-up leaves no lease that keeps the store out`() async throws {
    try await Server.run(Server.unlimited) { server in
      let user = try await server.user("grace")
      let other = try await device(user)
      for (number, cut) in CutDevice.cuts(to: 1500, by: 101).enumerated() {
        try await other.replica.save { $0.insert("Tag", "o\(number)", ["name": .string("theirs")]) }
        try await other.sync()
        let phone = try await CutDevice(user)
        try await phone.replica.save { $0.insert("Tag", "p\(number)", ["name": .string("mine")]) }
        try await phone.cutting(cut) { try await phone.mirroring.start() }
        try await phone.sync()
        try await other.sync()
        let (shown, others) = (try await phone.replica.shown(), try await other.shown())
        #expect(shown.count == 2 * (number + 1) && shown == others)
        let position = try await phone.replica.replica.position()
        #expect(position.newLeaseToken.map(String.init) == position.leaseToken)
        await phone.mirroring.stop()
      }
      await other.mirroring.stop()
    }
  }

  @Test func `a cut at any byte of a reset leaves the reset done, once the network is back`() async throws {
    try await Server.run(Server.unlimited) { server in
      let user = try await server.user("grace")
      let (other, phone) = (try await device(user), try await CutDevice(user))
      try await phone.sync()
      for (number, cut) in CutDevice.cuts(to: 2500, by: 211).enumerated() {
        try await other.replica.save { $0.insert("Tag", "o\(number)", ["name": .string("theirs")]) }
        try await other.sync()
        try await phone.replica.save { $0.insert("Tag", "p\(number)", ["name": .string("mine")]) }
        func resetCount() -> Int {
          phone.transport.answered.count { $0.request.url.contains("/reset?") && $0.status == 200 }
        }
        let before = resetCount()
        try await phone.cutting(cut) { await phone.loop.take(.resetWanted) }
        try await phone.sync()
        #expect(resetCount() > before)
        try await other.sync()
        let (shown, others) = (try await phone.replica.shown(), try await other.shown())
        #expect(shown.count == 2 * (number + 1) && shown == others)
        let position = try await phone.replica.replica.position()
        #expect(position.resetReason == nil && position.failedResetCount == 0)
      }
      for mirroring in [other.mirroring, phone.mirroring] { await mirroring.stop() }
    }
  }

  @Test func `a cut at any byte while a content gets another receipt loses no save, and sends no content again`()
    async throws
  {
    try await Server.run(["--asset-threshold", "1000"] + Server.unlimited) { server in
      let user = try await server.user("grace")
      let (other, phone) = (try await device(user), try await CutDevice(user))
      try await phone.sync()
      let content = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 256) })
      let name = ContentName(checksum: SHA256.name(of: content), byteCount: 100_000)
      @Sendable func insert(_ object: String, _ replica: any MirroredStore, _ contents: [String: ContentSource])
        async throws
      {
        let replica = try #require(replica as? Replica)
        _ = try await replica.save(SaveOptions()) { save in
          let columns = try save.schema.entity("Post").columns
          let values = columns.map { $0.name == "photo" ? Literal.text(name.text) : .null }
          try save.insert(AnyObjectID(entityName: "Post", recordName: object), values, contents: contents)
        }
      }
      try await insert("first", other.replica.store, [name.checksum: .data(content)])
      try await other.sync()
      try await phone.sync()
      let cuts = CutDevice.cuts(to: 2500, by: 157)
      for (number, cut) in cuts.enumerated() {
        try await phone.cutting(cut) { try await insert("p\(number)", phone.replica.store, [:]) }
        try await phone.sync()
      }
      #expect(phone.transport.answered.contains { $0.request.url.hasSuffix("/assets/rereference") })
      #expect(!phone.transport.answered.contains { $0.request.body?.count ?? 0 >= content.count })
      #expect(try await phone.replica.replica.rejected().isEmpty)
      try await other.sync()
      #expect(try await other.shown().count == cuts.count + 1)
      for mirroring in [other.mirroring, phone.mirroring] { await mirroring.stop() }
    }
  }

  @Test func `a cut at any byte of an acceptance leaves the share accepted, and its objects here`() async throws {
    try await Server.run(Server.unlimited) { server in
      let owner = try await device(try await server.user("grace"))
      let guest = try await CutDevice(try await server.user("ida"), scope: "shared")
      try await guest.sync()
      let sharing = Sharing(owner.loop, surroundings: .quick, syncLimit: .seconds(6000))
      for (number, cut) in CutDevice.cuts(to: 4000, by: 331).enumerated() {
        try await owner.replica.save { $0.insert("Post", "p\(number)", ["title": .string("Dunes")]) }
        try await owner.sync()
        let share = try await sharing.share(["p\(number)"], to: nil, title: "Dunes", publicPermission: .readWrite).share
        let guestSharing = guest.sharing
        let accepted = try await guest.cutting(cut) { try await guestSharing.accept([share.url]) }
        #expect(accepted.map(\.zone.zoneName) == [share.zone.zoneName])
        #expect(try await guest.replica.shown().count == number + 1)
      }
      for mirroring in [owner.mirroring, guest.mirroring] { await mirroring.stop() }
    }
  }
}
