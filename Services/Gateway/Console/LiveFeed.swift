// `/admin/1/live`: the processes' figures once a second, asked for once however many people look.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit

/// The latest sample. It asks the share service only while somebody looks.
actor LiveFeed {
  static let interval = Duration.seconds(1)
  private static let limit = Duration.seconds(3)
  /// The most streams at a time.
  static let streamLimit = 64

  private let share: ShareCalls
  private let timing: Timing
  private var latest: (sample: [UInt8], at: ContinuousClock.Instant)?
  private var asking: Task<[UInt8]?, Never>?
  private(set) var streamCount = 0

  init(share: ShareCalls, timing: Timing) {
    self.share = share
    self.timing = timing
  }

  /// - Returns: false when too many look already.
  func begin() -> Bool {
    guard streamCount < Self.streamLimit else { return false }
    streamCount += 1
    return true
  }

  func end() { streamCount -= 1 }

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
  /// `GET /admin/1/live`: an event `sample` a second, until the client goes, its credentials end or the gateway stops.
  func live(_ exchange: IncomingRequest, _ caller: Caller) async throws(RecordError) -> HTTPResponse {
    guard caller.member?.role == .operator else {
      throw RecordError(.accessDenied, "Only operators make this call; developers make calls on one container")
    }
    guard await live.begin() else { throw RecordError(.throttled, "Too many people look already", retryAfter: 10) }
    let stream = LiveStream(gateway: self, exchange: exchange.withoutPlace)
    return HTTPResponse(
      status: 200,
      headers: [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no")],
      body: .stream(AsyncStream(unfolding: { await stream.next() }, onCancel: { Task { await stream.end() } })))
  }
}

/// One client's stream.
private actor LiveStream {
  private let gateway: Gateway
  private var exchange: IncomingRequest
  private var hasBegun = false
  private var hasEnded = false

  init(gateway: Gateway, exchange: IncomingRequest) {
    self.gateway = gateway
    self.exchange = exchange
  }

  func next() async -> [UInt8]? {
    if hasEnded { return nil }
    if hasBegun {
      // Dropped because a cancelled sleep ends the stream below.
      try? await gateway.state.timing.sleep(LiveFeed.interval)
    }
    hasBegun = true
    guard !Task.isCancelled, await !gateway.state.waiters.isClosed, await holds() else {
      await end()
      return nil
    }
    guard let sample = await gateway.live.sample() else { return EventStreamText.heartbeat }
    return Array("event: sample\ndata: ".utf8) + sample + Array("\n\n".utf8)
  }

  func end() async {
    guard !hasEnded else { return }
    hasEnded = true
    await gateway.live.end()
  }

  /// True while the client's credentials hold, and while the share service can't say.
  private func holds() async -> Bool {
    guard let question = exchange.authentication?.question else { return false }
    var asked = exchange
    do throws(RecordError) {
      try await gateway.check(question, exchange.credentials, .operatorToken, &asked)
      return true
    } catch {
      return error.code == .tryAgainLater
    }
  }
}
