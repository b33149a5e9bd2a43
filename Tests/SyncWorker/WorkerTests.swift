import FixedClocks
import InMemoryRecordStore
import InMemoryServiceBus
import JSON
import ObjectModel
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices
@testable import WorkerHost
@testable import ZoneCommit

/// A worker with its neighbours on a bus in memory: a share service that gives it all shards, a gateway that asks, a
/// notifier that listens.
private final class WorkerNeighbourhood: Sendable {
  let network = InMemoryNetwork(time: .stepped)
  let store: InMemoryRecordStore
  let share: InMemoryBus
  let gateway: InMemoryBus
  let notifier: InMemoryBus
  let worker: InMemoryBus
  let service: any Service
  let cluster: Cluster
  let pings: AsyncStream<ZoneChange>
  let schemas: SchemaBox
  let metrics: Metrics
  let lines = Lines()

  init() async throws {
    let store = InMemoryRecordStore(shardCount: 4)
    self.store = store
    let schemas = SchemaBox()
    self.schemas = schemas
    share = InMemoryBus(
      name: "share-1", role: .share, network: network, handlers: Self.shareHandlers(schemas), isReady: true)
    gateway = InMemoryBus(name: "gateway-1", role: .gateway, network: network, handlers: BusHandlers(), isReady: true)
    let (pings, ping) = AsyncStream.makeStream(of: ZoneChange.self)
    self.pings = pings
    var notifierHandlers = BusHandlers()
    notifierHandlers.on(PushZoneChanges.self) { message, _, _ in
      for change in message.changes { ping.yield(change) }
      return Answer(Acknowledgement())
    }
    notifier = InMemoryBus(
      name: "notifier-1", role: .notifier, network: network, handlers: notifierHandlers, isReady: true)

    cluster = Cluster(name: "worker-1", role: .worker)
    metrics = Metrics()
    let context = ServiceContext(
      name: "worker-1", role: .worker, options: try Options(Worker.options, arguments: [], environment: { _ in nil }),
      log: .silent, metrics: metrics,
      clock: FixedClock(), random: SeededRandom(seed: 1), timing: .system, cluster: cluster)
    let subject = Worker(
      context, dataPath: "/nonexistent", makeStore: { [lines] _, _ in LineStore(base: store, lines: lines) })
    var handlers = BusHandlers()
    subject.register(in: &handlers)
    cluster.register(in: &handlers)
    worker = InMemoryBus(name: "worker-1", role: .worker, network: network, handlers: handlers)
    cluster.start(on: worker, shareEndpoints: [share.own.endpoint])
    await share.waitForPeers { $0.contains { $0.name == "worker-1" } }

    let members = [gateway.own, notifier.own, worker.own, share.own]
    let map = ClusterMap(version: 1, members: members, holders: Array(repeating: nil, count: 4))
    _ = try await share.call(PublishClusterMap(map: map), to: .peer("worker-1"), within: .seconds(5))
    service = try await subject.start(on: worker)
    worker.setReady(true)
    await notifier.waitForPeers { $0.contains { $0.name == "worker-1" } }
    await gateway.waitForPeers { $0.contains { $0.name == "worker-1" && $0.isReady } }
    await worker.waitForPeers { $0.contains { $0.role == .notifier } && $0.contains { $0.role == .gateway } }
  }

  final class SchemaBox: Sendable {
    let reply = Mutex(FetchSchema.Reply(version: 1, models: [:], latestModelHash: nil, schema: Schema()))
  }

  private static func shareHandlers(_ schemas: SchemaBox) -> BusHandlers {
    var handlers = BusHandlers()
    handlers.on(FetchSecrets.self) { _, _, _ in Answer(FetchSecrets.Reply(signingKey: [1, 2, 3])) }
    handlers.on(FetchSchema.self) { _, _, _ in Answer(schemas.reply.withLock { $0 }) }
    handlers.on(ExtendSchema.self) { message, _, _ in
      schemas.reply.withLock { reply in
        let types = Dictionary(grouping: message.fields, by: \.recordType).map { name, fields in
          Schema.RecordType(name: name, fields: fields.map { Schema.Field(name: $0.field, type: $0.type) }, grants: [])
        }
        reply = FetchSchema.Reply(
          version: reply.version + 1, models: [:], latestModelHash: nil, schema: Schema(recordTypes: types))
      }
      return Answer(Acknowledgement())
    }
    return handlers
  }

  /// Gives all shards to the named worker.
  func assign(to holder: String?, version: Int64) async throws {
    let map = ClusterMap(
      version: version, members: [gateway.own, notifier.own, share.own, worker.own],
      holders: Array(repeating: holder, count: 4))
    _ = try await share.call(PublishClusterMap(map: map), to: .peer("worker-1"), within: .seconds(5))
    // The map is taken up behind the acknowledgement.
    let expected = holder == "worker-1" ? 4 : 0
    while true {
      let summary = try await share.call(
        WorkerReport(subject: "summary"), body: [], to: .peer("worker-1"), within: .seconds(5))
      if try JSONValue(parsing: summary.body)["shards"]?.count == expected { break }
      try await Task.sleep(for: .milliseconds(1))
    }
    #expect(await service.checks[0].problem() == nil)
  }

  func ask(
    _ path: String, _ body: String, owner: String = "_alice", scope: DatabaseScope = .private, user: String? = nil,
    plane: DatabaseRequest.Plane = .record,
    environment: Environment = .development, id: String = ""
  ) async throws -> (DatabaseRequest.Reply, JSONValue) {
    let request = DatabaseRequest(
      plane: plane, method: "POST", path: path.split(separator: "/").map(String.init), query: [:],
      database: DatabaseID(container: RecordPlaneWorld.container, environment: environment, owner: owner), scope: scope,
      caller: Caller(userRecordName: scope == .public ? user : owner), requestID: "gateway:\(path)\(id)",
      baseURL: "https://host")
    let answer = try await gateway.call(request, body: Array(body.utf8), to: .peer("worker-1"), within: .seconds(5))
    return (answer.reply, try JSONValue(parsing: answer.body))
  }

  func close() async {
    await service.drain()
    worker.close()
    await service.close()
    for bus in [share, gateway, notifier] { bus.close() }
  }
}

@Suite struct `The worker on the bus` {
  private static let save =
    #"""
    {"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"a",\#
    "fields":{"n":{"value":1}}}}]}
    """#

  @Test func `a save comes over the bus, is stored and pushed to the notifier`() async throws {
    let world = try await WorkerNeighbourhood()
    try await world.assign(to: "worker-1", version: 2)
    let (reply, json) = try await world.ask("records/modify", Self.save)
    #expect(reply.status == 200 && reply.contentType == nil && reply.mayWait == nil)
    #expect(json["records"]?.names == ["a"])
    var pings = world.pings.makeAsyncIterator()
    let ping = await pings.next()
    #expect(ping?.zoneName == "_defaultZone" && ping?.audience == ["_alice"])
    await world.close()
    for shard in 0..<4 { await (try world.store.open(shard: shard)).close() }
  }

  @Test
  func
    `a user's requests wait in one line, whatever their database, and requests without a user have one together`()
    async throws
  {
    let world = try await WorkerNeighbourhood()
    try await world.assign(to: "worker-1", version: 2)
    let container = RecordPlaneWorld.container
    func line(_ user: String?) -> String { Caller(userRecordName: user).party(in: container) }
    _ = world.lines.take()
    _ = try await world.ask("records/modify", Self.save)
    #expect(world.lines.take() == [line("_alice")])
    let lookUp = #"{"records":[{"recordName":"a"}]}"#
    for user in ["_alice", "_bob", nil] {
      _ = try await world.ask("records/lookup", lookUp, owner: DatabaseID.publicOwner, scope: .public, user: user)
      #expect(world.lines.take() == [line(user)])
    }
    #expect(Set([line("_alice"), line("_bob"), line(nil)]).count == 3)
    await world.close()
  }

  @Test func `a failure of the whole request is an answer with the error dictionary`() async throws {
    let world = try await WorkerNeighbourhood()
    try await world.assign(to: "worker-1", version: 2)
    let (reply, json) = try await world.ask("records/lookup", #"{"records":[],"zoneID":{"zoneName":"Nowhere"}}"#)
    #expect(reply.status == 404)
    #expect(
      json.text
        == #"{"uuid":"records/lookup","serverErrorCode":"ZONE_NOT_FOUND","reason":"Zone 'Nowhere' does not exist"}"#)
    let metrics = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(
      metrics.contains(#"aquifer_worker_requests_total{plane="record",route="records/lookup",code="ZONE_NOT_FOUND"} 1"#)
    )
    await world.close()
  }

  @Test func `requests for shards of others go elsewhere`() async throws {
    let world = try await WorkerNeighbourhood()
    await #expect { try await world.ask("records/modify", Self.save) } throws: { ($0 as? BusError)?.code == .notMine }
    try await world.assign(to: "worker-1", version: 2)
    #expect(try await world.ask("records/modify", Self.save).0.status == 200)
    try await world.assign(to: "worker-2", version: 3)
    await #expect { try await world.ask("records/modify", Self.save) } throws: { ($0 as? BusError)?.code == .notMine }
    await world.close()
  }

  @Test func `a shard that was taken over is told to the gateway and opened anew`() async throws {
    let world = try await WorkerNeighbourhood()
    try await world.assign(to: "worker-1", version: 2)
    let database = DatabaseID(container: RecordPlaneWorld.container, environment: .development, owner: "_alice")
    let thief = world.store.takeOver(shard: try #require(ShardLayout(createdCount: 4)).shard(of: database))
    await #expect { try await world.ask("records/modify", Self.save) } throws: { ($0 as? BusError)?.code == .notMine }
    await thief.close()
    let (reply, _) = try await world.ask("records/modify", Self.save)
    #expect(reply.status == 200)
    await world.close()
  }

  @Test func `a reset of development lets its databases begin anew before anybody is served, and production go on`()
    async throws
  {
    let world = try await WorkerNeighbourhood()
    try await world.assign(to: "worker-1", version: 2)
    let zone = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Trips"}}}]}"#
    let save = Self.save.dropLast() + #","zoneID":{"zoneName":"Trips"}}"#
    for environment in Environment.allCases {
      _ = try await world.ask("zones/modify", zone, environment: environment, id: "\(environment)")
      world.schemas.reply.withLock {
        $0 = FetchSchema.Reply(version: $0.version + 1, models: [:], latestModelHash: nil, schema: Self.notes)
      }
      #expect(
        try await world.ask("records/modify", String(save), environment: environment, id: "\(environment)").1[
          "records"]?.names == ["a"])
    }
    _ = try await world.ask(
      "subscriptions/modify",
      #"""
      {"operations":[{"operationType":"create","subscription":{"subscriptionID":"s","subscriptionType":"database"}}]}
      """#
    )
    let token = try #require(try await world.ask("changes/database", "{}").1["syncToken"]?.string)
    func reset(_ generation: Int64) async throws {
      world.schemas.reply.withLock { reply in
        reply = FetchSchema.Reply(version: reply.version + 1, models: [:], latestModelHash: nil, schema: Self.notes)
        reply.generation = generation
      }
      _ = try await world.share.call(
        DirectoryChanged(credentials: false, schemas: ["\(RecordPlaneWorld.container.rawValue)/development"]),
        to: .peer("worker-1"), within: .seconds(5))
    }
    try await reset(1)
    let lookUp = #"{"records":[{"recordName":"a"}],"zoneID":{"zoneName":"Trips"}}"#
    #expect(try await world.ask("records/lookup", lookUp).1["serverErrorCode"]?.string == "ZONE_NOT_FOUND")
    #expect(
      try await world.ask("changes/database", #"{"syncToken":"\#(token)"}"#).0.status == 400,
      "no token of the past is good")
    #expect(
      try await world.ask("subscriptions/lookup", #"{"subscriptions":[{"subscriptionID":"s"}]}"#).1.text.contains(
        "NOT_FOUND"))
    // Another user's database is made now, of this generation, and stays.
    for owner in ["_alice", "_bob"] {
      _ = try await world.ask("zones/modify", zone, owner: owner, id: "\(owner)2")
      _ = try await world.ask("records/modify", String(save), owner: owner, id: "\(owner)2")
    }
    try await reset(1)
    for owner in ["_alice", "_bob"] {
      #expect(try await world.ask("records/lookup", lookUp, owner: owner).1["records"]?.names == ["a"], "\(owner)")
    }
    #expect(try await world.ask("records/lookup", lookUp, environment: .production).1["records"]?.names == ["a"])
    var pings = world.pings.makeAsyncIterator()
    while let ping = await pings.next(),
      !(ping.zoneName == "Trips" && ping.sequence > 2 && ping.database.environment == .development)
    {}
    await world.close()
  }

  private static let notes = Schema(recordTypes: [
    Schema.RecordType(name: "Note", fields: [Schema.Field(name: "n", type: .int64)], grants: [])
  ])

  @Test
  func `a database that nobody asks for begins anew all the same, also with a worker that did not hear of the reset`()
    async throws
  {
    let database = DatabaseID(container: RecordPlaneWorld.container, environment: .development, owner: "_alice")
    let store = try await InMemoryRecordStore(shardCount: 1).open(shard: 0)
    try await store.enqueue { transaction in
      _ = try transaction.makeZone(named: "Trips", in: try transaction.makeDatabase(database).key)
    }.value
    let (clock, changes) = (FixedClock(), PublishedChanges())
    let schemas = FixedGeneration()
    // One round, and it ends.
    let generations = EnvironmentGenerations(
      schemas: schemas, changes: changes, clock: clock, log: .silent, pause: { _ in Self.endTask() })
    func zones() async throws -> [Bool] {
      try await store.read { snapshot in
        try snapshot.zones(in: try #require(try snapshot.database(database)).key, after: 0, limit: 9).map(\.isDeleted)
      }
    }
    await Task { await generations.run(on: store) }.value
    #expect(try await zones() == [false])
    schemas.generation.withLock { $0 = 3 }
    await Task { await generations.run(on: store) }.value
    #expect(try await zones() == [false], "what is known is fresh")
    clock.advance(by: 31_000)
    #expect(!generations.isSettled(database))
    await Task { await generations.run(on: store) }.value
    #expect(try await zones() == [true])
    #expect(changes.take().map(\.zoneName) == ["Trips"])
    #expect(generations.isSettled(database))
    #expect(try await store.read { try $0.database(database)?.generation } == 3)
    // A worker that knows less lets it be.
    schemas.generation.withLock { $0 = 2 }
    _ = try await store.enqueue { transaction in
      try transaction.makeZone(named: "Later", in: try transaction.makeDatabase(database).key)
    }.value
    try await EnvironmentGenerations(schemas: schemas, changes: changes, clock: clock, log: .silent, pause: { _ in })
      .settle(database, in: store)
    #expect(try await zones() == [true, false])
    await store.close()
  }

  private static func endTask() { withUnsafeCurrentTask { $0?.cancel() } }

  /// A directory of which only the generation matters.
  private final class FixedGeneration: SchemaSource {
    let generation = Mutex<Int64>(0)
    func schema(of container: ContainerID, _ environment: Environment) async throws(RecordError) -> EnvironmentSchema {
      EnvironmentSchema(version: 1, schema: Schema(), generation: generation.withLock { $0 })
    }
    func extend(_ container: ContainerID, with fields: [ExtendSchema.SchemaField]) async throws(RecordError) {}
    func standing(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async
      -> UserStanding?
    { nil }
  }

  @Test func `an operator's report sums up the shards, and an unknown one is refused`() async throws {
    let world = try await WorkerNeighbourhood()
    try await world.assign(to: "worker-1", version: 2)
    _ = try await world.ask("records/modify", Self.save)
    let answer = try await world.share.call(
      WorkerReport(subject: "summary"), body: [], to: .peer("worker-1"), within: .seconds(5))
    #expect(
      String(decoding: answer.body, as: UTF8.self)
        .hasPrefix(#"{"shards":[0,1,2,3],"opening":0,"databases":1,"zones":1,"records":1,"stores":0,"pendingPings":"#))
    let zones = try await world.share.call(
      WorkerReport(subject: "zones"), body: [], to: .peer("worker-1"), within: .seconds(5))
    #expect(
      String(decoding: zones.body, as: UTF8.self)
        == #"""
        {"zones":[{"container":"iCloud.org.example.notes","environment":"development","owner":"_alice",\#
        "zone":"_defaultZone","sequence":2,"deleted":false}]}
        """#
    )
    let subscription =
      #"""
      {"operations":[{"operationType":"create","subscription":{"subscriptionID":"s","subscriptionType":"database"}}]}
      """#
    _ = try await world.ask("subscriptions/modify", subscription)
    let subscriptions = try await world.share.call(
      WorkerReport(subject: "subscriptions"), body: [], to: .peer("worker-1"), within: .seconds(5))
    #expect(
      String(decoding: subscriptions.body, as: UTF8.self)
        == #"""
        {"subscriptions":[{"container":"iCloud.org.example.notes","environment":"development","owner":"_alice",\#
        "scope":"private","user":"_alice","subscription":"s","type":"database","firesOnce":false}]}
        """#)
    for subject in ["stores", "events", "quarantine"] {
      let list = try await world.share.call(
        WorkerReport(subject: subject), body: [], to: .peer("worker-1"), within: .seconds(5))
      #expect(String(decoding: list.body, as: UTF8.self) == #"{"\#(subject)":[]}"#)
    }
    let retried = try await world.share.call(
      WorkerCommand(subject: "quarantine/retry"), body: [], to: .peer("worker-1"), within: .seconds(5))
    #expect(String(decoding: retried.body, as: UTF8.self) == #"{"retried":0}"#)
    await #expect {
      try await world.share.call(WorkerReport(subject: "weather"), body: [], to: .peer("worker-1"), within: .seconds(5))
    } throws: {
      ($0 as? BusError)?.code == .notFound
    }
    await world.close()
  }
}
