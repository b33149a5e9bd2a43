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
  /// The last user whose data the shards have removed once more, for each renewed shard. After a restart it begins
  /// anew.
  private var repeated: [RenewedShard: [Int: String]] = [:]
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

  /// Asks the shards to remove the data of every departure that is due, new ones first. Then renewed shards remove once
  /// more what a backup may have brought back, a user at a time: a new departure does not wait for them.
  func round() async {
    do {
      var tried: Set<Departure> = []
      var failing: Set<Int> = []
      while true {
        if let departure = try await dueDepartures().first(where: { !tried.contains($0) }) {
          tried.insert(departure)
          try await remove(departure)
        } else if let (renewed, shard, user) = try await nextRepetition(besides: failing) {
          if await forget(user, in: shard) {
            repeated[renewed, default: [:]][shard] = user
          } else {
            failing.insert(shard)
          }
        } else {
          return
        }
      }
    } catch {
      log.error("deleted users could not be looked up", ["error": .text(String(describing: error))])
    }
  }

  /// Those that are due, first the ones whose data no shard was asked to remove before.
  private func dueDepartures() async throws -> [Departure] {
    let departures = try await directory.departures()
    // Some were finished, or became due anew, while they were worked on.
    if !done.isEmpty { done = done.filter { departures.contains($0.key) } }
    let due = departures.filter { $0.due <= clock.now }
    return due.filter { !$0.isLast } + due.filter(\.isLast)
  }

  private func remove(_ departure: Departure) async throws {
    for shard in 0..<directory.shardCount where done[departure]?.contains(shard) != true {
      if await forget(departure.recordName, in: shard) { done[departure, default: []].insert(shard) }
    }
    guard done[departure]?.count == directory.shardCount else { return }
    try await directory.finish(departure)
    done[departure] = nil
    log.info(
      "a deleted user's data are removed from all shards",
      ["user": .text(departure.recordName), "last": .text(departure.isLast ? "yes" : "no")])
  }

  /// The next user to be removed from a renewed shard once more; finishes shards that have removed all.
  private func nextRepetition(besides failing: Set<Int>) async throws -> (RenewedShard, shard: Int, user: String)? {
    let all = try await directory.renewedShards()
    if !repeated.isEmpty { repeated = repeated.filter { all.contains($0.key) } }
    for renewed in all {
      var isFinished = true
      for shard in renewed.shards(of: directory.shardCount) {
        guard let user = try await directory.departedUser(after: repeated[renewed]?[shard] ?? "") else { continue }
        if !failing.contains(shard) { return (renewed, shard, user) }
        isFinished = false
      }
      if isFinished {
        try await directory.finish(renewed)
        log.info(
          "a renewed shard has removed the data of deleted users once more", ["shard": .integer(Int64(renewed.shard))])
      }
    }
    return nil
  }

  /// - Returns: false if the shard has no holder, or its holder fails.
  private func forget(_ user: String, in shard: Int) async -> Bool {
    guard let bus, let map = await map(), map.holders.indices.contains(shard), let holder = map.holders[shard] else {
      return false
    }
    do throws(BusError) {
      let message = ForgetUser(shard: shard, userRecordName: user)
      _ = try await bus.call(message, body: [], to: .peer(holder), within: Self.shardLimit)
      return true
    } catch {
      log.warning(
        "a deleted user's data are still in a shard",
        ["shard": .integer(Int64(shard)), "reason": .text(error.reason)])
      return false
    }
  }
}
