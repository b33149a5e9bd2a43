import InMemoryServiceBus
import JSON
import Records
import ServiceBus
import SigningKeys
import Synchronization
import Testing

@testable import ShareService

/// Deleted users: their credentials end at once, and the shards are asked until all have removed the data.
@Suite(.timeLimit(.minutes(2)), .eachEngine) struct DepartureTests {
  /// Workers that note which users they should forget.
  private final class Shards: Sendable {
    struct State: Sendable {
      var asked: [String] = []
      /// Shards whose holders refuse.
      var refusing: Set<Int> = []
    }

    let state = Mutex(State())
    private let buses: [InMemoryBus]

    /// One worker holds all shards.
    init(_ world: World) async {
      let network = InMemoryNetwork(time: .stepped)
      var handlers = BusHandlers()
      let relay = Mutex<Shards?>(nil)
      handlers.on(ForgetUser.self) { message, _, _ in
        let isRefused = relay.withLock { $0 }?.state.withLock { state in
          state.asked.append("\(message.shard) \(message.userRecordName)")
          return state.refusing.contains(message.shard)
        }
        if isRefused == true { throw BusError(.refused, "the disk is full") }
        return Answer(ForgetUser.Reply(zoneCount: 1, shareCount: 0, storeCount: 0, subscriptionCount: 0))
      }
      let share = InMemoryBus(name: "share", role: .share, network: network, handlers: BusHandlers(), isReady: true)
      let worker = InMemoryBus(name: "worker-1", role: .worker, network: network, handlers: handlers, isReady: true)
      buses = [share, worker]
      share.connect(to: worker.own.endpoint, of: .peer("worker-1"))
      relay.withLock { $0 = self }
      _ = await share.waitForPeers { !$0.isEmpty }
      let count = world.service.directory.shardCount
      await world.service.removals.attach(share) {
        ClusterMap(version: 1, members: [], holders: Array(repeating: "worker-1", count: count))
      }
    }

    func take() -> [String] {
      state.withLock { state in
        defer { state.asked = [] }
        return state.asked
      }
    }
  }

  @Test func `a deleted user is nobody at once, with every token, session, role and key, and the name is free`()
    async throws
  {
    let world = try await World.withContainer()
    let (alice, bob) = (try await world.user("alice"), try await world.user("bob"))
    try await world.ok("POST", "/admin/1/users/alice", #"{"email":"alice@example.org"}"#)
    let further = try #require(try await world.ok("POST", "/admin/1/users/alice/tokens")["webAuthToken"]?.string)
    let shown = try await world.ok("GET", "/admin/1/users/alice")
    #expect(
      shown["tokens"]?.int64 == 2 && shown["email"]?.string == "alice@example.org" && shown["quota"]?.isNull == true)
    _ = world.published.take()
    let answer = try await world.ok("DELETE", "/admin/1/users/alice")
    #expect(answer["userRecordName"]?.string == alice.recordName && answer["state"]?.string == "removing")
    #expect(world.published.take().map(\.credentials) == [true])
    for token in [alice.token, further] { #expect(try await world.authenticate(user: token).refusal == .userToken) }
    #expect(try await world.authenticate(user: bob.token).refusal == nil)
    await #expect(throws: RecordError.self) {
      try await world.service.directory.lookUp(LookUpUser(userRecordName: alice.recordName))
    }
    #expect(try await world.ok("GET", "/admin/1/users")["users"]?.elements.map { $0["name"]?.string } == ["bob"])
    // A second deletion, by either name, changes nothing. A new user of the same name is another user.
    #expect(try await world.ok("DELETE", "/admin/1/users/alice")["userRecordName"]?.string == alice.recordName)
    try await world.ok("POST", "/admin/1/users", #"{"name":"alice","email":"alice@example.org"}"#)
    #expect(
      try await world.ok("DELETE", "/admin/1/users/\(alice.recordName)")["userRecordName"]?.string == alice.recordName)
    #expect(try await world.ok("GET", "/admin/1/users")["users"]?.elements.count == 2)
    try await world.refused("DELETE", "/admin/1/users/zoe", status: 404)
    #expect(try await world.ok("GET", "/admin/1/users/\(alice.recordName)")["state"]?.string == "removing")
  }

  @Test
  func
    `every shard is asked, those that refuse again, and all once more when cached credentials have ended`()
    async throws
  {
    var world = try await World.withContainer()
    let alice = try await world.user("alice")
    try await world.ok("DELETE", "/admin/1/users/alice")
    var shards = await Shards(world)
    shards.state.withLock { $0.refusing = [2] }
    await world.service.removals.round()
    #expect(shards.take() == (0..<4).map { "\($0) \(alice.recordName)" })
    await world.service.removals.round()
    #expect(shards.take() == ["2 \(alice.recordName)"])
    world = try await world.restarted()
    shards = await Shards(world)
    await world.service.removals.round()
    #expect(shards.take().count == 4)
    #expect(try await world.ok("GET", "/admin/1/users/alice")["state"]?.string == "removed")
    await world.service.removals.round()
    #expect(shards.take().isEmpty)
    world.clock.advance(by: Directory.departureGrace)
    await world.service.removals.round()
    #expect(shards.take().count == 4)
    try await world.refused("GET", "/admin/1/users/alice", status: 404)
    try await world.refused("DELETE", "/admin/1/users/alice", status: 404)
    #expect(try await world.service.directory.departures() == [])
  }

  /// Lets the shards remove the data of the users who were deleted, both times.
  private func finish(_ world: World) async throws {
    await world.service.removals.round()
    world.clock.advance(by: Directory.departureGrace)
    await world.service.removals.round()
    #expect(try await world.service.directory.departures() == [])
  }

  private func note(_ shard: Int, _ epoch: Int64, in world: World) async throws {
    _ = try await world.service.directory.note(NoteShardEpochs(epochs: [.init(shard: shard, epoch: epoch)]))
  }

  @Test func `a shard that a backup brings back removes the data of users who were deleted since, once more`()
    async throws
  {
    let world = try await World.withContainer()
    let alice = try await world.user("alice")
    try await note(2, 7, in: world)
    try await world.ok("DELETE", "/admin/1/users/alice")
    let shards = await Shards(world)
    try await finish(world)
    #expect(shards.take().count == 8)
    // Another opening brings nothing back.
    try await note(2, 8, in: world)
    await world.service.removals.round()
    #expect(shards.take() == [])
    // `ShardRenewal` raises the epoch to the time.
    try await note(2, 1_900_000_000_000, in: world)
    await world.service.removals.round()
    #expect(shards.take() == ["2 \(alice.recordName)"])
    await world.service.removals.round()
    #expect(shards.take() == [])
    #expect(try await world.service.directory.departures() == [])
    try await world.refused("GET", "/admin/1/users/alice", status: 404)

    // No backup is kept for so long.
    world.clock.advance(by: 401 * 86_400_000)
    let bob = try await world.user("bob")
    try await world.ok("DELETE", "/admin/1/users/bob")
    try await finish(world)
    _ = shards.take()
    try await note(2, 1_990_000_000_000, in: world)
    await world.service.removals.round()
    #expect(shards.take() == ["2 \(bob.recordName)"])
  }

  @Test func `a new departure does not wait for those that a renewed shard repeats, and these are told until they end`()
    async throws
  {
    var world = try await World.withContainer()
    let names = [try await world.user("alice").recordName, try await world.user("carol").recordName].sorted()
    for name in ["alice", "carol"] { try await world.ok("DELETE", "/admin/1/users/\(name)") }
    var shards = await Shards(world)
    try await finish(world)
    _ = shards.take()
    try await note(2, 1_900_000_000_000, in: world)
    for name in names {
      #expect(try await world.ok("GET", "/admin/1/users/\(name)")["state"]?.string == "removing")
    }
    #expect(try await world.service.directory.departingCount() == 2)
    let bob = try await world.user("bob")
    try await world.ok("DELETE", "/admin/1/users/bob")
    shards.state.withLock { $0.refusing = [2] }
    await world.service.removals.round()
    #expect(shards.take() == (0..<4).map { "\($0) \(bob.recordName)" } + ["2 \(names[0])"])
    world = try await world.restarted()
    shards = await Shards(world)
    await world.service.removals.round()
    // A renewed shard repeats all that are known by then.
    let repeated = (names + [bob.recordName]).sorted()
    #expect(shards.take() == (0..<4).map { "\($0) \(bob.recordName)" } + repeated.map { "2 \($0)" })
    for name in names { try await world.refused("GET", "/admin/1/users/\(name)", status: 404) }
    #expect(try await world.service.directory.departingCount() == 1)
    // Shards that divisions have made since may have a part of a renewed one.
    #expect(RenewedShard(shard: 2, epoch: 1, shardCount: 4).shards(of: 6) == [2, 4, 5])
  }

  @Test func `an operator who deletes a user again while a shard repeats it has all shards asked`() async throws {
    let world = try await World.withContainer()
    let alice = try await world.user("alice").recordName
    try await world.ok("DELETE", "/admin/1/users/alice")
    let shards = await Shards(world)
    try await finish(world)
    _ = shards.take()
    try await note(2, 1_900_000_000_000, in: world)
    #expect(try await world.ok("DELETE", "/admin/1/users/\(alice)")["state"]?.string == "removing")
    await world.service.removals.round()
    // The second removal of the new departure also reaches the renewed shard.
    #expect(shards.take() == (0..<4).map { "\($0) \(alice)" } + ["2 \(alice)"])
    #expect(try await world.ok("GET", "/admin/1/users/\(alice)")["state"]?.string == "removed")
  }

  @Test func `an operator has the data of a user removed whom only a backup knew`() async throws {
    let world = try await World.withContainer()
    let shards = await Shards(world)
    let name = "_0123456789abcdef0123456789abcdef"
    for wrong in ["_zoe", name.uppercased(), name + "0"] {
      try await world.refused("DELETE", "/admin/1/users/\(wrong)", status: 404)
    }
    let answer = try await world.ok("DELETE", "/admin/1/users/\(name)")
    #expect(answer["userRecordName"]?.string == name && answer["state"]?.string == "removing")
    try await finish(world)
    #expect(shards.take() == (0..<2).flatMap { _ in (0..<4).map { "\($0) \(name)" } })
    // Also a second time, which removes what a later restore has brought back.
    try await world.ok("DELETE", "/admin/1/users/\(name)")
    try await finish(world)
    #expect(shards.take().count == 8)
  }

  @Test func `lists say what users hold, and in a container who holds something`() async throws {
    let world = try await World.withContainer()
    let alice = try await world.user("alice")
    _ = try await world.user("bob")
    world.reports.set(
      "usage",
      #"""
      {"usage":[{"container":"\#(World.photos)","environment":"production","owner":"\#(alice.recordName)","bytes":7,\#
      "records":3,"zones":1}],"uncountedShards":[],"silent":[]}
      """#
    )
    world.reports.set("shares", #"{"shares":[{"zone":"Trip","members":2},{"zone":"Home","members":0}],"silent":[]}"#)
    let all = try await world.ok("GET", "/admin/1/users", query: ["usage": "true"])["users"]?.elements ?? []
    #expect(all.map { $0["bytes"]?.int64 } == [7, 0] && all.map { $0["records"]?.int64 } == [3, 0])
    let some = try await world.ok("GET", "/admin/1/users", query: ["container": World.photos])["users"]?.elements ?? []
    #expect(some.map { $0["name"]?.string } == ["alice"])
    let shown = try await world.ok("GET", "/admin/1/users/alice")
    #expect(
      shown["shares"]?.int64 == 2 && shown["sharedWith"]?.int64 == 2
        && shown["holds"]?.elements.first?["environment"]?.string == "production")
    #expect(try await world.ok("GET", "/admin/1/users/alice", query: ["brief": "true"])["shares"] == nil)
    // A list without usage does not ask the workers.
    let count = world.reports.questions.count
    #expect(try await world.ok("GET", "/admin/1/users")["users"]?.elements.first?["bytes"] == nil)
    #expect(world.reports.questions.count == count)
  }

  @Test func `a server key that acts as the user goes, too`() async throws {
    let world = try await World.withContainer()
    _ = try await world.user("alice")
    let pem = SigningKey().publicPEM
    let body = #"{"container":"\#(World.photos)","user":"alice","publicKey":"\#(pem.replacing("\n", with: "\\n"))"}"#
    try await world.ok("POST", "/admin/1/keys", body)
    #expect(try await world.ok("GET", "/admin/1/users/alice")["keys"]?.int64 == 1)
    try await world.ok("DELETE", "/admin/1/users/alice")
    #expect(try await world.ok("GET", "/admin/1/keys", query: ["container": World.photos])["keys"]?.count == 0)
  }
}
