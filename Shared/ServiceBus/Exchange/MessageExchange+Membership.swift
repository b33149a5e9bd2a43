// The connected processes: a process is connected while it announces itself on a living link. Of two with one name the
// greater incarnation counts.

import MessagePack

extension Announcement {
  /// An announcement has names and addresses only; a longer one cannot be a peer's.
  static let byteLimit = 65_536

  func encoded() -> [UInt8] {
    do {
      return try MessagePackEncoder().encode(self)
    } catch {
      preconditionFailure("an announcement of texts and numbers did not encode: \(error)")
    }
  }
}

extension MessageExchange {
  /// A link that this process keeps was established, or established again.
  package mutating func linkUp(_ link: LinkID) {
    upLinks.insert(link)
    announce(on: link)
  }

  /// A link was lost, or a frame sent on it did not arrive.
  package mutating func linkDown(_ link: LinkID) {
    upLinks.remove(link)
    unregister(link)
    deliverLoopback()
  }

  /// The link is dead and frames were not sent. Their requests were not executed, so another link may carry them.
  mutating func undeliverable(_ frames: [Frame], on link: LinkID) {
    for frame in frames.reversed() where frame.kind == .request { recall(frame.correlation, from: link) }
    linkDown(link)
  }

  /// True if a process has announced itself on the link.
  func isRegistered(_ link: LinkID) -> Bool { links[link] != nil }

  private mutating func announce(on link: LinkID) {
    if isLeaving { return }
    send(Frame(kind: .announce, arguments: announcement), on: link)
  }

  mutating func announceToAll() {
    let all = upLinks.union(links.keys)
    for link in all.sorted() where link != .loopback { announce(on: link) }
  }

  mutating func announced(_ bytes: [UInt8], on link: LinkID, from sender: KnownPeer? = nil) {
    if case .gone = phase { return }
    if isLeaving, links[link] == nil { return }
    if let known = links[link], known.announcement == bytes {
      links[link]?.lastHeard = now
      // Repeated, because the peer may have forgotten the link and asks anew.
      if known.peer.isDraining { send(Frame(kind: .drainAcknowledged), on: link) }
      return
    }
    guard bytes.count <= Announcement.byteLimit else { return malformed() }
    let news: Announcement
    do {
      news = try MessagePackDecoder().decode(Announcement.self, from: bytes)
    } catch {
      malformed()
      return
    }
    if let sender, !sender.isThe(news.peer) {
      unregister(link)
      return refused(sender.name, "it calls itself the \(news.peer.role.rawValue) \(news.peer.name)")
    }
    guard news.peer.name != me.peer.name else { return metNamesake(news.peer, on: link) }
    if let known = links[link],
      known.peer.peer.name != news.peer.name || known.peer.peer.incarnation != news.peer.incarnation
    {
      unregister(link)
    }
    if let rival = peers[news.peer.name], rival.peer.incarnation != news.peer.incarnation {
      guard rival.peer.incarnation < news.peer.incarnation else {
        return send(Frame(kind: .superseded, arguments: rival.announcement(isDraining: nil)), on: link)
      }
      for old in rival.links {
        // The older process lives: the goodbye lets it cancel its work for this process.
        send(Frame(kind: .goodbye), on: old)
        unregister(old)
      }
    }
    register(news, bytes, on: link, from: sender)
  }

  /// A peer listens to another process of this one's name with a greater incarnation.
  mutating func superseded(_ bytes: [UInt8]) {
    do {
      let rival = try MessagePackDecoder().decode(Announcement.self, from: bytes).peer
      if rival.name == me.peer.name, rival.incarnation > me.peer.incarnation {
        actions.append(.event(.superseded(by: rival)))
      }
    } catch {
      malformed()
    }
  }

  /// Another process has this one's name. Each tells the other, so that both know which one counts.
  private mutating func metNamesake(_ peer: Peer, on link: LinkID) {
    if peer.incarnation > me.peer.incarnation { actions.append(.event(.superseded(by: peer))) }
    if peer.incarnation < me.peer.incarnation { announce(on: link) }
  }

  private mutating func register(_ news: Announcement, _ bytes: [UInt8], on link: LinkID, from sender: KnownPeer?) {
    let isNewLink = links[link] == nil
    let state = peers[news.peer.name] ?? PeerState(news.peer)
    if peers[news.peer.name] == nil {
      peers[news.peer.name] = state
      actions.append(.event(.peerConnected(news.peer)))
      publishPeers()
    } else if state.peer != news.peer {
      state.peer = news.peer
      publishPeers()
    }
    if isNewLink {
      state.links.append(link)
      links[link] = Link(peer: state, sender: sender, lastHeard: now, announcement: bytes)
      announce(on: link)
    } else {
      links[link]?.lastHeard = now
      links[link]?.announcement = bytes
    }
    if news.peer.role != .share || news.peer.isReady { leadingEpoch = max(leadingEpoch, news.peer.epoch ?? 0) }
    if news.isDraining == true { acknowledgeDrain(of: state, on: link) }
  }

  /// Takes a process off a link, and off the list with its last link. Its calls on that link fail, and its requests are
  /// cancelled.
  mutating func unregister(_ link: LinkID) {
    guard link != .loopback, let known = links.removeValue(forKey: link) else { return }
    let state = known.peer
    state.links.removeAll { $0 == link }
    let isLost = state.links.isEmpty
    if isLost { peers[state.peer.name] = nil }
    abandonRequests(on: link)
    failCalls(to: state) { $0.link == link || isLost }
    if isLost {
      actions.append(.event(.peerLost(state.peer)))
      publishPeers()
    }
    checkDrained()
  }

  private mutating func publishPeers() {
    membershipVersion += 1
    actions.append(.peersChanged(peers.values.map(\.peer).sorted { $0.name < $1.name }, version: membershipVersion))
  }

  mutating func malformed() {
    statistics.malformedFrames += 1
    actions.append(.event(.malformedFrame))
  }

  /// Notes a frame that its sender's key does not allow.
  mutating func refused(_ peerName: String, _ reason: String) {
    statistics.refusedFrames += 1
    actions.append(.event(.refusedFrame(peerName: peerName, reason: reason)))
  }

  /// Takes processes whose keys are no longer listed off their links.
  mutating func admit(_ known: KnownPeers) {
    let lost = links.filter { _, link in link.sender.map { known[$0.publicKey] != $0 } ?? false }.keys.sorted()
    for link in lost {
      // The goodbye keeps the process from waiting for answers that will not come.
      send(Frame(kind: .goodbye), on: link)
      unregister(link)
    }
    deliverLoopback()
  }

  /// Announces when it is due, and drops silent peers, unless this process itself slept: their frames may still be
  /// unread then.
  mutating func beat() {
    if case .gone = phase { return }
    guard now - lastBeat >= heartbeat else { return }
    let hasSlept = now - lastBeat > 2 * heartbeat
    lastBeat = now
    announceToAll()
    for (link, known) in links.sorted(by: { $0.key < $1.key }) where link != .loopback {
      if hasSlept {
        links[link]?.lastHeard = now
      } else if now - known.lastHeard > liveness {
        // A process that was stopped does not wait for its answers when it goes on.
        refuseRequests(on: link, BusError(.unreachable, "\(known.peer.peer.name) was silent for too long"))
        unregister(link)
        if upLinks.contains(link) { actions.append(.renew(link)) }
      }
    }
  }

  /// Changes this process as its peers see it, and tells them.
  mutating func change(_ body: (inout Peer) -> Void) {
    let former = me.peer
    guard case .open = phase else { return }
    body(&me.peer)
    if me.peer == former { return }
    if me.peer.role != .share { leadingEpoch = max(leadingEpoch, me.peer.epoch ?? 0) }
    announcement = me.announcement(isDraining: nil)
    announceToAll()
    publishPeers()
  }
}

extension PeerState {
  func announcement(isDraining: Bool?) -> [UInt8] { Announcement(peer: peer, isDraining: isDraining).encoded() }
}
