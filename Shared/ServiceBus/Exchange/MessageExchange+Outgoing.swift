// Calls to others: window, backlog, deadlines, cancellation.

import Queues

extension MessageExchange {
  /// Starts a call. It completes exactly once, at the latest by its deadline.
  mutating func call(_ request: CallRequest) {
    statistics.calls += 1
    switch target(of: request) {
    case .failure(let error): complete(request, .failure(error))
    case .success(let peer): place(Outgoing(request, to: peer))
    }
    deliverLoopback()
  }

  private mutating func target(of request: CallRequest) -> Result<PeerState, BusError> {
    if case .gone = phase { return .failure(BusError(.unreachable, "the bus is closed")) }
    if request.deadline <= now {
      return .failure(BusError(.timedOut, "the deadline had passed before \(request.name) was sent"))
    }
    switch request.destination {
    case .peer(let name):
      guard let peer = name == me.peer.name ? me : peers[name] else {
        return .failure(BusError(.unreachable, "\(name) is not connected"))
      }
      return peer.isDraining ? .failure(BusError(.draining, "\(name) is shutting down")) : .success(peer)
    case .role(let role):
      guard let peer = choose(role) else {
        return .failure(BusError(.unreachable, "no ready \(role.rawValue) is connected"))
      }
      return .success(peer)
    }
  }

  /// The ready process of that role with the fewest calls under way; equals take turns.
  private mutating func choose(_ role: Role) -> PeerState? {
    var candidates = peers.values.filter { $0.peer.role == role && $0.peer.isReady && !$0.isDraining }
    if me.peer.role == role, me.peer.isReady { candidates.append(me) }
    if role == .share { candidates.removeAll { $0.peer.epoch ?? 0 < leadingEpoch } }
    guard let least = candidates.map(\.load).min() else { return nil }
    candidates = candidates.filter { $0.load == least }.sorted { $0.peer.name < $1.peer.name }
    nextChoice &+= 1
    return candidates[Int(UInt(bitPattern: nextChoice) % UInt(candidates.count))]
  }

  private mutating func place(_ call: Outgoing) {
    let peer = call.peer
    let window = peer.windows[call.lane]
    guard window.underWay >= configuration.windowCount || !window.backlog.isEmpty else {
      keep(call)
      return transmit(call)
    }
    let isPartyFull =
      !call.request.party.isEmpty && window.backlog.count(of: call.request.party) >= configuration.partyBacklogCount
    guard !isPartyFull, window.backlog.count < configuration.backlogCount,
      heldOutgoingByteCounts[call.lane] + call.byteCount <= configuration.heldByteCount
    else {
      return complete(
        call.request, .failure(BusError(.overloaded, "too many calls to \(peer.peer.name) are under way")))
    }
    keep(call)
    peer.windows[call.lane].backlog.append(call, of: call.request.party)
    heldOutgoingByteCounts[call.lane] += call.byteCount
    statistics.callsInBacklog += 1
  }

  private mutating func keep(_ call: Outgoing) {
    outgoing[call.request.correlation] = call
    wheel.insert(call)
  }

  private mutating func transmit(_ call: Outgoing) {
    guard let link = call.peer.links.first else { return }
    call.link = link
    call.peer.windows[call.lane].underWay += 1
    let request = call.request
    send(
      Frame(
        kind: .request, correlation: request.correlation, budget: UInt32(clamping: max(1, request.deadline - now)),
        name: request.name, key: request.key,
        arguments: request.arguments, body: request.body), on: link)
  }

  /// Sends waiting calls while the windows have room.
  private mutating func pump(_ peer: PeerState, ignoringWindow: Bool = false) {
    for lane in Lane.allCases { pump(peer, lane, ignoringWindow: ignoringWindow) }
  }

  private mutating func pump(_ peer: PeerState, _ lane: Lane, ignoringWindow: Bool = false) {
    guard !peer.links.isEmpty else { return }
    while ignoringWindow || peer.windows[lane].underWay < configuration.windowCount,
      let call = peer.windows[lane].backlog.popFirst()?.element
    {
      leftBacklog(call)
      transmit(call)
    }
  }

  /// Takes back a request that was not sent. It goes out first over another link of the peer, or fails if there is
  /// none.
  mutating func recall(_ correlation: UInt64, from link: LinkID) {
    guard let call = outgoing[correlation], call.link == link else { return }
    call.link = nil
    call.peer.windows[call.lane].underWay -= 1
    call.peer.windows[call.lane].backlog.prepend(call, of: call.request.party)
    heldOutgoingByteCounts[call.lane] += call.byteCount
    statistics.callsInBacklog += 1
  }

  private mutating func leftBacklog(_ call: Outgoing) {
    heldOutgoingByteCounts[call.lane] -= call.byteCount
    statistics.callsInBacklog -= 1
  }

  /// The peer has answered. An answer on a link other than the call's is ignored.
  mutating func ended(_ correlation: UInt64, on link: LinkID, _ outcome: Outcome) {
    guard let call = outgoing[correlation], call.link == link else { return }
    finish(call, outcome)
    pump(call.peer, call.lane)
  }

  mutating func cancel(_ correlation: UInt64) {
    guard let call = outgoing[correlation] else { return }
    giveUp(call, BusError(.cancelled, "the call was cancelled"))
  }

  mutating func expire(_ call: Outgoing) {
    giveUp(call, BusError(.timedOut, "\(call.peer.peer.name) did not answer \(call.request.name) in time"))
  }

  private mutating func giveUp(_ call: Outgoing, _ error: BusError) {
    if let link = call.link, links[link] != nil {
      send(Frame(kind: .cancel, correlation: call.request.correlation), on: link)
    }
    finish(call, .failure(error))
    pump(call.peer, call.lane)
    deliverLoopback()
  }

  private mutating func finish(_ call: Outgoing, _ outcome: Outcome) {
    outgoing[call.request.correlation] = nil
    wheel.remove(call)
    if call.link != nil {
      call.peer.windows[call.lane].underWay -= 1
    } else {
      call.peer.windows[call.lane].backlog.removeAll(of: call.request.party) { $0 === call }
      leftBacklog(call)
    }
    complete(call.request, outcome)
  }

  private mutating func complete(_ request: CallRequest, _ outcome: Outcome) {
    if case .failure(let error) = outcome { statistics.failures[error.code, default: 0] += 1 }
    actions.append(.settle(request.reply, outcome))
  }

  /// Fails the calls of a peer that lost a link.
  mutating func failCalls(to peer: PeerState, where isLost: (Outgoing) -> Bool) {
    if peer.links.isEmpty { for lane in Lane.allCases { peer.windows[lane].backlog = TurnQueue() } }
    let lost = outgoing.values.filter { $0.peer === peer && isLost($0) }.sorted {
      $0.request.correlation < $1.request.correlation
    }
    for call in lost {
      finish(
        call,
        .failure(
          BusError(
            .unreachable,
            call.link == nil ? "\(peer.peer.name) is not connected" : "\(peer.peer.name) was lost before it answered")))
    }
    pump(peer)
  }

  /// The peer drains: all calls for it are sent before the acknowledgement, none after it.
  mutating func acknowledgeDrain(of peer: PeerState, on link: LinkID) {
    if !peer.isDraining { pump(peer, ignoringWindow: true) }
    peer.isDraining = true
    send(Frame(kind: .drainAcknowledged), on: link)
  }

  mutating func failAllCalls() {
    for call in outgoing.values.sorted(by: { $0.request.correlation < $1.request.correlation }) {
      finish(call, .failure(BusError(.unreachable, "the bus was closed")))
    }
  }
}

extension PeerState {
  fileprivate var load: Int { windows.all.reduce(0) { $0 + $1.load } }
}
