// The latest pings as operators see them: when a device was told of what, and how many devices listened.

import JSON
import Records
import ServiceBus

/// What a push came to: who listens to it at this notifier.
struct Recipients: Hashable, Sendable {
  var count = 0
  /// The devices behind them, as the listeners named them, at most `deviceLimit`.
  var devices: [String] = []

  static let deviceLimit = 32
}

/// One push to a user's devices, also to none.
struct SentPing: Sendable {
  let number: Int64
  /// Milliseconds since 1970.
  let at: Int64
  let container: ContainerID
  let environment: Environment
  /// nil for a notification about records, which names no zone.
  let zone: Zone.ID?
  /// The users whose devices it is for; empty for everybody in the container's environment.
  let users: [String]
  let sequence: Int64
  /// The identifier of the subscription that fired; nil for a changed zone.
  let subscription: String?
  /// The device that made the change.
  let origin: String?
  let traceID: String?
  let recipients: Recipients

  init(_ change: ZoneChange, to recipients: Recipients, number: Int64, at: Int64) {
    let database = change.database
    self.number = number
    self.at = at
    container = database.container
    environment = database.environment
    zone = Zone.ID(zoneName: change.zoneName, ownerName: database.owner)
    users = change.audience
    sequence = change.sequence
    subscription = nil
    origin = change.originStore
    traceID = change.traceID
    self.recipients = recipients
  }

  init(_ notification: SubscriptionNotification, to recipients: Recipients, number: Int64, at: Int64) {
    self.number = number
    self.at = at
    container = notification.container
    environment = notification.environment
    zone = notification.zone
    users = [notification.userRecordName]
    sequence = notification.sequence
    subscription = notification.subscriptionID
    origin = notification.originDevice
    traceID = nil
    self.recipients = recipients
  }

  func matches(_ question: FetchPings) -> Bool {
    question.container ?? container.rawValue == container.rawValue
      && question.environment ?? environment.rawValue == environment.rawValue
      && (question.owner == nil || question.owner == zone?.ownerName)
      && (question.zone == nil || question.zone == zone?.zoneName)
      && question.userRecordName.map { users.isEmpty || users.contains($0) } ?? true
  }

  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("number", number)
    writer.member("at", at)
    writer.member("container", container.rawValue)
    writer.member("environment", environment.rawValue)
    if let zone {
      writer.member("owner", zone.ownerName)
      writer.member("zone", zone.zoneName)
    }
    writer.member("sequence", sequence)
    writer.member("reason", subscription == nil ? "zone" : "subscription")
    if let subscription { writer.member("subscription", subscription) }
    if let origin { writer.member("origin", origin) }
    if let traceID { writer.member("request", traceID) }
    writer.member("listeners", recipients.count)
    writer.key("devices")
    writer.beginArray()
    for device in recipients.devices { writer.string(device) }
    writer.endArray()
    writer.endObject()
  }
}

/// A ring of the latest pings in memory: nothing is stored, and a ping costs one slot.
struct SentPings: Sendable {
  /// Pings kept, about 4 MB.
  static let limit = 8192

  private var ring: [SentPing] = []
  private var next = 0
  private var lastNumber: Int64 = 0

  /// - Parameter make: makes the ping of a number.
  mutating func add(at now: Int64, _ make: (_ number: Int64) -> SentPing) {
    // Numbers of microseconds rise over a restart, too.
    lastNumber = max(lastNumber + 1, now.multipliedReportingOverflow(by: 1000).partialValue)
    let ping = make(lastNumber)
    if ring.count < Self.limit { ring.append(ping) } else { ring[next] = ping }
    next = (next + 1) % Self.limit
  }

  /// The latest pings that match, oldest first.
  func latest(for question: FetchPings, of notifier: String) -> [SentPing] {
    let after = question.after[notifier] ?? .min
    var found: [SentPing] = []
    for offset in 1...max(ring.count, 1) where !ring.isEmpty {
      let ping = ring[(next + ring.count - offset) % ring.count]
      guard ping.number > after, found.count < question.limit else { break }
      if ping.matches(question) { found.append(ping) }
    }
    return found.reversed()
  }

  static func answer(_ pings: [SentPing]) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("pings")
    writer.beginArray()
    for ping in pings { ping.write(to: &writer) }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}
