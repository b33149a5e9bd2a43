// Compares contents in clear with their names before they are sent, because a disk may have damaged them.

import Assets
import Queues
import Records
import ServiceKit
import Synchronization

/// The files that were compared with their names, which are the hashes of their contents.
///
/// A comparison reads a whole file, however short the range is that a client asks for. So it counts for all requests
/// of a while, requests that come together share it, and parties take turns with a few of them.
final class ContentChecks: Sendable {
  /// Comparisons at a time, and of one party.
  static let laneCount = 4
  static let lanesOfParty = 2
  /// Requests that wait for a comparison, and of one party.
  static let waitingLimit = 256
  static let waitingOfParty = 64
  /// Files that are remembered; the one that has been known longest is forgotten first.
  static let knownLimit = 10_000
  /// The time for which a comparison counts.
  fileprivate static let validity = Duration.seconds(900)

  fileprivate typealias Outcome = Result<Void, RecordError>

  fileprivate struct State {
    var known: [FileIdentity: ContinuousClock.Instant] = [:]
    /// The files of `known` in the order in which they became known.
    var order = FIFO<FileIdentity>()
    /// Files that are being compared, with the requests that wait for the outcome.
    var underWay: [FileIdentity: [CheckedContinuation<Outcome?, Never>]] = [:]
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
  ///   wait.
  func check(_ content: AssetContent, in store: any AssetStore, for party: String) async throws(RecordError) {
    // Each chunk of a sealed content proves itself. A store elsewhere compares what it sends with its own checksums.
    guard !content.isSealed, let file = content.identity else { return }
    while true {
      if isNew(file) {
        try await takeLane(of: party)
        defer { giveLaneBack(of: party) }
        if Task.isCancelled { throw RecordError(.tryAgainLater, "The client did not wait for the content") }
        if begin(file) {
          let outcome = await compare(content, in: store, for: party)
          end(file, outcome)
          return try outcome.get()
        }
      }
      if let outcome = await outcome(of: file) { return try outcome.get() }
    }
  }

  private func compare(_ content: AssetContent, in store: any AssetStore, for party: String) async -> Outcome {
    do throws(AssetError) {
      return .success(try await store.apart(of: party) { _ throws(AssetError) in try content.compareWithName() })
    } catch {
      return .failure(RecordError(of: error, log))
    }
  }

  // MARK: Files

  /// True for a file that is neither known nor being compared.
  private func isNew(_ file: FileIdentity) -> Bool {
    state.withLock { $0.underWay[file] == nil && !$0.knows(file, at: timing.now()) }
  }

  private func begin(_ file: FileIdentity) -> Bool {
    state.withLock { state in
      guard state.underWay[file] == nil, !state.knows(file, at: timing.now()) else { return false }
      state.underWay[file] = []
      return true
    }
  }

  private func end(_ file: FileIdentity, _ outcome: Outcome) {
    let now = timing.now()
    let waiting = state.withLock { state in
      if case .success = outcome { state.note(file, at: now) }
      return state.underWay.removeValue(forKey: file) ?? []
    }
    for one in waiting { one.resume(returning: outcome) }
  }

  /// The outcome for a file that is known or being compared; nil for another one.
  private func outcome(of file: FileIdentity) async -> Outcome? {
    await withCheckedContinuation { continuation in
      let isKnown: Bool? = state.withLock { state in
        if state.underWay[file] == nil { return state.knows(file, at: timing.now()) }
        state.underWay[file]?.append(continuation)
        return nil
      }
      if let isKnown { continuation.resume(returning: isKnown ? .success(()) : nil) }
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
  fileprivate func knows(_ file: FileIdentity, at now: ContinuousClock.Instant) -> Bool {
    known[file].map { now - $0 < ContentChecks.validity } ?? false
  }

  fileprivate mutating func note(_ file: FileIdentity, at now: ContinuousClock.Instant) {
    if known.updateValue(now, forKey: file) == nil { order.append(file) }
    if known.count > ContentChecks.knownLimit, let oldest = order.popFirst() { known[oldest] = nil }
  }
}
