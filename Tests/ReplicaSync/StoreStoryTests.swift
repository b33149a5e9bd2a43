// Sign-in, refusals, resets and leases: against the real server's processes.

import Foundation
import MirrorWire
import ReplicaSync
import ReplicaWorld
import Synchronization
import Testing

@testable import ReplicaStore

/// A token store that remembers what it was given, in order.
private final class KeptTokens: Account.TokenStore {
  private let kept = Mutex<[String?]>([])

  var tokens: [String?] { kept.withLock { $0 } }
  func load() throws -> String? { kept.withLock { $0.last ?? nil } }
  func store(_ token: String?) throws { kept.withLock { $0.append(token) } }
}

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct StoreStoryTests {
  private func stored(_ server: Server) async throws -> StoredReplica {
    try await StoredReplica("\(server.folder.path)/\(UUID().uuidString)", modelHash: server.modelHash)
  }

  private func idle(_ device: Device, _ idle: SyncStatus.Idle) async throws -> SyncStatus {
    for await status in await device.loop.statuses() where status.idle == idle { return status }
    throw Unexpected("the status ended")
  }

  // MARK: Accounts

  @Test func `a program signs in by a port of this machine, and keeps each renewed token before it uses it`()
    async throws
  {
    try await Server.run(["--token-rotation", "1", "--token-grace", "60"]) { server in
      let user = try await server.user("grace")
      let transport = CurlTransport()
      let password = TransportRequest(
        "POST", "\(server.gateway)/admin/1/users/grace/password",
        headers: [("Authorization", "Bearer \(server.operatorToken)")],
        body: Array(#"{"password":"battery staple"}"#.utf8))
      #expect(try await transport.send(password).status == 200)
      let tokens = KeptTokens()
      let account = Account(server: server.gateway, apiToken: server.apiToken, tokens: tokens)
      let name = try await account.signIn(
        container: Server.container, environment: "development", transport: transport
      ) { address in try await Self.fill(address, transport) }
      #expect(name == user.recordName && account.userRecordName == name)
      let first = try #require(tokens.tokens.last ?? nil)
      #expect(first.hasPrefix("ses_"))
      let mirroring = Mirroring(
        account: account, container: Server.container, environment: "development", transport: transport,
        surroundings: .quick)
      let replica = try await stored(server)
      let loop = try await mirroring.add(replica.replica, scope: "private", options: MirrorOptions())
      try await mirroring.start()
      try await until {
        try await loop.syncNow(timeout: .seconds(6000))
        return tokens.tokens.count >= 3
      }
      // What is used is what was kept last.
      #expect(Set(tokens.tokens.map { $0 ?? "" }).count == tokens.tokens.count)
      let used = try account.token()
      #expect(tokens.tokens.last == used)
      await account.signOut()
      await #expect(throws: StoreError.signedOut) { try await loop.syncNow(timeout: .seconds(6000)) }
      #expect(tokens.tokens.last == .some(nil))
      await mirroring.stop()
    }
  }

  @Test func `an API token without the callback ends the sign-in before a page is shown`() async throws {
    try await Server.run { server in
      let made = try server.aquifer(
        "token", "create", "--container", Server.container, "--environment", "development")
      let account = Account(
        server: server.gateway, apiToken: try #require(made["apiToken"] as? String), tokens: KeptTokens())
      let error = await #expect(throws: StoreError.self) {
        try await account.signIn(
          container: Server.container, environment: "development", transport: CurlTransport()
        ) { Issue.record("the page \($0) is shown") }
      }
      guard case .invalid(let text)? = error else { throw Unexpected("\(String(describing: error))") }
      #expect(text.contains("--callback-url http://127.0.0.1/done"))
    }
  }

  /// Does what a browser does with the page's form.
  private static func fill(_ address: String, _ transport: any Transport) async throws {
    let headers = [(name: "Content-Type", value: "application/x-www-form-urlencoded")]
    let form = Array("name=grace&password=battery+staple".utf8)
    let answer = try await transport.send(TransportRequest("POST", address, headers: headers, body: form))
    let location = try #require(answer["Location"])
    let port = try #require(address.firstMatch(of: /127\.0\.0\.1%3A(\d+)/)?.output.1)
    let query = try #require(location.firstIndex(of: "?"))
    // Not awaited: the program answers once it listens.
    Task { _ = try? await transport.send(TransportRequest("GET", "http://127.0.0.1:\(port)/favicon.ico")) }
    let back = "http://127.0.0.1:\(port)/done\(location[query...])"
    Task {
      let status = (try? await transport.send(TransportRequest("GET", back)))?.status
      #expect(status == 200)
    }
  }

  // MARK: Refusals

  @Test func `a save that the server refuses waits, its objects become the server's, and the others go on`()
    async throws
  {
    try await Server.run { server in
      let user = try await server.user("grace")
      let replica = try await stored(server)
      let phone = try await Device(user, replica: replica)
      try await phone.sync()
      await phone.mirroring.stop()
      for number in 0..<9 {
        try await phone.replica.save { edit in
          edit.insert("Tag", "t\(number)", ["name": .string("sea")])
          // A name that the server reserves.
          if number == 4 { edit.insert("Tag", "CD_FAKE_tag", ["name": .string("no")]) }
        }
      }
      try await phone.sync()
      let rejected = try await replica.replica.rejected()
      #expect(rejected.count == 1 && rejected.first?.error.status == 400)
      #expect(Set(rejected.first?.objects.map(\.recordName) ?? []) == ["t4", "CD_FAKE_tag"])
      let expected = (0..<9).filter { $0 != 4 }.map { "Tag t\($0): name=string(\"sea\")" }
      #expect(try await phone.shown() == expected)
      #expect(try await idle(phone, .rejected).rejectedCount == 1)
      let laptop = try await Device(user, replica: try await stored(server))
      try await laptop.sync()
      #expect(try await laptop.shown() == expected)
      let exports = try await replica.replica.mirrorEvents(after: nil, afterEvent: nil, type: .export)
      #expect(exports.contains { !$0.succeeded && $0.errors.first?.error.status == 400 })
      for device in [phone, laptop] { await device.mirroring.stop() }
    }
  }

  @Test func `the event of an import counts what its page brought, also if a request after the page is lost`()
    async throws
  {
    try await Server.run { server in
      let user = try await server.user("grace")
      let looksToLose = Mutex(0)
      let transport = FaultyTransport(inner: CurlTransport()) { request in
        guard request.url.contains("/objects/") else { return .none }
        return looksToLose.withLock { left in
          left -= 1
          return left >= 0 ? .losesRequest : .none
        }
      }
      let replica = try await stored(server)
      let phone = try await Device(user, replica: replica, transport: transport)
      try await phone.sync()
      await phone.mirroring.stop()
      let laptop = try await Device(user, replica: try await stored(server))
      try await laptop.replica.save { edit in
        for number in 0..<3 { edit.insert("Tag", "t\(number)", ["name": .string("sea")]) }
      }
      try await laptop.sync()
      try await phone.replica.save { $0.insert("Tag", "CD_FAKE_tag", ["name": .string("no")]) }
      // When the save is set aside, and after the page.
      looksToLose.withLock { $0 = 2 }
      try await phone.sync()
      #expect(try await phone.shown().count == 3)
      let imports = try await replica.replica.mirrorEvents(after: nil, afterEvent: nil, type: .import)
      #expect(imports.contains { !$0.succeeded && $0.savedCount == 3 })
      for device in [phone, laptop] { await device.mirroring.stop() }
    }
  }

  @Test func `a model that the server does not know is told with what is missing, and nothing is sent`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let path = "\(server.folder.path)/\(UUID().uuidString)"
      let phone = try await Device(user, replica: try await StoredReplica(path, modelHash: "unknown"))
      try await phone.replica.save { $0.insert("Tag", "t1", ["name": .string("sea")]) }
      try await phone.mirroring.start()
      let status = try await idle(phone, .modelUnknown)
      #expect(status.pendingTransactions == 1)
      // Nobody waits for what only an operator can do.
      await #expect(throws: StoreError.modelUnknown(missing: [])) {
        try await phone.loop.syncNow(timeout: .seconds(1_000_000))
      }
      await phone.mirroring.stop()
    }
  }

  @Test func `a second process with the same identifier waits for the lease`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let file = NaiveFile(storeIdentifier: UUID().uuidString, modelHash: server.modelHash)
      let first = try await Device(user, replica: NaiveReplica(file), lease: 3600)
      let second = try await Device(user, replica: NaiveReplica(file), lease: 3600)
      try await first.sync()
      try await second.mirroring.start()
      _ = try await idle(second, .leaseLost)
      try await first.sync()
      for device in [first, second] { await device.mirroring.stop() }
    }
  }

  // MARK: Resets

  @Test func `a reset imports everything into a second copy, and keeps what is not sent`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let (replica, laptop) = (try await stored(server), try await Device(user, replica: try await stored(server)))
      let phone = try await Device(user, replica: replica, pageLimit: 3)
      for device in [phone, laptop] { try await device.sync() }
      for number in 0..<10 {
        try await laptop.replica.save { $0.insert("Tag", "t\(number)", ["name": .string("sea")]) }
      }
      for device in [laptop, phone] { try await device.sync() }
      await phone.loop.take(.resetWanted)
      try await phone.replica.save { $0.set("name", of: "t3", .string("sand")) }
      try await until { try await replica.replica.position().resetReason == nil }
      for device in [phone, laptop, phone] { try await device.sync() }
      let (onPhone, onLaptop) = (try await phone.shown(), try await laptop.shown())
      #expect(onPhone == onLaptop && onPhone.count == 10 && onPhone.contains("Tag t3: name=string(\"sand\")"))
      for device in [phone, laptop] { await device.mirroring.stop() }
    }
  }

  @Test func `events tell of set-ups, imports and exports, each at its start and at its end`() async throws {
    try await Server.run { server in
      let replica = try await stored(server)
      let phone = try await Device(try await server.user("grace"), replica: replica)
      let live = await phone.loop.mirrorEvents()
      try await phone.replica.save { $0.insert("Tag", "t1", ["name": .string("sea")]) }
      try await phone.sync()
      var told: [MirrorEvent] = []
      for await event in live {
        told.append(event)
        if told.filter({ $0.endDate != nil }).count == 3 { break }
      }
      #expect(told.map(\.kind) == [.setup, .setup, .export, .export, .import, .import])
      #expect(told.map { $0.endDate == nil } == [true, false, true, false, true, false])
      #expect(told.filter { $0.endDate != nil }.map(\.succeeded) == [true, true, true])
      await phone.mirroring.stop()
      let kept = try await replica.replica.mirrorEvents(after: nil, afterEvent: nil, type: nil)
      #expect(kept.map(\.identifier) == told.filter { $0.endDate != nil }.map(\.identifier))
      try await phone.replica.save { edit in
        edit.insert("Tag", "t2", ["name": .string("sand")])
        edit.insert("Tag", "t3", [:])
      }
      try await phone.replica.save { $0.delete("t3") }
      try await phone.sync()
      await phone.mirroring.stop()
      let exports = try await replica.replica.mirrorEvents(after: nil, afterEvent: nil, type: .export)
      #expect(exports.map { [$0.savedCount, $0.deletedCount] } == [[1, 0], [2, 1]])
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
