// A server that lost its latest saves, and leases that end: against the real server's processes.

import Foundation
import MirrorWire
import ReplicaSync
import Synchronization
import Testing

@testable import ReplicaStore

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct RestoredServerTests {
  private func stored(_ server: Server) async throws -> StoredReplica {
    try await StoredReplica("\(server.folder.path)/\(UUID().uuidString)", modelHash: server.modelHash)
  }

  @Test func `a server that was restored from a backup is sent again what it lost, and nothing twice`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      var replicas: [any JournalReplica] = [try await stored(server), try await stored(server)]
      var devices: [Device] = []
      for replica in replicas { devices.append(try await Device(user, replica: replica)) }
      func save(_ place: Int, _ edit: @escaping @Sendable (inout any JournalEdit) -> Void) async throws {
        try await devices[place].replica.save(edit)
        for device in [devices[place], devices[1 - place]] { try await device.sync() }
      }
      for number in 1...3 { try await save(0) { $0.insert("Tag", "t\(number)", ["name": .string("sea")]) } }
      try await save(0) { $0.set("name", of: "t1", .string("first")) }
      try await save(1) { $0.set("name", of: "t1", .string("second")) }
      let backup = "\(server.folder.path)/backup"
      _ = try server.aquifer("backup", backup)
      try await save(0) { $0.insert("Post", "p1", ["title": .string("lost")]) }
      try await save(0) { $0.set("name", of: "t2", .string("sand")) }
      try await save(1) { $0.delete("t3") }
      try await save(1) { $0.pair("p1", "t2", isMade: true) }
      for device in devices { await device.mirroring.stop() }
      try await devices[0].replica.save { $0.set("score", of: "p1", .integer(7)) }
      let expected = try await devices[0].shown()
      for place in devices.indices { replicas[place] = try await devices[place].replica.reopened() }
      try await server.restored(from: backup) { restored in
        let user = User(server: restored, name: user.name, recordName: user.recordName, token: user.token)
        devices = []
        for replica in replicas { devices.append(try await Device(user, replica: replica, pageLimit: 2)) }
        for _ in 0..<3 { for device in devices { try await device.sync() } }
        let fresh = try await Device(user)
        try await fresh.sync()
        for device in devices + [fresh] {
          #expect(try await device.shown() == expected)
          #expect(try await device.replica.store.rejected().isEmpty)
          await device.mirroring.stop()
        }
      }
    }
  }

  @Test func `a lease is prolonged by an import when half of it is over`() async throws {
    try await Server.run { server in
      let setUps = Mutex(0)
      let count: @Sendable (TransportRequest) -> FaultyTransport.Fault = { request in
        if request.method == "PUT" { setUps.withLock { $0 += 1 } }
        return .none
      }
      let transport = FaultyTransport(inner: CurlTransport(), next: count)
      let phone = try await Device(
        try await server.user("grace"), replica: try await stored(server), transport: transport, lease: 3600)
      for _ in 0..<3 { try await phone.sync() }
      #expect(setUps.withLock { $0 } == 1)
      await phone.mirroring.stop()
      let tablet = try await Device(
        try await server.user("alan"), replica: try await stored(server), transport: transport, lease: 1)
      try await tablet.sync()
      let until = try #require(try await tablet.replica.store.position().leaseUntil)
      try await self.until {
        try await tablet.sync()
        return try await tablet.replica.store.position().leaseUntil ?? until > until
      }
      #expect(setUps.withLock { $0 } >= 3)
      await tablet.mirroring.stop()
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
