// A worker with its files, a share service and a gateway on an in-memory bus. A kill leaves the files as a real one
// would.

import Foundation
import InMemoryServiceBus
import JSON
import ObjectModel
import Records
import RecordStore
import ServiceBus
import ServiceKit
import SQLite
import Synchronization
import WorkerHost

/// The answer to a request.
struct Reply: Sendable {
  let status: Int
  let json: JSONValue
  let text: String
}

final class Server: Sendable {
  static let container = ContainerID(rawValue: "iCloud.org.example.convergence")!

  /// The life of one process.
  private struct Process: Sendable {
    let bus: InMemoryBus
    let service: any Service
    let life: Mortality
    let folder: String
  }

  let time = VirtualTime()
  let directory: Directory
  let modelHash: String
  private let network = InMemoryNetwork(time: .stepped)
  private let share: InMemoryBus
  private let gateway: InMemoryBus
  private let root: String
  private let process = Mutex<Process?>(nil)
  private let mapVersion = Mutex<Int64>(0)
  private let random: SeededBytes
  private let listens: Bool
  /// Requests with their answers since the last `overheard`.
  private let talk = Mutex<[String]>([])
  private static let shardCount = 3
  private static let name = "worker-1"

  init(_ model: ManagedObjectModel, seed: Int, listens: Bool = false) async throws {
    self.listens = listens
    directory = Directory(model, shardCount: Self.shardCount)
    modelHash = ModelIndex(model).modelHash
    random = SeededBytes(seed: seed)
    let memory = "/dev/shm"
    root =
      (FileManager.default.isWritableFile(atPath: memory) ? memory : NSTemporaryDirectory())
      + "/aquifer-convergence-\(UUID().uuidString)"
    share = InMemoryBus(name: "share-1", role: .share, network: network, handlers: directory.handlers, isReady: true)
    gateway = InMemoryBus(name: "gateway-1", role: .gateway, network: network, handlers: BusHandlers(), isReady: true)
    try await ticking { try await start(in: root + "/0") }
  }

  // MARK: The process

  private func start(in folder: String) async throws {
    let cluster = Cluster(name: Self.name, role: .worker)
    let options = ["--data", folder, "--history-retention", String(Self.historyRetention)]
    let context = ServiceContext(
      name: Self.name, role: .worker,
      options: try Options(Worker.options, arguments: options, environment: { _ in nil }), log: .silent,
      metrics: Metrics(),
      clock: time, random: random, timing: time.timing, cluster: cluster)
    let life = Mortality()
    let worker = try Worker(context, through: { life.store(over: $0) })
    var handlers = BusHandlers()
    worker.register(in: &handlers)
    cluster.register(in: &handlers)
    let bus = InMemoryBus(name: Self.name, role: .worker, network: network, handlers: handlers)
    cluster.start(on: bus, shareEndpoints: [share.own.endpoint])
    await share.waitForPeers { $0.contains { $0.name == Self.name && $0.incarnation == bus.own.incarnation } }
    let version = mapVersion.withLock { version in
      version += 1
      return version
    }
    let map = ClusterMap(
      version: version, members: [gateway.own, share.own, bus.own],
      holders: Array(repeating: Self.name, count: Self.shardCount))
    _ = try await share.call(PublishClusterMap(map: map), body: [], to: .peer(Self.name), within: .seconds(60))
    let service = try await worker.start(on: bus)
    bus.setReady(true)
    gateway.connect(to: bus.own.endpoint, of: .peer(Self.name))
    await gateway.waitForPeers {
      $0.contains { $0.name == Self.name && $0.incarnation == bus.own.incarnation && $0.isReady }
    }
    process.withLock { $0 = Process(bus: bus, service: service, life: life, folder: folder) }
  }

  /// Unit: seconds.
  static let historyRetention: Int64 = 3600

  /// Lets the process make `commits` more commits; later requests get no answer until `restart`.
  func condemn(after commits: Int) { process.withLock { $0?.life.die(after: commits) } }

  var isDead: Bool { process.withLock { $0?.life.isDead ?? true } }

  /// Ends the process in order or by a kill, then starts another one on its files.
  func restart(isKilled: Bool) async throws { try await ticking { try await replace(isKilled: isKilled) } }

  private func replace(isKilled: Bool) async throws {
    guard let old = process.withLock({ $0 }) else { return }
    var folder = old.folder
    if isKilled {
      old.life.die(after: 0)
      await rest(old.life)
      folder = root + "/" + UUID().uuidString
      try Self.copy(old.folder, to: folder)
      network.kill(Self.name)
    } else {
      await rest(old.life)
    }
    if !isKilled { await old.service.drain() }
    old.bus.close()
    await old.service.close()
    old.life.end()
    if isKilled { try FileManager.default.removeItem(atPath: old.folder) }
    try await start(in: folder)
  }

  /// Copies the files as a kill leaves them, while the dead process's threads still end: the committed state of each
  /// database.
  private static func copy(_ folder: String, to copy: String) throws {
    try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: true)
    for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
      let (source, target) = (folder + "/" + name, copy + "/" + name)
      if name.hasSuffix(".sqlite") {
        let connection = try Connection(exclusive: source, mode: .readOnly)
        defer { connection.close() }
        _ = try connection.copy(to: target)
      } else if (try? FileManager.default.contentsOfDirectory(atPath: source)) != nil {
        // Dropped because a path without content is no folder.
        try Self.copy(source, to: target)
      } else if !name.hasSuffix("-wal"), !name.hasSuffix("-shm"),
        let content = FileManager.default.contents(atPath: source)
      {
        try content.write(to: URL(filePath: target))
      }
    }
  }

  func close() async {
    guard let old = process.withLock({ $0 }) else { return }
    await ticking {
      await old.service.drain()
      old.bus.close()
      await old.service.close()
      old.life.end()
    }
    share.close()
    gateway.close()
    // Dropped because a folder that stays in memory does no harm.
    try? FileManager.default.removeItem(atPath: root)
  }

  // MARK: Quiet

  /// Waits until the work after the last request is done: exports, forwards, news of shares.
  func settle() async {
    guard let life = process.withLock({ $0?.life }) else { return }
    await ticking { await rest(life) }
  }

  private func rest(_ life: Mortality) async {
    var quiet = 0
    var last = -1
    while quiet < 6 {
      for _ in 0..<4 { await Task.yield() }
      let total = life.total
      if life.underWay == 0, total == last { quiet += 1 } else { quiet = 0 }
      if life.underWay > 0 { try? await Task.sleep(for: .microseconds(50)) }
      last = total
    }
  }

  // MARK: Requests

  /// Sends a request like a gateway.
  /// - Returns: nil without an answer: the process is dead.
  func ask(
    _ plane: DatabaseRequest.Plane, _ method: String, _ path: String, _ query: [String: String] = [:],
    _ body: String = "", user: String, scope: DatabaseScope = .private,
    owner: String? = nil, requestID: String? = nil
  ) async throws -> Reply? {
    let request = DatabaseRequest(
      plane: plane, method: method, path: path.split(separator: "/").map(String.init), query: query,
      database: DatabaseID(container: Self.container, environment: .development, owner: owner ?? user), scope: scope,
      caller: Caller(userRecordName: user),
      requestID: requestID ?? "gateway:" + random.uuid(), baseURL: "https://host")
    let reply = try await call { [gateway] in
      let answer = try await gateway.call(request, body: Array(body.utf8), to: .peer(Self.name), within: .seconds(3600))
      return (answer.reply.status, answer.body)
    }
    if listens {
      talk.withLock {
        $0.append(
          """
            \(user) \(method) \(path) \
          \(query.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")) \(body)\n    \
          \(reply?.status ?? 0) \(reply?.text ?? "no answer")
          """
        )
      }
    }
    return reply
  }

  /// The requests and answers since the last call, if the server listens.
  func overheard() -> [String] {
    talk.withLock { lines in
      defer { lines = [] }
      return lines
    }
  }

  /// Accepts an invitation like a gateway.
  func accept(_ shortGUID: String, of owner: String, by user: String, purpose: ResolveShortGUIDs.Purpose = .accept)
    async throws -> Reply?
  {
    let database = DatabaseID(container: Self.container, environment: .development, owner: owner)
    let shard = ShardLayout(createdCount: Self.shardCount)?.shard(of: database) ?? 0
    let message = ResolveShortGUIDs(
      purpose: purpose, shard: shard, container: Self.container, environment: .development,
      caller: Caller(userRecordName: user),
      items: [ResolveShortGUIDs.Item(shortGUID: shortGUID, fetchesRootRecord: false, desiredKeys: nil)],
      baseURL: "https://host")
    return try await call { [gateway] in
      (200, try await gateway.call(message, body: [], to: .peer(Self.name), within: .seconds(3600)).body)
    }
  }

  /// Runs `body`, which may wait for the clock: when nothing happens for a while, the clock moves to the next sleep's
  /// end.
  private func ticking<Value: Sendable>(_ body: () async throws -> Value) async rethrows -> Value {
    let ticks = Task { [time] in
      while !Task.isCancelled {
        // Dropped because the end of the wait cancels the sleep.
        try? await Task.sleep(for: .milliseconds(100))
        if !Task.isCancelled { time.advanceToNextSleeper() }
      }
    }
    defer { ticks.cancel() }
    return try await body()
  }

  private func call(_ ask: @escaping @Sendable () async throws -> (status: Int, body: [UInt8])) async throws -> Reply? {
    if isDead { return nil }
    do {
      let (status, body) = try await ticking(ask)
      if isDead { return nil }
      return Reply(
        status: status, json: try JSONValue(parsing: body.isEmpty ? Array("null".utf8) : body),
        text: String(decoding: body, as: UTF8.self))
    } catch is BusError {
      return nil
    }
  }
}

/// Random bytes from a seed.
final class SeededBytes: RandomSource {
  private let state: Mutex<UInt64>

  init(seed: Int) { state = Mutex(UInt64(truncatingIfNeeded: seed) &* 0x9e37_79b9_7f4a_7c15 | 1) }

  func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: next() >> 32) } }

  /// SplitMix64.
  private func next() -> UInt64 {
    state.withLock { state in
      state &+= 0x9e37_79b9_7f4a_7c15
      var z = state
      z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
      z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
      return z ^ (z >> 31)
    }
  }
}
