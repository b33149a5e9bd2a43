// Databases of the tests' server that stand for clusters.

import Crypto
import PrivateCluster
import Records
import Testing

@testable import RecordStore

/// Three clusters, in which a test has schemas of its own.
struct Clusters: Sendable {
  var all: [String: PostgreSQLConfiguration] = [:]

  private static let names = ["main", "east", "west"]
  private static let databases = Result {
    for name in names { try PrivateCluster.shared.get().run("CREATE DATABASE clusters_\(name)") }
  }

  init() throws {
    try Self.databases.get()
    var configuration = try World.postgreSQL(keys: try KeyRing(parsing: String(repeating: "a", count: 64)))
    configuration.options.keepsPastStates = true
    configuration.options.readTime = .seconds(120)
    // Tests open shards whose owner has a session.
    configuration.releaseLimit = .milliseconds(50)
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
}

extension ClusteredRecordStore {
  /// Opens shard 0 again and again until it is in a cluster.
  func openWhenMoved(to cluster: String, _ shard: any ShardStore) async throws -> any ShardStore {
    var shard = shard
    while placement(ofShard: 0)?.cluster != cluster {
      do {
        try await shard.write { _ in }
        try await Task.sleep(for: .milliseconds(5))
      } catch StoreError.fenced {
        await shard.close()
        shard = try await open(shard: 0, knownEpoch: shard.epoch)
      }
    }
    return shard
  }
}
