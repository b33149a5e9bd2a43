// Carries changes to connections: the board decides under its lock, everything else happens outside of it.

import Records
import ServiceBus
import ServiceKit
import Synchronization

/// Somebody who is told of pings. Called from any thread; must be quick.
protocol PingReceiver: AnyObject, Sendable {
  func put(_ ping: Ping)
}

final class Switchboard: Sendable {
  private struct State {
    var board = PingBoard()
    var receivers: [PingBoard.ListenerID: any PingReceiver] = [:]
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

  func disconnect(_ id: PingBoard.ListenerID) {
    state.withLock { state in
      state.board.disconnect(id)
      state.receivers[id] = nil
    }
  }

  /// Each recipient has the ping, or has it waiting, when this returns.
  func deliver(_ change: ZoneChange) {
    let groups = state.withLock { state in
      state.board.deliveries(of: change).map { delivery in
        (scope: delivery.databaseScope, receivers: delivery.listeners.compactMap { state.receivers[$0] })
      }
    }
    for group in groups {
      let ping = Ping(change, as: group.scope, notificationID: random.uuid())
      for receiver in group.receivers { receiver.put(ping) }
    }
  }
}
