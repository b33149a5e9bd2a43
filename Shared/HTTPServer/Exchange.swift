// One request and its answer: a small state machine between the library's thread, the handler's task, the watcher and drain.

internal import CMicroHTTPD
internal import Synchronization

final class Exchange: Sendable {
  private enum Phase {
    /// Reading the body.
    case receiving
    /// Suspended in the middle of the body, until its sink has room again.
    case holding
    /// Reading (and dropping) a body that is over the limit; then the refusal is sent.
    case refusing(Refusal)
    /// The handler has begun; the connection is not suspended yet.
    case starting
    /// Suspended while the handler works.
    case working(Task<Void, Never>)
    /// Resumed; the library will ask for the answer.
    case answered(PreparedResponse)
    case sending(BodyFeed?)
    case over
  }

  private struct State {
    var phase = Phase.receiving
    var head: RequestHead?
    var body: [UInt8] = []
    /// What takes the body instead, and how much of it has come.
    var sink: (any HTTPBodySink)?
    var streamedByteCount = 0
    /// What of the server-wide budget this request holds.
    var reservedByteCount = 0
    var droppedByteCount = 0
    var hasHungUp = false
    /// The server gave the request up before the handler's first part was over.
    var isAbandoned = false
  }

  /// Room that is made for a body before its first byte.
  private static let expectedByteCount = 256 * 1024

  private let link: Link
  private let connection: ConnectionHandle
  private let core: ServerCore
  private let state = Mutex(State())

  init(_ link: Link, _ connection: ConnectionHandle, _ core: ServerCore) {
    self.link = link
    self.connection = connection
    self.core = core
  }

  // MARK: On the library's thread

  /// The headers are complete.
  /// - Returns: false to close the connection at once.
  func begin(method: String, isHTTP10: Bool) -> Bool {
    var expectsBody = true
    do throws(Refusal) {
      let (headers, policy) = readHeaders(connection)
      let target = link.takeTarget()
      let framing = try policy.framing(isHTTP10: isHTTP10)
      expectsBody = framing != .none
      if link.isSurplus { throw Refusal(503, "The server has as many connections as it may have.") }
      guard let target else { throw Refusal(400, "The request target is not UTF-8.") }
      guard let method = HTTPMethod(rawValue: method) else { throw Refusal(501, "The method is not known here.") }
      let head = RequestHead(method: method == .head ? .get : method, isHead: method == .head, target: target, parts: try RequestTarget(target), headers: headers)
      guard let answer = try admit(head, framing) else { return true }
      if expectsBody { link.setLingers() }
      return queue(PreparedResponse(answer, for: connection, core, closes: true))
    } catch {
      _ = link.begin(self, bodyByteCount: nil)
      if expectsBody { link.setLingers() }
      return queue(refusal(error, closes: true))
    }
  }

  /// - Returns: the answer, when the handler does not want the body.
  private func admit(_ head: RequestHead, _ framing: HeaderPolicy.Framing) throws(Refusal) -> HTTPResponse? {
    var sink: (any HTTPBodySink)?
    if head.method == .post || head.method == .put {
      switch core.handler.intake(of: head.request(body: [], sink: nil, on: link, core.configuration)) {
      case .collect: break
      case .stream(let wanted): sink = wanted
      case .refuse(let answer):
        _ = link.begin(self, bodyByteCount: nil)
        return answer
      }
    }
    let limit = sink?.byteLimit ?? core.configuration.bodyByteLimit
    var length = 0
    switch framing {
    case .none: break
    case .chunked: break
    case .length(let declared):
      guard declared <= UInt64(limit) else {
        sink?.abort()
        throw Self.tooLarge(limit)
      }
      length = Int(declared)
    }
    let bodyByteCount: UInt64? = framing == .none ? nil : length > 0 ? UInt64(length) : UInt64(limit)
    let hasHungUp = link.begin(self, bodyByteCount: bodyByteCount)
    state.withLock { state in
      state.head = head
      state.sink = sink
      if sink == nil { state.body.reserveCapacity(min(length, Self.expectedByteCount)) }
      state.hasHungUp = state.hasHungUp || hasHungUp
    }
    return nil
  }

  private static func tooLarge(_ limit: Int) -> Refusal { Refusal(413, "The request body has more than \(limit) bytes.") }

  /// A piece of body.
  /// - Returns: false to close the connection.
  func receive(_ piece: UnsafeRawBufferPointer) -> Bool {
    core.receivedByteCount.add(piece.count, ordering: .relaxed)
    return state.withLock { state in
      switch state.phase {
      case .receiving:
        if let sink = state.sink { return hand(piece, to: sink, &state) }
        let total = state.body.count + piece.count
        if total > core.configuration.bodyByteLimit {
          refuseRest(Self.tooLarge(core.configuration.bodyByteLimit), &state)
        } else if total > state.reservedByteCount {
          // What has arrived counts, not what was declared: else a few connections that only announce bodies would shut all others out.
          if core.reserveBody(total - state.reservedByteCount) {
            state.reservedByteCount = total
            state.body.append(contentsOf: piece)
          } else {
            refuseRest(Refusal(503, "The server has too many request bodies in hand."), &state)
          }
        } else {
          state.body.append(contentsOf: piece)
        }
        return true
      case .refusing:
        // The library can't answer before the body's end; a peer that goes on for long is cut off.
        state.droppedByteCount += piece.count
        return state.droppedByteCount <= core.configuration.bodyByteLimit
      case .holding, .starting, .working, .answered, .sending, .over: return false
      }
    }
  }

  /// - Returns: false to close the connection.
  private func hand(_ piece: UnsafeRawBufferPointer, to sink: any HTTPBodySink, _ state: inout State) -> Bool {
    state.streamedByteCount += piece.count
    guard state.streamedByteCount <= sink.byteLimit else {
      refuseRest(Self.tooLarge(sink.byteLimit), &state)
      return true
    }
    // Under the lock: a sink that has room again at once finds the connection suspended.
    if sink.receive(piece, resume: { [weak self] in self?.resumeReading() }) { return true }
    // A server must not stop with a suspended connection.
    guard !core.isStopped.load(ordering: .sequentiallyConsistent) else { return false }
    state.phase = .holding
    MHD_suspend_connection(connection.pointer)
    return true
  }

  private func resumeReading() {
    state.withLock { state in
      guard case .holding = state.phase else { return }
      state.phase = .receiving
      MHD_resume_connection(connection.pointer)
    }
  }

  private func refuseRest(_ refusal: Refusal, _ state: inout State) {
    state.phase = .refusing(refusal)
    state.sink?.abort()
    state.sink = nil
    state.body = []
    core.releaseBody(state.reservedByteCount)
    state.reservedByteCount = 0
  }

  /// The request is complete, or was resumed.
  /// - Returns: false to close the connection.
  func proceed() -> Bool {
    enum Step {
      case start, queue(PreparedResponse), refuse(Refusal), close
    }
    let step: Step = state.withLock { state in
      switch state.phase {
      case .receiving: return .start
      case .refusing(let refusal): return .refuse(refusal)
      case .answered(let response):
        state.phase = .sending(response.feed)
        return .queue(response)
      case .holding, .starting, .working, .sending, .over: return .close
      }
    }
    switch step {
    case .start: return start()
    case .queue(let response): return queue(response)
    case .refuse(let reason): return queue(refusal(reason, closes: true))
    case .close: return false
    }
  }

  /// Lets the handler work, and suspends the connection unless its answer is there at once.
  private func start() -> Bool {
    link.bodyIsComplete()
    guard let (request, isHead) = takeRequest() else { return queue(refusal(Refusal(503, "The server is stopping."), closes: true)) }
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

  /// What has become of a request once its handler has begun.
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
      // Whoever stops the server has looked for suspended connections already.
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
    return response.queue(on: connection, closes: core.isDraining.load(ordering: .sequentiallyConsistent))
  }

  /// The request is over: answered, or its connection is lost.
  func complete() {
    let (phase, reserved, sink) = state.withLock { state in
      defer {
        state.phase = .over
        state.reservedByteCount = 0
        state.sink = nil
      }
      return (state.phase, state.reservedByteCount, state.sink)
    }
    sink?.abort()
    core.releaseBody(reserved)
    link.finish()
    switch phase {
    case .working(let task): task.cancel()
    case .answered(let response): response.discard()
    case .sending(let feed): feed?.close()
    case .receiving, .holding, .refusing, .starting, .over: break
    }
  }

  // MARK: On the handler's task

  private func work(_ request: HTTPRequest, isHead: Bool) async {
    let response = await core.handler.respond(to: request)
    answer(PreparedResponse(response, for: connection, core, isHead: isHead))
  }

  private func answer(_ response: PreparedResponse) {
    let isWanted = state.withLock { state in
      switch state.phase {
      case .working: MHD_resume_connection(connection.pointer)
      case .starting: break
      case .receiving, .holding, .refusing, .answered, .sending, .over: return false
      }
      state.phase = .answered(response)
      return true
    }
    if !isWanted { response.discard() }
  }

  private func refusal(_ refusal: Refusal, closes: Bool) -> PreparedResponse {
    PreparedResponse(core.handler.refusal(status: refusal.status, reason: refusal.reason), for: connection, core, closes: closes)
  }

  // MARK: From the watcher and from drain

  func hangUp() {
    let phase = state.withLock { state in
      state.hasHungUp = true
      return state.phase
    }
    switch phase {
    case .working(let task): task.cancel()
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
    case .receiving, .refusing: core.connections.shutDown(link)
    case .holding:
      core.connections.shutDown(link)
      resumeReading()
    case .starting, .answered, .over: break
    }
  }
}
