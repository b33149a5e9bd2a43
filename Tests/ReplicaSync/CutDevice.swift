// A device whose network cuts its connections at a byte.

import CuttingProxy
import Foundation
import ReplicaSync
import ReplicaWorld
import Synchronization

/// Sends requests for one address to another; contents have addresses of the gateway's own.
final class DetouredTransport: Transport {
  private let from: String
  private let to: String
  private let inner = CurlTransport()
  private let kept = Mutex<[(request: TransportRequest, status: Int)]>([])

  init(from: String, to: String) {
    self.from = from
    self.to = to
  }

  /// Requests that were answered, but those for contents that come, with the answers' status.
  var answered: [(request: TransportRequest, status: Int)] { kept.withLock { $0 } }

  private func detoured(_ request: TransportRequest) -> TransportRequest {
    var request = request
    if request.url.hasPrefix(from) { request.url = to + request.url.dropFirst(from.count) }
    return request
  }

  func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
    let answer = try await inner.send(detoured(request))
    kept.withLock { $0.append((request, answer.status)) }
    return answer
  }

  func stream(_ request: TransportRequest, silence: Duration) async throws(TransportError) -> TransportStream {
    try await inner.stream(detoured(request), silence: silence)
  }
}

/// A store of a user's, all of whose requests pass the proxy.
struct CutDevice {
  let replica: StoredReplica
  let proxy: CuttingProxy
  let transport: DetouredTransport
  let mirroring: Mirroring
  let loop: SyncLoop

  /// The device of a store that the server does not know yet, and that has a lease once it does.
  init(_ user: User, scope: String = "private") async throws {
    let server = user.server
    replica = try await StoredReplica(
      "\(server.folder.path)/\(UUID().uuidString)", modelHash: server.modelHash, isShared: scope == "shared")
    proxy = try CuttingProxy(to: server.gateway)
    transport = DetouredTransport(from: server.gateway, to: proxy.address)
    mirroring = Mirroring(
      account: user.account(gateway: proxy.address, hasPings: false), container: Server.container,
      environment: "development", transport: transport, surroundings: .quick)
    loop = try await mirroring.add(replica.replica, scope: scope, options: MirrorOptions())
  }

  var sharing: Sharing { Sharing(loop, surroundings: .quick, syncLimit: .seconds(6000)) }

  func sync() async throws {
    try await mirroring.start()
    try await loop.syncNow(timeout: .seconds(6000))
  }

  /// Each place of the requests' bytes, then of the answers'.
  static func cuts(to byteCount: Int, by step: Int) -> [CuttingProxy.Cut] {
    let places = stride(from: 1, to: byteCount, by: step)
    return places.map { .init(requestByteCount: $0) } + places.map { .init(answerByteCount: $0) }
  }

  /// Runs a call while its connections are cut once.
  func cutting<Value: Sendable>(_ cut: CuttingProxy.Cut, _ call: @escaping @Sendable () async throws -> Value)
    async throws -> Value
  {
    proxy.set(cut)
    let running = Task { try await call() }
    try await waitForCut(cut)
    proxy.set(.init())
    return try await running.value
  }

  /// A cut that lies behind the last byte never comes.
  private func waitForCut(_ cut: CuttingProxy.Cut) async throws {
    for _ in 0..<20 {
      let passed = proxy.passedByteCounts
      if passed.request >= cut.requestByteCount ?? .max || passed.answer >= cut.answerByteCount ?? .max { return }
      try await Task.sleep(for: .milliseconds(1))
    }
  }
}
