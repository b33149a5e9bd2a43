// Resets of development: databases of an earlier generation begin anew before anybody is served from them, whoever held them when it happened.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// Compares the generation of development's databases with that of their environment, which rises with every `schema reset`.
///
/// A reset is told by `DirectoryChanged`; when that is lost it is noticed when the schema is asked for again, and what was saved meanwhile goes
/// with the rest.
final class EnvironmentGenerations: Sendable {
  private struct State {
    /// What is known of development, and until when.
    var known: [ContainerID: (generation: Int64, freshUntil: Int64)] = [:]
    /// The generation that databases were seen to have.
    var settled: [DatabaseID: Int64] = [:]
  }

  private let schemas: any SchemaSource
  private let changes: any ChangePublisher
  private let clock: any WallClock
  private let log: Log
  /// Returns after that time, or early when its task is cancelled.
  private let pause: @Sendable (Duration) async -> Void
  private let state = Mutex(State())

  /// When there are more, all are looked at again.
  private static let databaseLimit = 100_000
  /// Milliseconds; as old as a schema may get.
  private static let freshness: Int64 = 30_000
  private static let roundPause = Duration.seconds(60)

  init(schemas: any SchemaSource, changes: any ChangePublisher, clock: any WallClock, log: Log, pause: @escaping @Sendable (Duration) async -> Void) {
    self.schemas = schemas
    self.changes = changes
    self.clock = clock
    self.log = log
    self.pause = pause
  }

  /// Whether a request may be served at once.
  func isSettled(_ database: DatabaseID) -> Bool {
    if database.environment == .production { return true }
    let now = clock.now
    return state.withLock { state in
      guard let known = state.known[database.container], now < known.freshUntil else { return false }
      return state.settled[database] == known.generation
    }
  }

  /// Asks for the environment's generation and lets the database begin anew if it has an earlier one; durable when it returns.
  /// - Parameter isGuest: whoever asks is not the owner: nothing is made for an owner whose name may be guessed.
  /// - Throws: what is wrong with the container, or with the shard.
  func settle(_ database: DatabaseID, in store: any ShardStore, isGuest: Bool = false) async throws(RecordError) {
    let start = clock.now
    let generation: Int64
    do {
      generation = try await schemas.schema(of: database.container, .development).generation
    } catch {
      // Dropped because who can't be asked has told of no reset; whatever else needs the directory says so itself.
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
    let zones: [StoredZone]
    do {
      zones = try await store.enqueue { transaction in
        // One that is made later would look like one of an earlier generation.
        let row = try transaction.makeDatabase(database)
        return row.generation < generation ? try transaction.restart(row.key, generation: generation) : []
      }.value
    } catch {
      throw RecordError(storing: error, log: log)
    }
    ZoneEffects(removed: zones, of: database).publish(changesBy: changes)
    if !zones.isEmpty {
      log.info(
        "a database began anew", ["container": .text(database.container.rawValue), "shard": .integer(Int64(store.shard)), "zones": .integer(Int64(zones.count))])
    }
  }

  /// Development may have been reset: it is asked about again.
  func note(_ change: DirectoryChanged) {
    let stale = Set(change.schemas)
    state.withLock { state in state.known = state.known.filter { !stale.contains("\($0.key.rawValue)/\(Environment.development.rawValue)") } }
  }
}

extension EnvironmentGenerations: ShardWork {
  /// Sees to databases that nobody asks for: their records are to go, too.
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
            // Dropped because a container that is gone has nobody to serve, and whatever else it is the next round meets it again.
            continue
          }
        }
        last = end.key
      }
    } catch {
      // Dropped because the shard is somebody else's by now, or the next round tells.
      return
    }
  }
}
