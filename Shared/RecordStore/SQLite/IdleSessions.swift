// Sessions between two reads.

import Synchronization

/// The idle sessions for reads of all open shards of a store. If their number is limited, busy shards have more of them
/// than quiet ones: the session that was used longest ago gives way.
final class IdleSessions: Sendable {
  /// Unchecked because one thread at a time has the session. The lock protects its transfer, as SQLite's multi-thread
  /// mode requires.
  private struct Idle: @unchecked Sendable {
    let session: ShardSession
    /// Sessions that became idle earlier have lower numbers.
    let number: Int
  }

  private struct State {
    /// By the readers that have them; each list ascends by number.
    var sessions: [ObjectIdentifier: [Idle]] = [:]
    var open: Set<ObjectIdentifier> = []
    var count = 0
    var nextNumber = 0
    var generation = 0
  }

  private let limit: Limit?
  private let state = Mutex(State())

  struct Limit {
    /// For each open shard.
    let perShard: Int
    /// Of a store with few shards.
    let least: Int
  }

  /// - Parameter limit: nil for any number.
  init(_ limit: Limit?) { self.limit = limit }

  var count: Int { state.withLock(\.count) }

  /// Counts the calls of `discard`. A session that began in an earlier generation is not kept.
  var generation: Int { state.withLock(\.generation) }

  /// - Parameter readers: those of a shard that opens.
  func opened(_ readers: ObjectIdentifier) { state.withLock { _ = $0.open.insert(readers) } }

  /// The readers' session that became idle last.
  func take(of readers: ObjectIdentifier) -> ShardSession? {
    let idle = state.withLock { state -> Idle? in
      guard let idle = state.sessions[readers]?.popLast() else { return nil }
      state.count -= 1
      return idle
    }
    return idle?.session
  }

  /// - Returns: the sessions that give way. The caller closes them.
  func put(_ session: ShardSession, of readers: ObjectIdentifier) -> [ShardSession] {
    let unnumbered = Idle(session: session, number: 0)
    let surplus = state.withLock { state -> [Idle] in
      guard unnumbered.session.generation == state.generation else { return [unnumbered] }
      state.sessions[readers, default: []].append(Idle(session: unnumbered.session, number: state.nextNumber))
      state.nextNumber += 1
      state.count += 1
      guard let limit else { return [] }
      var surplus: [Idle] = []
      while state.count > max(limit.perShard * state.open.count, limit.least) {
        guard let quietest = Self.longestUnused(state.sessions) else { break }
        if let idle = state.sessions[quietest]?.removeFirst() { surplus.append(idle) }
        state.count -= 1
      }
      return surplus
    }
    return surplus.map(\.session)
  }

  private static func longestUnused(_ sessions: [ObjectIdentifier: [Idle]]) -> ObjectIdentifier? {
    sessions.filter { !$0.value.isEmpty }.min { $0.value[0].number < $1.value[0].number }?.key
  }

  /// Closes the idle sessions of all shards, and gives up those in use: their server may have lost its role. Sessions
  /// that begin from now on connect to the present primary.
  /// - Parameter generation: nothing happens when it is over; nil: whichever it is.
  func discard(_ generation: Int? = nil) {
    let idle = state.withLock { state -> [Idle] in
      guard generation == nil || generation == state.generation else { return [] }
      state.generation += 1
      state.count = 0
      defer { state.sessions = [:] }
      return state.sessions.values.flatMap(\.self)
    }
    for idle in idle { idle.session.connection.close() }
  }

  /// - Parameter readers: those of a shard that closes.
  /// - Returns: their sessions. The caller closes them.
  func closed(_ readers: ObjectIdentifier) -> [ShardSession] {
    let idle = state.withLock { state -> [Idle] in
      state.open.remove(readers)
      let idle = state.sessions.removeValue(forKey: readers) ?? []
      state.count -= idle.count
      return idle
    }
    return idle.map(\.session)
  }
}
