// Makes every shard remove the data of deleted users, until all have done so; it continues after a restart.

import Records
import ServiceBus
import ServiceKit

/// Works through the directory's departures, which are durable.
actor UserRemovals {
  private let directory: Directory
  private let clock: any WallClock
  private let log: Log
  private var bus: (any Bus)?
  private var map: @Sendable () async -> ClusterMap? = { nil }
  /// The shards that finished each departure. After a restart they are asked again.
  private var done: [Departure: Set<Int>] = [:]
  private let rounds = Rounds(every: pause)

  /// Time limit for one shard, which may have to read millions of rows.
  private static let shardLimit = Duration.seconds(600)
  private static let pause = Duration.seconds(1)

  init(directory: Directory, clock: any WallClock, log: Log) {
    self.directory = directory
    self.clock = clock
    self.log = log
  }

  func attach(_ bus: any Bus, map: @escaping @Sendable () async -> ClusterMap?) {
    self.bus = bus
    self.map = map
  }

  /// Wakes the loop for a new departure.
  nonisolated func notice() { rounds.notice() }

  /// Runs until the task is cancelled.
  func run() async { await rounds.run { await round() } }

  /// Asks the shards to remove the data of every departure that is due.
  func round() async {
    do {
      let now = clock.now
      for departure in try await directory.departures() where departure.due <= now { try await remove(departure) }
    } catch {
      log.error("deleted users could not be looked up", ["error": .text(String(describing: error))])
    }
  }

  private func remove(_ departure: Departure) async throws {
    for shard in 0..<directory.shardCount where done[departure]?.contains(shard) != true {
      guard let bus, let map = await map(), map.holders.indices.contains(shard), let holder = map.holders[shard] else {
        continue
      }
      do throws(BusError) {
        let message = ForgetUser(shard: shard, userRecordName: departure.recordName)
        _ = try await bus.call(message, body: [], to: .peer(holder), within: Self.shardLimit)
        done[departure, default: []].insert(shard)
      } catch {
        log.warning(
          "a deleted user's data are still in a shard",
          ["shard": .integer(Int64(shard)), "reason": .text(error.reason)])
      }
    }
    guard done[departure]?.count == directory.shardCount else { return }
    try await directory.finish(departure)
    done[departure] = nil
    log.info(
      "a deleted user's data are removed from all shards",
      ["user": .text(departure.recordName), "last": .text(departure.isLast ? "yes" : "no")])
  }
}
