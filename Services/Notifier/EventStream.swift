// A device's event stream: a body that the HTTP server pulls, so that a slow reader costs one map of zones and no more.

import Authentication
import HTTPServer
import ServiceKit
import Synchronization

final class EventStream: HTTPBodySource, PingReceiver {
  private struct State {
    var pending = PendingPings()
    var isGreeted = false
    var isHeartbeatDue = false
    var hasEnded = false
    var wake: (@Sendable () -> Void)?
  }

  /// The stream's credentials, checked again when the directory changes.
  let question: Authenticator.Question
  private let metrics: NotifierMetrics
  private let onDetach: @Sendable (EventStream) -> Void
  private let state = Mutex(State())

  /// The most pings in one piece.
  private static let pingsPerPiece = 64
  private static let greeting = Array(": connected\n\n".utf8)
  private static let heartbeat = Array(": \n\n".utf8)

  init(question: Authenticator.Question, metrics: NotifierMetrics, onDetach: @escaping @Sendable (EventStream) -> Void)
  {
    self.question = question
    self.metrics = metrics
    self.onDetach = onDetach
  }

  func put(_ ping: Ping) {
    let outcome = change { $0.pending.put(ping) }
    metrics.count(outcome)
  }

  /// Sends a heartbeat, so that proxies and clients see that the connection lives.
  func beat() { change { $0.isHeartbeatDue = true } }

  func end() { change { $0.hasEnded = true } }

  @discardableResult private func change<Result>(_ body: (inout State) -> Result) -> Result {
    let (result, wake) = state.withLock { state in (body(&state), state.wake) }
    wake?()
    return result
  }

  func attach(wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }

  func next() -> HTTPBodyPiece {
    let (piece, pings): (HTTPBodyPiece?, [Ping]) = state.withLock { state in
      if !state.isGreeted {
        state.isGreeted = true
        return (.bytes(Self.greeting), [])
      }
      if state.hasEnded { return (.end, []) }
      if !state.pending.isEmpty {
        state.isHeartbeatDue = false
        return (nil, state.pending.take(Self.pingsPerPiece))
      }
      if state.isHeartbeatDue {
        state.isHeartbeatDue = false
        return (.bytes(Self.heartbeat), [])
      }
      return (.nothingYet, [])
    }
    if let piece { return piece }
    metrics.sent["events"].increment(by: pings.count)
    return .bytes(Self.events(pings))
  }

  func detach() {
    state.withLock { $0.wake = nil }
    onDetach(self)
  }

  private static func events(_ pings: [Ping]) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(pings.reduce(0) { $0 + $1.json.count + 8 })
    for ping in pings {
      bytes.append(contentsOf: "data: ".utf8)
      bytes.append(contentsOf: ping.json)
      bytes.append(contentsOf: "\n\n".utf8)
    }
    return bytes
  }
}
