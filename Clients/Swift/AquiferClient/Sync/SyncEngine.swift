// Mirroring as an app sees it: start, stop, how it goes, and what was refused.

import FoundationEssentials
import MirrorWire
public import ReplicaStore
public import ReplicaSync
import Synchronization

/// Mirrors the stores of a container that have cloud options.
public final class SyncEngine: Sendable {
  private let stores: [OpenStore]
  /// One for each container and environment of the server.
  private let mirrorings: [Mirroring]
  private let loops: [PersistentStore: SyncLoop]
  private let account: Account?
  private let transport: any Transport
  private let state = Mutex(State())

  fileprivate struct State {
    var isPaused = false
    var isStarted = false
    /// Starts and stops happen one after the other, in the order in which they are asked for.
    var turn: Task<Void, Never>?
  }

  init(_ stores: [OpenStore], _ account: Account?, _ surroundings: Surroundings, _ transport: any Transport)
    async throws(StoreError)
  {
    self.stores = stores
    self.account = account
    self.transport = transport
    var mirrorings: [String: Mirroring] = [:]
    var loops: [PersistentStore: SyncLoop] = [:]
    for store in stores {
      guard let account, let cloud = store.description.cloudOptions, !store.description.isReadOnly else { continue }
      let key = "\(cloud.containerIdentifier) \(cloud.environment)"
      let mirroring =
        mirrorings[key]
        ?? Mirroring(
          account: account, container: cloud.containerIdentifier, environment: cloud.environment, transport: transport,
          surroundings: surroundings)
      mirrorings[key] = mirroring
      var options = MirrorOptions(store.description)
      options.hooks.accountChanged = Self.accountChanged(store)
      let loop = try await mirroring.add(store.replica, scope: cloud.databaseScope.rawValue, options: options)
      store.setContentFetcher { [weak loop] checksum throws(StoreError) in
        guard let loop else { throw .offline }
        try await loop.fetchContent(checksum)
      }
      loops[store.store] = loop
    }
    self.mirrorings = mirrorings.sorted { $0.key < $1.key }.map(\.value)
    self.loops = loops
  }

  /// Another account's objects never meet those of the file: the store goes on with a file of that account.
  private static func accountChanged(_ store: OpenStore) -> @Sendable (String, String) async -> Successor? {
    { former, user in
      let decision = await store.description.hooks.accountChanged?(former, user) ?? .keepApart
      // Dropped because the store stays the former account's then, sends nothing, and is tried again at the next start.
      guard let change = try? await store.change(from: former, to: user, decision) else {
        return nil
      }
      return Successor(change.file.replica, release: change.release)
    }
  }

  /// Runs until `stop`, whatever the network does. Twice is once.
  public func start() {
    state.withLock { state in
      if state.isStarted { return }
      state.isStarted = true
      _ = state.addTurn { [mirrorings] in
        // Dropped because a store that can't be read says so to its own readers.
        for mirroring in mirrorings { try? await mirroring.start() }
      }
    }
  }

  /// Ends what is under way. What is not sent stays for the next start.
  public func stop() async {
    let turn = state.withLock { state in
      state.isStarted = false
      return state.addTurn { [mirrorings] in for mirroring in mirrorings { await mirroring.stop() } }
    }
    await turn.value
  }

  /// As if there were no network: for data plans and tests.
  public var isPaused: Bool { state.withLock { $0.isPaused } }

  public func setPaused(_ isPaused: Bool) async {
    state.withLock { $0.isPaused = isPaused }
    for mirroring in mirrorings { await mirroring.take(.paused(isPaused)) }
  }

  /// Tells that the network came or went, where the platform says so; requests are tried at once then.
  public func networkChanged(isOnline: Bool) async {
    for mirroring in mirrorings { await mirroring.take(.online(isOnline)) }
  }

  /// Sends what is saved, and imports what the server has now, all stores at a time. Another device that calls it
  /// afterwards has all of it.
  /// - Throws: what keeps it from that when the time is over, such as `offline`; at once what waiting does not mend:
  ///   `signedOut`, `accountChanged`, `modelUnknown`.
  public func syncNow(timeout: Duration = .seconds(30)) async throws(StoreError) {
    let loops = stores.compactMap { self.loops[$0.store] }
    let failures = await withTaskGroup(of: (place: Int, failure: StoreError?).self) { group in
      for (place, loop) in loops.enumerated() {
        group.addTask {
          do throws(StoreError) {
            try await loop.syncNow(timeout: timeout)
            return (place, nil)
          } catch { return (place, error) }
        }
      }
      var failures: [StoreError?] = Array(repeating: nil, count: loops.count)
      for await ended in group { failures[ended.place] = ended.failure }
      return failures
    }
    if let first = failures.lazy.compactMap({ $0 }).first { throw first }
  }

  /// The present status and each later one; a slow reader misses those between. A store that is local has none.
  public func status(of store: PersistentStore) -> some AsyncSequence<SyncStatus, Never> & Sendable {
    let (stream, continuation) = AsyncStream.makeStream(of: SyncStatus.self, bufferingPolicy: .bufferingNewest(1))
    guard let loop = loops[store] else {
      continuation.finish()
      return stream
    }
    let forwarding = Task {
      for await status in await loop.statuses() { continuation.yield(status) }
      continuation.finish()
    }
    continuation.onTermination = { _ in forwarding.cancel() }
    return stream
  }

  func events() -> AsyncStream<Event> {
    let (stream, continuation) = AsyncStream.makeStream(of: Event.self, bufferingPolicy: .bufferingNewest(1000))
    let loops = loops
    let forwarding = Task {
      await withTaskGroup { group in
        for (store, loop) in loops {
          group.addTask { for await event in await loop.mirrorEvents() { continuation.yield(Event(event, store)) } }
        }
      }
      continuation.finish()
    }
    continuation.onTermination = { _ in forwarding.cancel() }
    return stream
  }

  /// Whether an object is where it should be, and why not (`explain` of the server).
  public func state(of object: AnyObjectID) async throws(StoreError) -> (state: String, reasons: [String]) {
    for store in stores {
      guard let loop = loops[store.store] else { continue }
      do {
        let answer = try await loop.plane.explain(object.recordName)
        return (answer.syncState, answer.reasons.map(\.text))
      } catch {
        guard case .server(let refusal) = error, refusal.isOfServer, refusal.status == 404 else {
          throw StoreError(error)
        }
      }
    }
    throw .missing(object)
  }

  // MARK: Account

  /// Shows the server's sign-in page, and waits until it calls back at a port of this machine (RFC 8252). The API token
  /// must have the callback URL `http://127.0.0.1/done`.
  /// - Parameter page: opens an address in a browser.
  /// - Returns: the user's record name.
  /// - Throws: `invalid` at once if the token lacks the callback; `signedOut` if nobody signs in within a quarter of an
  ///   hour.
  public func signIn(open page: @Sendable (_ address: String) async throws -> Void) async throws(StoreError) -> String {
    guard let account, let cloud = stores.lazy.compactMap(\.description.cloudOptions).first else {
      throw .invalid("no store is mirrored")
    }
    let user = try await account.signIn(
      container: cloud.containerIdentifier, environment: cloud.environment, transport: transport, open: page)
    for mirroring in mirrorings { await mirroring.followAccount() }
    return user
  }

  // MARK: Rejections

  public func rejections(in store: PersistentStore) async throws(StoreError) -> [Rejection] {
    try await replica(store).rejected().map(Rejection.init)
  }

  /// Sends a rejected save again, as a save of now; of one that is kept for later what no later save changed that
  /// waits or that the server has taken.
  public func retry(_ rejection: Rejection, in store: PersistentStore) async throws(StoreError) {
    try await replica(store).retry(rejection.id)
  }
  /// Forgets a rejected save; its objects are what the server has. Objects that were sent again (`reupload`) go, unless
  /// another device has sent them.
  public func discard(_ rejection: Rejection, in store: PersistentStore) async throws(StoreError) {
    try await replica(store).discard(rejection.id)
    // The next import asks for the objects.
    await loops[store]?.take(.pinged)
  }

  // MARK: Zones

  /// Decides about a zone of the user's own that ended, and for which the hook `zoneEnded` answered `pause`. Needs the
  /// server; what was decided before stays.
  public func decide(_ decision: StoreHooks.ZoneDecision, about zone: Zone, in store: PersistentStore)
    async throws(StoreError)
  {
    guard let loop = loops[store] else { throw .invalid("the store is not mirrored") }
    guard let action = EndedZone.Action(decision) else { return }
    let place = try await loop.callPlace()
    do throws(SyncFailure) {
      try await place.plane.resume(
        ZoneID(zoneName: zone.zoneName, ownerRecordName: zone.ownerRecordName), action: action)
    } catch { throw StoreError(error) }
    // The next page tells what became of it.
    await loop.take(.pinged)
  }

  /// Imports everything anew, into a second file. The store shows what it has until that is done.
  public func reset(_ store: PersistentStore) async throws(StoreError) {
    guard let loop = loops[store] else { throw .invalid("the store is not mirrored") }
    await loop.take(.resetWanted)
  }

  private func replica(_ store: PersistentStore) throws(StoreError) -> Replica {
    guard let found = stores.first(where: { $0.store == store }) else {
      throw .invalid("the store is none of this container")
    }
    return found.replica
  }

  /// nil: the store is not mirrored.
  func loop(of store: PersistentStore) -> SyncLoop? { loops[store] }
}

extension SyncEngine.State {
  fileprivate mutating func addTurn(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
    let next = Task { [turn] in
      await turn?.value
      await body()
    }
    turn = next
    return next
  }
}

extension EndedZone.Action {
  /// nil: the zone goes on waiting.
  fileprivate init?(_ decision: StoreHooks.ZoneDecision) {
    switch decision {
    case .pause: return nil
    case .delete: self = .delete
    case .reupload: self = .reupload
    }
  }
}
