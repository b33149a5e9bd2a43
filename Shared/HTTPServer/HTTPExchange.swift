// One request and its answer: a state machine that the library's thread, the handler's task, the watcher and the drain
// drive.

internal import CMicroHTTPD
internal import Synchronization

final class HTTPExchange: Sendable {
  enum Phase {
    /// Suspended before the body, until the handler decides about it.
    case asking(Task<Void, Never>)
    /// Reading the body.
    case receiving
    /// Suspended within the body, until the sink has room again.
    case holding
    /// Reading and discarding the rest of the body; then the refusal is sent.
    case refusing(HTTPResponse)
    /// The handler has begun, and the connection is not suspended yet.
    case starting
    /// Suspended while the handler works.
    case working(Task<Void, Never>)
    /// Resumed. The library asks for the answer next.
    case answered(PreparedResponse)
    case sending(BodyFeed?)
    case over
  }

  struct State {
    var phase = Phase.receiving
    var head: RequestHead?
    /// The client that a trusted proxy names, and whether the request counts towards its limit.
    var client: ClientNetwork?
    var isCounted = false
    var body: [UInt8] = []
    /// The most bytes of a collected body.
    var byteLimit = 0
    /// The party that the handler charges for the body, besides the client's network.
    var party: String?
    /// Takes the body instead of `body`, and the bytes that it was handed.
    var sink: (any HTTPBodySink)?
    var streamedByteCount = 0
    /// 0 when the body comes in chunks, or when there is none.
    var declaredByteCount = 0
    /// The handler was asked about the body, so the library reports the headers once more before it reads on.
    var isHeadDue = false
    /// The bytes that this request holds of the limits in `ClientBook`.
    var reservedByteCount = 0
    var droppedByteCount = 0
    var hasHungUp = false
    /// The server gave the request up while the handler had not suspended yet.
    var isAbandoned = false
  }

  let link: Link
  let connection: ConnectionHandle
  let core: ServerCore
  let state = Mutex(State())

  init(_ link: Link, _ connection: ConnectionHandle, _ core: ServerCore) {
    self.link = link
    self.connection = connection
    self.core = core
  }

  // MARK: On the library's thread

  /// Handles complete headers.
  /// - Returns: false to close the connection at once.
  func begin(method: String, isHTTP10: Bool) -> Bool {
    var expectsBody = true
    do throws(Refusal) {
      let (headers, policy) = readHeaders(connection)
      let target = link.takeTarget()
      let framing = try policy.framing(isHTTP10: isHTTP10)
      expectsBody = framing != .none
      if link.isSurplus { throw Refusal(503, "The server has too many connections.") }
      guard let target else { throw Refusal(400, "The request target is not UTF-8.") }
      guard let method = HTTPMethod(rawValue: method) else {
        throw Refusal(501, "The server does not know the method.")
      }
      let head = RequestHead(
        method: method == .head ? .get : method, isHead: method == .head, target: target,
        parts: try RequestTarget(target), headers: headers)
      try countForwarded(head)
      guard let answer = try admit(head, framing) else { return true }
      if expectsBody { link.setLingers() }
      return queue(prepared(answer, closes: true))
    } catch {
      _ = link.begin(self, expectsBody: false)
      if expectsBody { link.setLingers() }
      return queue(refusal(error, closes: true))
    }
  }

  /// Counts the request for the client that a trusted proxy names. The proxy's connections themselves are not counted.
  private func countForwarded(_ head: RequestHead) throws(Refusal) {
    guard let address = core.configuration.forwarding(of: head.headers, from: link.remoteAddress)?.clientAddress else {
      return
    }
    let network = ClientNetwork(address)
    let isCounted = core.clients.connect(network)
    state.withLock { state in
      state.client = network
      state.isCounted = isCounted
    }
    if isCounted { return }
    core.configuration.observe(.connections, address)
    throw Refusal(429, "Your address has too many requests under way.")
  }

  /// Goes on after the end of the body, or after a resume.
  /// - Returns: false to close the connection.
  func proceed() -> Bool {
    enum Step {
      case start, readOn, queue(PreparedResponse), refuse(HTTPResponse), close
    }
    let step: Step = state.withLock { state in
      let isHead = state.isHeadDue
      state.isHeadDue = false
      switch state.phase {
      case .receiving where isHead: return .readOn
      case .receiving: return .start
      case .refusing(let answer): return .refuse(answer)
      case .answered(let response):
        state.phase = .sending(response.feed)
        return .queue(response)
      case .asking, .holding, .starting, .working, .sending, .over: return .close
      }
    }
    switch step {
    case .start: return start()
    case .readOn: return true
    case .queue(let response): return queue(response)
    case .refuse(let answer):
      link.setLingers()
      return queue(prepared(answer, closes: true))
    case .close: return false
    }
  }

  /// Starts the handler, and suspends the connection unless the answer is there at once.
  private func start() -> Bool {
    link.stopPace()
    guard let (request, isHead) = takeRequest() else {
      return queue(refusal(Refusal(503, "The server is stopping."), closes: true))
    }
    let task =
      if let executor = core.handler.executor(for: request) {
        Task.immediate(executorPreference: executor) { await self.work(request, isHead: isHead) }
      } else {
        Task { await self.work(request, isHead: isHead) }
      }
    switch began(task) {
    case .answered(let response): return queue(response)
    case .waits(let isWanted):
      if !isWanted { task.cancel() }
      return true
    case .stopped:
      task.cancel()
      return queue(refusal(Refusal(503, "The server is stopping."), closes: true))
    }
  }

  /// The state of a request after its handler has begun.
  private enum Beginning {
    case answered(PreparedResponse)
    case waits(isWanted: Bool)
    case stopped
  }

  private func began(_ task: Task<Void, Never>) -> Beginning {
    state.withLock { state in
      if case .answered(let response) = state.phase {
        state.phase = .sending(response.feed)
        return .answered(response)
      }
      // The server's stop has visited all suspended connections already.
      if state.isAbandoned || core.isStopped.load(ordering: .sequentiallyConsistent) {
        state.phase = .sending(nil)
        return .stopped
      }
      MHD_suspend_connection(connection.pointer)
      state.phase = .working(task)
      return .waits(isWanted: !state.hasHungUp)
    }
  }

  /// The request for the handler; nil when the server is stopping.
  private func takeRequest() -> (request: HTTPRequest, isHead: Bool)? {
    state.withLock { state in
      guard !core.isStopped.load(ordering: .sequentiallyConsistent), let head = state.head else { return nil }
      let request = head.request(body: state.body, sink: state.sink, on: link, core.configuration)
      state.head = nil
      state.sink = nil
      state.body = []
      state.phase = .starting
      return (request, head.isHead)
    }
  }

  private func queue(_ response: PreparedResponse) -> Bool {
    core.sentByteCount.add(response.byteCount, ordering: .relaxed)
    link.startSending(response.announcedByteCount)
    return response.queue(on: connection, closes: core.isDraining.load(ordering: .sequentiallyConsistent))
  }

  /// Releases everything that the request holds. It was answered, or its connection is lost.
  func complete() {
    let (phase, sink, network): (Phase, (any HTTPBodySink)?, ClientNetwork?) = state.withLock { state in
      giveBackBody(&state)
      defer {
        state.phase = .over
        state.isCounted = false
        state.sink = nil
      }
      return (state.phase, state.sink, state.isCounted ? state.client : nil)
    }
    sink?.abort()
    if let network { core.clients.disconnect(network) }
    link.finish()
    switch phase {
    case .working(let task), .asking(let task): task.cancel()
    case .answered(let response): response.discard()
    case .sending(let feed): feed?.close()
    case .receiving, .holding, .refusing, .starting, .over: break
    }
  }

  // MARK: On the handler's task

  private func work(_ request: HTTPRequest, isHead: Bool) async {
    let response = await core.handler.respond(to: request)
    answer(prepared(response, isHead: isHead))
  }

  private func answer(_ response: PreparedResponse) {
    let isWanted = state.withLock { state in
      switch state.phase {
      case .working: MHD_resume_connection(connection.pointer)
      case .starting: break
      case .asking, .receiving, .holding, .refusing, .answered, .sending, .over: return false
      }
      state.phase = .answered(response)
      return true
    }
    if !isWanted { response.discard() }
  }

  /// The network that is charged for the request.
  func network(_ state: State) -> ClientNetwork { state.client ?? link.network }

  private func prepared(_ answer: HTTPResponse, isHead: Bool = false, closes: Bool = false) -> PreparedResponse {
    let network: ClientNetwork = state.withLock { $0.client ?? link.network }
    return PreparedResponse(
      answer, for: connection, core, payer: answer.party.map { .party($0) } ?? .network(network), isHead: isHead,
      closes: closes)
  }

  private func refusal(_ refusal: Refusal, closes: Bool) -> PreparedResponse {
    prepared(core.handler.refusal(status: refusal.status, reason: refusal.reason), closes: closes)
  }

  // MARK: From the watcher and from drain

  func hangUp() {
    let phase = state.withLock { state in
      state.hasHungUp = true
      return state.phase
    }
    switch phase {
    case .working(let task), .asking(let task): task.cancel()
    case .sending(let feed): feed?.abort()
    case .receiving, .holding, .refusing, .starting, .answered, .over: break
    }
  }

  func drain() {
    if case .sending(let feed) = state.withLock({ $0.phase }) { feed?.endWhenQuiet() }
  }

  func abandon() {
    let phase = state.withLock { state in
      state.isAbandoned = true
      return state.phase
    }
    switch phase {
    case .working(let task):
      answer(refusal(Refusal(503, "The server is stopping."), closes: true))
      task.cancel()
    case .sending(let feed): feed?.abort()
    case .asking(let task):
      task.cancel()
      core.connections.shutDown(link)
      decide(.collect())
    case .receiving, .refusing: core.connections.shutDown(link)
    case .holding:
      core.connections.shutDown(link)
      resumeReading()
    case .starting, .answered, .over: break
    }
  }
}
