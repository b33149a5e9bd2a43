// A device of a test: a replica, and the loop that mirrors it.

import Foundation
import MirrorWire
import ReplicaStore
package import ReplicaSync

/// A device whose process can be killed: its file goes on with another loop.
package final class Device {
  package let user: User
  package let scope: String
  private let transport: any Transport
  private let options: MirrorOptions
  private let hasPings: Bool
  package private(set) var replica: any JournalReplica
  package private(set) var mirroring: Mirroring
  package private(set) var loop: SyncLoop

  /// - Parameters:
  ///   - replica: nil: a naive one.
  ///   - scope: `private` or `shared`.
  package init(
    _ user: User, scope: String = "private", replica given: (any JournalReplica)? = nil,
    transport: any Transport = CurlTransport(), pageLimit: Int = 1000, hasPings: Bool = false, lease: Int? = nil,
    zonePolicy: [String: String]? = nil
  ) async throws {
    self.user = user
    self.scope = scope
    self.transport = transport
    self.hasPings = hasPings
    var options = MirrorOptions()
    options.pageLimit = pageLimit
    options.lease = lease
    options.zonePolicy = zonePolicy
    self.options = options
    replica = given ?? NaiveReplica(NaiveFile(storeIdentifier: UUID().uuidString, modelHash: user.server.modelHash))
    mirroring = Self.mirroring(user, transport, hasPings)
    loop = try await mirroring.add(replica.store, scope: scope, options: options)
  }

  private static func mirroring(_ user: User, _ transport: any Transport, _ hasPings: Bool) -> Mirroring {
    Mirroring(
      account: user.account(hasPings: hasPings), container: Server.container, environment: "development",
      transport: transport, surroundings: .quick)
  }

  /// The process ends without a word, and another one goes on with the file.
  package func restart() async throws {
    await mirroring.stop()
    replica = try await replica.reopened()
    mirroring = Self.mirroring(user, transport, hasPings)
    loop = try await mirroring.add(replica.store, scope: scope, options: options)
  }

  /// Waits until all is sent and imported, however long that takes on a busy machine.
  /// - Throws: what keeps the device from that, after a minute in which nothing was sent or imported.
  package func sync() async throws {
    try await mirroring.start()
    while true {
      let before = try await progress()
      do {
        return try await loop.syncNow(timeout: .seconds(6000))
      } catch {
        if try await progress() == before { throw error }
      }
    }
  }

  /// What the device asked of the server at ends of zones.
  var zonePolicy: [String: String]? { options.zonePolicy }

  /// Has the server try again what it holds back of the device's saves, and waits until it has.
  func retryHeld() async throws {
    let before = try await held()
    if before.isEmpty { return }
    _ = try await ask("POST", "/quarantine/retry")
    for _ in 0..<6000 {
      let now = try await held()
      if now.allSatisfy({ name, attempts in attempts > before[name] ?? 0 }) { return }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("the server does not try again what it holds back")
  }

  /// How often the server has tried the saves that it holds back, by object.
  private func held() async throws -> [String: Int] {
    struct Answer: Decodable {
      struct Row: Decodable {
        let objectID: String
        let attempts: Int
      }
      let quarantined: [Row]
    }
    let answer = try JSONDecoder().decode(Answer.self, from: try await ask("GET", "/quarantine"))
    return Dictionary(answer.quarantined.map { ($0.objectID, $0.attempts) }, uniquingKeysWith: max)
  }

  private func ask(_ method: String, _ path: String) async throws -> Data {
    let identifier = try await replica.store.position().storeIdentifier
    let stores = "\(user.server.gateway)/mirror/1/\(Server.container)/development/\(scope)/stores"
    let answer = try await user.server.transport.send(
      TransportRequest(
        method, "\(stores)/\(identifier)\(path)",
        headers: [("Authorization", "Bearer \(user.token)"), ("Content-Type", "application/json")],
        body: method == "POST" ? Array("{}".utf8) : nil))
    guard answer.status == 200 else {
      throw Unexpected("\(answer.status): \(String(decoding: answer.body, as: UTF8.self))")
    }
    return Data(answer.body)
  }

  private struct Progress: Equatable {
    let position: MirrorPosition
    let figures: MirrorFigures
  }

  private func progress() async throws -> Progress {
    Progress(position: try await replica.store.position(), figures: try await replica.store.figures())
  }

  package func shown() async throws -> [String] { try await replica.shown() }
}

extension Surroundings {
  /// Waits a hundredth of the time, so that retries do not slow tests down.
  package static let quick = Surroundings(
    now: { Date.now }, makeUUID: { .random() }, sleep: { try await Task.sleep(for: $0 / 100) },
    log: { _, line in if isLogged { print(Date.now.timeIntervalSince1970, line) } })

  private static let isLogged = ProcessInfo.processInfo.environment["AQUIFER_TEST_LOG"] != nil
}
