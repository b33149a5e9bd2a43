// The two ends of a call inside an exchange: the caller's request, and the request that arrived.

import Synchronization

/// The place where a caller waits; the outcome may arrive before the caller.
package final class PendingReply: Sendable {
  private enum State {
    case open
    case awaited(CheckedContinuation<Outcome, Never>)
    case settled(Outcome)
  }
  private let state = Mutex(State.open)

  /// Called exactly once, by the call's current owner.
  package func settle(_ outcome: Outcome) {
    let continuation = state.withLock { state in
      defer { state = .settled(outcome) }
      if case .awaited(let continuation) = state { return continuation as CheckedContinuation<Outcome, Never>? }
      return nil
    }
    continuation?.resume(returning: outcome)
  }

  /// Called at most once.
  func wait() async -> Outcome {
    await withCheckedContinuation { continuation in
      let outcome = state.withLock { state -> Outcome? in
        if case .settled(let outcome) = state { return outcome }
        state = .awaited(continuation)
        return nil
      }
      if let outcome { continuation.resume(returning: outcome) }
    }
  }
}

/// A call on its way into an exchange.
package struct CallRequest: Sendable {
  let correlation: UInt64
  let destination: Destination
  let name: String
  var lane = Lane.usual
  /// The ordering key; empty for none.
  let key: String
  /// The party; empty for none.
  var party = ""
  let arguments: [UInt8]
  let body: [UInt8]
  let deadline: Int64
  package let reply: PendingReply
}

/// A call that is under way or in a backlog. It belongs to one exchange.
final class Outgoing: TimerEntry {
  let request: CallRequest
  let peer: PeerState
  /// The link that carries the call; nil while the call waits for a place in the window.
  var link: LinkID?
  var place: TimerPlace?

  init(_ request: CallRequest, to peer: PeerState) {
    self.request = request
    self.peer = peer
  }

  var deadline: Int64 { request.deadline }
  var lane: Lane { request.lane }
  var byteCount: Int { request.arguments.count + request.body.count }
}

/// Identifies a request that arrived.
package struct IncomingID: Hashable, Sendable {
  let link: LinkID
  let correlation: UInt64
}

/// A request to be served.
package struct IncomingRequest: Sendable {
  let id: IncomingID
  let caller: Peer
  let name: String
  let key: String
  let arguments: [UInt8]
  let body: [UInt8]
  let deadline: Int64
  let handle: TaskHandle

  var byteCount: Int { arguments.count + body.count }
}

/// A request that waits or runs. It belongs to one exchange.
final class Incoming {
  enum Stage {
    /// Another request holds its ordering key.
    case queued
    /// Starts as soon as fewer handlers run.
    case startable
    case running
  }
  let request: IncomingRequest
  let lane: Lane
  var stage = Stage.queued
  /// The next request with its key waits for this one.
  var holdsKey = false
  /// The caller no longer waits for the answer.
  var isAbandoned = false

  init(_ request: IncomingRequest, lane: Lane) {
    self.request = request
    self.lane = lane
  }
}

/// A handler's task; it may be cancelled before the task is set.
@usableFromInline package final class TaskHandle: Sendable {
  private enum State {
    case idle
    case running(Task<Void, Never>)
    case cancelled
  }
  private let state = Mutex(State.idle)

  @usableFromInline init() {}

  @usableFromInline func set(_ task: Task<Void, Never>) {
    let wasCancelled = state.withLock { state in
      if case .cancelled = state { return true }
      state = .running(task)
      return false
    }
    if wasCancelled { task.cancel() }
  }

  @usableFromInline package func cancel() {
    let task = state.withLock { state -> Task<Void, Never>? in
      defer { state = .cancelled }
      if case .running(let task) = state { return task }
      return nil
    }
    task?.cancel()
  }
}

/// A connection to another process. A shell numbers its links; every exchange has its own loopback.
package struct LinkID: Hashable, Sendable, Comparable {
  let number: UInt64

  package init(number: UInt64) { self.number = number }

  static let loopback = LinkID(number: 0)
  package static func < (a: LinkID, b: LinkID) -> Bool { a.number < b.number }
}

/// A link on which a process has announced itself.
struct Link {
  let peer: PeerState
  /// The process whose key the connection proved; nil on a bus without keys, and for the loopback.
  var sender: KnownPeer?
  var lastHeard: Int64
  /// The bytes of the last announcement, to recognise the frequent repetitions.
  var announcement: [UInt8]
  /// The peer has acknowledged this process's drain.
  var knowsDrain = false
}

/// A connected process. It belongs to one exchange.
final class PeerState {
  var peer: Peer
  /// In the order in which they came up; calls use the first.
  var links: [LinkID] = []
  var windows = PerLane(Window())
  /// The process accepts no further calls.
  var isDraining = false

  init(_ peer: Peer) { self.peer = peer }
}
