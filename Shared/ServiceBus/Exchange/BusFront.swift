// The callers' side of both buses: it encodes calls and waits for them, runs handlers, and keeps the list of peers.

import Glibc
import Synchronization

/// A command of callers and handlers to the exchange.
package enum Command: Sendable {
  case call(CallRequest)
  case cancel(UInt64)
  case finished(IncomingID, Outcome)
  case startNext(IncomingID)
  case setReady(Bool)
  case setEpoch(Int64)
  case drain(Duration, done: @Sendable () -> Void)
  case statistics(@Sendable (BusStatistics) -> Void)
  case connect(BusConnection)
  case admit(KnownPeers)
  case disconnect(String)
  /// Runs a step of a task on the bus's own thread.
  case run(UnownedJob)
}

/// An endpoint to connect to, and the process expected there.
package struct BusConnection: Hashable, Sendable {
  package let endpoint: String
  package let peer: Destination?

  package init(endpoint: String, peer: Destination?) {
    self.endpoint = endpoint
    self.peer = peer
  }
}

package final class BusFront: Sendable {
  private let ownPeer: Mutex<Peer>
  package let handlers: BusHandlers
  package let configuration: BusConfiguration
  package let board = PeerBoard()
  /// The zero of the exchange's clock, which counts milliseconds.
  let start: ContinuousClock.Instant
  private let startUptime: Int64
  /// Correlation IDs begin at a random value, so that a restarted process takes no answer meant for its predecessor.
  private let lastCorrelation: Atomic<UInt64>

  package init(_ peer: Peer, handlers: BusHandlers, configuration: BusConfiguration, start: ContinuousClock.Instant) {
    ownPeer = Mutex(peer)
    self.handlers = handlers
    self.configuration = configuration
    self.start = start
    startUptime = Self.uptime
    lastCorrelation = Atomic(UInt64.random(in: 0..<1 << 62))
  }

  /// This process as its peers see it.
  package var own: Peer { ownPeer.withLock { $0 } }

  package func setReady(_ isReady: Bool, post: (Command) -> Bool) {
    // Posted under the lock, so that peers see two changes in the same order as this process.
    ownPeer.withLock { own in
      own.isReady = isReady
      _ = post(.setReady(isReady))
    }
  }

  package func setEpoch(_ epoch: Int64, post: (Command) -> Bool) {
    ownPeer.withLock { own in
      own.epoch = epoch
      _ = post(.setEpoch(epoch))
    }
  }

  /// Milliseconds of real time since `start`.
  var now: Int64 { Self.uptime - startUptime }

  /// Milliseconds of the clock behind `ContinuousClock`, without its arithmetic.
  private static var uptime: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  /// - Parameters:
  ///   - now: the exchange's time.
  ///   - post: hands a command over; returns false if the bus is closed.
  package func call<M: Message>(
    _ message: M, body: [UInt8], to destination: Destination, within deadline: Duration, now: Int64,
    post: @escaping @Sendable (Command) -> Bool
  ) async throws(BusError) -> Answer<M.Reply> {
    if Task.isCancelled { throw BusError(.cancelled, "the call was cancelled") }
    let arguments = try encode(message)
    let key = message.orderingKey ?? ""
    try check(M.name, arguments: arguments, body: body, key: key)
    // Nothing is sent after its deadline.
    guard deadline > .zero else { throw BusError(.timedOut, "the call's deadline had passed before it began") }
    let correlation = lastCorrelation.wrappingAdd(1, ordering: .relaxed).newValue
    let reply = PendingReply()
    let request = CallRequest(
      correlation: correlation, destination: destination, name: M.name, lane: M.lane, key: key, party: message.party,
      arguments: arguments, body: body,
      deadline: now + deadline.milliseconds, reply: reply)
    // Posted before the first suspension, so that calls leave in the order in which an actor makes them.
    guard post(.call(request)) else { throw BusError(.unreachable, "the bus is closed") }
    let outcome = await withTaskCancellationHandler {
      await reply.wait()
    } onCancel: {
      _ = post(.cancel(correlation))
    }
    let payload = try outcome.get()
    do {
      return Answer(try M.decodedReply(from: payload.arguments), body: payload.body)
    } catch {
      handlers.report(M.name, "a reply that does not decode: \(error)")
      throw BusError(.badMessage, "the reply to \(M.name) does not decode")
    }
  }

  private func encode<M: Message>(_ message: M) throws(BusError) -> [UInt8] {
    do {
      return try message.encoded()
    } catch {
      handlers.report(M.name, "arguments that do not encode: \(error)")
      throw BusError(.badMessage, "the arguments of \(M.name) do not encode")
    }
  }

  private func check(_ name: String, arguments: [UInt8], body: [UInt8], key: String) throws(BusError) {
    let limit = configuration.partByteLimit
    guard body.count <= limit else {
      throw BusError(.tooLarge, "a body of \(body.count) bytes; \(name) may carry \(limit)")
    }
    guard arguments.count <= limit else {
      throw BusError(.tooLarge, "arguments of \(arguments.count) bytes; \(name) may carry \(limit)")
    }
    guard name.utf8.count <= Frame.textByteLimit, key.utf8.count <= Frame.textByteLimit else {
      throw BusError(.tooLarge, "an ordering key of \(key.utf8.count) bytes; \(Frame.textByteLimit) are allowed")
    }
  }

  /// Runs a handler in a task of its own and posts its outcome.
  /// - Parameter executor: runs brief handlers, beginning at once on the calling thread; nil: the global executor runs
  ///   all.
  package func serve(
    _ request: IncomingRequest, on executor: (any TaskExecutor)? = nil, post: @escaping @Sendable (Command) -> Bool
  ) {
    let context = CallContext(caller: request.caller, deadline: start + .milliseconds(request.deadline)) {
      _ = post(.startNext(request.id))
    }
    let entry = handlers.entries[request.name]
    let work: @Sendable () async -> Void = { [self] in
      var outcome = await handlers.serve(
        request.name, by: entry, arguments: request.arguments, body: request.body, context: context)
      if case .success(let payload) = outcome,
        max(payload.body.count, payload.arguments.count) > configuration.partByteLimit
      {
        outcome = .failure(
          BusError(
            .tooLarge,
            """
            a reply of \(max(payload.body.count, payload.arguments.count)) bytes; \(request.name) may carry \
            \(configuration.partByteLimit)
            """
          ))
      }
      _ = post(.finished(request.id, outcome))
    }
    if let executor, entry?.isBrief(request.key, request.byteCount) == true {
      request.handle.set(Task.immediate(executorPreference: executor) { await work() })
    } else {
      request.handle.set(Task { await work() })
    }
  }

  /// Waits until peers know of the drain and running handlers have ended.
  package func drain(within limit: Duration, post: @Sendable (Command) -> Bool) async {
    ownPeer.withLock { $0.isReady = false }
    await withCheckedContinuation { continuation in
      if !post(.drain(limit, done: { continuation.resume() })) { continuation.resume() }
    }
  }

  package func statistics(post: @Sendable (Command) -> Bool) async -> BusStatistics {
    await withCheckedContinuation { continuation in
      if !post(.statistics { continuation.resume(returning: $0) }) { continuation.resume(returning: BusStatistics()) }
    }
  }
}

/// The present peers, and the streams of their changes.
package final class PeerBoard: Sendable {
  private struct State {
    var peers: [Peer] = []
    var version: UInt64 = 0
    var isClosed = false
    var subscribers = Subscribers<[Peer]>()
  }
  private let state = Mutex(State())

  package var peers: [Peer] { state.withLock(\.peers) }

  package func publish(_ peers: [Peer], version: UInt64) {
    state.withLock { state in
      guard version > state.version else { return }
      state.peers = peers
      state.version = version
      state.subscribers.yield(peers)
    }
  }

  /// Begins with the present peers; a slow reader gets only the newest list.
  package func changes() -> AsyncStream<[Peer]> {
    let (stream, continuation) = AsyncStream.makeStream(of: [Peer].self, bufferingPolicy: .bufferingNewest(1))
    state.withLock { state in
      continuation.yield(state.peers)
      if state.isClosed { continuation.finish() } else { state.subscribers.add(continuation) }
    }
    return stream
  }

  package func close() {
    state.withLock { state in
      state.isClosed = true
      state.subscribers.finish()
    }
  }
}
