// Zone changes to notifiers and waiting gateways: merged while a push is under way, so that a slow one holds up nobody.

import Records
import ServiceBus

/// Pushes every change to all notifiers and gateways that are connected.
final class ConflatedChangePublisher: ChangePublisher {
  private struct ZoneKey: Hashable {
    let database: DatabaseID
    let zoneName: String
  }

  private let bus: any Bus
  private let pushes: ConflatedPush<ZoneKey, ZoneChange>

  private static let deadline = Duration.seconds(2)
  /// A push costs its receivers as much as a save costs the worker: under load one for every few saves is enough.
  private static let spacing = Duration.milliseconds(5)

  init(bus: any Bus) {
    self.bus = bus
    pushes = ConflatedPush(
      spacing: Self.spacing,
      send: { [weak bus] peer, changes in
        _ = try await bus?.call(PushZoneChanges(changes: changes), to: .peer(peer.name), within: Self.deadline)
      }, key: { ZoneKey(database: $0.database, zoneName: $0.zoneName) }, merge: { $0.merged(with: $1) })
  }

  func publish(_ change: ZoneChange) { pushes.push(change) }

  /// Follows who is there, until the bus closes or the task is cancelled.
  func run() async {
    for await peers in bus.peerChanges() {
      pushes.subscribers(peers.filter { $0.role == .notifier || $0.role == .gateway })
    }
    pushes.close()
  }

  /// How many changes wait, by the subscriber's name.
  var pendingCounts: [String: Int] { pushes.pendingCounts }
}
