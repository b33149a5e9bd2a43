// Web couriers: mailboxes of clients that poll, each opened by a token and ended with its credentials.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization
import WebServices

extension Notifier {
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
