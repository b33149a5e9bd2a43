// The rules by which a process handles calls and frames, without sockets, threads or a clock: both buses are thin
// shells around it.

import Queues

/// The decisions of one process's end of the bus.
///
/// A shell passes it commands, frames and the time, then carries out its actions in order. It never blocks and keeps no
/// reference to the shell. Times are milliseconds of a clock that never goes back.
package struct MessageExchange {
  package enum Action {
    case send(Frame, LinkID)
    /// The peer of a link that this process keeps is silent: the link needs another connection.
    case renew(LinkID)
    case settle(PendingReply, Outcome)
    case start(IncomingRequest)
    case cancel(TaskHandle)
    /// All connected peers, ascending by name; a greater version is newer.
    case peersChanged([Peer], version: UInt64)
    case event(BusEvent)
    case finish(@Sendable () -> Void)
  }

  enum Phase {
    case open
    /// Peers were told, and running work is finished.
    case draining(limit: Int64, done: [@Sendable () -> Void])
    /// Goodbye was said; each peer answers it after reading everything before it.
    case leaving(limit: Int64, done: [@Sendable () -> Void])
    /// All peers have answered, or the bus was closed.
    case gone
  }

  let configuration: BusConfiguration
  /// The messages that this process serves, by name.
  let served: [String: ServedMessage]
  package var now: Int64
  var phase = Phase.open
  var actions: [Action] = []
  var statistics = BusStatistics()
  let heartbeat: Int64
  let liveness: Int64

  // Membership (MessageExchange+Membership).
  var me: PeerState
  var announcement: [UInt8]
  /// Links that the shell reports as up, with or without an announcement.
  var upLinks: Set<LinkID> = []
  var links: [LinkID: Link] = [:]
  var peers: [String: PeerState] = [:]
  var membershipVersion: UInt64 = 0
  /// The highest epoch in which a share service was ready, or which a process follows. Calls go to no share service
  /// with a lower one.
  var leadingEpoch: Int64 = 0
  var lastBeat: Int64

  // Calls to others (MessageExchange+Outgoing).
  var outgoing: [UInt64: Outgoing] = [:]
  var wheel: TimerWheel<Outgoing>
  /// Bytes of the calls in backlogs.
  var heldOutgoingByteCounts = PerLane(0)
  var nextChoice = 0

  // Requests from others (MessageExchange+Incoming).
  var incoming: [IncomingID: Incoming] = [:]
  var incomingLanes = PerLane(IncomingLane())

  /// Frames to this process itself; each input delivers them before it returns.
  var loopback = FIFO<Frame>()

  package init(peer: Peer, served: [String: ServedMessage], configuration: BusConfiguration, now: Int64) {
    self.configuration = configuration
    self.served = served
    self.now = now
    heartbeat = configuration.heartbeat.milliseconds
    liveness = configuration.liveness.milliseconds
    me = PeerState(peer)
    me.links = [.loopback]
    announcement = Announcement(peer: peer, isDraining: nil).encoded()
    lastBeat = now
    wheel = TimerWheel(now: now)
    links[.loopback] = Link(peer: me, lastHeard: now, announcement: announcement)
  }

  package mutating func takeActions() -> [Action] {
    var taken: [Action] = []
    exchangeActions(&taken)
    return taken
  }

  /// Moves the pending actions into `taken`, reusing its storage.
  mutating func exchangeActions(_ taken: inout [Action]) {
    taken.removeAll(keepingCapacity: true)
    swap(&taken, &actions)
  }

  /// Sends a frame. Frames to this process itself go through a queue, so that inputs never nest.
  mutating func send(_ frame: Frame, on link: LinkID) {
    if link == .loopback { loopback.append(frame) } else { actions.append(.send(frame, link)) }
  }

  mutating func deliverLoopback() {
    while let frame = loopback.popFirst() { dispatch(frame, on: .loopback) }
  }

  /// A frame arrived on a link.
  /// - Parameter sender: the process whose key the connection proved; nil on a bus without keys.
  package mutating func received(_ frame: Frame, on link: LinkID, from sender: KnownPeer? = nil) {
    if let sender, let known = links[link], known.sender != sender {
      refused(sender.name, "the link is another's")
    } else {
      dispatch(frame, on: link, from: sender)
    }
    deliverLoopback()
  }

  private mutating func dispatch(_ frame: Frame, on link: LinkID, from sender: KnownPeer? = nil) {
    if frame.kind == .announce { return announced(frame.arguments, on: link, from: sender) }
    if frame.kind == .superseded { return superseded(frame.arguments) }
    guard links[link] != nil else {
      if frame.kind == .request { send(Frame(kind: .whoAreYou, correlation: frame.correlation), on: link) }
      return
    }
    links[link]?.lastHeard = now
    switch frame.kind {
    case .announce, .superseded: break
    case .whoAreYou:
      send(Frame(kind: .announce, arguments: announcement), on: link)
      ended(frame.correlation, on: link, .failure(BusError(.unreachable, "the peer did not know this process yet")))
    case .request: requested(frame, on: link)
    case .reply: ended(frame.correlation, on: link, .success(Payload(arguments: frame.arguments, body: frame.body)))
    case .failure:
      ended(
        frame.correlation, on: link,
        .failure(BusError(BusError.Code(rawValue: frame.name), String(decoding: frame.arguments, as: UTF8.self))))
    case .cancel: cancelled(IncomingID(link: link, correlation: frame.correlation))
    case .drainAcknowledged:
      links[link]?.knowsDrain = true
      checkDrained()
    case .goodbye:
      if !isLeaving { send(Frame(kind: .goodbye), on: link) }
      unregister(link)
    }
  }

  /// Carries out commands of callers and handlers; the shell handles connections, statistics and steps of tasks.
  package mutating func obey(_ command: Command) {
    switch command {
    case .call(let request): call(request)
    case .cancel(let correlation): cancel(correlation)
    case .finished(let id, let outcome): finished(id, outcome)
    case .startNext(let id): startNext(id)
    case .setReady(let isReady): change { $0.isReady = isReady }
    case .setEpoch(let epoch): change { $0.epoch = epoch }
    case .drain(let limit, let done): drain(until: now + limit.milliseconds, done)
    case .statistics, .connect, .disconnect, .admit, .run: break
    }
  }

  /// Handles the passing of time: expired calls, heartbeats, silent peers.
  package mutating func tick(now: Int64) {
    self.now = now
    for call in wheel.expire(now: now) { expire(call) }
    beat()
    if let limit = drainLimit, now >= limit { end() }
    deliverLoopback()
  }

  /// The counts together with the present load.
  package var currentStatistics: BusStatistics {
    var current = statistics
    current.callsUnderWay = outgoing.count - current.callsInBacklog
    let nested = incomingLanes[.nested]
    current.handlersRunning = incomingLanes.all.reduce(0) { $0 + $1.runningCount }
    current.requestsWaiting = incoming.count - current.handlersRunning
    current.nestedHandlersRunning = nested.runningCount
    current.nestedRequestsWaiting = nested.count - nested.runningCount
    return current
  }

  /// The latest time for the next `tick`.
  package var nextTick: Int64 {
    var next = lastBeat + heartbeat
    if let check = wheel.nextCheck { next = min(next, check) }
    if let limit = drainLimit { next = min(next, limit) }
    return next
  }
}

extension Duration {
  /// Rounded up; at least 0, at most some 292 000 years.
  package var milliseconds: Int64 {
    guard self > .zero else { return 0 }
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    return overflow || product > .max - 1000
      ? .max / 4 : product + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
  }
}
