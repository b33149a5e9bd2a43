// Wakes the devices that registered with a push service. They listen like couriers, and their pings leave by vendors.

import Authentication
import Records
import ServiceBus
import ServiceKit
import Synchronization

final class SleepingDevices: Sendable {
  private struct State {
    var roster: PushRoster
    /// The registrations that have a place on the board.
    var listeners: [Int64: (listener: PingBoard.Listener, id: PingBoard.ListenerID)] = [:]
    var services = PushServices()
    var clients: PushClients
    var areServicesStale = true
    var lines: PushLines
    var records: PushRecords
    /// The time at which the sending task is woken next.
    var alarm: ContinuousClock.Instant?

    /// - Returns: the registrations that changed.
    mutating func note(_ change: PushRoster.Change) -> [Int64] {
      for id in change.ended { records.forget(id) }
      return change.ended + change.begun
    }
  }

  private let switchboard: Switchboard
  private let authenticator: Authenticator
  private let timing: Timing
  private let clock: any WallClock
  private let log: Log
  private let metrics: PushMetrics
  private let state: Mutex<State>
  /// One for news about registrations, one for pushes that may be due.
  private let (looks, look) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
  private let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

  /// Time between two looks for registrations whose notice was lost.
  private static let lookInterval = Duration.seconds(60)

  init(
    _ switchboard: Switchboard, _ authenticator: Authenticator, clients: PushClients, limits: PushLimits,
    metrics: Metrics, timing: Timing, clock: any WallClock, log: Log, name: String
  ) {
    self.switchboard = switchboard
    self.authenticator = authenticator
    self.timing = timing
    self.clock = clock
    self.log = log
    self.metrics = PushMetrics(metrics)
    state = Mutex(
      State(
        roster: PushRoster(name: name), clients: clients, lines: PushLines(limits),
        records: PushRecords(since: clock.now)))
    metrics.collect("push_registrations", "Devices that registered to be woken, here and at other notifiers.") {
      [weak self] in [Metrics.Sample(Double(self?.state.withLock { $0.roster.count } ?? 0))]
    }
    metrics.collect("pushes_waiting", "Pushes that wait, are under way or were sent a moment ago.") { [weak self] in
      [Metrics.Sample(Double(self?.state.withLock { $0.lines.count } ?? 0))]
    }
  }

  // MARK: Pings

  /// One device's place on the board.
  private final class Receiver: PingReceiver {
    let registration: Int64
    weak let devices: SleepingDevices?

    init(_ registration: Int64, _ devices: SleepingDevices) {
      self.registration = registration
      self.devices = devices
    }

    func put(_ ping: Ping) { devices?.put(ping, for: registration) }
  }

  private func put(_ ping: Ping, for id: Int64) {
    let now = timing.now()
    let addition = state.withLock { state -> PushLine.Addition? in
      guard let registration = state.roster[id], let (entry, _) = state.services.service(of: registration) else {
        return nil
      }
      return state.lines.put(
        ping, for: PushLine.Device(registration: id, user: registration.device.userRecordName),
        in: PushLines.Name(service: entry.name, place: registration.address.place), at: now)
    }
    metrics.count(addition)
    wake.yield()
  }

  // MARK: Registrations

  /// The directory has news about registrations.
  func registrationsChanged() { look.yield() }

  /// The directory has news about services or credentials.
  func credentialsChanged() {
    state.withLock { $0.areServicesStale = true }
    look.yield()
  }

  /// Takes the share of this notifier among others.
  func follow(_ others: [String]) {
    guard var share = state.withLock({ $0.roster.newShare(with: others) }) else { return }
    while true {
      let unranked = state.withLock { $0.roster.unranked(in: share) }
      // Without the lock, which pings need. Registrations that come meanwhile have another round.
      for id in unranked { share.rank(id) }
      let changed = state.withLock { [share] state in
        state.roster.unranked(in: share).isEmpty ? state.note(state.roster.adopt(share)) : nil
      }
      if let changed { return settle(changed) }
    }
  }

  /// Takes a page of the directory's registrations.
  /// - Returns: the registrations to settle.
  func take(_ page: FetchPushRegistrations.Reply) -> [Int64] {
    state.withLock { state in
      let former = page.isFromStart ? PushRoster.Change(ended: state.roster.removeAll()) : PushRoster.Change()
      return state.note(former) + state.note(state.roster.apply(page))
    }
  }

  /// Gives registrations their place on the board, or takes it, as the roster is now: its changes come from several
  /// tasks, which settle them in any order.
  func settle(_ ids: [Int64]) {
    for id in ids {
      state.withLock { state in
        let listener = state.roster.isOwn(id) ? state.roster[id].map(Self.listener) : nil
        let known = state.listeners[id]
        guard listener != known?.listener else { return }
        if let known { switchboard.disconnect(known.id) }
        // The switchboard calls no receiver while it is locked.
        state.listeners[id] = listener.map { ($0, switchboard.connect($0, Receiver(id, self))) }
      }
    }
  }

  private static func listener(_ registration: PushRegistration) -> PingBoard.Listener {
    let device = registration.device
    return PingBoard.Listener(
      registration.hearsEveryZone ? .stream : .courier,
      scope: PingBoard.Scope(container: device.container, environment: device.environment),
      userRecordName: device.userRecordName, devices: [device.clientID])
  }

  /// Reads what has changed in the directory.
  private func update(from share: ShareCalls) async throws(RecordError) {
    if state.withLock({ $0.areServicesStale }) {
      state.withLock { $0.areServicesStale = false }
      do throws(RecordError) {
        let entries = try await share.call(FetchPushServices()).services
        state.withLock { state in
          var clients = state.clients
          state.services.set(entries) { clients.sender(of: $0) }
          state.clients = clients
        }
      } catch {
        state.withLock { $0.areServicesStale = true }
        throw error
      }
    }
    while true {
      let page = try await share.call(state.withLock { $0.roster.question })
      settle(take(page))
      if page.isLast { return }
    }
  }

  /// The body of the answer.
  func answer(_ question: FetchPushRecords) -> [UInt8] {
    state.withLock { $0.records.json(of: question.registrations.prefix(FetchPushRecords.limit)) }
  }

  // MARK: Tasks

  /// Runs until the task is cancelled.
  func run(on bus: any Bus, _ share: ShareCalls) async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.keepUp(with: share) }
      group.addTask {
        for await peers in bus.peerChanges() { self.follow(peers.filter { $0.role == .notifier }.map(\.name)) }
      }
      group.addTask {
        // Cancellation ends it.
        while (try? await self.timing.sleep(Self.lookInterval)) != nil { self.look.yield() }
      }
      group.addTask { await self.send(share) }
      look.yield()
    }
  }

  private func keepUp(with share: ShareCalls) async {
    for await _ in looks {
      do throws(RecordError) {
        try await update(from: share)
      } catch {
        // The next look tries again.
        log.warning("push registrations not read", ["reason": .text(error.reason)])
      }
    }
  }

  private func send(_ share: ShareCalls) async {
    await withDiscardingTaskGroup { group in
      for await _ in wakes {
        let now = timing.now()
        let (due, alarm) = state.withLock { state in takeDue(&state, now) }
        for (line, push) in due { group.addTask { await self.attempt(push, in: line, share) } }
        if let alarm {
          group.addTask {
            // Cancellation ends it.
            guard (try? await self.timing.sleep(alarm - now)) != nil else { return }
            self.state.withLock { if $0.alarm == alarm { $0.alarm = nil } }
            self.wake.yield()
          }
        }
      }
      group.cancelAll()
    }
  }

  /// - Returns: the pushes to send now; a new alarm if one is needed.
  private func takeDue(_ state: inout State, _ now: ContinuousClock.Instant) -> (
    [(line: PushLines.Name, push: PushLine.Due)], alarm: ContinuousClock.Instant?
  ) {
    let givenUpCount = state.lines.givenUpCount
    let due = state.lines.takeDue(at: now)
    metrics.dropped.increment(by: state.lines.givenUpCount - givenUpCount)
    guard let next = state.lines.nextTime, state.alarm.map({ next < $0 }) ?? true else { return (due, nil) }
    state.alarm = next
    return (due, next)
  }

  private func attempt(_ push: PushLine.Due, in line: PushLines.Name, _ share: ShareCalls) async {
    defer { wake.yield() }
    let found = state.withLock { state in
      state.roster[push.key.device.registration].flatMap { registration in
        state.services.service(of: registration).map { (registration, $0.entry, $0.sender) }
      }
    }
    guard let (registration, entry, sender) = found else { return finish(push, in: line) }
    let grant = VerifyGrant(
      container: registration.device.container, environment: registration.device.environment,
      userRecordName: registration.device.userRecordName, grant: registration.device.grant)
    guard await authenticator.holds(grant, from: share) else {
      finish(push, in: line)
      return await end(registration, share)
    }
    let content = PushContent(push.ping, byteLimit: registration.address.byteLimit)
    let outcome = await sender.send(
      content, to: registration.address, of: registration.device.userRecordName)
    metrics.count(outcome, of: entry.name)
    let at = clock.now
    state.withLock { $0.records.note(outcome, of: registration.id, at: at) }
    log.debug(
      "push",
      ["service": .text(entry.name), "registration": .integer(registration.id), "outcome": .text(outcome.name)])
    switch outcome {
    case .delivered: finish(push, in: line)
    case .gone:
      finish(push, in: line)
      await end(registration, share)
    case .refused(let reason):
      finish(push, in: line)
      log.warning("push refused", ["service": .text(entry.name), "reason": .text(reason)])
    case .later(let failure, let pause, let reason):
      let now = timing.now()
      let retry = state.withLock { $0.lines.retry(push, in: line, after: pause, of: failure, at: now) }
      if !retry.isKept { metrics.dropped.increment() }
      guard let pause = retry.servicePause else { return }
      log.warning(
        "push service paused",
        [
          "service": .text(entry.name), "place": .text(line.place), "reason": .text(reason),
          "seconds": .integer(Int64(pause / .seconds(1))),
        ])
    }
  }

  private func finish(_ push: PushLine.Due, in line: PushLines.Name) {
    let now = timing.now()
    state.withLock { $0.lines.finish(push, in: line, at: now) }
  }

  /// Ends a registration here and in the directory.
  private func end(_ registration: PushRegistration, _ share: ShareCalls) async {
    let ended = state.withLock { state in
      state.roster.end(registration).map {
        (message: $0, changed: state.note(PushRoster.Change(ended: [registration.id])))
      }
    }
    guard let ended else { return }
    settle(ended.changed)
    do throws(RecordError) {
      _ = try await share.call(ended.message)
    } catch {
      // Dropped because the vendor says the same to the next push after a restart.
      log.warning("push registration not ended", ["reason": .text(error.reason)])
    }
  }
}

extension PushAddress {
  /// Pushes to different places don't wait for each other.
  fileprivate var place: String {
    switch self {
    case .apns(_, let isSandbox): isSandbox ? "sandbox" : ""
    case .web(let endpoint, _, _): Self.host(of: endpoint)
    case .webhook(let url, _): Self.host(of: url)
    }
  }
}

extension PushOutcome {
  fileprivate var name: String {
    switch self {
    case .delivered: "delivered"
    case .gone: "gone"
    case .later: "later"
    case .refused: "refused"
    }
  }
}

/// The metrics of pushes.
private struct PushMetrics: Sendable {
  private let pushes: Family<Counter>
  private let merged: Counter
  let dropped: Counter

  init(_ metrics: Metrics) {
    pushes = metrics.counters(
      "pushes_total", "Attempts to wake a device, by service and outcome.", labels: ["service", "outcome"])
    merged = metrics.counter("pushes_merged_total", "Pushes merged with a waiting one of the same zone and device.")
    dropped = metrics.counter(
      "pushes_dropped_total", "Pushes given up because too many waited, or after too long or too many attempts.")
  }

  func count(_ outcome: PushOutcome, of service: String) { pushes[service, outcome.name].increment() }

  func count(_ addition: PushLine.Addition?) {
    switch addition {
    case .added, nil: break
    case .merged: merged.increment()
    case .displaced: dropped.increment()
    }
  }
}
