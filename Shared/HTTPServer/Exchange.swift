// One request and its answer: a small state machine between the library's thread, the handler's task, the watcher and drain.

internal import CMicroHTTPD
internal import Synchronization

final class Exchange: Sendable {
  private enum Phase {
    /// Reading the body.
    case receiving
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
    var head: Head?
    var body: [UInt8] = []
    /// What of the server-wide budget this request holds.
    var reservedByteCount = 0
    var droppedByteCount = 0
    var hasHungUp = false
    /// The server gave the request up before the handler's first part was over.
    var isAbandoned = false
  }

  /// What of a request is known before its body.
  private struct Head {
    /// A HEAD is answered as a GET whose body is left out.
    let method: HTTPMethod
    let isHead: Bool
    let target: String
    let parts: RequestTarget
    let headers: [(name: String, value: String)]
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
      guard let target else { throw Refusal(400, "The request target is not UTF-8.") }
      guard let method = HTTPMethod(rawValue: method) else { throw Refusal(501, "The method is not known here.") }
      let head = Head(method: method == .head ? .get : method, isHead: method == .head, target: target, parts: try RequestTarget(target), headers: headers)
      try admit(head, framing)
      return true
    } catch {
      _ = link.begin(self, bodyByteCount: nil)
      if expectsBody { link.setLingers() }
      return queue(refusal(error, closes: true))
    }
  }

  private func admit(_ head: Head, _ framing: HeaderPolicy.Framing) throws(Refusal) {
    var length = 0
    switch framing {
    case .none: break
    case .chunked: break
    case .length(let declared):
      guard declared <= UInt64(core.configuration.bodyByteLimit) else { throw tooLarge }
      length = Int(declared)
    }
    let bodyByteCount: UInt64? = framing == .none ? nil : length > 0 ? UInt64(length) : UInt64(core.configuration.bodyByteLimit)
    let hasHungUp = link.begin(self, bodyByteCount: bodyByteCount)
    state.withLock { state in
      state.head = head
      state.body.reserveCapacity(min(length, Self.expectedByteCount))
      state.hasHungUp = state.hasHungUp || hasHungUp
    }
  }

  private var tooLarge: Refusal { Refusal(413, "The request body has more than \(core.configuration.bodyByteLimit) bytes.") }

  /// A piece of body.
  /// - Returns: false to close the connection.
  func receive(_ piece: UnsafeRawBufferPointer) -> Bool {
    state.withLock { state in
      switch state.phase {
      case .receiving:
        let total = state.body.count + piece.count
        if total > core.configuration.bodyByteLimit {
          refuseRest(tooLarge, &state)
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
      case .starting, .working, .answered, .sending, .over: return false
      }
    }
  }

  private func refuseRest(_ refusal: Refusal, _ state: inout State) {
    state.phase = .refusing(refusal)
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
      case .starting, .working, .sending, .over: return .close
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
      let forwarding = core.configuration.forwarding(of: head.headers, from: link.remoteAddress)
      let request = HTTPRequest(
        method: head.method, target: head.target, pathSegments: head.parts.pathSegments, query: head.parts.query, headers: head.headers,
        body: state.body, remoteAddress: forwarding?.clientAddress ?? link.remoteAddress, forwardedOrigin: forwarding?.origin)
      state.head = nil
      state.body = []
      state.phase = .starting
      return (request, head.isHead)
    }
  }

  private func queue(_ response: PreparedResponse) -> Bool {
    response.queue(on: connection, closes: core.isDraining.load(ordering: .sequentiallyConsistent))
  }

  /// The request is over: answered, or its connection is lost.
  func complete() {
    let (phase, reserved) = state.withLock { state in
      defer {
        state.phase = .over
        state.reservedByteCount = 0
      }
      return (state.phase, state.reservedByteCount)
    }
    core.releaseBody(reserved)
    link.finish()
    switch phase {
    case .working(let task): task.cancel()
    case .answered(let response): response.discard()
    case .sending(let feed): feed?.close()
    case .receiving, .refusing, .starting, .over: break
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
      case .receiving, .refusing, .answered, .sending, .over: return false
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
    case .receiving, .refusing, .starting, .answered, .over: break
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
    case .starting, .answered, .over: break
    }
  }
}

/// Names in lower case, and the policy that has seen them all.
private func readHeaders(_ connection: ConnectionHandle) -> (headers: [(name: String, value: String)], policy: HeaderPolicy) {
  struct Reading {
    var headers: [(name: String, value: String)] = []
    var policy = HeaderPolicy()
  }
  var reading = Reading()
  reading.headers.reserveCapacity(16)
  withUnsafeMutablePointer(to: &reading) { pointer in
    _ = MHD_get_connection_values_n(
      connection.pointer, .HEADER_KIND,
      { context, _, name, nameByteCount, value, valueByteCount in
        guard let reading = context?.assumingMemoryBound(to: Reading.self), let name else { return .NO }
        let lowerCase = String(unsafeUninitializedCapacity: nameByteCount) { buffer in
          for index in 0..<nameByteCount {
            let byte = UInt8(bitPattern: name[index])
            buffer[index] = (0x41...0x5a).contains(byte) ? byte | 0x20 : byte
          }
          return nameByteCount
        }
        let bytes = UnsafeBufferPointer(start: UnsafeRawPointer(value)?.assumingMemoryBound(to: UInt8.self), count: value == nil ? 0 : valueByteCount)
        reading.pointee.policy.take(name: lowerCase, value: bytes)
        var end = bytes.count
        while end > 0, bytes[end - 1] == UInt8(ascii: " ") || bytes[end - 1] == UInt8(ascii: "\t") { end -= 1 }
        reading.pointee.headers.append((lowerCase, String(decoding: UnsafeBufferPointer(rebasing: bytes[..<end]), as: UTF8.self)))
        return .YES
      }, pointer)
  }
  return (reading.headers, reading.policy)
}
