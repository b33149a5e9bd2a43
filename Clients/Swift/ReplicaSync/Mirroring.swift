// The mirrored stores of a container: a loop for each, and one stream of pings.

package import MirrorWire
package import ReplicaStore

/// Mirrors the stores of one container for one account.
package actor Mirroring {
  private let account: Account
  private let transport: any Transport
  private let surroundings: Surroundings
  private let pings: PingStream?
  private let container: String
  private let environment: String
  package private(set) var loops: [SyncLoop] = []
  private var signIns: Task<Void, Never>?

  /// - Parameter environment: `development` or `production`.
  package init(
    account: Account, container: String, environment: String, transport: any Transport,
    surroundings: Surroundings = .system
  ) {
    self.account = account
    self.container = container
    self.environment = environment
    self.transport = transport
    self.surroundings = surroundings
    pings = PingStream(
      account: account, container: container, environment: environment, transport: transport,
      surroundings: surroundings)
  }

  /// Adds a store, before `start`.
  /// - Parameter scope: `private`, `shared` or `public`.
  package func add(_ store: any MirroredStore, scope: String, options: MirrorOptions) async throws(StoreError)
    -> SyncLoop
  {
    let identifier = try await store.position().storeIdentifier
    let plane = ObjectPlane(
      account: account, container: container, environment: environment, scope: scope, storeIdentifier: identifier,
      transport: transport, surroundings: surroundings)
    let pings = pings
    let loop = SyncLoop(
      store: store, plane: plane, options: options, surroundings: surroundings, hasPings: pings != nil
    ) { loop in
      let scope = Ping.Scope(scope)
      await pings?.add(.init(storeIdentifier: identifier, scope: scope) { [weak loop] in await loop?.take(.pinged) })
    }
    loops.append(loop)
    return loop
  }

  /// Twice is once.
  package func start() async throws(StoreError) {
    for loop in loops { try await loop.start() }
    if signIns != nil { return }
    let changes = account.changes
    signIns = Task { [weak self] in
      for await user in changes where user != nil { await self?.take(.signedIn) }
    }
  }

  package func stop() async {
    signIns?.cancel()
    signIns = nil
    await pings?.stop()
    for loop in loops { await loop.stop() }
  }

  package func take(_ input: SyncInput) async {
    if [.signedIn, .online(true)].contains(input) { await pings?.reconnect() }
    for loop in loops { await loop.take(input) }
  }
}

extension Ping.Scope {
  init(_ name: String) {
    self =
      switch name {
      case "public": .public
      case "shared": .shared
      default: .private
      }
  }
}
