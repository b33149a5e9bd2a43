// A process's departure: it tells its peers, finishes its work, and ends once every peer has read its last frames.

extension MessageExchange {
  /// The time at which a drain ends everything that still runs; nil without a drain.
  var drainLimit: Int64? {
    switch phase {
    case .draining(let limit, _), .leaving(let limit, _): limit
    case .open, .gone: nil
    }
  }

  /// The process sends no more announcements.
  var isLeaving: Bool {
    switch phase {
    case .leaving, .gone: true
    case .open, .draining: false
    }
  }

  /// Tells peers, waits until `limit` for them and for running handlers, says goodbye and calls `done`.
  mutating func drain(until limit: Int64, _ done: @escaping @Sendable () -> Void) {
    switch phase {
    case .open:
      me.peer.isReady = false
      announcement = me.announcement(isDraining: true)
      phase = .draining(limit: limit, done: [done])
      announceToAll()
    case .draining(let earlier, let others): phase = .draining(limit: min(limit, earlier), done: others + [done])
    case .leaving(let earlier, let others): phase = .leaving(limit: min(limit, earlier), done: others + [done])
    case .gone: actions.append(.finish(done))
    }
    checkDrained()
  }

  /// Goes on with the drain when there is nothing left to wait for.
  mutating func checkDrained() {
    if case .draining(let limit, let done) = phase, incoming.isEmpty,
      links.allSatisfy({ $0.key == .loopback || $0.value.knowsDrain })
    {
      phase = .leaving(limit: limit, done: done)
      sayGoodbye()
    }
    if case .leaving = phase, links.count == 1 { end() }
  }

  private mutating func sayGoodbye() {
    for link in links.keys.sorted() where link != .loopback { send(Frame(kind: .goodbye), on: link) }
  }

  /// Ends everything at once.
  package mutating func end() {
    var waiting: [@Sendable () -> Void] = []
    switch phase {
    case .gone: return
    case .open: break
    case .draining(_, let done):
      sayGoodbye()
      waiting = done
    case .leaving(_, let done): waiting = done
    }
    phase = .gone
    for link in links.keys.sorted() { unregister(link) }
    abandonRequests(on: .loopback)
    failAllCalls()
    for done in waiting { actions.append(.finish(done)) }
  }
}
