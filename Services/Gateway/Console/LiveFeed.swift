// `/admin/1/live`: the processes' figures once a second, asked for once however many people look.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// The latest sample. It asks the share service only while somebody looks.
actor LiveFeed {
  static let interval = Duration.seconds(1)
  private static let limit = Duration.seconds(3)
  /// The most streams at a time.
  static let streamLimit = 64
  /// The most of developers together: operators find a place whatever those do.
  static let developerStreamLimit = 32

  private struct Streams {
    var count = 0
    var ofDevelopers = 0
  }

  private let share: ShareCalls
  private let timing: Timing
  private var latest: (sample: [UInt8], at: ContinuousClock.Instant)?
  private var asking: Task<[UInt8]?, Never>?
  private let streams = Mutex(Streams())

  init(share: ShareCalls, timing: Timing) {
    self.share = share
    self.timing = timing
  }

  /// A place among the streams; nil when too many look already.
  nonisolated func place(for member: StaffMember?) -> RequestPlaces.Place? {
    let share = member?.role == .operator ? 0 : 1
    let isTaken = streams.withLock { streams in
      guard streams.count < Self.streamLimit, share == 0 || streams.ofDevelopers < Self.developerStreamLimit else {
        return false
      }
      streams.count += 1
      streams.ofDevelopers += share
      return true
    }
    guard isTaken else { return nil }
    return RequestPlaces.Place { [self] in
      streams.withLock { streams in
        streams.count -= 1
        streams.ofDevelopers -= share
      }
    }
  }

  /// A sample that is younger than an interval; nil while the share service does not answer.
  func sample() async -> [UInt8]? {
    if let latest, timing.now() - latest.at < Self.interval * 0.9 { return latest.sample }
    if let asking { return await asking.value }
    let task = Task { [share] () -> [UInt8]? in
      let question = OperatorRequest(method: "GET", path: ["admin", "1", "sample"], query: [:], member: .tokenHolder)
      // Dropped because the stream goes on without a sample, and the next second asks again.
      guard let answer = try? await share.call(question, body: [], within: Self.limit), answer.reply.status == 200
      else {
        return nil
      }
      return answer.body
    }
    asking = task
    let sample = await task.value
    asking = nil
    latest = sample.map { ($0, timing.now()) }
    return sample
  }
}

extension Gateway {
  /// `GET /admin/1/live`: an event `sample` a second, until the client goes, its credentials or its role end, or the
  /// gateway stops.
  func live(_ exchange: IncomingRequest, _ caller: Caller) async throws(RecordError) -> HTTPResponse {
    try Self.expectOperator(caller)
    return try stream(exchange, of: caller, each: LiveFeed.interval) { [live] caller async throws(RecordError) in
      try Self.expectOperator(caller)
      return await live.sample().map { EventStreamText.event("sample", $0) }
    }
  }

  private static func expectOperator(_ caller: Caller) throws(RecordError) {
    guard caller.member?.role == .operator else {
      throw RecordError(.accessDenied, "Only operators make this call; developers make calls on one container")
    }
  }

  /// - Parameters:
  ///   - pause: the time between two pieces.
  ///   - piece: the next piece for the caller as they are then; nil: nothing is to be told. What it throws ends the
  ///     stream, except `tryAgainLater`.
  func stream(
    _ exchange: IncomingRequest, of caller: Caller, each pause: Duration,
    _ piece: @escaping @Sendable (Caller) async throws(RecordError) -> [UInt8]?
  ) throws(RecordError) -> HTTPResponse {
    guard let place = live.place(for: caller.member) else {
      throw RecordError(.throttled, "Too many people look already", retryAfter: 10)
    }
    let stream = LiveStream(gateway: self, exchange: exchange.withoutPlace, place: place, pause: pause, piece: piece)
    return HTTPResponse(
      status: 200,
      headers: [
        ("Content-Type", EventStreamText.contentType), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"),
      ],
      body: .stream(AsyncStream(unfolding: { await stream.next() }, onCancel: { Task { await stream.end() } })))
  }
}

/// One client's stream.
private actor LiveStream {
  private let gateway: Gateway
  private let exchange: IncomingRequest
  /// Also given back by a stream that nobody reads. nil: the stream has ended.
  private var place: RequestPlaces.Place?
  private let pause: Duration
  private let piece: @Sendable (Caller) async throws(RecordError) -> [UInt8]?
  private var hasBegun = false

  init(
    gateway: Gateway, exchange: IncomingRequest, place: RequestPlaces.Place, pause: Duration,
    piece: @escaping @Sendable (Caller) async throws(RecordError) -> [UInt8]?
  ) {
    self.gateway = gateway
    self.exchange = exchange
    self.place = place
    self.pause = pause
    self.piece = piece
  }

  func next() async -> [UInt8]? {
    if place == nil { return nil }
    if hasBegun {
      // Dropped because a cancelled sleep ends the stream below.
      try? await gateway.state.timing.sleep(pause)
    }
    hasBegun = true
    do throws(RecordError) {
      if !Task.isCancelled, await !gateway.state.waiters.isClosed, let caller = try await presentCaller() {
        return try await piece(caller) ?? EventStreamText.heartbeat
      }
    } catch {
      // While the share service can't say who the caller is, the stream goes on and tells nothing.
      if error.code == .tryAgainLater { return EventStreamText.heartbeat }
    }
    end()
    return nil
  }

  func end() { place = nil }

  /// The caller as the share service knows them now.
  private func presentCaller() async throws(RecordError) -> Caller? {
    guard let question = exchange.authentication?.question else { return nil }
    var asked = exchange
    return try await gateway.check(question, exchange.credentials, .operatorToken, &asked)
  }
}
