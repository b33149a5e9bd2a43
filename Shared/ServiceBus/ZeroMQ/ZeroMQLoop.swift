// The one thread that owns a bus's sockets: feeds the exchange with frames, events, commands and time, and sends what it decides.

import CZeroMQ
import Glibc

/// Belongs to its thread once `run` has been called.
final class ZeroMQLoop {
  /// A socket that is connected to an endpoint, and its link.
  private struct Dealer {
    let endpoint: String
    let socket: ZeroMQSocket
    let link: LinkID
    var isUp = false
  }

  /// Frames a link did not take.
  private struct Leftovers {
    var frames: [Frame] = []
    var byteCount = 0
  }

  private let context: UnsafeMutableRawPointer
  private let router: ZeroMQSocket
  private let queue: CommandQueue
  private let front: BusFront
  private var exchange: Exchange
  private var dealers: [Dealer] = []
  private var leftovers: [LinkID: Leftovers] = [:]
  /// Frames for routes that are dead. The exchange is told once all that their peers had sent before is read: it may be answers.
  private var dying: [LinkID: [Frame]] = [:]
  /// When routes are probed, after some connection was lost: which one is not told, and its pipe dies a little later than the event.
  private var probes: Set<Int64> = []
  private var lastLink: UInt64 = 0
  private var items: [zmq_pollitem_t] = []
  private var commands: [Command] = []

  /// Links over the ROUTER are numbered by their routes, others below.
  private static let routeFlag: UInt64 = 1 << 32
  private static let batchCount = 512
  private static let leftoverCount = 16_384
  private static let retrySpan: Int64 = 2

  init(context: UnsafeMutableRawPointer, router: ZeroMQSocket, peer: Peer, queue: CommandQueue, front: BusFront) {
    self.context = context
    self.router = router
    self.queue = queue
    self.front = front
    exchange = Exchange(peer: peer, names: Set(front.handlers.entries.keys), configuration: front.configuration, now: front.now)
    updateItems()
  }

  func run() {
    var isClosed = false
    while !isClosed {
      sleep()
      exchange.now = front.now
      readEvents()
      readFrames()
      isClosed = queue.take(into: &commands)
      for command in commands { obey(command) }
      exchange.tick(now: front.now)
      probe()
      retryLeftovers()
      perform()
    }
    end()
  }

  private func end() {
    exchange.end()
    perform()
    front.board.close()
    for dealer in dealers { dealer.socket.close() }
    router.close()
    zmq_ctx_term(context)
  }

  // MARK: Waiting

  private func updateItems() {
    func item(_ socket: UnsafeMutableRawPointer?, _ descriptor: Int32 = 0) -> zmq_pollitem_t {
      zmq_pollitem_t(socket: socket, fd: descriptor, events: Int16(ZMQ_POLLIN), revents: 0)
    }
    items = [item(nil, queue.descriptor), item(router.handle), item(router.monitor)]
    for dealer in dealers { items += [item(dealer.socket.handle), item(dealer.socket.monitor)] }
  }

  private func sleep() {
    var timeout = 0
    if dying.isEmpty, queue.prepareSleep() {
      var wake = exchange.nextTick
      if let probe = probes.min() { wake = min(wake, probe) }
      if !leftovers.isEmpty { wake = min(wake, front.now + Self.retrySpan) }
      timeout = Int(max(0, min(wake - front.now, 60_000)))
    }
    let ready = items.withUnsafeMutableBufferPointer { zmq_poll($0.baseAddress, Int32($0.count), timeout) }
    if ready > 0, items[0].revents != 0 { queue.acknowledgeWake() }
    if ready <= 0 { for index in items.indices { items[index].revents = 0 } }
  }

  // MARK: Reading

  private func readEvents() {
    if items[2].revents != 0 {
      while let event = router.nextEvent() {
        guard event == .lost else { continue }
        for delay in [0, 2, 10, 40] as [Int64] { probes.insert(exchange.now + delay) }
      }
    }
    for index in dealers.indices where items[4 + 2 * index].revents != 0 {
      while let event = dealers[index].socket.nextEvent() { changed(index, event) }
    }
    perform()
  }

  private func changed(_ index: Int, _ event: ZeroMQSocket.ConnectionEvent) {
    let dealer = dealers[index]
    // What the lost connection had brought comes first: it may be answers and a goodbye.
    if event == .lost, dealer.isUp { while !read(dealer.socket, link: { _ in dealer.link }) {} }
    dealers[index].isUp = event == .established
    leftovers[dealer.link] = nil
    if event == .established { exchange.linkUp(dealer.link) } else { exchange.linkDown(dealer.link) }
  }

  private func readFrames() {
    let dead = dying.keys.sorted()
    if items[1].revents != 0 || !dead.isEmpty {
      let isEmpty = read(router) { LinkID(number: Self.routeFlag | UInt64($0)) }
      if isEmpty {
        for link in dead { exchange.undeliverable(dying.removeValue(forKey: link) ?? [], on: link) }
        perform()
      }
    }
    for index in dealers.indices where items[3 + 2 * index].revents != 0 {
      let dealer = dealers[index]
      read(dealer.socket) { _ in dealer.isUp ? dealer.link : nil }
    }
  }

  /// Reads at most a batch, so that no peer keeps the thread from the others.
  /// - Returns: whether nothing was left.
  @discardableResult
  private func read(_ socket: ZeroMQSocket, link: (UInt32) -> LinkID?) -> Bool {
    for _ in 0..<Self.batchCount {
      switch socket.receive() {
      case .nothing: return true
      case .malformed: exchange.malformed()
      case .frame(let frame, let route):
        guard let link = link(route) else { continue }
        exchange.received(frame, on: link)
        perform()
      }
    }
    return false
  }

  private func obey(_ command: Command) {
    switch command {
    case .connect(let endpoint): connect(endpoint)
    case .disconnect(let endpoint): disconnect(endpoint)
    case .statistics(let answer): answer(exchange.currentStatistics)
    default: exchange.obey(command)
    }
    perform()
  }

  private func connect(_ endpoint: String) {
    guard endpoint != exchange.me.peer.endpoint, !dealers.contains(where: { $0.endpoint == endpoint }) else { return }
    if let reason = Endpoint.refusal(endpoint) { return front.configuration.observe(.refusedEndpoint(endpoint, reason: reason)) }
    lastLink += 1
    do throws(BusError) {
      let socket = try ZeroMQSocket(.dealer, in: context, partByteLimit: front.configuration.partByteLimit, monitorName: "\(lastLink)")
      do throws(BusError) {
        try socket.connect(endpoint)
      } catch {
        socket.close()
        throw error
      }
      dealers.append(Dealer(endpoint: endpoint, socket: socket, link: LinkID(number: lastLink)))
      updateItems()
    } catch {
      front.configuration.observe(.refusedEndpoint(endpoint, reason: error.reason))
    }
  }

  private func disconnect(_ endpoint: String) {
    guard let index = dealers.firstIndex(where: { $0.endpoint == endpoint }) else { return }
    let dealer = dealers.remove(at: index)
    dealer.socket.close()
    leftovers[dealer.link] = nil
    updateItems()
    exchange.linkDown(dealer.link)
  }

  // MARK: Sending

  private func perform() {
    while true {
      let actions = exchange.takeActions()
      if actions.isEmpty { return }
      for action in actions {
        switch action {
        case .send(let frame, let link): send(frame, on: link)
        case .settle(let reply, let outcome): reply.settle(outcome)
        case .start(let request): front.serve(request) { [queue] in queue.post($0) }
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
    if link.number & Self.routeFlag != 0 { dying[link, default: []] += frames } else { exchange.undeliverable(frames, on: link) }
  }

  private func transmit(_ frame: Frame, on link: LinkID) -> ZeroMQSocket.Sent {
    if link.number & Self.routeFlag != 0 { return router.send(frame, route: UInt32(truncatingIfNeeded: link.number)) }
    guard let dealer = dealers.first(where: { $0.link == link }), dealer.isUp else { return .unreachable }
    return dealer.socket.send(frame, route: 0)
  }

  private func keep(_ frame: Frame, for link: LinkID) {
    var kept = leftovers[link] ?? Leftovers()
    kept.frames.append(frame)
    kept.byteCount += frame.arguments.count + frame.body.count
    guard kept.frames.count <= Self.leftoverCount, kept.byteCount <= front.configuration.heldByteCount else {
      leftovers[link] = nil
      if let name = exchange.links[link]?.peer.peer.name { front.configuration.observe(.stalledLink(peerName: name)) }
      return bury(kept.frames, for: link)
    }
    leftovers[link] = kept
  }

  private func retryLeftovers() {
    for (link, kept) in leftovers {
      var sentCount = 0
      var isDead = false
      for frame in kept.frames {
        let result = transmit(frame, on: link)
        isDead = result == .unreachable
        if result != .sent { break }
        sentCount += 1
      }
      let rest = Array(kept.frames[sentCount...])
      if isDead || rest.isEmpty {
        leftovers[link] = nil
      } else {
        leftovers[link] = Leftovers(frames: rest, byteCount: rest.reduce(0) { $0 + $1.arguments.count + $1.body.count })
      }
      if isDead { bury(rest, for: link) }
    }
  }

  /// Whoever lost his connection is found by sending him something.
  private func probe() {
    let due = probes.filter { $0 <= exchange.now }
    guard !due.isEmpty else { return }
    probes.subtract(due)
    exchange.announceToAll()
  }
}
