// An object plane over a store of choice, and devices that speak to it in JSON.

import Assets
import Crypto
import DistantAssets
import FixedClocks
import Foundation
import History
import InMemoryRecordStore
import JSON
import Mirroring
import ObjectModel

@testable import ObjectPlane
@testable import RecordPlane
@testable import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices
@testable import SharedStores
@testable import WorkerHost
@testable import ZoneActions
@testable import ZoneCommit

/// The stores every test of the plane can run over.
enum StoreKind: String, CaseIterable, Sendable {
  case memory, sqlite
  /// SQLite with contents of assets on a network; for tests of assets.
  case distant
  /// PostgreSQL; for tests of what its writers look up and of rows that are rewritten.
  case postgreSQL

  static let allCases: [StoreKind] = [.memory, .sqlite]
  static let engines: [StoreKind] = [.memory, .sqlite, .postgreSQL]
}

/// Databases in one shard, seen through the object plane.
final class ObjectPlaneWorld: Sendable {
  static let container = ContainerID(rawValue: "iCloud.org.example.photos")!
  static let modelHash = ModelIndex(PhotoModel.model).modelHash

  let clock = FixedClock()
  let random = SeededRandom(seed: 7)
  let changes = PublishedChanges()
  let schemas: ModelSchemas
  let store: any ShardStore
  let plane: MirrorAPI
  let records: RecordPlane
  let duplicates: DuplicateKeeper
  let folder: String
  let keys: KeyRing
  /// What tests look at, whatever the plane sees.
  var assets: AssetFolder { AssetFolder(directory: folder + "/assets", keys: keys) }

  private init(
    _ store: any ShardStore, _ assets: any AssetStore, folder: String, schemas: ModelSchemas, keys: KeyRing,
    assetThreshold: Int?, storeLimit: Int
  ) {
    self.keys = keys
    self.store = store
    self.folder = folder
    self.schemas = schemas
    let context = SharedContext(
      clock: clock, random: random, schemas: schemas, changes: changes,
      assets: assets, assetThresholdByteCount: assetThreshold, storeLimit: storeLimit,
      pause: { [clock] duration in
        let end =
          clock.now + duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
        while clock.now < end, !Task.isCancelled { try? await Task.sleep(for: .milliseconds(1)) }
      })
    plane = MirrorAPI(context: context)
    records = RecordPlane(context: context.records())
    duplicates = DuplicateKeeper(context.commits, pause: { _ in await Task.yield() })
  }

  static let testKeys = try! KeyRing(parsing: String(repeating: "b", count: 64))

  /// Runs `body` in a fresh world and cleans up behind it.
  static func with(
    _ kind: StoreKind,
    models: [Environment: [ManagedObjectModel]] = [.development: [PhotoModel.model], .production: []],
    keepsPastStates: Bool = false, keys: KeyRing = testKeys, assetThreshold: Int? = nil, storeLimit: Int = 0,
    commitFailure: @escaping @Sendable (Int) -> StoreError? = { _ in nil },
    _ body: (ObjectPlaneWorld) async throws -> Void
  ) async throws {
    let folder = NSTemporaryDirectory() + "aquifer-object-plane-\(SecureRandomName.make())"
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let store: any ShardStore
    let near = AssetFolder(directory: folder + "/assets", keys: keys)
    let assets: any AssetStore = kind == .distant ? DistantAssets(near) : near
    var options = StoreOptions()
    options.keepsPastStates = keepsPastStates
    switch kind {
    case .memory:
      store = try await InMemoryRecordStore(
        shardCount: 1, keepsPastStates: keepsPastStates, commitFailure: commitFailure
      ).open(shard: 0)
    case .sqlite, .distant:
      store = try await SQLiteRecordStore(
        SQLiteConfiguration(directory: folder + "/shards", assets: assets, keys: keys, options: options), shardCount: 1
      ).open(shard: 0)
    case .postgreSQL: store = try await openedOnPostgreSQL(assets, keys: keys, options: options)
    }
    let world = ObjectPlaneWorld(
      store, assets, folder: folder, schemas: ModelSchemas(models), keys: keys, assetThreshold: assetThreshold,
      storeLimit: storeLimit)
    do {
      try await body(world)
    } catch {
      await store.close()
      throw error
    }
    await store.close()
  }

  /// Runs `body` over the shard after a restore from a backup of now. The earlier store is closed. SQLite only.
  func restored(_ body: (ObjectPlaneWorld) async throws -> Void) async throws {
    await store.close()
    try ShardRenewal(shard: 0, startedAt: 0, now: clock.now).run(at: folder + "/shards/shard-0.sqlite")
    let again = try await SQLiteRecordStore(
      SQLiteConfiguration(directory: folder + "/shards", assets: assets, keys: keys), shardCount: 1
    ).open(shard: 0)
    let world = ObjectPlaneWorld(
      again, assets, folder: folder, schemas: schemas, keys: keys, assetThreshold: nil, storeLimit: 0)
    do {
      try await body(world)
    } catch {
      await again.close()
      throw error
    }
    await again.close()
  }

  /// Runs `body` with the shard's background exports going on beside it.
  func withExports(_ body: () async throws -> Void) async throws {
    let background = Task { await plane.run(on: store) }
    let outcome: Result<Void, any Error>
    do {
      outcome = .success(try await body())
    } catch {
      outcome = .failure(error)
    }
    background.cancel()
    await background.value
    try outcome.get()
  }

  func request(
    _ method: String, _ path: String, on plane: DatabaseRequest.Plane = .object, query: [String: String] = [:],
    user: String? = "_alice", owner: String? = nil,
    scope: DatabaseScope = .private,
    environment: Environment = .development
  ) -> DatabaseRequest {
    let owner = scope == .public ? DatabaseID.publicOwner : owner ?? user ?? "_alice"
    return DatabaseRequest(
      plane: plane, method: method, path: path.split(separator: "/").map(String.init), query: query,
      database: DatabaseID(container: Self.container, environment: environment, owner: owner), scope: scope,
      caller: Caller(userRecordName: user),
      requestID: "request \(Self.requestCount.add(1, ordering: .relaxed).newValue)", baseURL: "https://host")
  }

  /// Requests are told apart, as the gateway does.
  private static let requestCount = Atomic(0)

  /// Sends a request, with a failure rendered as the worker does.
  func send(_ request: DatabaseRequest, _ body: String = "") async throws -> PlaneReply {
    do {
      let answer = try await plane.respond(to: request, body: Array(body.utf8), in: store, startNext: {})
      return PlaneReply(status: answer.status, bytes: answer.body, json: try JSONValue(parsing: answer.body))
    } catch let error as RecordError {
      let bytes = error.mirrorDictionary(uuid: "uuid")
      return PlaneReply(status: error.status, bytes: bytes, json: try JSONValue(parsing: bytes))
    }
  }

  @discardableResult
  func setUp(_ store: String, user: String = "_alice", scope: DatabaseScope = .private, more: String = "") async throws
    -> PlaneReply
  {
    let reply = try await send(
      request("PUT", "stores/\(store)", user: user, scope: scope),
      #"{"modelHash":"\#(Self.modelHash)","device":{"name":"d"}\#(more)}"#)
    try #require(reply.status == 200, "\(reply.text)")
    return reply
  }

  /// Saves one transaction.
  @discardableResult
  func save(
    _ store: String, _ changes: String, id: String? = nil, author: String = "app", query: [String: String] = [:],
    user: String = "_alice",
    scope: DatabaseScope = .private
  ) async throws -> PlaneReply {
    let transaction =
      #"""
      {"transactionID":"\#(id ?? random.uuid())","timestamp":"2026-11-20T07:33:24.123Z","author":"\#(author)",\#
      "changes":[\#(changes)]}
      """#
    return try await send(
      request("POST", "stores/\(store)/transactions", query: query, user: user, scope: scope),
      #"{"transactions":[\#(transaction)]}"#)
  }

  func get(_ path: String, _ query: [String: String] = [:], user: String = "_alice", scope: DatabaseScope = .private)
    async throws -> PlaneReply
  {
    try await send(request("GET", "stores/\(path)", query: query, user: user, scope: scope))
  }

  /// The live records of alice's mirror zone, ascending by name, with every export that a finished save queued.
  func liveRecords() async throws -> [Record] {
    try await store.enqueue { _ in }.value
    let database = request("GET", "stores/x").database
    return try await store.read { snapshot in
      guard let row = try snapshot.database(database),
        let zone = try snapshot.zone(named: ReservedName.privateMirrorZone, in: row.key)
      else { return [] }
      return try snapshot.changes(in: zone.key, after: 0, limit: 10_000).filter { !$0.isDeleted }.map(\.record).sorted {
        $0.recordName < $1.recordName
      }
    }
  }
}

/// A device with one store: keeps its graph and token.
final class Device {
  let store: String
  let world: ObjectPlaneWorld
  private(set) var graph = DeviceGraph()
  var token: String?

  init(_ store: String, _ world: ObjectPlaneWorld) async throws {
    self.store = store
    self.world = world
    try await world.setUp(store)
  }

  /// An edit of the device's own, as a change that it might have imported.
  func edit(_ change: String) throws { graph.apply(try JSONValue(parsing: Array(change.utf8))) }

  /// Pulls pages until there are no more.
  /// - Returns: the changes, in order.
  @discardableResult
  func pull(limit: Int? = nil) async throws -> [JSONValue] {
    var all: [JSONValue] = []
    while true {
      let page = try await page(limit: limit)
      all += page["changes"]?.elements ?? []
      if page["moreComing"]?.bool != true { return all }
    }
  }

  func page(limit: Int? = nil, query: [String: String] = [:]) async throws -> JSONValue {
    // Exports that finished saves queued come first: a batch reads beside the writer.
    try await world.store.enqueue { _ in }.value
    var query = query
    if let token { query["after"] = token }
    if let limit { query["limit"] = String(limit) }
    let reply = try await world.get("\(store)/changes", query)
    try #require(reply.status == 200, "\(reply.text)")
    for change in reply.json["changes"]?.elements ?? [] { graph.apply(change) }
    token = reply.json["importToken"]?.string
    return reply.json
  }
}

/// Makes commits fail from now on, or no longer.
final class FailureSwitch: Sendable {
  private let state = Mutex<StoreError?>(nil)
  var failure: StoreError? { state.withLock { $0 } }
  func set(_ failure: StoreError?) { state.withLock { $0 = failure } }
}

extension ObjectPlaneWorld {
  /// As if the worker had died between the save's commit and its export.
  /// - Returns: the store's key.
  @discardableResult
  func appendWithoutExport(
    _ transactions: [HistoryTransaction], to storeIdentifier: String, scope: DatabaseScope = .private
  ) async throws -> Int64 {
    let id = request("GET", "stores/x", scope: scope).database
    return try await store.enqueue { store in
      guard let database = try store.database(id), let mirror = try store.mirror(storeIdentifier, in: database.key)
      else { throw CancellationError() }
      for (index, transaction) in transactions.enumerated() {
        let row = StoredTransaction(
          number: mirror.lastTransactionNumber + Int64(index) + 1, transactionID: transaction.transactionID,
          author: transaction.author, appendedAt: 0,
          payload: transaction.encoded())
        try store.append(row, to: mirror.key)
      }
      return mirror.key
    }.value
  }

  /// Waits until so many changes were published, and takes them.
  func published(_ count: Int) async throws -> [ZoneChange] {
    var all: [ZoneChange] = []
    while all.count < count {
      all += changes.take()
      await Task.yield()
    }
    return all
  }
}
