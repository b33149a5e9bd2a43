// What `syncNow` promises: another device that asks afterwards has everything. Against the real server's processes.

import Foundation
import MirrorWire
import ReplicaSync
import ReplicaWorld
import Synchronization
import Testing

@Suite(.enabled(if: Server.binaries != nil)) struct SyncNowTests {
  /// What a device sent, and what happens before its next answer arrives.
  private final class Script: Sendable {
    let calls = Mutex<[String]>([])
    let meanwhile = Mutex<(@Sendable () async throws -> Void)?>(nil)

    func note(_ request: TransportRequest) {
      guard let call = request.url.split(separator: "/").last?.split(separator: "?").first else { return }
      calls.withLock { $0.append(String(call)) }
    }

    func act() async {
      let act = meanwhile.withLock { act in
        defer { act = nil }
        return act
      }
      do { try await act?() } catch { Issue.record(error) }
    }
  }

  @Test(arguments: [true, false])
  func `a save that comes while a page is read is exported when the sync ends`(_ hasPings: Bool) async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let script = Script()
      var transport = FaultyTransport(inner: CurlTransport()) { request in
        script.note(request)
        return .none
      }
      transport.meanwhile = { await script.act() }
      let phone = try await Device(user, transport: transport, hasPings: hasPings)
      let laptop = try await Device(user)
      for device in [phone, laptop] { try await device.sync() }
      for number in 0..<5 {
        let replica = phone.replica
        script.meanwhile.withLock {
          $0 = { try await replica.save { $0.insert("Tag", "t\(number)", ["name": .string("sea")]) } }
        }
        try await phone.sync()
        try await laptop.sync()
        #expect(try await laptop.shown().count == number + 1)
        // The server has exported a store's saves when it answers a page.
        let calls = script.calls.withLock { $0 }.filter { ["transactions", "changes"].contains($0) }
        let save = try #require(calls.lastIndex(of: "transactions"))
        #expect(calls[save...].contains("changes"), "\(calls)")
      }
      for device in [phone, laptop] { await device.mirroring.stop() }
    }
  }
}
