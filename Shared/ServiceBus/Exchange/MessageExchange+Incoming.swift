// Requests of other processes: a bounded number runs, and requests with one key start in the order of their arrival.

import Queues

extension MessageExchange {
  mutating func requested(_ frame: Frame, on link: LinkID) {
    let id = IncomingID(link: link, correlation: frame.correlation)
    guard let caller = links[link]?.peer.peer, incoming[id] == nil else { return malformed() }
    let lane: Lane
    do throws(BusError) {
      lane = try admittedLane(of: frame, from: caller, on: link)
    } catch {
      return send(Frame(failure: error, correlation: frame.correlation), on: link)
    }
    let request = IncomingRequest(
      id: id, caller: caller, name: frame.name, key: frame.key, arguments: frame.arguments, body: frame.body,
      deadline: now + Int64(frame.budget),
      handle: TaskHandle())
    let call = Incoming(request, lane: lane)
    incoming[id] = call
    incomingLanes[lane].count += 1
    incomingLanes[lane].heldByteCount += request.byteCount
    if !request.key.isEmpty {
      call.holdsKey = incomingLanes[lane].mailboxes[request.key, default: Mailbox()].enter(id)
      if !call.holdsKey { return }
    }
    call.stage = .startable
    incomingLanes[lane].startable.append(id)
    startWaiting(lane)
  }

  /// The lane of an acceptable request.
  /// - Throws: the reason for refusing it; nothing of it is kept.
  private mutating func admittedLane(of frame: Frame, from caller: Peer, on link: LinkID) throws(BusError) -> Lane {
    if link != .loopback {
      switch phase {
      case .open: break
      case .draining:
        if links[link]?.knowsDrain == true { throw BusError(.draining, "\(me.peer.name) is shutting down") }
      case .leaving, .gone: throw BusError(.draining, "\(me.peer.name) is shutting down")
      }
    }
    guard let served = served[frame.name] else {
      throw BusError(.unknownMessage, "\(me.peer.name) does not serve \(frame.name)")
    }
    guard served.senders.contains(caller.role) else {
      refused(caller.name, "a \(caller.role.rawValue) sent \(frame.name)")
      throw BusError(.refused, "\(frame.name) is not taken from a \(caller.role.rawValue)")
    }
    guard incomingLanes[served.lane].count - incomingLanes[served.lane].runningCount < configuration.waitingCount,
      incomingLanes[served.lane].heldByteCount + frame.byteCount <= configuration.heldByteCount
    else {
      statistics.refusedRequests += 1
      throw BusError(.overloaded, "too many requests wait at \(me.peer.name)")
    }
    return served.lane
  }

  private mutating func startWaiting(_ lane: Lane) {
    while incomingLanes[lane].runningCount < configuration.runningCount,
      let id = incomingLanes[lane].startable.popFirst()
    {
      guard let call = incoming[id] else { continue }
      if call.request.deadline <= now {
        // The caller has stopped waiting, and the request was not executed.
        forget(call)
        continue
      }
      call.stage = .running
      incomingLanes[lane].runningCount += 1
      statistics.served += 1
      actions.append(.start(call.request))
    }
  }

  /// A handler has returned or thrown.
  mutating func finished(_ id: IncomingID, _ outcome: Outcome) {
    guard let call = incoming[id], call.stage == .running else { return }
    incomingLanes[call.lane].runningCount -= 1
    if !call.isAbandoned, links[id.link] != nil {
      switch outcome {
      case .success(let payload):
        send(
          Frame(kind: .reply, correlation: id.correlation, arguments: payload.arguments, body: payload.body),
          on: id.link)
      case .failure(let error): send(Frame(failure: error, correlation: id.correlation), on: id.link)
      }
    }
    forget(call)
    startWaiting(call.lane)
    checkDrained()
    deliverLoopback()
  }

  /// A handler lets the next request with its key start.
  mutating func startNext(_ id: IncomingID) {
    guard let call = incoming[id], call.stage == .running else { return }
    releaseKey(of: call)
    startWaiting(call.lane)
    deliverLoopback()
  }

  private mutating func releaseKey(of call: Incoming) {
    guard call.holdsKey else { return }
    call.holdsKey = false
    guard let place = incomingLanes[call.lane].mailboxes.index(forKey: call.request.key) else { return }
    guard let id = incomingLanes[call.lane].mailboxes.values[place].waiting.popFirst(), let next = incoming[id] else {
      incomingLanes[call.lane].mailboxes.remove(at: place)
      return
    }
    next.holdsKey = true
    next.stage = .startable
    incomingLanes[call.lane].startable.append(id)
  }

  /// The caller no longer waits: a running handler is cancelled, and a waiting request is never executed.
  mutating func cancelled(_ id: IncomingID) {
    guard let call = incoming[id], !call.isAbandoned else { return }
    call.isAbandoned = true
    switch call.stage {
    case .running: actions.append(.cancel(call.request.handle))
    case .startable:
      incomingLanes[call.lane].startable.removeAll { $0 == id }
      forget(call)
    case .queued:
      incomingLanes[call.lane].mailboxes[call.request.key]?.waiting.removeAll { $0 == id }
      forget(call)
    }
    startWaiting(call.lane)
    checkDrained()
  }

  private mutating func forget(_ call: Incoming) {
    incoming[call.request.id] = nil
    incomingLanes[call.lane].count -= 1
    incomingLanes[call.lane].heldByteCount -= call.request.byteCount
    releaseKey(of: call)
  }

  mutating func abandonRequests(on link: LinkID) {
    for id in requests(on: link) { cancelled(id) }
  }

  /// Answers the requests of a peer that may have stopped to listen. They end with its link.
  mutating func refuseRequests(on link: LinkID, _ error: BusError) {
    for id in requests(on: link) { send(Frame(failure: error, correlation: id.correlation), on: link) }
  }

  private func requests(on link: LinkID) -> [IncomingID] {
    incoming.keys.filter { $0.link == link }.sorted { $0.correlation < $1.correlation }
  }
}

extension Frame {
  init(failure error: BusError, correlation: UInt64) {
    self.init(kind: .failure, correlation: correlation, name: error.code.rawValue, arguments: Array(error.reason.utf8))
  }
}
