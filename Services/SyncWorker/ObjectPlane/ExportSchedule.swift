// Decides which stores of a shard are drained and when failed ones are tried again; it does nothing itself.

import Mirroring
import RecordStore

package enum ExportSignal: Sendable {
  case started(ExportStart)
  /// A save's batch is committed. `retryAt`: when its held-back changes are due, in milliseconds since 1970.
  case finished(mirrorKey: Int64, moreComing: Bool, running: ExportProgress?, retryAt: Int64?)
  /// A batch of a drain or of another call failed.
  case failed(mirrorKey: Int64, ExportFailure, running: ExportProgress?, isDrain: Bool)
  /// Transactions are older than this worker's hold of the shard, or a held-back change is due.
  case backlog(mirrorKey: Int64)
  case drained(mirrorKey: Int64, retryAt: Int64?)
  /// A held-back change on the shard is due at that time: milliseconds since 1970.
  case retryDue(at: Int64)
  /// An environment has another schema.
  case schemaChanged
  /// The time of `wakeAt` has come.
  case tick
}

/// Runs at most one drain a store and a few a shard; a failed store gets one drain when its time comes (E10).
struct ExportSchedule {
  struct Drain: Hashable, Sendable {
    let mirrorKey: Int64
    var running: ExportProgress?
  }

  /// Drains at once on a shard: they take turns with saves in its one queue.
  static let drainLimit = 16

  private var draining: Set<Int64> = []
  private var again: Set<Int64> = []
  /// Drains that wait for others to end, in their order.
  private var queue: [Drain] = []
  /// Pacings of stores that failed.
  private var pacings: [Int64: ExportPacing] = [:]
  private var waits: [Int64: (until: Int64, running: ExportProgress?)] = [:]
  private var retryAt: Int64?
  private var hasNewThrottles = false

  /// The time of the next work that no signal announces, in milliseconds since 1970; nil when there is none.
  var wakeAt: Int64? { [waits.values.map(\.until).min(), retryAt].compactMap(\.self).min() }

  /// The stores that must not be exported, with the end of each wait: milliseconds since 1970.
  var throttled: [Int64: Int64] { waits.mapValues(\.until) }

  /// True if `throttled` has changed since the last call.
  mutating func takeThrottlesChange() -> Bool {
    defer { hasNewThrottles = false }
    return hasNewThrottles
  }

  /// True if a held-back change is due; the caller then looks for it.
  mutating func takeRetryIsDue(at now: Int64) -> Bool {
    guard let time = retryAt, time <= now else { return false }
    retryAt = nil
    return true
  }

  /// The drains to begin, in their order.
  mutating func drains(after signal: ExportSignal, at now: Int64, jitter: UInt64) -> [Drain] {
    switch signal {
    case .started, .schemaChanged: return []
    case .finished(let key, let moreComing, let running, let retryAt):
      note(retryAt)
      if !draining.contains(key), waits[key] == nil { pacings[key] = nil }
      return moreComing ? begin(Drain(mirrorKey: key, running: running), at: now) : []
    case .backlog(let key): return begin(Drain(mirrorKey: key), at: now)
    case .retryDue(let time):
      note(time)
      return []
    case .drained(let key, let retryAt):
      note(retryAt)
      pacings[key] = nil
      return end(key, at: now)
    case .failed(let key, let failure, let running, let isDrain):
      return fail(key, failure, running, isDrain: isDrain, at: now, jitter: jitter)
    case .tick:
      let due = waits.filter { $0.value.until <= now }.sorted { $0.key < $1.key }
      for (key, _) in due { waits[key] = nil }
      if !due.isEmpty { hasNewThrottles = true }
      return due.flatMap { begin(Drain(mirrorKey: $0.key, running: $0.value.running), at: now) }
    }
  }

  private mutating func note(_ time: Int64?) {
    if let time, time != StoredQuarantine.never { retryAt = min(time, retryAt ?? .max) }
  }

  private mutating func fail(
    _ key: Int64, _ failure: ExportFailure, _ running: ExportProgress?, isDrain: Bool, at now: Int64, jitter: UInt64
  ) -> [Drain] {
    var asked: Int?
    switch failure {
    case .gone: return isDrain ? end(key, at: now) : []
    // A drain finds the cause; a drain that did not can only be tried later.
    case .poisoned: if !isDrain { return begin(Drain(mirrorKey: key), at: now) }
    case .transient(let retryAfter): asked = retryAfter
    }
    var pacing = pacings[key] ?? ExportPacing()
    let until = pacing.fail(retryAfter: asked, at: now, jitter: jitter)
    if until > waits[key]?.until ?? 0 {
      waits[key] = (until, running ?? waits[key]?.running)
      hasNewThrottles = true
    }
    pacings[key] = pacing
    if !isDrain { return [] }
    again.remove(key)
    return end(key, at: now)
  }

  private mutating func begin(_ drain: Drain, at now: Int64) -> [Drain] {
    if let wait = waits[drain.mirrorKey], wait.until > now { return [] }
    if draining.contains(drain.mirrorKey) {
      again.insert(drain.mirrorKey)
      return []
    }
    guard draining.count < Self.drainLimit else {
      if !queue.contains(where: { $0.mirrorKey == drain.mirrorKey }) { queue.append(drain) }
      return []
    }
    draining.insert(drain.mirrorKey)
    return [drain]
  }

  /// Ends a drain and begins waiting ones.
  private mutating func end(_ key: Int64, at now: Int64) -> [Drain] {
    draining.remove(key)
    if again.remove(key) != nil { queue.append(Drain(mirrorKey: key)) }
    var begun: [Drain] = []
    while draining.count < Self.drainLimit, !queue.isEmpty { begun += begin(queue.removeFirst(), at: now) }
    return begun
  }
}
