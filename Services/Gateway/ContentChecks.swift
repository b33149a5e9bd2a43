// Compares contents in clear with their names before they are sent: a disk may have damaged them, or they may not be in
// clear, but sealed by a key that this process lacks.

import Assets
import Queues
import Records
import ServiceKit
import Synchronization

/// The contents that were compared with their names, which are their hashes.
///
/// A comparison reads a whole content, however short the range is that a client asks for. So it counts for all requests
/// of a while, requests that come together share it, and parties take turns with a few of them.
final class ContentChecks: Sendable {
  /// Comparisons at a time, and of one party.
  static let laneCount = 4
  static let lanesOfParty = 2
  /// Requests that wait for a comparison, and of one party.
  static let waitingLimit = 256
  static let waitingOfParty = 64
  /// Contents that are remembered; the one that has been known longest is forgotten first.
  static let knownLimit = 10_000
  /// The time for which a comparison counts.
  fileprivate static let validity = Duration.seconds(900)

  fileprivate typealias Outcome = Result<Void, RecordError>

  fileprivate struct State {
    var known: [ContentIdentity: (outcome: Outcome, time: ContinuousClock.Instant)] = [:]
    /// The contents of `known` in the order in which they became known.
    var order = FIFO<ContentIdentity>()
    /// Contents that are being compared, with the requests that wait for the outcome.
    var underWay: [ContentIdentity: [CheckedContinuation<Outcome?, Never>]] = [:]
    /// Comparisons of each party.
    var lanes = Lanes<CheckedContinuation<RecordError?, Never>>(laneCount, share: lanesOfParty)
  }

  private let timing: Timing
  private let log: Log
  private let state = Mutex(State())

  init(_ timing: Timing, log: Log) {
    self.timing = timing
    self.log = log
  }

  /// Returns once the content is known to be the one that its name says.
  /// - Parameter party: whose turn a comparison takes.
  /// - Throws: `internalError` when it is another one or can't be read; `throttled` or `tryAgainLater` when too many
  ///   wait; `tryAgainLater` when its key is missing.
  func check(_ content: AssetContent, in store: any AssetStore, for party: String) async throws(RecordError) {
    // Each chunk of a sealed content proves itself. A store elsewhere compares what it sends with its own checksums.
    guard content.isDoubtful || content.isLocal && !content.isSealed else { return }
    let identity = content.identity
    while true {
      if isNew(identity) {
        try await takeLane(of: party)
        defer { giveLaneBack(of: party) }
        if Task.isCancelled { throw RecordError(.tryAgainLater, "The client did not wait for the content") }
        if begin(identity) {
          let (outcome, isLasting) = await compare(content, in: store, for: party)
          end(identity, outcome, isLasting: isLasting)
          return try outcome.get()
        }
      }
      if let outcome = await outcome(of: identity) { return try outcome.get() }
    }
  }

  /// - Returns: the outcome, and whether a later comparison has the same.
  private func compare(_ content: AssetContent, in store: any AssetStore, for party: String) async
    -> (outcome: Outcome, isLasting: Bool)
  {
    do throws(AssetError) {
      try await store.apart(of: party) { _ throws(AssetError) in try content.compareWithName() }
      return (.success(()), true)
    } catch {
      // A process reads its keys when it starts.
      let isLasting = if case .missingKey = error { true } else { false }
      return (.failure(RecordError(of: error, log)), isLasting)
    }
  }

  // MARK: Contents

  /// True for a content that is neither known nor being compared.
  private func isNew(_ content: ContentIdentity) -> Bool {
    state.withLock { $0.underWay[content] == nil && $0.outcome(of: content, at: timing.now()) == nil }
  }

  private func begin(_ content: ContentIdentity) -> Bool {
    state.withLock { state in
      guard state.underWay[content] == nil, state.outcome(of: content, at: timing.now()) == nil else { return false }
      state.underWay[content] = []
      return true
    }
  }

  private func end(_ content: ContentIdentity, _ outcome: Outcome, isLasting: Bool) {
    let now = timing.now()
    let waiting = state.withLock { state in
      if isLasting { state.note(content, outcome, at: now) }
      return state.underWay.removeValue(forKey: content) ?? []
    }
    for one in waiting { one.resume(returning: outcome) }
  }

  /// The outcome for a content that is known or being compared; nil for another one.
  private func outcome(of content: ContentIdentity) async -> Outcome? {
    await withCheckedContinuation { continuation in
      let (waits, known): (Bool, Outcome?) = state.withLock { state in
        if state.underWay[content] == nil { return (false, state.outcome(of: content, at: timing.now())) }
        state.underWay[content]?.append(continuation)
        return (true, nil)
      }
      if !waits { continuation.resume(returning: known) }
    }
  }

  // MARK: Lanes

  private func takeLane(of party: String) async throws(RecordError) {
    let refusal: RecordError? = await withCheckedContinuation { continuation in
      let (code, next): (ServerErrorCode?, CheckedContinuation<RecordError?, Never>?) = state.withLock { state in
        if !state.lanes.hasLane(for: party) {
          if state.lanes.waitingCount >= Self.waitingLimit { return (.tryAgainLater, nil) }
          if state.lanes.waitingCount(of: party) >= Self.waitingOfParty { return (.throttled, nil) }
        }
        state.lanes.append(continuation, of: party)
        return (nil, state.lanes.next()?.element)
      }
      next?.resume(returning: nil)
      if let code {
        continuation.resume(
          returning: RecordError(
            code, "Too many downloads wait for a look at their contents", retryAfter: RetryPlan.retryAfterSeconds))
      }
    }
    if let refusal { throw refusal }
  }

  private func giveLaneBack(of party: String) {
    let next = state.withLock { state in
      state.lanes.end(party)
      return state.lanes.next()?.element
    }
    next?.resume(returning: nil)
  }
}

extension ContentChecks.State {
  /// nil when it is unknown, or has been known for too long.
  fileprivate func outcome(of content: ContentIdentity, at now: ContinuousClock.Instant) -> ContentChecks.Outcome? {
    known[content].flatMap { now - $0.time < ContentChecks.validity ? $0.outcome : nil }
  }

  fileprivate mutating func note(
    _ content: ContentIdentity, _ outcome: ContentChecks.Outcome, at now: ContinuousClock.Instant
  ) {
    if known.updateValue((outcome, now), forKey: content) == nil { order.append(content) }
    if known.count > ContentChecks.knownLimit, let oldest = order.popFirst() { known[oldest] = nil }
  }
}
