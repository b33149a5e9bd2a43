// The notifier's HTTP side: event streams and the web courier. It stores nothing durable: lost pings lose no data.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization
import WebServices

/// Serves devices, and gives them the changes that workers push.
public final class Notifier: Sendable {
  /// Times and counts that bound the notifier's work.
  public struct Limits: Sendable {
    /// Time of a courier's poll before it is answered without a notification.
    public var courierHold = Duration.seconds(50)
    /// Time without a poll after which a courier is forgotten.
    public var courierIdle = Duration.seconds(600)
    /// Time between two heartbeats of a stream.
    public var heartbeat = Duration.seconds(25)
    /// Time after which streams' credentials are checked again even without a change of the directory: its message may
    /// be lost.
    public var recheck = Duration.seconds(60)
    /// Couriers of one user. Clients choose their names, and each courier is kept for the idle time.
    public var couriersPerUser = 256
    /// Event streams of one user at a time.
    public var streamsPerUser = 256
    /// Time for a question to the share service, including retries.
    public var directoryCall = Duration.seconds(5)
    /// Time between two rounds of due work; > 0.
    public var tick = Duration.milliseconds(500)

    public init() {}
  }

  struct State {
    var streams: [ObjectIdentifier: (stream: EventStream, id: PingBoard.ListenerID, user: String)] = [:]
    /// Includes streams that are being opened.
    var streamCounts: [String: Int] = [:]
    var couriers: [String: CourierEntry] = [:]
    var courierCounts: [String: Int] = [:]
    var isDraining = false
    var isRecheckDue = false
  }

  struct CourierEntry {
    let courier: Courier
    let id: PingBoard.ListenerID
    let token: CourierToken
    /// The grants by which the courier hears of containers other than its token's.
    var grants: [PingBoard.Scope: VerifyGrant] = [:]
    /// Containers that the courier heard of until the credentials ended.
    var lost: Set<PingBoard.Scope> = []
  }

  let metrics: NotifierMetrics
  let limits: Limits
  let timing: Timing
  let wallClock: any WallClock
  let random: any RandomSource
  let log: Log
  let switchboard: Switchboard
  let deliveries = DeliveryReports()
  let state = Mutex(State())
  let authenticator: Authenticator
  /// Set once the bus exists.
  private let directoryBox = Mutex<Directory?>(nil)

  /// The notifier's access to the share service.
  private struct Directory {
    let share: ShareCalls
    let secrets: Secrets
    /// The bus's executor.
    let executor: (any TaskExecutor)?
  }

  init(limits: Limits, metrics: Metrics, timing: Timing, wallClock: any WallClock, random: any RandomSource, log: Log) {
    self.limits = limits
    self.wallClock = wallClock
    self.metrics = NotifierMetrics(metrics)
    self.timing = timing
    self.random = random
    self.log = log
    switchboard = Switchboard(random: random)
    authenticator = Authenticator(timing: timing)
    metrics.recent.add { [weak self] in
      let (streams, couriers) = self?.counts ?? (0, 0)
      return [.value("listeners", Double(streams + couriers))]
    }
    metrics.collect("held_connections", "Connected devices, by kind.") { [weak self] in
      let (streams, couriers) = self?.counts ?? (0, 0)
      return [
        Metrics.Sample(Double(streams), labels: [("kind", "events")]),
        Metrics.Sample(Double(couriers), labels: [("kind", "courier")]),
      ]
    }
  }

  /// Open streams, and couriers polled now or within the idle time.
  var counts: (streams: Int, couriers: Int) { state.withLock { ($0.streams.count, $0.couriers.count) } }

  func attach(_ bus: any Bus) {
    let share = ShareCalls(bus: bus, timing: timing, limit: limits.directoryCall)
    directoryBox.withLock { $0 = Directory(share: share, secrets: Secrets(share: share), executor: bus.executor) }
  }

  /// The executor on which waiting requests resume: one thread answers a thousand of them without waking another for
  /// each.
  var executor: (any TaskExecutor)? { directoryBox.withLock { $0?.executor } }

  private func directory() throws(RecordError) -> Directory {
    guard let directory = directoryBox.withLock({ $0 }) else {
      throw RecordError(.tryAgainLater, "The notifier is starting.", retryAfter: 1)
    }
    return directory
  }

  /// The user of the credentials, with the origins that the API token allows.
  /// - Throws: `authenticationFailed`, `authenticationRequired`, `notFound`, `tryAgainLater`.
  func user(of question: Authenticator.Question) async throws(RecordError) -> (
    userRecordName: String, allowedOrigins: [String]
  ) {
    guard question.apiToken != nil || question.userToken != nil else {
      throw RecordError(.authenticationFailed, "The request has no credentials.")
    }
    let reply = try await authenticator.answer(to: question, from: try directory().share)
    switch reply.refusal {
    case .apiToken:
      throw RecordError(.authenticationFailed, "The API token is not valid for this container and environment.")
    case .userToken: throw RecordError(.authenticationRequired, "The web-auth token is no longer valid.")
    case .container: throw RecordError(.notFound, "The container does not exist.")
    case nil: break
    }
    guard let user = reply.userRecordName else {
      throw RecordError(.authenticationRequired, "Only signed-in users get pings.")
    }
    return (user, reply.allowedOrigins)
  }

  // MARK: From the bus

  func deliver(_ changes: [ZoneChange]) {
    metrics.changes.increment(by: changes.count)
    for change in changes {
      let count = switchboard.deliver(change)
      RequestTrace.$id.withValue(change.traceID) {
        log.debug(
          "ping",
          ["zone": .text(change.zoneName), "sequence": .integer(change.sequence), "devices": .integer(Int64(count))])
      }
    }
  }

  func deliver(_ notifications: [SubscriptionNotification]) {
    for notification in notifications {
      let count = switchboard.deliver(notification)
      metrics.count(count)
      log.debug(
        "notification",
        [
          "nid": .text(notification.notificationID), "subscription": .text(notification.subscriptionID),
          "user": .text(notification.userRecordName), "devices": .integer(Int64(count ?? -1)),
        ])
    }
  }

  /// Drops pings that another notifier has delivered.
  func forget(_ deliveries: [NotificationsDelivered.Delivery]) {
    for delivery in deliveries {
      state.withLock { $0.couriers[delivery.courier]?.courier }?.wasDelivered(delivery.key, through: delivery.sequence)
    }
  }

  /// Makes a courier's queue before its first poll, and registers it for another container and another client.
  /// - Returns: false when the user has as many couriers as allowed.
  /// - Throws: `BusError.refused` for a text that is no courier's token.
  func open(_ message: OpenCourier) async throws -> Bool {
    let now = timing.now()
    guard let token = try await token(of: message.courier) else {
      throw BusError(.refused, "no courier has this token")
    }
    do throws(RecordError) {
      var (courier, id) = try courier(message.courier, token, now)
      while !courier.touch(now: now) { (courier, id) = try self.courier(message.courier, token, now) }
      let scope = PingBoard.Scope(container: message.container, environment: message.environment)
      if let grant = message.grant, scope != PingBoard.Scope(container: token.container, environment: token.environment)
      {
        let grant = VerifyGrant(
          container: scope.container, environment: scope.environment, userRecordName: token.userRecordName, grant: grant
        )
        state.withLock { state in
          state.couriers[message.courier]?.grants[scope] = grant
          state.couriers[message.courier]?.lost.remove(scope)
          switchboard.extend(id, with: scope, device: message.clientID)
        }
      } else {
        switchboard.extend(id, with: scope, device: message.clientID)
      }
      return true
    } catch {
      return false
    }
  }

  func credentialsChanged() { state.withLock { $0.isRecheckDue = true } }

  // MARK: Devices

  /// `GET /mirror/1/{container}/{environment}/pings`
  func openStream(_ request: HTTPRequest, container: String, environment: String) async throws(RecordError)
    -> HTTPResponse
  {
    guard let container = ContainerID(rawValue: container) else {
      throw RecordError(.badRequest, "The container's identifier is malformed.")
    }
    guard let environment = Environment(rawValue: environment) else {
      throw RecordError(.badRequest, "The environment is neither development nor production.")
    }
    let devices = try Self.devices(of: request)
    let question = Authenticator.Question(request, container, environment)
    let (user, origins) = try await user(of: question)
    let origin = request.header("origin")
    guard CORS.allows(origin, allowed: origins) else {
      throw RecordError(.authenticationFailed, "The API token does not allow the page's origin.")
    }
    try state.withLock { state throws(RecordError) in
      let count = state.streamCounts[user, default: 0]
      guard count < limits.streamsPerUser else {
        throw RecordError(.throttled, "The user has \(count) event streams; close one first.", retryAfter: 60)
      }
      state.streamCounts[user] = count + 1
    }
    let stream = EventStream(question: question, metrics: metrics) { [weak self] in self?.closed($0) }
    // Connected before the first byte is sent, so that a client that has read that byte misses no later change.
    let scope = PingBoard.Scope(container: container, environment: environment)
    let id = switchboard.connect(PingBoard.Listener(scope: scope, userRecordName: user, devices: devices), stream)
    let isDraining = state.withLock { state in
      state.streams[ObjectIdentifier(stream)] = (stream, id, user)
      return state.isDraining
    }
    if isDraining { stream.end() }
    return HTTPResponse(
      status: 200,
      headers: [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no")]
        + CORS.headers(origin: origin, allowed: origins),
      body: .source(stream))
  }

  /// The stores whose own changes a stream is not told of: an app has one for each of its databases.
  private static func devices(of request: HTTPRequest) throws(RecordError) -> [String] {
    var devices: [String] = []
    for (name, value) in request.query where name == "device" && !devices.contains(value) {
      guard devices.count < PingBoard.Listener.listLimit else {
        throw RecordError(
          .badRequest,
          "device: a stream has at most \(PingBoard.Listener.listLimit) devices; open another one for further ones.")
      }
      devices.append(value)
    }
    return devices
  }

  private func closed(_ stream: EventStream) {
    let entry = state.withLock { state in
      let entry = state.streams.removeValue(forKey: ObjectIdentifier(stream))
      if let user = entry?.user, let count = state.streamCounts[user] {
        state.streamCounts[user] = count > 1 ? count - 1 : nil
      }
      return entry
    }
    if let entry { switchboard.disconnect(entry.id) }
  }

  /// `GET /courier/1/{token}`
  func poll(_ text: String) async throws(RecordError) -> HTTPResponse {
    guard let token = try await token(of: text) else { throw Self.noCourier }
    try await requireGrant(of: token)
    try await withdrawScopes(of: text)
    let start = timing.now()
    var courier = try courier(text, token, start).courier
    var outcome = await courier.poll(now: start, until: start + limits.courierHold)
    while case .retired = outcome {
      courier = try self.courier(text, token, start).courier
      outcome = await courier.poll(now: start, until: start + limits.courierHold)
    }
    // A caller whose credentials ended during the poll gets nothing. Without changes this asks nobody.
    try await requireGrant(of: token)
    guard case .notification(var ping) = outcome else { throw Self.noCourier }
    try await withdrawScopes(of: text)
    if let found = ping, !mayDeliver(found, by: text) { ping = nil }
    if let found = ping, Task.isCancelled {
      courier.takeBack(found)
      ping = nil
    }
    if let ping {
      metrics.sent["courier"].increment()
      deliveries.tell(NotificationsDelivered.Delivery(courier: text, key: ping.key, sequence: ping.sequence))
    }
    return HTTPResponse(
      status: 200,
      headers: [ErrorAnswer.jsonHeader, ("Cache-Control", "no-store")] + CORS.headers(origin: nil, allowed: []),
      body: .bytes(ping?.json ?? []))
  }

  /// Withdraws containers other than the token's from a courier when the credentials for them no longer hold.
  private func withdrawScopes(of text: String) async throws(RecordError) {
    let entry = state.withLock { state in state.couriers[text]?.grants.isEmpty == false ? state.couriers[text] : nil }
    guard let entry else { return }
    for (scope, grant) in entry.grants where await !authenticator.holds(grant, from: try directory().share) {
      state.withLock { state in
        // The courier may have been registered again meanwhile.
        guard state.couriers[text]?.grants[scope] == grant else { return }
        state.couriers[text]?.grants[scope] = nil
        state.couriers[text]?.lost.insert(scope)
        switchboard.withdraw(scope, from: entry.id)
      }
      entry.courier.forget(scope.container, scope.environment)
    }
  }

  /// True when the courier may deliver the ping, which may have come just before its container was withdrawn.
  private func mayDeliver(_ ping: Ping, by text: String) -> Bool {
    state.withLock { state in
      !(state.couriers[text]?.lost.contains { ping.isOf($0.container, $0.environment) } ?? false)
    }
  }

  /// A courier's verified token. It is verified once while its courier is known: an installation's signing key never
  /// changes.
  /// - Returns: nil for a text that is no courier's token, or that has expired.
  private func token(of text: String) async throws(RecordError) -> CourierToken? {
    if let known = state.withLock({ $0.couriers[text]?.token }) { return wallClock.now < known.expiry ? known : nil }
    return CourierToken(text: text, verifiedWith: try await directory().secrets.signingKey(), now: wallClock.now)
  }

  /// The same error for every reason, so that it reveals nothing to callers without credentials.
  private static let noCourier = RecordError(.notFound, "There is no such courier.")

  /// - Throws: `notFound` when the credentials that the courier was made with no longer hold.
  private func requireGrant(of token: CourierToken) async throws(RecordError) {
    let grant = VerifyGrant(
      container: token.container, environment: token.environment, userRecordName: token.userRecordName,
      grant: token.grant)
    guard await authenticator.holds(grant, from: try directory().share) else { throw Self.noCourier }
  }

  /// - Throws: `throttled` when the user has as many couriers as allowed.
  private func courier(
    _ text: String, _ token: CourierToken, _ now: ContinuousClock.Instant
  ) throws(RecordError) -> (courier: Courier, id: PingBoard.ListenerID) {
    try state.withLock { state throws(RecordError) in
      if let known = state.couriers[text] { return (known.courier, known.id) }
      let count = state.courierCounts[token.userRecordName, default: 0]
      guard count < limits.couriersPerUser else {
        throw RecordError(
          .throttled, "The user has \(count) couriers; the notifier forgets a courier that nobody polls.",
          retryAfter: 60)
      }
      state.courierCounts[token.userRecordName] = count + 1
      let courier = Courier(metrics: metrics, now: now)
      let scope = PingBoard.Scope(container: token.container, environment: token.environment)
      let id = switchboard.connect(
        PingBoard.Listener(.courier, scope: scope, userRecordName: token.userRecordName, devices: [token.clientID]),
        courier)
      if state.isDraining { courier.release() }
      state.couriers[text] = CourierEntry(courier: courier, id: id, token: token)
      return (courier, id)
    }
  }
}
