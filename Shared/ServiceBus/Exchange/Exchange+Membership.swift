// Who is connected: whoever announced himself on a link that lives. Of two processes with one name the newer incarnation counts.

import MessagePack

extension Announcement {
  /// Names and addresses; a longer one is a stranger's.
  static let byteLimit = 65_536

  func encoded() -> [UInt8] {
    do {
      return try MessagePackEncoder().encode(self)
    } catch {
      preconditionFailure("an announcement of texts and numbers did not encode: \(error)")
    }
  }
}

extension Exchange {
  /// A link this process keeps was (re)established.
  mutating func linkUp(_ link: LinkID) {
    upLinks.insert(link)
    announce(on: link)
  }

  /// A link was lost, or what was sent on it did not arrive.
  mutating func linkDown(_ link: LinkID) {
    upLinks.remove(link)
    unregister(link)
    deliverLoopback()
  }

  /// Frames could not be sent because the link is dead. Their requests were not executed, so they may take another link.
  mutating func undeliverable(_ frames: [Frame], on link: LinkID) {
    for frame in frames.reversed() where frame.kind == .request { recall(frame.correlation, from: link) }
    linkDown(link)
  }

  /// Whether a process has announced itself on the link.
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
      // Again, in case the peer forgot this link since and asks anew.
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
    if let known = links[link], known.peer.peer.name != news.peer.name || known.peer.peer.incarnation != news.peer.incarnation { unregister(link) }
    if let rival = peers[news.peer.name], rival.peer.incarnation != news.peer.incarnation {
      guard rival.peer.incarnation < news.peer.incarnation else { return send(Frame(kind: .superseded, arguments: rival.announcement(isDraining: nil)), on: link) }
      for old in rival.links {
        // It lives: what it does for this process is to be cancelled.
        send(Frame(kind: .goodbye), on: old)
        unregister(old)
      }
    }
    register(news, bytes, on: link, from: sender)
  }

  /// A peer listens to a newer process of this one's name.
  mutating func superseded(_ bytes: [UInt8]) {
    do {
      let rival = try MessagePackDecoder().decode(Announcement.self, from: bytes).peer
      if rival.name == me.peer.name, rival.incarnation > me.peer.incarnation { actions.append(.event(.superseded(by: rival))) }
    } catch {
      malformed()
    }
  }

  /// Another process bears this one's name. Each tells the other; both know then which is the newer.
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
    if news.isDraining == true { acknowledgeDrain(of: state, on: link) }
  }

  /// Takes a process off a link, and off the list with its last one. Its calls on that link fail, its requests are cancelled.
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

  /// A frame that its sender's key does not allow.
  mutating func refused(_ peerName: String, _ reason: String) {
    statistics.refusedFrames += 1
    actions.append(.event(.refusedFrame(peerName: peerName, reason: reason)))
  }

  /// Takes whoever is no longer known off its links.
  mutating func admit(_ known: KnownPeers) {
    let lost = links.filter { _, link in link.sender.map { known[$0.publicKey] != $0 } ?? false }.keys.sorted()
    for link in lost {
      // So that it does not wait for answers that will not come.
      send(Frame(kind: .goodbye), on: link)
      unregister(link)
    }
    deliverLoopback()
  }

  /// Announces when it is time and finds peers that fell silent, unless this process itself slept: then their words may still be unread.
  mutating func beat() {
    if case .gone = phase { return }
    guard now - lastBeat >= heartbeat else { return }
    let hasSlept = now - lastBeat > 2 * heartbeat
    lastBeat = now
    announceToAll()
    for (link, known) in links.sorted(by: { $0.key < $1.key }) where link != .loopback {
      if hasSlept { links[link]?.lastHeard = now } else if now - known.lastHeard > liveness { unregister(link) }
    }
  }

  mutating func setReady(_ isReady: Bool) {
    guard case .open = phase, me.peer.isReady != isReady else { return }
    me.peer.isReady = isReady
    announcement = me.announcement(isDraining: nil)
    announceToAll()
    publishPeers()
  }
}

extension PeerState {
  func announcement(isDraining: Bool?) -> [UInt8] { Announcement(peer: peer, isDraining: isDraining).encoded() }
}
