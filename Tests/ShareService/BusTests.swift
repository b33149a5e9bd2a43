import InMemoryServiceBus
import JSON
import ObjectModel
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import ShareService

/// The share service on an in-memory network, with other processes around it.
@Suite(.timeLimit(.minutes(1))) struct BusTests {
  /// Another process: keeps the changes and maps that it gets, and answers `WorkerReport`.
  final class Neighbour: Sendable {
    let bus: InMemoryBus
    private let changes: AsyncStream<DirectoryChanged>.Continuation
    private let versions: AsyncStream<DirectoryVersion>.Continuation
    private let receivedVersions: AsyncStream<DirectoryVersion>
    private let received: AsyncStream<DirectoryChanged>
    let cluster: Cluster

    init(_ name: String, _ role: Role, _ network: InMemoryNetwork, report: String? = nil) {
      let (received, changes) = AsyncStream.makeStream(of: DirectoryChanged.self)
      self.received = received
      self.changes = changes
      let (receivedVersions, versions) = AsyncStream.makeStream(of: DirectoryVersion.self)
      self.receivedVersions = receivedVersions
      self.versions = versions
      cluster = Cluster(name: name, role: role)
      var handlers = BusHandlers()
      cluster.register(in: &handlers)
      handlers.on(DirectoryChanged.self) { message, _, _ in
        changes.yield(message)
        return Answer(Acknowledgement())
      }
      handlers.on(PublishDirectoryVersion.self) { message, _, _ in
        versions.yield(message.version)
        return Answer(Acknowledgement())
      }
      if let report {
        handlers.on(WorkerReport.self) { message, _, _ in
          Answer(
            Acknowledgement(),
            body: Array((message.subject == "summary" ? #"{"shards":2,"name":"liar"}"# : report).utf8))
        }
        handlers.on(WorkerCommand.self) { message, _, _ in
          Answer(
            Acknowledgement(),
            body: Array((report.hasPrefix("{") ? #"{"retried":\#(message.query.count + 2)}"# : report).utf8))
        }
      }
      bus = InMemoryBus(name: name, role: role, network: network, handlers: handlers, isReady: true)
      cluster.start(on: bus, shareEndpoints: ["memory://share"])
    }

    func nextChange() async -> DirectoryChanged? {
      for await change in received { return change }
      return nil
    }

    func nextVersion() async -> DirectoryVersion? {
      for await version in receivedVersions { return version }
      return nil
    }

    /// Sends a message to the share service.
    func ask<M: Message>(_ message: M, body: [UInt8] = []) async throws(BusError) -> Answer<M.Reply> {
      try await bus.call(message, body: body, to: .role(.share), within: .seconds(20))
    }

    func operate(_ method: String, _ path: String, _ body: String = "", query: [String: String] = [:]) async throws -> (
      status: Int, body: JSONValue
    ) {
      let message = OperatorRequest(method: method, path: path.split(separator: "/").map(String.init), query: query)
      let answer = try await ask(message, body: Array(body.utf8))
      return (answer.reply.status, try JSONValue(parsing: answer.body))
    }
  }

  /// Runs `body` beside a share service.
  /// - Parameter time: running where a peer is silent until a deadline passes.
  private func withService(
    time: InMemoryNetwork.Time = .stepped, _ body: (InMemoryNetwork, ShareService) async throws -> Void
  ) async throws {
    let folder = TemporaryFolder()
    let network = InMemoryNetwork(time: time)
    let service = try ShareService(
      .init(dataPath: folder.path, operatorToken: World.operatorToken), clock: FixedClock(),
      random: SeededRandom(seed: 1), log: .silent)
    var handlers = BusHandlers()
    service.register(in: &handlers)
    let bus = InMemoryBus(name: "share", role: .share, network: network, handlers: handlers, isReady: true)
    let running = Task { try await service.run(on: bus) }
    do {
      try await body(network, service)
    } catch {
      Issue.record(error)
    }
    running.cancel()
    try await running.value
    bus.close()
    await service.close()
  }

  private func gateway(_ network: InMemoryNetwork) async -> Neighbour {
    await neighbour("gateway-1", .gateway, network)
  }

  private func neighbour(_ name: String, _ role: Role, _ network: InMemoryNetwork) async -> Neighbour {
    let neighbour = Neighbour(name, role, network)
    await neighbour.bus.waitForPeers { $0.contains { $0.role == .share } }
    return neighbour
  }

  @Test func `every question of the bus is answered`() async throws {
    try await withService { network, service in
      let gateway = await gateway(network)
      #expect(
        try await gateway.operate("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#).status == 200)
      let user = try await gateway.operate("POST", "/admin/1/users", #"{"name":"alice","givenName":"Alice"}"#).body
      let (name, token) = (try #require(user["userRecordName"]?.string), try #require(user["webAuthToken"]?.string))
      let authenticated = try await gateway.ask(
        Authenticate(container: World.container, environment: .development, apiToken: nil, userToken: token)
      ).reply
      #expect(authenticated.userRecordName == name && authenticated.lifetimeSeconds > 0)
      #expect(try await gateway.ask(LookUpUser(userRecordName: name)).reply.givenName == "Alice")
      #expect(try await gateway.ask(FetchSecrets()).reply.signingKey.count == 32)
      #expect(try await gateway.operate("PUT", "/mirror/1/\(World.photos)/development/model", modelXML()).status == 200)
      let worker = await neighbour("worker-1", .worker, network)
      let schema = try await worker.ask(FetchSchema(container: World.container, environment: .development)).reply
      #expect(schema.models.count == 1 && schema.schema.recordType(named: "CD_Post") != nil)
      worker.bus.close()
      gateway.bus.close()
    }
  }

  @Test func `an unknown or refused message has a code that callers know`() async throws {
    try await withService { network, service in
      let gateway = await gateway(network)
      _ = try await gateway.operate("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
      await #expect(throws: BusError(.notFound, "There is no user '_nobody'")) {
        try await gateway.ask(LookUpUser(userRecordName: "_nobody"))
      }
      let worker = await neighbour("worker-1", .worker, network)
      let other = try #require(ContainerID(rawValue: "iCloud.other"))
      await #expect(throws: BusError(.notFound, "There is no container 'iCloud.other'")) {
        try await worker.ask(FetchSchema(container: other, environment: .production))
      }
      func extend(_ type: FieldType) -> ExtendSchema {
        ExtendSchema(
          container: World.container,
          fields: [.init(recordType: "Note", field: "title", type: type, isEncrypted: false)])
      }
      _ = try await worker.ask(extend(.string))
      let error = await #expect(throws: BusError.self) { try await worker.ask(extend(.bytes)) }
      #expect(error?.code == .refused && error?.reason.contains("'title'") == true)
      worker.bus.close()
      gateway.bus.close()
    }
  }

  @Test func `everybody is told of credentials and schemas that changed`() async throws {
    try await withService { network, service in
      let gateway = await gateway(network)
      let worker = Neighbour("worker-1", .worker, network, report: "{}")
      await worker.bus.waitForPeers { $0.contains { $0.role == .share } }
      _ = try await gateway.operate("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
      // The operator's call is answered only when both know of the change.
      for neighbour in [gateway, worker] {
        let change = await neighbour.nextChange()
        #expect(change?.credentials == true)
        #expect(change?.schemas == ["\(World.photos)/development", "\(World.photos)/production"])
      }
      _ = try await worker.ask(
        ExtendSchema(
          container: World.container,
          fields: [.init(recordType: "Note", field: "title", type: .string, isEncrypted: false)]))
      for neighbour in [gateway, worker] {
        let change = await neighbour.nextChange()
        #expect(change?.credentials == false && change?.schemas == ["\(World.photos)/development"])
      }
      gateway.bus.close()
      worker.bus.close()
    }
  }

  @Test func `a process that connects, or missed a change, hears how far the directory has changed`() async throws {
    try await withService(time: .running) { network, service in
      let gateway = await gateway(network)
      let start = try #require(await gateway.nextVersion())
      let late = Neighbour("notifier-1", .notifier, network)
      #expect(await late.nextVersion() == start)
      _ = try await gateway.operate("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
      let next = try #require(await gateway.nextChange()?.version)
      #expect(next.follows(start))
      #expect(await late.nextChange()?.version == next)
      // A peer that was silent during a change is told when it is reachable again.
      network.pause("notifier-1")
      _ = try await gateway.operate("POST", "/admin/1/users", #"{"name":"alice"}"#)
      network.resume("notifier-1")
      let missed = try #require(await gateway.nextChange()?.version)
      while let version = await late.nextVersion(), version != missed {}
      gateway.bus.close()
      late.bus.close()
    }
  }

  @Test func `a peer that hangs holds up no operator for long`() async throws {
    try await withService(time: .running) { network, service in
      let gateway = await gateway(network)
      let stuck = Neighbour("gateway-2", .gateway, network)
      await stuck.bus.waitForPeers { $0.contains { $0.role == .share } }
      network.pause("gateway-2")
      let answer = try await gateway.operate("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
      #expect(answer.status == 200)
      network.resume("gateway-2")
      gateway.bus.close()
      stuck.bus.close()
    }
  }

  /// Runs a share service until a worker has all shards.
  /// - Returns: the version of that map, which is stored.
  private func mapVersion(_ folder: TemporaryFolder, _ clock: FixedClock, atLeast version: Int64 = 0) async throws
    -> Int64
  {
    let network = InMemoryNetwork(time: .stepped)
    let service = try ShareService(
      .init(dataPath: folder.path, operatorToken: World.operatorToken), clock: clock, random: SeededRandom(seed: 1),
      log: .silent)
    var handlers = BusHandlers()
    service.register(in: &handlers)
    let bus = InMemoryBus(name: "share", role: .share, network: network, handlers: handlers, isReady: true)
    let running = Task { try await service.run(on: bus) }
    let worker = Neighbour("worker-1", .worker, network, report: "{}")
    var found: Int64 = 0
    for await map in worker.cluster.updates()
    where map.holders == Array(repeating: "worker-1", count: 4) && map.version >= version {
      found = map.version
      break
    }
    running.cancel()
    try await running.value
    #expect(try await service.directory.clusterMap().version >= found)
    worker.bus.close()
    bus.close()
    await service.close()
    return found
  }

  @Test func `the cluster map is published, kept, and never goes back over a restart`() async throws {
    let folder = TemporaryFolder()
    let version = try await mapVersion(folder, FixedClock())
    #expect(try await mapVersion(folder, FixedClock(), atLeast: version) >= version)
  }

  @Test func `maps of a directory that is older than those who follow them are newer than what they know`() async throws
  {
    let clock = FixedClock()
    let folder = TemporaryFolder()
    var version: Int64 = 0
    for _ in 0..<3 { version = try await mapVersion(folder, clock, atLeast: version) }
    clock.advance(by: 1000)
    #expect(try await mapVersion(TemporaryFolder(), clock) > version)
  }

  @Test func `status calls put the workers' reports together and list silent ones`() async throws {
    try await withService(time: .running) { network, service in
      let gateway = await gateway(network)
      let figures = (0..<4).map { #"{"shard":\#($0),"bytes":7,"savesPerSecond":0.5,"readsPerSecond":3}"# }
      let workers = [
        Neighbour("worker-1", .worker, network, report: #"{"zones":[{"zone":"a"},{"zone":"b"}]}"#),
        Neighbour(
          "worker-2", .worker, network,
          report: #"{"zones":[{"zone":"c"}],"shards":[\#(figures.joined(separator: ","))]}"#),
        Neighbour("worker-3", .worker, network, report: "no JSON"),
      ]
      for worker in workers { await worker.bus.waitForPeers { $0.contains { $0.role == .share } } }
      for await map in gateway.cluster.updates() where map.members.count == 5 && map.holders.allSatisfy({ $0 != nil }) {
        break
      }

      let zones = try await gateway.operate("GET", "/admin/1/zones").body
      #expect(zones["zones"]?.elements.map { $0["zone"]?.string } == ["a", "b", "c"])
      #expect(zones["silent"]?.elements.map(\.string) == ["worker-3"])

      let status = try await gateway.operate("GET", "/admin/1/status").body
      #expect(
        status["members"]?.elements.map { $0["name"]?.string } == [
          "gateway-1", "share", "worker-1", "worker-2", "worker-3",
        ])
      #expect(status["shards"]?["count"]?.int64 == 4 && status["shards"]?["held"]?.int64 == 4)
      #expect(status["workers"]?.elements.map { $0["name"]?.string } == ["worker-1", "worker-2", "worker-3"])
      #expect(status["workers"]?.elements.map { $0["shards"]?.int64 } == [2, 2, 2])
      #expect(try await gateway.operate("GET", "/admin/1/workers").body["workers"]?.count == 3)

      let shards = try await gateway.operate("GET", "/admin/1/shards").body["shards"]?.elements ?? []
      #expect(shards.map { $0["shard"]?.int64 } == [0, 1, 2, 3])
      #expect(shards.allSatisfy { $0["worker"]?.string?.hasPrefix("worker-") == true })

      // Only the worker that has a shard tells its size, and what nobody tells is missing.
      #expect(shards.allSatisfy { ($0["bytes"]?.int64 == 7) == ($0["worker"]?.string == "worker-2") })
      let refused = try await gateway.operate("POST", "/admin/1/shards/balance")
      #expect(refused.status == 503 && refused.body["reason"]?.string?.contains("are not known") == true)
      #expect(try await gateway.operate("GET", "/admin/1/shards/balance").status == 405)

      let retried = try await gateway.operate("POST", "/admin/1/quarantine/retry").body
      #expect(retried["retried"]?.int64 == 4 && retried["silent"]?.elements.map(\.string) == ["worker-3"])
      #expect(
        try await gateway.operate("POST", "/admin/1/quarantine/retry", query: ["container": "c"]).body["retried"]?.int64
          == 6)
      #expect(try await gateway.operate("POST", "/admin/1/quarantine/retry", query: ["contianer": "c"]).status == 400)
      #expect(try await gateway.operate("GET", "/admin/1/quarantine/retry").status == 405)

      network.pause("worker-2")
      let silent = try await gateway.operate("GET", "/admin/1/zones").body
      #expect(silent["zones"]?.elements.map { $0["zone"]?.string } == ["a", "b"])
      #expect(silent["silent"]?.elements.map(\.string) == ["worker-2", "worker-3"])
      network.resume("worker-2")
      #expect(try await gateway.operate("GET", "/admin/1/nonsense").status == 404)
      gateway.bus.close()
      for worker in workers { worker.bus.close() }
    }
  }
}
