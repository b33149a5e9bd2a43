// The life of a worker that serves: its background work, its drain and its end.

import Assets
import Crypto
import Mirroring
import ObjectPlane
import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import SharedStores
import Synchronization
import WebServices
import ZoneActions
import ZoneCommit

/// A worker that serves.
final class RunningWorker: Service {
  private let parts: Worker.Parts
  private let cluster: Cluster
  private let name: String
  /// The process's background work, which ends with the service.
  private let holding: Task<Void, Never>
  private let publishing: Task<Void, Never>
  private let firing: Task<Void, Never>
  private let lateFiring: Task<Void, Never>

  init(parts: Worker.Parts, cluster: Cluster, name: String) {
    self.parts = parts
    self.cluster = cluster
    self.name = name
    holding = Task { await parts.host.run(cluster.updates()) }
    publishing = Task { await parts.changes.run() }
    firing = Task { await parts.sharedFiring.run(on: parts.host) }
    lateFiring = Task { await parts.records.context.commits.effects.lateFirings.run(on: parts.host) }
  }

  var checks: [HealthCheck] {
    [
      HealthCheck("shards") { [parts, cluster, name] in
        guard cluster.current?.members.contains(where: { $0.name == name && $0.isReady }) == true else {
          return "the cluster map does not have this worker yet"
        }
        let count = await parts.host.openingCount
        return count == 0 ? nil : count == 1 ? "1 shard is being opened" : "\(count) shards are being opened"
      }
    ]
  }

  /// Sends the pings of the last saves. Shards move with the maps that follow. Until the bus has drained, requests for
  /// them are answered, and a ping of those leaves at once unless another is under way.
  func drain() async { await parts.changes.drain() }

  func close() async {
    publishing.cancel()
    firing.cancel()
    lateFiring.cancel()
    holding.cancel()
    await holding.value
    await publishing.value
    await firing.value
    await lateFiring.value
  }
}
