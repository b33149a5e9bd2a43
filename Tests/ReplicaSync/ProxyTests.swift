// Answers that something on the way gives in the server's place: against the real server's processes.

import Foundation
import MirrorWire
import ReplicaSync
import ReplicaWorld
import Synchronization
import Testing

@testable import ReplicaStore

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct ProxyTests {
  /// Decides about the next save that leaves, by the size of its request.
  private typealias Judge = @Sendable (_ byteCount: Int) -> FaultyTransport.Fault

  private func device(_ user: User, _ judge: @escaping Judge) async throws -> Device {
    let transport = FaultyTransport(inner: CurlTransport()) { request in
      request.method == "POST" && request.url.contains("/transactions") ? judge(request.body?.count ?? 0) : .none
    }
    let path = "\(user.server.folder.path)/\(UUID().uuidString)"
    return try await Device(
      user, replica: try await StoredReplica(path, modelHash: user.server.modelHash), transport: transport)
  }

  /// What another device of the user has.
  private func shown(to user: User) async throws -> [String] {
    let device = try await Device(user)
    try await device.sync()
    let lines = try await device.shown()
    await device.mirroring.stop()
    return lines
  }

  @Test func `saves outlive the pages that a proxy answers in the server's place`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let pages = Mutex<[Int]>([])
      let phone = try await device(user) { _ in
        pages.withLock { $0.popLast().map { .page(status: $0) } ?? .none }
      }
      try await phone.sync()
      for status in [302, 401, 403, 404, 407, 413] {
        pages.withLock { $0 = [status, status] }
        try await phone.replica.save { $0.insert("Tag", "t\(status)", ["name": .string("sea")]) }
        try await phone.sync()
        #expect(pages.withLock { $0.isEmpty })
        #expect(try await phone.replica.store.rejected().isEmpty, "\(status)")
      }
      #expect(try await phone.shown().count == 6)
      #expect(try await shown(to: user).count == 6)
      await phone.mirroring.stop()
    }
  }

  @Test func `a batch that is too large for a proxy goes in parts, and a save that is too large alone waits`()
    async throws
  {
    try await Server.run { server in
      let user = try await server.user("grace")
      let limit = Mutex(3000)
      let phone = try await device(user) { count in limit.withLock { count > $0 ? .page(status: 413) : .none } }
      try await phone.sync()
      await phone.mirroring.stop()
      for number in 0..<8 {
        let title = String(repeating: "t", count: 500)
        try await phone.replica.save { $0.insert("Post", "p\(number)", ["title": .string(title)]) }
      }
      try await phone.sync()
      #expect(try await shown(to: user).count == 8)
      limit.withLock { $0 = 100 }
      try await phone.replica.save { $0.insert("Tag", "t1", ["name": .string("sea")]) }
      await #expect(throws: StoreError.offline) { try await phone.loop.syncNow(timeout: .seconds(100)) }
      #expect(try await phone.replica.store.rejected().isEmpty)
      limit.withLock { $0 = 3000 }
      try await phone.sync()
      #expect(try await shown(to: user).count == 9)
      await phone.mirroring.stop()
    }
  }
}

@Test func `a log tells a proxy's page by its status`() {
  let page = ServerError(status: 403, serverErrorCode: "", reason: "HTTP 403")
  let refusal = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "a value of the user's")
  let lines = [page, refusal].map { error in
    MirrorEvent(
      identifier: UUID(), kind: .export, startDate: .now, endDate: .now,
      errors: [MirrorEvent.ObjectError(object: nil, error: error)]
    ).line(of: "private")?.text
  }
  #expect(lines == ["private export failed: HTTP 403", "private export failed: 403 ACCESS_DENIED"])
}

@Test func `a page with status 404 or 409 says nothing of objects and zones`() async throws {
  struct Page: Transport {
    let status: Int

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
      TransportResponse(status: status, headers: [], body: Array("<html>".utf8))
    }

    func stream(_ request: TransportRequest, silence: Duration) async throws(TransportError) -> TransportStream {
      throw TransportError(.unreachable, "a page is no stream")
    }
  }
  for status in [404, 409] {
    let account = Account(server: "http://127.0.0.1:1", apiToken: "", tokens: FixedToken(token: ""))
    let plane = ObjectPlane(
      account: account, container: "c", environment: "development", scope: "private", storeIdentifier: "s",
      transport: Page(status: status), surroundings: .system)
    await #expect(throws: SyncFailure.self) { try await plane.object("\(status)") }
    await #expect(throws: SyncFailure.self) { try await plane.resume(ZoneID(zoneName: "z"), action: .delete) }
  }
}
