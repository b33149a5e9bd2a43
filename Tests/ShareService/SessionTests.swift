import Crypto
import JSON
import Records
import SQLite
import ServiceBus
import SigningKeys
import Testing

@testable import ShareService

private let minute: Int64 = 60_000

@Suite(.eachEngine) struct SessionTests {
  private func world(rotation: Duration? = nil, grace: Duration? = nil) async throws -> World {
    let world = try await World.withContainer(rotation: rotation, grace: grace)
    _ = try await world.userWithPassword()
    return world
  }

  private func isAccepted(_ token: String, in world: World) async throws -> Bool {
    try await world.authenticate(user: token).refusal == nil
  }

  @Test(arguments: [(false, Int64(30) * minute), (true, 14 * 24 * 60 * minute)])
  func `a session ends after its time, and not before`(isKept: Bool, lifetime: Int64) async throws {
    let world = try await world()
    let token = try await world.token(isKept: isKept)
    world.clock.advance(by: lifetime - 1_000)
    #expect(try await isAccepted(token, in: world))
    world.clock.advance(by: 1_000)
    #expect(try await !isAccepted(token, in: world))
    #expect(try await world.service.directory.rotate(token) == nil)
  }

  @Test func `a token has one successor, whoever asks, and it is not due before its time`() async throws {
    let world = try await world()
    let directory = world.service.directory
    let token = try await world.token()
    #expect(try await directory.rotate(token) == nil)
    world.clock.advance(by: 5 * minute)
    let successors = try await withThrowingTaskGroup(of: String?.self) { group in
      for _ in 0..<20 { group.addTask { try await directory.rotate(token) } }
      return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
    }
    #expect(successors.count == 1)
    let successor = try #require(successors.first ?? nil)
    #expect(successor != token && successor.wholeMatch(of: /ses_[0-9a-f]{128}/) != nil)
    for live in [token, successor] { #expect(try await isAccepted(live, in: world)) }
    #expect(try await directory.rotate(successor) == nil)
    #expect(
      try await world.authenticate(user: successor).userRecordName == world.authenticate(user: token).userRecordName)
  }

  @Test func `the predecessor dies after the grace, the session slides on`() async throws {
    let world = try await world()
    let directory = world.service.directory
    var token = try await world.token()
    var chain = [token]
    for _ in 0..<12 {
      world.clock.advance(by: 5 * minute)
      token = try #require(try await directory.rotate(token))
      chain.append(token)
    }
    // An hour later, which is twice a token's lifetime.
    #expect(try await isAccepted(token, in: world))
    for dead in chain.dropLast(2) { #expect(try await !isAccepted(dead, in: world)) }
    world.clock.advance(by: 5 * minute)
    #expect(try await !isAccepted(chain[chain.count - 2], in: world))
    #expect(Set(chain).count == chain.count)
  }

  @Test func `strict single use: a token counts until its successor is made`() async throws {
    let world = try await world(rotation: .zero, grace: .zero)
    let directory = world.service.directory
    let token = try await world.token()
    let reply = try await world.authenticate(user: token)
    #expect(reply.lifetimeSeconds == 0 && reply.session?.rotationDelay == 0, "nobody may keep such an answer")
    let successor = try #require(try await directory.rotate(token))
    #expect(try await !isAccepted(token, in: world))
    #expect(try await isAccepted(successor, in: world))
    // An answer under way carries the same successor.
    #expect(try await directory.rotate(token) == successor)
  }

  @Test func `a restart between two uses changes nothing`() async throws {
    var world = try await world()
    let token = try await world.token()
    world.clock.advance(by: 5 * minute)
    let successor = try #require(try await world.service.directory.rotate(token))
    world = try await world.restarted()
    for live in [token, successor] { #expect(try await isAccepted(live, in: world)) }
    #expect(try await world.service.directory.rotate(token) == successor)
    world.clock.advance(by: 5 * minute)
    #expect(try await !isAccepted(token, in: world))
    #expect(try await isAccepted(successor, in: world))
  }

  @Test func `no answer is kept for longer than its token counts for certain`() {
    let policy = SessionPolicy()
    let fresh = SessionToken(created: 0, expires: 30 * minute, isRotated: false)
    // Another gateway may rotate it after five minutes, and five minutes later it expires.
    #expect(fresh.validity(policy, now: 0) == 10 * minute)
    #expect(fresh.validity(policy, now: 5 * minute) == 5 * minute)
    #expect(fresh.validity(policy, now: 20 * minute) == 5 * minute)
    #expect(fresh.validity(policy, now: 29 * minute) == minute)
    #expect(fresh.validity(policy, now: 31 * minute) == 0)
    let rotated = SessionToken(created: 0, expires: 10 * minute, isRotated: true)
    #expect(rotated.validity(policy, now: 9 * minute) == minute && rotated.rotationDelay(policy, now: 9 * minute) == 0)
    #expect(fresh.rotationDelay(policy, now: 2 * minute) == 3 * minute)
  }

  @Test func `a successor can't be made without the key`() {
    #expect(SessionPolicy.successor(of: "ses_a", key: [1]) == SessionPolicy.successor(of: "ses_a", key: [1]))
    #expect(SessionPolicy.successor(of: "ses_a", key: [1]) != SessionPolicy.successor(of: "ses_a", key: [2]))
    #expect(SessionPolicy.successor(of: "ses_a", key: [1]) != SessionPolicy.successor(of: "ses_b", key: [1]))
  }

  @Test func `sessions are listed and ended by their name or by a token of theirs`() async throws {
    let world = try await world()
    let (first, second) = (try await world.token(), try await world.token(isKept: true))
    let rows = try await world.ok("GET", "/admin/1/sessions")["sessions"]?.elements ?? []
    #expect(rows.map { $0["user"]?.string } == ["alice", "alice"])
    let recordName = try await world.service.directory.recordName(ofUser: "alice")
    for (user, count) in [("alice", 2), (recordName, 2), ("bob", 0), ("nobody", 0)] {
      #expect(try await world.ok("GET", "/admin/1/sessions", query: ["user": user])["sessions"]?.count == count)
    }
    _ = world.published.take()
    try await world.ok("DELETE", "/admin/1/sessions/\(try #require(rows[0]["session"]?.string))")
    #expect(world.published.take().map(\.credentials) == [true])
    #expect(try await !isAccepted(second, in: world))
    #expect(try await isAccepted(first, in: world))
    try await world.ok("DELETE", "/admin/1/tokens/\(first)")
    #expect(try await !isAccepted(first, in: world))
    try await world.refused("DELETE", "/admin/1/sessions/nonsense", status: 404)
    #expect(try await world.ok("GET", "/admin/1/sessions")["sessions"]?.count == 0)
  }

  @Test func `dead sessions are swept, and one user's sessions are bounded`() async throws {
    let world = try await world()
    let oldest = try await world.token()
    for _ in 0..<SessionPolicy.sessionsPerUser { _ = try await world.token() }
    #expect(try await !isAccepted(oldest, in: world))
    #expect(try await world.service.directory.count("session") == SessionPolicy.sessionsPerUser)
    world.clock.advance(by: 60 * minute)
    _ = try await world.token()
    #expect(try await world.service.directory.count("sessionToken") == 1)
    #expect(
      try await world.service.directory.count("session") == SessionPolicy.sessionsPerUser,
      "couriers of those that ended by themselves live on")
    world.clock.advance(by: SessionPolicy.grantMemory + 60 * minute)
    _ = try await world.token()
    #expect(try await world.service.directory.count("session") == 1)
  }

  @Test func `a container that is deleted takes its sessions along`() async throws {
    let world = try await world()
    let token = try await world.token()
    try await world.ok("DELETE", "/admin/1/containers/\(World.photos)")
    try await world.ok("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
    #expect(try await !isAccepted(token, in: world))
  }
}

@Suite struct CommitGroupTests {
  private static func ledger(_ world: World) -> CommitGroup<ClaimSignature, Bool> {
    CommitGroup { [directory = world.service.directory] in try await directory.claim($0) }
  }

  private func claim(_ digest: UInt8, _ request: String, expiry: Int64 = .max) -> ClaimSignature {
    ClaimSignature(digest: [UInt8](repeating: digest, count: 32), requestID: request, expiry: expiry)
  }

  @Test func `a signature is one request's, also after a restart`() async throws {
    var world = try await World.withContainer()
    var ledger = Self.ledger(world)
    #expect(try await ledger.commit(claim(1, "A")))
    #expect(try await ledger.commit(claim(1, "A")), "the gateway's own repetition")
    #expect(try await !ledger.commit(claim(1, "B")))
    #expect(try await ledger.commit(claim(2, "B")))
    world = try await world.restarted()
    ledger = Self.ledger(world)
    #expect(try await !ledger.commit(claim(1, "B")))
    #expect(try await ledger.commit(claim(1, "A")))
  }

  @Test func `of many requests with one signature at once one wins`() async throws {
    let world = try await World.withContainer()
    let ledger = Self.ledger(world)
    let won = try await withThrowingTaskGroup(of: (UInt8, Bool).self) { group in
      for number in 0..<200 {
        group.addTask { (UInt8(number % 5), try await ledger.commit(claim(UInt8(number % 5), "R\(number)"))) }
      }
      return try await group.reduce(into: [UInt8]()) { if $1.1 { $0.append($1.0) } }
    }
    #expect(won.sorted() == [0, 1, 2, 3, 4])
  }

  @Test func `an expired signature is forgotten`() async throws {
    let world = try await World.withContainer()
    let ledger = Self.ledger(world)
    for number in UInt8(0)..<10 {
      #expect(try await ledger.commit(claim(number, "A", expiry: world.clock.now + minute)))
    }
    #expect(try await world.service.directory.count("usedSignature") == 10)
    world.clock.advance(by: 2 * minute)
    #expect(try await ledger.commit(claim(99, "A", expiry: world.clock.now + minute)))
    #expect(try await world.service.directory.count("usedSignature") == 1)
  }
}

extension Directory {
  fileprivate func count(_ table: String) throws -> Int {
    Int(try connection.statement(.init("test.\(table)", "SELECT count(*) FROM \(table)")).first { $0.int64(0) } ?? 0)
  }
}
