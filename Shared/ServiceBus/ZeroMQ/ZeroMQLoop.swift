// The one thread that owns a bus's sockets: feeds the exchange with frames, events, commands and time, and sends what it decides.

import CZeroMQ
import Glibc

/// Belongs to its thread once `run` has been called.
final class ZeroMQLoop {
  /// A socket that is connected to an endpoint, and its link.
  struct Dealer {
    let endpoint: String
    let socket: ZeroMQSocket
    let link: LinkID
    var isUp = false
  }

  /// Frames a link did not take.
  struct Leftovers {
    var frames: [Frame] = []
    var byteCount = 0
  }

  private let context: UnsafeMutableRawPointer
  let router: ZeroMQSocket
  let queue: CommandQueue
  let executor: LoopExecutor
  let front: BusFront
  var exchange: Exchange
  var dealers: [Dealer] = []
  var leftovers: [LinkID: Leftovers] = [:]
  /// Frames for routes that are dead. The exchange is told once all that their peers had sent before is read: it may be answers.
  var dying: [LinkID: [Frame]] = [:]
  /// When routes are probed, after some connection was lost: which one is not told, and its pipe dies a little later than the event.
  var probes: Set<Int64> = []
  private var lastLink: UInt64 = 0
  /// The queue's descriptor, then each socket's and its monitor's: the router's first, the dealers' in their order.
  private var items: [pollfd] = []
  private var commands: [Command] = []
  var spareActions: [Exchange.Action] = []

  /// Links over the ROUTER are numbered by their routes, others below.
  static let routeFlag: UInt64 = 1 << 32
  private static let batchCount = 512
  /// How often commands are looked for before sockets are.
  private static let roundCount = 8
  static let leftoverCount = 16_384
  private static let retrySpan: Int64 = 2

  init(context: UnsafeMutableRawPointer, router: ZeroMQSocket, peer: Peer, queue: CommandQueue, executor: LoopExecutor, front: BusFront) {
    self.context = context
    self.router = router
    self.queue = queue
    self.executor = executor
    self.front = front
    exchange = Exchange(peer: peer, lanes: front.handlers.lanes, configuration: front.configuration, now: front.now)
    updateItems()
  }

  func run() {
    var isClosed = false
    while !isClosed {
      sleep()
      exchange.now = front.now
      readEvents()
      readFrames()
      isClosed = obeyCommands()
      exchange.tick(now: front.now)
      probe()
      retryLeftovers()
      perform()
    }
    end()
  }

  /// Carries out what was posted, and what that posted in turn: a handler's start is followed by its call, its last step by its answer.
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
    router.close()
    zmq_ctx_term(context)
  }

  // MARK: Waiting

  private func updateItems() {
    let sockets = [router] + dealers.map(\.socket)
    items = ([queue.descriptor] + sockets.flatMap { [$0.descriptor, $0.monitorDescriptor] }).map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
  }

  /// One system call, where `zmq_poll` asks every socket before and after it sleeps: two calls each.
  private func sleep() {
    readUsedSockets()
    var timeout: Int64 = 0
    if dying.isEmpty, !router.mayHaveFrames, !dealers.contains(where: { $0.socket.mayHaveFrames }), queue.prepareSleep() {
      var wake = exchange.nextTick
      if let probe = probes.min() { wake = min(wake, probe) }
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
    if items[1].revents != 0 || router.mayHaveFrames || !dead.isEmpty, readRouter() {
      for link in dead { exchange.undeliverable(dying.removeValue(forKey: link) ?? [], on: link) }
      perform()
    }
    for index in dealers.indices where items[3 + 2 * index].revents != 0 || dealers[index].socket.mayHaveFrames { readDealer(index) }
  }

  /// What was sent may have swallowed the notice of what came.
  private func readUsedSockets() {
    if router.mayHaveFrames { readRouter() }
    for index in dealers.indices where dealers[index].socket.mayHaveFrames { readDealer(index) }
  }

  @discardableResult
  private func readRouter() -> Bool { read(router) { LinkID(number: Self.routeFlag | UInt64($0)) } }

  private func readDealer(_ index: Int) {
    let dealer = dealers[index]
    read(dealer.socket) { _ in dealer.isUp ? dealer.link : nil }
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
    case .run(let job): executor.run(job)
    default: exchange.obey(command)
    }
    perform()
  }

  private func connect(_ endpoint: String) {
    guard endpoint != exchange.me.peer.endpoint, !dealers.contains(where: { $0.endpoint == endpoint }) else { return }
    if let reason = Endpoint.refusal(endpoint) { return front.configuration.observe(.refusedEndpoint(endpoint, reason: reason)) }
    lastLink += 1
    do throws(BusError) {
      let socket = try ZeroMQSocket(.dealer, in: context, front.configuration, monitorName: "\(lastLink)")
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
}
