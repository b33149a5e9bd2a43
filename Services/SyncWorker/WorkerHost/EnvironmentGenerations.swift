// Applies resets of the development environment: a database of an earlier generation begins anew before it serves
// a request, on any worker.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import ZoneCommit

/// Compares the generation of development databases with that of their environment. Every `schema reset` raises it.
///
/// `DirectoryChanged` tells of a reset. If that message is lost, the worker notices when it asks for the schema again;
/// records that were saved meanwhile are removed with the rest.
final class EnvironmentGenerations: Sendable {
  private struct State {
    /// The generation of each container's development environment, and how long that answer counts (ms since 1970).
    var known: [ContainerID: (generation: Int64, freshUntil: Int64)] = [:]
    /// The generation that each database was last seen to have.
    var settled: [DatabaseID: Int64] = [:]
  }

  private let schemas: any SchemaSource
  private let changes: any ChangePublisher
  private let clock: any WallClock
  private let log: Log
  /// Pauses for that time, or until its task is cancelled.
  private let pause: @Sendable (Duration) async -> Void
  private let state = Mutex(State())

  /// Above this number of databases the worker forgets all of them and looks at each again.
  private static let databaseLimit = 100_000
  /// Milliseconds; the same as the greatest age of a schema.
  private static let freshness: Int64 = 30_000
  private static let roundPause = Duration.seconds(60)
  /// Entries of a journal that one commit removes.
  private static let conflictCount = 100

  init(
    schemas: any SchemaSource, changes: any ChangePublisher, clock: any WallClock, log: Log,
    pause: @escaping @Sendable (Duration) async -> Void
  ) {
    self.schemas = schemas
    self.changes = changes
    self.clock = clock
    self.log = log
    self.pause = pause
  }

  /// True if a request for this database needs no call of `settle`.
  func isSettled(_ database: DatabaseID) -> Bool {
    if database.environment == .production { return true }
    let now = clock.now
    return state.withLock { state in
      guard let known = state.known[database.container], now < known.freshUntil else { return false }
      return state.settled[database] == known.generation
    }
  }

  /// Asks for the environment's generation, and lets a database of an earlier one begin anew. Durable when it returns.
  /// - Parameter isGuest: the caller is not the owner. Nothing is made then, because the owner's name may be guessed.
  /// - Throws: the error of the container or of the shard.
  func settle(_ database: DatabaseID, in store: any ShardStore, isGuest: Bool = false) async throws(RecordError) {
    let start = clock.now
    let generation: Int64
    do {
      generation = try await schemas.schema(of: database.container, .development).generation
    } catch {
      // Dropped because a silent directory tells of no reset. Later steps that need the directory report its absence.
      if error.code == .tryAgainLater { return }
      throw error
    }
    let isSettled = state.withLock { state in
      state.known[database.container] = (generation, start + Self.freshness)
      return state.settled[database] == generation
    }
    if isSettled { return }
    if isGuest, try await !isThere(database, in: store) { return }
    if generation > 0 { try await bring(database, to: generation, in: store) }
    state.withLock { state in
      if state.settled.count >= Self.databaseLimit { state.settled.removeAll() }
      state.settled[database] = generation
    }
  }

  private func isThere(_ database: DatabaseID, in store: any ShardStore) async throws(RecordError) -> Bool {
    do {
      return try await store.read { try $0.database(database) != nil }
    } catch {
      throw RecordError(storing: error, log: log)
    }
  }

  private func bring(_ database: DatabaseID, to generation: Int64, in store: any ShardStore) async throws(RecordError) {
    var restarted: [StoredZone]?
    do {
      while restarted == nil {
        restarted = try await store.enqueue { transaction -> [StoredZone]? in
          // Makes the row now: a row made later would look like one of an earlier generation.
          let row = try transaction.makeDatabase(database)
          if row.generation >= generation { return [] }
          // A long journal goes ahead in slices, because other users' saves wait for this thread.
          if try transaction.deleteConflicts(of: row.key, limit: Self.conflictCount) > 0 { return nil }
          return try transaction.restart(row.key, generation: generation)
        }.value
      }
    } catch {
      throw RecordError(storing: error, log: log)
    }
    let zones = restarted ?? []
    ZoneEffects(removed: zones, of: database).publish(changesBy: changes)
    if !zones.isEmpty {
      log.info(
        "a database started over",
        [
          "container": .text(database.container.rawValue), "shard": .integer(Int64(store.shard)),
          "zones": .integer(Int64(zones.count)),
        ])
    }
  }

  /// Forgets the known generations of the environments that a change names.
  func note(_ change: DirectoryChanged) {
    let stale = Set(change.schemas)
    state.withLock { state in
      state.known = state.known.filter { !stale.contains("\($0.key.rawValue)/\(Environment.development.rawValue)") }
    }
  }
}

extension EnvironmentGenerations: ShardWork {
  /// Settles databases that get no requests, because a reset must remove their records, too.
  func run(on store: any ShardStore) async {
    while !Task.isCancelled {
      await round(store)
      await pause(Self.roundPause)
    }
  }

  private func round(_ store: any ShardStore) async {
    var last: Int64 = 0
    do {
      while !Task.isCancelled {
        let after = last
        let rows = try await store.read { try $0.databases(afterKey: after, limit: 200) }
        guard let end = rows.last else { return }
        for row in rows where !isSettled(row.id) {
          do throws(RecordError) {
            try await settle(row.id, in: store)
          } catch {
            // Dropped because nobody uses a container that is gone, and the next round meets any other error again.
            continue
          }
        }
        last = end.key
      }
    } catch {
      // Dropped because another worker holds the shard now, or the next round reports the error.
      return
    }
  }
}
