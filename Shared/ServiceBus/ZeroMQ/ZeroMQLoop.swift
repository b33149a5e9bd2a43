// The one thread that owns a bus's sockets: it passes frames, events, commands and time to the exchange, and sends its
// frames.

import CZeroMQ
import Glibc

/// Belongs to its thread once `run` was called.
final class ZeroMQLoop {
  /// A socket that is connected to an endpoint, and its link.
  struct Dealer {
    let connection: BusConnection
    let socket: ZeroMQSocket
    let link: LinkID
    /// The process whose key the connection must prove; nil without keys.
    let known: KnownPeer?
    /// The index of that key among the peer's keys.
    let attempt: Int
    var isUp = false
    /// Handshakes that failed since the last successful one, and the time at which the socket is replaced for that
    /// reason.
    var failureCount = 0
    var retryTime: Int64?
  }

  /// Frames that a link did not take.
  struct Leftovers {
    var frames: [Frame] = []
    var byteCount = 0
  }

  let context: UnsafeMutableRawPointer
  private let door: Door
  var router: ZeroMQSocket { door.router }
  var keys: BusKeys?
  let queue: CommandQueue
  let executor: LoopExecutor
  let front: BusFront
  var exchange: MessageExchange
  var dealers: [Dealer] = []
  /// Connections to peers without a known key.
  var awaited: [BusConnection] = []
  var leftovers: [LinkID: Leftovers] = [:]
  /// Frames for dead routes. The exchange is told after everything that their peers sent before is read: it may contain
  /// answers.
  var dying: [LinkID: [Frame]] = [:]
  /// The times at which all routes are probed after a connection was lost: libzmq does not tell which one, and its pipe
  /// dies a little after the event.
  var probes: Set<Int64> = []
  var lastLink: UInt64 = 0
  /// The queue's descriptor, then each socket's and its monitor's: the router's first, then the dealers' in their
  /// order, then the ZAP handler's.
  private var items: [pollfd] = []
  private var commands: [Command] = []
  var spareActions: [MessageExchange.Action] = []

  /// Set in links over the ROUTER, which are numbered by their routes.
  static let routeFlag: UInt64 = 1 << 32
  private static let batchCount = 512
  /// The rounds of commands before sockets are read again.
  private static let roundCount = 8
  static let leftoverCount = 16_384
  private static let retrySpan: Int64 = 2

  init(
    context: UnsafeMutableRawPointer, door: Door, peer: Peer, queue: CommandQueue, executor: LoopExecutor,
    front: BusFront
  ) {
    self.context = context
    self.door = door
    keys = front.configuration.keys
    self.queue = queue
    self.executor = executor
    self.front = front
    exchange = MessageExchange(
      peer: peer, served: front.handlers.served, configuration: front.configuration, now: front.now)
    updateItems()
  }

  func run() {
    var isClosed = false
    while !isClosed {
      sleep()
      exchange.now = front.now
      answerZAP()
      readEvents()
      readFrames()
      isClosed = obeyCommands()
      exchange.tick(now: front.now)
      probe()
      renewConnections()
      retryLeftovers()
      perform()
    }
    end()
  }

  /// Carries out posted commands and those that they post in turn: a handler's start is followed by its calls, its end
  /// by its answer.
  /// - Returns: whether the bus is closed.
  private func obeyCommands() -> Bool {
    for _ in 0..<Self.roundCount {
      if queue.take(into: &commands) {
        for command in commands { obey(command) }
        return true
      }
      if commands.isEmpty { return false }
      for command in commands { obey(command) }
    }
    return false
  }

  private func end() {
    exchange.end()
    perform()
    front.board.close()
    for dealer in dealers { dealer.socket.close() }
    door.close()
    zmq_ctx_term(context)
  }

  // MARK: Waiting

  func updateItems() {
    let sockets = [router] + dealers.map(\.socket)
    let zap = door.zap.map { [$0.descriptor] } ?? []
    items = ([queue.descriptor] + sockets.flatMap { [$0.descriptor, $0.monitorDescriptor] } + zap).map {
      pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
    }
  }

  /// One system call: `zmq_poll` asks every socket before and after it sleeps, with two calls each.
  private func sleep() {
    readUsedSockets()
    var timeout: Int64 = 0
    if dying.isEmpty, !router.mayHaveFrames, !dealers.contains(where: { $0.socket.mayHaveFrames }), queue.prepareSleep()
    {
      var wake = exchange.nextTick
      if let probe = probes.min() { wake = min(wake, probe) }
      for dealer in dealers { if let time = dealer.retryTime { wake = min(wake, time) } }
      if !leftovers.isEmpty { wake = min(wake, front.now + Self.retrySpan) }
      timeout = max(0, min(wake - front.now, 60_000))
    }
    let ready = items.withUnsafeMutableBufferPointer { poll($0.baseAddress, nfds_t($0.count), Int32(timeout)) }
    if ready > 0, items[0].revents != 0 { queue.acknowledgeWake() }
    if ready <= 0 { for index in items.indices { items[index].revents = 0 } }
  }

  // MARK: Reading

  private func readEvents() {
    if items[2].revents != 0 {
      while let event = router.nextEvent() {
        switch event {
        case .established: break
        case .lost: for delay in [0, 2, 10, 40] as [Int64] { probes.insert(exchange.now + delay) }
        case .refused(let refusal): refused(refusal)
        }
      }
    }
    for index in dealers.indices where items[4 + 2 * index].revents != 0 {
      while let event = dealers[index].socket.nextEvent() { changed(index, event) }
    }
    perform()
  }

  private func changed(_ index: Int, _ event: ZeroMQSocket.ConnectionEvent) {
    let dealer = dealers[index]
    // First reads the frames of the lost connection, which may contain answers and a goodbye.
    if case .lost = event, dealer.isUp {
      while !read(dealer.socket, known: dealer.known, link: { _ in dealer.link }) {}
    }
    leftovers[dealer.link] = nil
    switch event {
    case .established:
      dealers[index].isUp = true
      dealers[index].failureCount = 0
      dealers[index].retryTime = nil
      exchange.linkUp(dealer.link)
    case .lost:
      dealers[index].isUp = false
      exchange.linkDown(dealer.link)
    case .refused(let refusal): failed(index, refusal)
    }
  }

  private func answerZAP() {
    guard let zap = door.zap, let keys, items.last?.revents != 0 else { return }
    zap.answer(keys.known) { key in
      let reason =
        key.map { "--bus-peers has no line with the key \($0): add one if the process is of this installation" }
        ?? "it showed no key"
      front.configuration.observe(.refusedConnection(reason: reason))
    }
  }

  private func readFrames() {
    let dead = dying.keys.sorted()
    if items[1].revents != 0 || router.mayHaveFrames || !dead.isEmpty, readRouter() {
      for link in dead { exchange.undeliverable(dying.removeValue(forKey: link) ?? [], on: link) }
      perform()
    }
    for index in dealers.indices where items[3 + 2 * index].revents != 0 || dealers[index].socket.mayHaveFrames {
      readDealer(index)
    }
  }

  /// A send may have swallowed the notice of frames that came in.
  private func readUsedSockets() {
    if router.mayHaveFrames { readRouter() }
    for index in dealers.indices where dealers[index].socket.mayHaveFrames { readDealer(index) }
  }

  @discardableResult
  private func readRouter() -> Bool { read(router, known: nil) { LinkID(number: Self.routeFlag | UInt64($0)) } }

  private func readDealer(_ index: Int) {
    let dealer = dealers[index]
    read(dealer.socket, known: dealer.known) { _ in dealer.isUp ? dealer.link : nil }
  }

  /// Reads at most one batch, so that no peer keeps the thread from the others.
  /// - Parameter known: the process whose key a DEALER's connection proved.
  /// - Returns: whether the socket is empty.
  @discardableResult
  private func read(_ socket: ZeroMQSocket, known: KnownPeer?, link: (UInt32) -> LinkID?) -> Bool {
    for _ in 0..<Self.batchCount {
      switch socket.receive() {
      case .nothing: return true
      case .malformed: exchange.malformed()
      case .frame(let frame, let route, let key):
        guard let link = link(route) else { continue }
        let sender = known ?? key.flatMap { keys?.known[$0] }
        if keys != nil, sender == nil {
          exchange.refused("", "the key \(key ?? "") is no longer listed")
        } else {
          exchange.received(frame, on: link, from: sender)
        }
        perform()
      }
    }
    return false
  }

  private func obey(_ command: Command) {
    switch command {
    case .connect(let connection): connect(connection)
    case .admit(let known): admit(known)
    case .disconnect(let endpoint): disconnect(endpoint)
    case .statistics(let answer): answer(exchange.currentStatistics)
    case .run(let job): executor.run(job)
    default: exchange.obey(command)
    }
    perform()
  }
}
