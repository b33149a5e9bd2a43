// A complete notifier on loopback; tests play the share service and a worker on an in-memory bus.

import Glibc
import HTTPClient
import InMemoryServiceBus
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Notifier

/// The push services and registrations of the tests' share service.
final class PushBook: Sendable {
  static let incarnation = "book"

  private let state = Mutex<
    (services: [PushServiceEntry], rows: [PushRegistration], ended: [EndPushRegistrations.Registration])
  >(
    ([PushServiceEntry(name: "servers", container: nil, kind: .webhook)], [], []))

  /// Registrations that the notifier has ended.
  var ended: [EndPushRegistrations.Registration] { state.withLock { $0.ended } }
  var services: [PushServiceEntry] { state.withLock { $0.services } }

  func removeServices() { state.withLock { $0.services = [] } }

  /// A user's server, whose device is its name.
  @discardableResult func add(
    _ user: String, _ url: String, device: String = "server", hearsEveryZone: Bool = true
  ) throws -> PushRegistration {
    let container = try #require(ContainerID(rawValue: "iCloud.a"))
    return state.withLock { state in
      let number = Int64(state.rows.count + 1)
      let row = PushRegistration(
        id: number, revision: number,
        device: RegisterForPush.Device(
          container: container, environment: .development, userRecordName: user, clientID: device,
          grant: "token-" + user),
        address: .webhook(url: url, secret: "a secret of sixteen"), hearsEveryZone: hearsEveryZone)
      state.rows.append(row)
      return row
    }
  }

  func page(after revision: Int64) -> FetchPushRegistrations.Reply {
    state.withLock { state in
      let last = state.rows.last?.revision ?? 0
      return FetchPushRegistrations.Reply(
        registrations: state.rows.filter { $0.revision > (revision > last ? 0 : revision) }, ended: [], revision: last,
        isFromStart: revision > last, isLast: true, incarnation: Self.incarnation)
    }
  }

  /// Begins with other registrations, as a directory from an earlier backup does.
  func removeRegistrations() { state.withLock { $0.rows = [] } }

  func end(_ message: EndPushRegistrations) {
    #expect(message.incarnation == Self.incarnation)
    state.withLock { $0.ended += message.registrations }
  }
}

/// The tests' share service; user tokens are `token-<user>`.
final class Directory: Sendable {
  private let state = Mutex<(revoked: Set<String>, asked: Int, origins: [String], lifetimeSeconds: Int)>(
    ([], 0, [], 60))
  /// Questions about credentials wait for it; nil: they don't wait.
  private let obstacle = Mutex<AsyncStream<Never>?>(nil)

  func revoke(_ token: String) { state.withLock { _ = $0.revoked.insert(token) } }
  func forgetAtOnce() { state.withLock { $0.lifetimeSeconds = 0 } }
  func allowOnly(_ origin: String) { state.withLock { $0.origins = [origin] } }
  func hold(until stream: AsyncStream<Never>) { obstacle.withLock { $0 = stream } }
  func pass() async { if let stream = obstacle.withLock({ $0 }) { for await _ in stream {} } }
  func knows(_ user: String) -> Bool { state.withLock { !$0.revoked.contains("token-\(user)") } }
  var askedCount: Int { state.withLock { $0.asked } }

  func answer(_ question: Authenticate) -> Authenticate.Reply {
    state.withLock { state in
      state.asked += 1
      if question.container?.rawValue == "iCloud.gone" { return .init(refusal: .container) }
      if let token = question.apiToken, token != "api" { return .init(refusal: .apiToken) }
      guard let token = question.userToken else { return .init() }
      guard token.hasPrefix("token-"), !state.revoked.contains(token) else { return .init(refusal: .userToken) }
      return .init(
        userRecordName: String(token.dropFirst(6)), allowedOrigins: state.origins,
        lifetimeSeconds: state.lifetimeSeconds)
    }
  }
}

final class NotifierWorld: Sendable {
  static let key = [UInt8](repeating: 9, count: 32)

  let directory = Directory()
  let pushes = PushBook()
  let running: RunningService
  let url: String
  let client = HTTPClient()
  let share: InMemoryBus
  private let worker: InMemoryBus
  private let network: InMemoryNetwork

  init(
    _ arguments: [String] = [], hasShare: Bool = true,
    adjust: @escaping @Sendable (inout Notifier.Limits) -> Void = { _ in }
  ) async throws {
    let network = InMemoryNetwork(time: .stepped)
    self.network = network
    var handlers = BusHandlers()
    let directory = directory
    handlers.on(Authenticate.self) { message, _, _ in
      let reply = directory.answer(message)
      await directory.pass()
      return Answer(reply)
    }
    handlers.on(VerifyGrant.self) { message, _, _ in
      Answer(
        VerifyGrant.Reply(
          holds: message.grant == "token-" + message.userRecordName && directory.knows(message.userRecordName)))
    }
    let pushes = pushes
    handlers.on(FetchPushServices.self) { _, _, _ in Answer(FetchPushServices.Reply(services: pushes.services)) }
    handlers.on(FetchPushRegistrations.self) { message, _, _ in Answer(pushes.page(after: message.after)) }
    handlers.on(EndPushRegistrations.self) { message, _, _ in
      pushes.end(message)
      return Answer(Acknowledgement())
    }
    handlers.on(FetchSecrets.self) { _, _, _ in Answer(FetchSecrets.Reply(signingKey: Self.key)) }
    share = InMemoryBus(
      name: "share-1", role: .share, network: network, handlers: handlers, endpoint: "ipc:///nowhere/share.sock",
      isReady: true)
    running = try await ServiceProcess(role: .notifier, summary: "A test.", options: Notifier.options) {
      context, handlers in
      let notifier = Notifier(context, adjust: adjust)
      notifier.register(in: &handlers)
      return { bus in try await notifier.start(on: bus, context) }
    }.start(
      arguments: ["--http=127.0.0.1:0", "--share=\(hasShare ? share.endpoint : "ipc:///nowhere/nobody.sock")"]
        + arguments, environment: { _ in nil },
      makeBus: { name, role, _, adminURL, handlers, configuration in
        let bus = InMemoryBus(
          name: name, role: role, network: network, handlers: handlers, adminURL: adminURL, configuration: configuration
        )
        return ServiceProcess.MadeBus(bus: bus, endpoint: bus.endpoint) { await bus.statistics() }
      }, log: .silent)
    url = try #require(running.service.addresses["http"])
    worker = InMemoryBus(name: "worker-1", role: .worker, network: network, handlers: BusHandlers(), isReady: true)
    worker.connect(to: running.endpoint)
    await worker.waitForPeers { !$0.isEmpty }
    if hasShare { await running.bus.waitForPeers { $0.contains { $0.role == .share } } }
  }

  func stop() async { await running.stop(within: .seconds(5)) }

  func push(
    owner: String, zone: String = "Z", sequence: Int64 = 1, origin: String? = nil, audience: [String]? = nil,
    container: String = "iCloud.a",
    environment: Environment = .development
  ) async throws {
    let change = ZoneChange(
      database: DatabaseID(
        container: try #require(ContainerID(rawValue: container)), environment: environment, owner: owner),
      zoneName: zone,
      sequence: sequence, syncToken: "t\(sequence)", originStore: origin, audience: audience ?? [owner])
    try await push([change])
  }

  func push(_ changes: [ZoneChange]) async throws {
    _ = try await worker.call(PushZoneChanges(changes: changes), to: .role(.notifier), within: .seconds(20))
  }

  /// Sends a message as a worker, a gateway or another notifier.
  /// The body of the answer to a question of the share service's.
  func ask<M: Message>(_ message: M) async throws -> [UInt8] {
    let sender = join("share-asker", .share, BusHandlers())
    defer { sender.close() }
    await sender.waitForPeers { !$0.isEmpty }
    return try await sender.call(message, body: [], to: .peer(running.bus.own.name), within: .seconds(20)).body
  }

  @discardableResult func tell<M: Message>(_ message: M) async throws -> M.Reply {
    guard !M.senders.contains(.worker), let role = M.senders.first else {
      return try await worker.call(message, to: .role(.notifier), within: .seconds(20))
    }
    let sender = join("\(role.rawValue)-teller", role, BusHandlers())
    defer { sender.close() }
    await sender.waitForPeers { !$0.isEmpty }
    return try await sender.call(message, to: .peer(running.bus.own.name), within: .seconds(20))
  }

  /// Connects another process to the notifier.
  func join(_ name: String, _ role: Role, _ handlers: BusHandlers) -> InMemoryBus {
    let bus = InMemoryBus(name: name, role: role, network: network, handlers: handlers, isReady: true)
    bus.connect(to: running.endpoint)
    return bus
  }

  func announceCredentials() async throws {
    _ = try await share.call(
      DirectoryChanged(credentials: true, schemas: []), to: .role(.notifier), within: .seconds(20))
  }

  func pingsURL(
    _ user: String, container: String = "iCloud.a", environment: String = "development", devices: [String] = []
  ) -> String {
    "\(url)/mirror/1/\(container)/\(environment)/pings?ckAPIToken=api&ckWebAuthToken=token-\(user)"
      + devices.map { "&device=\($0)" }.joined()
  }

  /// A connected device whose first comment has been read.
  func listen(
    _ user: String, container: String = "iCloud.a", environment: String = "development", devices: [String] = []
  ) async throws -> Events {
    let events = Events(
      try await client.stream(pingsURL(user, container: container, environment: environment, devices: devices)))
    #expect(try await events.next() == ": connected")
    return events
  }

  func courierURL(_ user: String, clientID: String = "client", expiry: Int64 = .max) throws -> String {
    let container = try #require(ContainerID(rawValue: "iCloud.a"))
    let token = CourierToken(
      container: container, environment: .development, userRecordName: user, clientID: clientID, grant: "token-" + user,
      expiry: expiry)
    return "\(url)/courier/1/\(token.text(signedWith: Self.key))"
  }

  func metric(_ line: String) async throws -> Int? {
    let text = try await client.send("GET", running.adminURL + "/metrics").body
    return String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix(line + " ") }.flatMap {
      Int($0.dropFirst(line.count + 1))
    }
  }

  /// Polls in real time until another thread has done its work.
  func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
    for _ in 0..<2000 {
      if try await condition() { return true }
      try await Task.sleep(for: .milliseconds(5))
    }
    return false
  }
}

/// Reads an event stream event by event.
actor Events {
  let head: HTTPClient.Head
  private var iterator: AsyncThrowingStream<[UInt8], any Error>.Iterator
  private var bytes: [UInt8] = []

  init(_ stream: HTTPClient.Stream) {
    head = stream.head
    iterator = stream.chunks.makeAsyncIterator()
  }

  /// The next event or comment; nil at the end.
  func next() async throws -> String? {
    while true {
      if let end = zip(bytes, bytes.dropFirst()).enumerated().first(where: { $1 == (10, 10) })?.offset {
        defer { bytes.removeFirst(end + 2) }
        return String(decoding: bytes[..<end], as: UTF8.self)
      }
      var current = iterator
      guard let chunk = try await current.next(isolation: self) else { return nil }
      iterator = current
      bytes += chunk
    }
  }

  /// `met` of the next ping, as `dbs zid zoid tok`; comments are skipped.
  func ping() async throws -> String? {
    while let event = try await next() {
      guard event.hasPrefix("data: ") else { continue }
      return try summary(Array(event.dropFirst(6).utf8))
    }
    return nil
  }
}

/// `met` of a ping, as `dbs zid zoid tok`.
func summary(_ json: [UInt8]) throws -> String {
  let ck = try #require(try JSONValue(parsing: json)["ck"])
  let met = try #require(ck["met"])
  #expect(ck["ce"]?.int64 == 2)
  return
    "\(met["dbs"]?.int64 ?? -1) \(met["zid"]?.string ?? "") \(met["zoid"]?.string ?? "") \(met["tok"]?.string ?? "")"
}
