// The notifier: it gives the changes that workers push to devices. It stores nothing durable: lost pings lose no data.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization
import WebServices

/// Serves devices, and gives them the changes that workers push.
public final class Notifier: Sendable {
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

  /// The process's name.
  private let name: String
  let metrics: NotifierMetrics
  let limits: Limits
  let timing: Timing
  let wallClock: any WallClock
  let random: any RandomSource
  let log: Log
  let switchboard: Switchboard
  let deliveries = DeliveryReports()
  private let sent = Mutex(SentPings())
  let state = Mutex(State())
  let authenticator: Authenticator
  let sleepers: SleepingDevices
  /// Set once the bus exists.
  private let directoryBox = Mutex<Directory?>(nil)

  /// The notifier's access to the share service.
  struct Directory {
    let share: ShareCalls
    let secrets: Secrets
    /// The bus's executor.
    let executor: (any TaskExecutor)?
  }

  init(
    limits: Limits, metrics: Metrics, timing: Timing, wallClock: any WallClock, random: any RandomSource, log: Log,
    name: String
  ) {
    self.limits = limits
    self.name = name
    self.wallClock = wallClock
    self.metrics = NotifierMetrics(metrics)
    self.timing = timing
    self.random = random
    self.log = log
    switchboard = Switchboard(random: random)
    authenticator = Authenticator(timing: timing)
    sleepers = SleepingDevices(
      switchboard, authenticator,
      clients: PushClients(clock: wallClock, reach: limits.pushReach, authorities: limits.pushAuthorities),
      limits: limits.pushes, metrics: metrics, timing: timing, clock: wallClock, log: log, name: name)
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

  func directory() throws(RecordError) -> Directory {
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
    let now = wallClock.now
    for change in changes {
      let recipients = switchboard.deliver(change)
      sent.withLock { $0.add(at: now) { SentPing(change, to: recipients, number: $0, at: now) } }
      RequestTrace.$id.withValue(change.traceID) {
        log.debug(
          "ping",
          [
            "zone": .text(change.zoneName), "sequence": .integer(change.sequence),
            "devices": .integer(Int64(recipients.count)),
          ])
      }
    }
  }

  func deliver(_ notifications: [SubscriptionNotification]) {
    let now = wallClock.now
    for notification in notifications {
      let recipients = switchboard.deliver(notification)
      metrics.count(recipients?.count)
      if let recipients {
        sent.withLock { $0.add(at: now) { SentPing(notification, to: recipients, number: $0, at: now) } }
      }
      log.debug(
        "notification",
        [
          "nid": .text(notification.notificationID), "subscription": .text(notification.subscriptionID),
          "user": .text(notification.userRecordName), "devices": .integer(Int64(recipients?.count ?? -1)),
        ])
    }
  }

  /// The latest pings, for operators.
  func answer(_ question: FetchPings) -> [UInt8] {
    SentPings.answer(sent.withLock { $0.latest(for: question, of: name) })
  }

  /// Drops pings that another notifier has delivered.
  func forget(_ deliveries: [NotificationsDelivered.Delivery]) {
    for delivery in deliveries {
      state.withLock { $0.couriers[delivery.courier]?.courier }?.wasDelivered(delivery.key, through: delivery.sequence)
    }
  }

  func credentialsChanged() {
    state.withLock { $0.isRecheckDue = true }
    sleepers.credentialsChanged()
  }

  func wakeSleepers(on bus: any Bus) async {
    guard let share = directoryBox.withLock({ $0?.share }) else { return }
    await sleepers.run(on: bus, share)
  }
}
