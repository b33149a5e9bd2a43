// A transport that loses and delays requests and answers when a test says so.

import ReplicaSync
import Synchronization

struct FaultyTransport: Transport {
  enum Fault: Sendable { case none, losesRequest, losesAnswer }

  let inner: any Transport
  /// What happens to the next request.
  let next: @Sendable (TransportRequest) -> Fault
  /// What happens at the device after the server answered, before the answer arrives.
  var meanwhile: @Sendable () async -> Void = {}
  var watch = RequestWatch()

  func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
    watch.enter(request)
    defer { watch.leave(request) }
    switch next(request) {
    case .none:
      let answer = try await inner.send(request)
      await meanwhile()
      return answer
    case .losesRequest: throw TransportError(.unreachable, "a test lost the request")
    case .losesAnswer:
      _ = try await inner.send(request)
      throw TransportError(.lost, "a test lost the answer")
    }
  }

  func stream(_ request: TransportRequest, silence: Duration) async throws(TransportError) -> TransportStream {
    try await inner.stream(request, silence: silence)
  }
}

/// Counts the requests of each store that are under way.
final class RequestWatch: Sendable {
  private let counts = Mutex<(now: [Substring: Int], most: Int)>(([:], 0))

  /// The most requests of one store at a time.
  var most: Int { counts.withLock { $0.most } }

  private static func store(_ request: TransportRequest) -> Substring? {
    request.url.firstRange(of: "/stores/").map { request.url[$0.upperBound...].prefix { $0 != "/" && $0 != "?" } }
  }

  func enter(_ request: TransportRequest) {
    guard let store = Self.store(request) else { return }
    counts.withLock { counts in
      counts.now[store, default: 0] += 1
      counts.most = max(counts.most, counts.now[store] ?? 0)
    }
  }

  func leave(_ request: TransportRequest) {
    guard let store = Self.store(request) else { return }
    counts.withLock { $0.now[store, default: 0] -= 1 }
  }
}

/// Numbers of a seed, from any thread.
final class Chance: Sendable {
  private let state: Mutex<UInt64>

  init(_ seed: UInt64) { state = Mutex(seed &* 0x9e37_79b9_7f4a_7c15 &+ 1) }

  /// 0..<limit.
  func number(_ limit: Int) -> Int {
    state.withLock { state in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state >> 33) % limit
    }
  }

  func pick<Element>(_ elements: [Element]) -> Element { elements[number(elements.count)] }
}
