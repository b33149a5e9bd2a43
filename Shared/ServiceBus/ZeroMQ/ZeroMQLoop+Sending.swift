// Carries out the exchange's actions: frames are sent or kept for a while, and dead links are found.

extension ZeroMQLoop {
  func perform() {
    // Sending may find a dead link, which adds actions.
    while !exchange.actions.isEmpty {
      var actions: [MessageExchange.Action] = []
      swap(&actions, &spareActions)
      exchange.exchangeActions(&actions)
      defer { spareActions = actions }
      for action in actions {
        switch action {
        case .send(let frame, let link): send(frame, on: link)
        case .renew(let link): renew(link)
        case .settle(let reply, let outcome): reply.settle(outcome)
        case .start(let request): front.serve(request, on: executor) { [queue] in queue.post($0) }
        case .cancel(let handle): handle.cancel()
        case .peersChanged(let peers, let version): front.board.publish(peers, version: version)
        case .event(let event): front.configuration.observe(event)
        case .finish(let done): done()
        }
      }
    }
  }

  private func send(_ frame: Frame, on link: LinkID) {
    if dying[link] != nil { return bury([frame], for: link) }
    if leftovers[link] != nil { return keep(frame, for: link) }
    switch transmit(frame, on: link) {
    case .sent: break
    case .wouldBlock: keep(frame, for: link)
    case .unreachable: bury([frame], for: link)
    }
  }

  private func bury(_ frames: [Frame], for link: LinkID) {
    if link.number & Self.routeFlag != 0 {
      dying[link, default: []] += frames
    } else {
      exchange.undeliverable(frames, on: link)
    }
  }

  private func transmit(_ frame: Frame, on link: LinkID) -> ZeroMQSocket.Sent {
    if link.number & Self.routeFlag != 0 { return router.send(frame, route: UInt32(truncatingIfNeeded: link.number)) }
    guard let dealer = dealers.first(where: { $0.link == link }), dealer.isUp else { return .unreachable }
    return dealer.socket.send(frame, route: 0)
  }

  private func keep(_ frame: Frame, for link: LinkID) {
    leftovers[link, default: Leftovers()].frames.append(frame)
    leftovers[link]?.byteCount += frame.byteCount
    guard let kept = leftovers[link],
      kept.frames.count > Self.leftoverCount || kept.byteCount > front.configuration.heldByteCount
    else { return }
    leftovers[link] = nil
    if let name = exchange.links[link]?.peer.peer.name { front.configuration.observe(.stalledLink(peerName: name)) }
    bury(kept.frames, for: link)
  }

  func retryLeftovers() {
    for link in leftovers.keys.sorted() {
      guard let frames = leftovers[link]?.frames else { continue }
      var result = ZeroMQSocket.Sent.sent
      var sentCount = 0
      while result == .sent, sentCount < frames.count {
        result = transmit(frames[sentCount], on: link)
        if result == .sent { sentCount += 1 }
      }
      if result == .wouldBlock {
        leftovers[link]?.byteCount -= frames[..<sentCount].reduce(0) { $0 + $1.byteCount }
        leftovers[link]?.frames.removeFirst(sentCount)
      } else {
        leftovers[link] = nil
        if result == .unreachable { bury(Array(frames[sentCount...]), for: link) }
      }
    }
  }

  /// Sends on every link, which finds those whose connection is lost.
  func probe() {
    let due = probes.filter { $0 <= exchange.now }
    guard !due.isEmpty else { return }
    probes.subtract(due)
    exchange.announceToAll()
  }
}
