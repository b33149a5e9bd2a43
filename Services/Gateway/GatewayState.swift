// The gateway's knowledge from pushes: holders of shards, waiting polls, authenticated users.

import Authentication
import Records
import ServiceBus
import ServiceKit

/// Made before the bus, which needs its handlers. Everything in it is a hint that can be asked for again.
struct GatewayState: Sendable {
  let cluster: Cluster
  let authenticator: Authenticator
  let waiters: ChangeWaiters
  let apps: AppBook
  let providers: ProviderBook
  let timing: Timing

  /// - Parameters:
  ///   - cluster: this process's cluster, with its handlers registered.
  ///   - waiterLimit: long polls that may wait; further ones are answered at once.
  init(cluster: Cluster, timing: Timing, waiterLimit: Int = 20_000) {
    self.cluster = cluster
    self.timing = timing
    authenticator = Authenticator(timing: timing)
    apps = AppBook(timing: timing)
    providers = ProviderBook(timing: timing)
    waiters = ChangeWaiters(limit: waiterLimit, timing: timing)
  }

  /// Serves the pushes of the share service and of workers.
  func serve(on handlers: inout BusHandlers) {
    handlers.serve(authenticator) { [apps, providers] in
      apps.expire()
      providers.expire()
    }
    handlers.on(PushZoneChanges.self) { message, _, _ in
      await waiters.notice(message.changes)
      return Answer(Acknowledgement())
    }
    handlers.on(PushStoreChanges.self) { message, _, _ in
      await waiters.notice(message.changes)
      return Answer(Acknowledgement())
    }
  }
}

extension Cluster {
  /// The reason why some databases can't be served; nil when all can.
  var obstacle: String? {
    guard let map = current, map.shardCount > 0 else { return "the share service has sent no cluster map yet" }
    let orphans = map.holders.count { $0 == nil }
    return orphans == 0 ? nil : "\(orphans) of \(map.shardCount) shards \(orphans == 1 ? "has" : "have") no worker"
  }
}
