// Carries changes to connections. The board decides under its lock; everything else happens outside of it.

import Records
import ServiceBus
import ServiceKit
import Synchronization

/// A connection that gets pings. Called from any thread; must return quickly.
protocol PingReceiver: AnyObject, Sendable {
  func put(_ ping: Ping)
}

final class Switchboard: Sendable {
  private struct State {
    var board = PingBoard()
    var receivers: [PingBoard.ListenerID: any PingReceiver] = [:]
    /// Identifiers of delivered notifications, so that a push repeated after a lost acknowledgement is not delivered
    /// again.
    var recent = RecentValues<Void>(limit: 20_000)
  }

  private let state = Mutex(State())
  private let random: any RandomSource

  init(random: any RandomSource) { self.random = random }

  func connect(_ listener: PingBoard.Listener, _ receiver: any PingReceiver) -> PingBoard.ListenerID {
    state.withLock { state in
      let id = state.board.connect(listener)
      state.receivers[id] = receiver
      return id
    }
  }

  func extend(_ id: PingBoard.ListenerID, with scope: PingBoard.Scope, device: String) {
    state.withLock { $0.board.extend(id, with: scope, device: device) }
  }

  func withdraw(_ scope: PingBoard.Scope, from id: PingBoard.ListenerID) {
    state.withLock { $0.board.withdraw(scope, from: id) }
  }

  func disconnect(_ id: PingBoard.ListenerID) {
    state.withLock { state in
      state.board.disconnect(id)
      state.receivers[id] = nil
    }
  }

  /// Delivers a change. When this returns, each recipient has the ping or has it waiting.
  @discardableResult func deliver(_ change: ZoneChange) -> Recipients {
    let (groups, recipients) = state.withLock { state in
      let deliveries = state.board.deliveries(of: change)
      let groups = deliveries.map { delivery in
        (scope: delivery.databaseScope, receivers: delivery.listeners.compactMap { state.receivers[$0] })
      }
      return (groups, state.board.recipients(deliveries.map(\.listeners)))
    }
    for group in groups {
      let ping = Ping(change, as: group.scope, notificationID: random.uuid())
      for receiver in group.receivers { receiver.put(ping) }
    }
    return recipients
  }

  /// Delivers a subscription's notification.
  /// - Returns: nil for a repetition, which nobody gets.
  func deliver(_ notification: SubscriptionNotification) -> Recipients? {
    let found = state.withLock { state -> (receivers: [any PingReceiver], recipients: Recipients)? in
      if state.recent[notification.notificationID] != nil { return nil }
      state.recent.set((), for: notification.notificationID)
      let listeners = state.board.listeners(to: notification)
      return (listeners.compactMap { state.receivers[$0] }, state.board.recipients([listeners]))
    }
    guard let (receivers, recipients) = found, !receivers.isEmpty else { return found?.recipients }
    let ping = Ping(notification)
    for receiver in receivers { receiver.put(ping) }
    return recipients
  }
}
