// A request's body: whether to read it, where its bytes go, and how many there may be.

internal import CMicroHTTPD
internal import Synchronization

extension HTTPExchange {
  /// The most room that is reserved for a body before its first byte arrives.
  private static let expectedByteCount = 256 * 1024

  /// Decides about the body before it is read.
  /// - Returns: the answer, when the handler refuses the body.
  func admit(_ head: RequestHead, _ framing: HeaderPolicy.Framing) throws(Refusal) -> HTTPResponse? {
    var intake = HTTPBodyIntake.collect()
    if framing != .none || head.method == .post || head.method == .put {
      intake = core.handler.intake(of: head.request(body: [], sink: nil, on: link, core.configuration))
    }
    var length = 0
    if case .length(let declared) = framing { length = Int(clamping: declared) }
    switch intake {
    case .refuse(let answer):
      _ = link.begin(self, expectsBody: false)
      return answer
    case .collect(let limit, _):
      if length > limit ?? core.configuration.bodyByteLimit {
        throw Self.tooLarge(limit ?? core.configuration.bodyByteLimit)
      }
    case .ask: if length > core.configuration.bodyByteLimit { throw Self.tooLarge(core.configuration.bodyByteLimit) }
    case .stream(let sink):
      if length > sink.byteLimit {
        sink.abort()
        throw Self.tooLarge(sink.byteLimit)
      }
    }
    let hasHungUp = link.begin(self, expectsBody: framing != .none)
    state.withLock { state in
      state.head = head
      state.hasHungUp = state.hasHungUp || hasHungUp
      state.declaredByteCount = length
    }
    if case .ask(let question) = intake { ask(question) } else { state.withLock { take(intake, &$0) } }
    return nil
  }

  /// Suspends the connection until the handler has decided. The library then reports the headers once more, and the
  /// request can still be answered before its body.
  private func ask(_ question: @escaping @Sendable () async -> HTTPBodyIntake) {
    link.stopPace()
    state.withLock { state in
      // A server must not stop with a suspended connection.
      guard !core.isStopped.load(ordering: .sequentiallyConsistent) else {
        return refuseRest(core.handler.refusal(status: 503, reason: "The server is stopping."), &state)
      }
      MHD_suspend_connection(connection.pointer)
      state.phase = .asking(Task { self.decide(await question()) })
    }
  }

  /// Applies the handler's decision. The server passes `.collect()` to give the request up.
  func decide(_ intake: HTTPBodyIntake) {
    let isWanted = state.withLock { state in
      guard case .asking = state.phase else { return false }
      state.phase = .receiving
      state.isHeadDue = true
      link.startPace()
      take(intake, &state)
      MHD_resume_connection(connection.pointer)
      return true
    }
    if !isWanted, case .stream(let sink) = intake { sink.abort() }
  }

  private func take(_ intake: HTTPBodyIntake, _ state: inout State) {
    switch intake {
    case .collect(let limit, let party):
      state.byteLimit = min(limit ?? .max, core.configuration.bodyByteLimit)
      state.party = party
      if state.declaredByteCount > state.byteLimit { return refuseRest(tooLarge(state.byteLimit), &state) }
      state.body.reserveCapacity(min(state.declaredByteCount, Self.expectedByteCount))
    case .stream(let sink):
      state.sink = sink
      if state.declaredByteCount > sink.byteLimit { refuseRest(tooLarge(sink.byteLimit), &state) }
    case .refuse(let answer): refuseRest(answer, &state)
    case .ask: refuseRest(core.handler.refusal(status: 500, reason: "The request was asked about twice."), &state)
    }
  }

  private static func tooLarge(_ limit: Int) -> Refusal {
    Refusal(413, "The request body has more than \(limit) bytes.")
  }

  private func tooLarge(_ limit: Int) -> HTTPResponse {
    core.handler.refusal(status: 413, reason: Self.tooLarge(limit).reason)
  }

  /// Takes a piece of the body.
  /// - Returns: false to close the connection.
  func receive(_ piece: UnsafeRawBufferPointer) -> Bool {
    core.receivedByteCount.add(piece.count, ordering: .relaxed)
    link.received(piece.count)
    return state.withLock { state in
      state.isHeadDue = false
      switch state.phase {
      case .receiving:
        if let sink = state.sink { return hand(piece, to: sink, &state) }
        collect(piece, &state)
        return true
      case .refusing:
        // The library cannot answer before the end of the body. A peer that sends more than a whole body is cut off.
        state.droppedByteCount += piece.count
        return state.droppedByteCount <= core.configuration.bodyByteLimit
      case .asking, .holding, .starting, .working, .answered, .sending, .over: return false
      }
    }
  }

  private func collect(_ piece: UnsafeRawBufferPointer, _ state: inout State) {
    let total = state.body.count + piece.count
    guard total <= state.byteLimit else { return refuseRest(tooLarge(state.byteLimit), &state) }
    if total > state.reservedByteCount {
      // Only received bytes count. If declared lengths counted, a few connections could shut all others out by
      // announcing bodies.
      if let refusal = core.clients.takeBody(total - state.reservedByteCount, payers(state)) {
        core.configuration.observe(refusal, link.remoteAddress)
        return refuseRest(
          core.handler.refusal(
            status: refusal == .clientBodies ? 429 : 503, reason: "The server holds too many request bodies."), &state)
      }
      state.reservedByteCount = total
    }
    state.body.append(contentsOf: piece)
  }

  private func payers(_ state: State) -> [ClientBook.Payer] {
    [.network(network(state))] + (state.party.map { [.party($0)] } ?? [])
  }

  /// - Returns: false to close the connection.
  private func hand(_ piece: UnsafeRawBufferPointer, to sink: any HTTPBodySink, _ state: inout State) -> Bool {
    state.streamedByteCount += piece.count
    guard state.streamedByteCount <= sink.byteLimit else {
      refuseRest(tooLarge(sink.byteLimit), &state)
      return true
    }
    // Called within the lock, so that a `resume` that follows at once finds the connection suspended.
    if sink.receive(piece, resume: { [weak self] in self?.resumeReading() }) { return true }
    // A server must not stop with a suspended connection.
    guard !core.isStopped.load(ordering: .sequentiallyConsistent) else { return false }
    state.phase = .holding
    link.stopPace()
    MHD_suspend_connection(connection.pointer)
    return true
  }

  func resumeReading() {
    state.withLock { state in
      guard case .holding = state.phase else { return }
      state.phase = .receiving
      link.startPace()
      MHD_resume_connection(connection.pointer)
    }
  }

  private func refuseRest(_ answer: HTTPResponse, _ state: inout State) {
    state.phase = .refusing(answer)
    state.sink?.abort()
    state.sink = nil
    state.body = []
    giveBackBody(&state)
  }

  func giveBackBody(_ state: inout State) {
    core.clients.giveBackBody(state.reservedByteCount, payers(state))
    state.reservedByteCount = 0
  }
}
