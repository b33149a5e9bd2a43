// Databases of the tests' server that stand for clusters.

import Assets
import Crypto
import CuttingProxy
import PostgreSQL
import PrivateCluster
import Records
import Synchronization
import Testing

@testable import RecordStore

/// Three clusters, in which a test has schemas of its own.
struct Clusters: Sendable {
  var all: [String: PostgreSQLConfiguration] = [:]

  private static let names = ["main", "east", "west"]
  private static let databases = Result {
    for name in names { try PrivateCluster.shared.get().run("CREATE DATABASE clusters_\(name)") }
  }

  init(installation: InstallationID? = nil) throws {
    try Self.databases.get()
    var configuration = try World.postgreSQL(keys: try KeyRing(parsing: String(repeating: "a", count: 64)))
    configuration.options.keepsPastStates = true
    configuration.options.readTime = .seconds(120)
    // Tests open shards whose owner has a session.
    configuration.releaseLimit = .milliseconds(50)
    configuration.installation = installation
    for name in Self.names {
      all[name] = configuration
      all[name]?.address = configuration.address.replacing("dbname=postgres", with: "dbname=clusters_\(name)")
    }
  }

  /// What the directory tells of two shards, of which the first one moves.
  static func told(_ cluster: String = "main", target: String? = nil) -> [ShardPlacement] {
    [ShardPlacement(cluster: cluster, target: target), ShardPlacement(cluster: cluster)]
  }

  /// The clusters that have the shard, or a copy of it.
  func places() throws -> [String] { try all.filter { try $0.value.look(atShard: 0) != nil }.map(\.key).sorted() }

  /// The clusters that have a log of a move.
  func logs() throws -> [String] {
    try all.filter { _, configuration in
      try configuration.withSession(ofShard: 0) { try MoveLog.isThere(configuration, shard: 0, $0) }
    }.map(\.key).sorted()
  }

  /// The same clusters, of which one is away.
  func without(_ name: String) -> [String: PostgreSQLConfiguration] {
    var clusters = all
    clusters[name]?.address = "host=/nowhere dbname=none"
    return clusters
  }

  /// Puts a proxy before a cluster.
  mutating func proxy(to name: String) throws -> CuttingProxy {
    let port = try PrivateCluster.shared.get().port
    let proxy = try CuttingProxy(to: "127.0.0.1:\(port)")
    let address = PrivateCluster.networkAddress(port: proxy.port)
    all[name]?.address = address.replacing("dbname=postgres", with: "dbname=clusters_\(name)") + " sslmode=disable"
    return proxy
  }

  /// Runs statements in a cluster, with the shard's schema.
  func run(_ statements: [String], in name: String) throws {
    let session = try Session(try #require(all[name]).session(ofShard: 0))
    defer { session.close() }
    for (number, statement) in statements.enumerated() {
      _ = try session.rows(Command("test \(number)", statement))
    }
  }
}

/// The store that a step of its own move changes.
final class StoreBox: Sendable {
  private let content = Mutex<(store: ClusteredRecordStore?, shard: (any ShardStore)?)>((nil, nil))

  var store: ClusteredRecordStore? { content.withLock { $0.store } }
  var shard: (any ShardStore)? { content.withLock { $0.shard } }
  func fill(_ store: ClusteredRecordStore, _ shard: any ShardStore) { content.withLock { $0 = (store, shard) } }
}

/// A move of shard 0 from the main cluster to the west, whose first try is disturbed before its fourth step.
struct DisturbedMove {
  let store: ClusteredRecordStore
  let shard: any ShardStore
  private let news: AsyncStream<String>
  private let tries: Tries

  private final class Tries: Sendable {
    private let state = Mutex((count: 0, goesOn: false))

    var isFirst: Bool { state.withLock { $0.count == 1 } }
    func goOn() { state.withLock { $0.goesOn = true } }

    /// Begins a try. The second one waits for `goOn`.
    func begin() async throws {
      state.withLock { $0.count += 1 }
      while state.withLock({ $0.count > 1 && !$0.goesOn }) { try await Task.sleep(for: .milliseconds(5)) }
    }
  }

  init(_ clusters: Clusters, disturb: @escaping @Sendable (any ShardStore) async throws -> Void) async throws {
    let (box, tries) = (StoreBox(), Tries())
    let (news, told) = AsyncStream.makeStream(of: String.self)
    (self.news, self.tries) = (news, tries)
    store = try ClusteredRecordStore(
      clusters.all, shardCount: 2, report: { if $0.contains("move") { told.yield($0) } }, pause: .milliseconds(1),
      willTake: { _, step in
        if step == 1 { try await tries.begin() }
        if step == 4, tries.isFirst, let shard = box.shard { try await disturb(shard) }
      })
    shard = try await store.open(shard: 0)
    box.fill(store, shard)
    store.follow(Clusters.told(target: "west"))
  }

  /// What the store says of the first try.
  func refusal() async -> String { await news.first { _ in true } ?? "" }

  /// Lets the second try begin, which moves the shard.
  /// - Returns: the shard, opened where it is then.
  func arrive() async throws -> any ShardStore {
    tries.goOn()
    let success = await news.first { _ in true }
    #expect(success?.contains("has moved to the cluster west") == true)
    await #expect(throws: StoreError.fenced(shard: 0, epoch: shard.epoch + 1)) { try await shard.write { _ in } }
    await shard.close()
    return try await store.open(shard: 0, knownEpoch: shard.epoch)
  }
}

extension ClusteredRecordStore {
  func follow(_ placements: [ShardPlacement]) { follow(placements, named: []) }

  /// Writes to a shard until it is as wanted, and opens it anew whenever its owner loses it.
  func write(to shard: any ShardStore, until isDone: (any ShardStore) -> Bool) async throws -> any ShardStore {
    var shard = shard
    while !isDone(shard) {
      do {
        try await shard.write { _ in }
        try await Task.sleep(for: .milliseconds(5))
      } catch StoreError.fenced {
        await shard.close()
        shard = try await open(shard: shard.shard, knownEpoch: shard.epoch)
      }
    }
    return shard
  }

  /// Opens shard 0 again and again until it is in a cluster.
  func openWhenMoved(to cluster: String, _ shard: any ShardStore) async throws -> any ShardStore {
    try await write(to: shard) { _ in placement(ofShard: 0)?.cluster == cluster }
  }
}
