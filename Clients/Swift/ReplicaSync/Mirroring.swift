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
  /// Listens for sign-ins and sign-outs while mirroring runs.
  private var signIns: Task<Void, Never>?
  private var session: Account.Session?
  private var following: Task<Void, Never>?

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
    let (pings, number) = (pings, loops.count)
    let loop = SyncLoop(
      store: store, plane: plane, options: options, surroundings: surroundings, hasPings: pings != nil
    ) { loop in
      let listener = PingStream.Listener(
        number: number, storeIdentifier: loop.plane.storeIdentifier, scope: Ping.Scope(scope)
      ) { [weak loop] in await loop?.take(.pinged) }
      await pings?.add(listener)
    }
    loops.append(loop)
    return loop
  }

  /// Twice is once.
  package func start() async throws(StoreError) {
    if signIns == nil {
      session = account.session
      let sessions = account.sessions
      signIns = Task { [weak self] in
        for await _ in sessions { await self?.followAccount() }
      }
    }
    for loop in loops { try await loop.start() }
  }

  /// Goes on for whoever is signed in now. What is under way for somebody else ends first.
  package func followAccount() async {
    let earlier = following
    let next = Task { [weak self] in
      await earlier?.value
      await self?.follow()
    }
    following = next
    await next.value
  }

  private func follow() async {
    guard signIns != nil, session != account.session else { return }
    session = account.session
    await pings?.stop()
    for loop in loops { await loop.beginAnew() }
  }

  package func stop() async {
    signIns?.cancel()
    signIns = nil
    await pings?.stop()
    for loop in loops { await loop.stop() }
  }

  package func take(_ input: SyncInput) async {
    if input == .online(true) { await pings?.reconnect() }
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
