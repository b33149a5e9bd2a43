// The share service's side of the cluster map: it follows the peers, stores each map, and publishes it to everybody.

import Synchronization

/// Publishes cluster maps until its task is cancelled, the bus closes, or a process follows another share service.
public final class ClusterMapPublisher: Sendable {
  private struct State {
    var peers: [Peer]?
    var graceIsOver = false
    var map: ClusterMap
    var successor: Int64?
    /// What was last told of shards without a worker that reaches them.
    var complaint = ""
  }

  private let bus: any Bus
  private let gracePeriod: Duration
  private let shardCount: Int
  private let splits: [Int]
  private let persisted: ClusterMap?
  private let epoch: Int64
  private let startVersion: Int64
  private let leastVersion: Int64
  private let places: @Sendable (_ known: Set<String>) async throws -> ShardPlaces
  private let persist: @Sendable (ClusterMap) async throws -> Void
  private let report: @Sendable (String) -> Void
  private let state: Mutex<State>
  private let pushes: ConflatedPush<Int, ClusterMap>
  private let signals: AsyncStream<Void>
  private let signal: AsyncStream<Void>.Continuation

  /// - Parameters:
  ///   - shardCount: that of the installation's creation.
  ///   - splits: those that there have been.
  ///   - persisted: the last map that `persist` stored; nil in a new installation.
  ///   - epoch: that of this share service; 0 when it has none.
  ///   - leastVersion: the lowest version that new maps may have.
  ///   - gracePeriod: the time for which members of `persisted` count as present before they are back.
  ///   - places: the clusters of all shards, and the splits. Gets the clusters that ready workers reach, and throws
  ///     like `persist`. nil: all shards stay in the main cluster.
  ///   - persist: stores a map durably; the map is published only afterwards. Called again after a pause if it throws.
  ///   - report: gets the error of a map that could not be stored, and the shards that no ready worker reaches.
  public init(
    bus: any Bus, shardCount: Int, splits: [Int] = [], persisted: ClusterMap?, epoch: Int64 = 0,
    startVersion: Int64 = 0, leastVersion: Int64 = 0, gracePeriod: Duration = .seconds(2),
    places: (@Sendable (_ known: Set<String>) async throws -> ShardPlaces)? = nil,
    persist: @escaping @Sendable (ClusterMap) async throws -> Void,
    report: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.bus = bus
    self.shardCount = shardCount
    self.splits = splits
    self.persisted = persisted
    self.epoch = epoch
    self.startVersion = startVersion
    self.leastVersion = leastVersion
    self.gracePeriod = gracePeriod
    self.places = places ?? { _ in ShardPlaces(splits: splits) }
    self.persist = persist
    self.report = report
    (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    state = Mutex(
      State(
        map: ShardAssignment(
          shardCount: shardCount, splits: splits, persisted: persisted, epoch: epoch, startVersion: startVersion
        ).map))
    pushes = ConflatedPush(
      send: { [weak bus] peer, maps in
        guard let bus, let map = maps.last else { return }
        _ = try await bus.call(PublishClusterMap(map: map), to: .peer(peer.name), within: .seconds(2))
      }, key: { _ in 0 }, merge: { earlier, later in later.version > earlier.version ? later : earlier })
  }

  /// The latest map that was stored.
  public var current: ClusterMap { state.withLock(\.map) }

  /// The epoch of the share service that leads instead; nil while no process follows another one.
  public var successor: Int64? { state.withLock(\.successor) }

  /// Makes the next map if the clusters of shards have changed.
  public func notice() { signal.yield() }

  /// Called once.
  public func run() async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { [self] in
        for await peers in bus.peerChanges() {
          state.withLock { $0.peers = peers }
          signal.yield()
        }
        signal.finish()
      }
      group.addTask { [self] in
        // Dropped because a cancelled sleep means that the publisher ends.
        try? await Task.sleep(for: gracePeriod)
        state.withLock { $0.graceIsOver = true }
        signal.yield()
      }
      var assignment = ShardAssignment(
        shardCount: shardCount, splits: splits, persisted: persisted, epoch: epoch, startVersion: startVersion,
        leastVersion: leastVersion)
      for await _ in signals {
        await follow(&assignment)
        if successor != nil { break }
      }
      group.cancelAll()
    }
    pushes.close()
  }

  /// Sends newcomers the present map, and everybody the next one when there is one.
  private func follow(_ assignment: inout ShardAssignment) async {
    var pause = Duration.milliseconds(50)
    while !Task.isCancelled {
      let (peers, graceIsOver) = state.withLock { ($0.peers, $0.graceIsOver) }
      guard let peers else { return }
      if let followed = peers.compactMap(\.epoch).max(), followed > epoch {
        return state.withLock { $0.successor = followed }
      }
      let splits = assignment.map.splits ?? []
      // An earlier release gets no map that it would take for another one, and so does no work.
      for newcomer in pushes.subscribers(peers.filter { $0.knows(splits) }) where assignment.map.version > 0 {
        pushes.push(assignment.map, to: newcomer)
      }
      do {
        let workers = peers.filter { $0.role == .worker && $0.isReady }
        let places = try await places(Set(workers.flatMap(\.reachedClusters)))
        guard
          let next = assignment.next(
            peers: peers + [bus.own], graceIsOver: graceIsOver, clusters: places.clusters, splits: places.splits)
        else { return }
        try await persist(next)
        assignment.commit(next)
        state.withLock { $0.map = next }
        if places.splits != splits { pushes.subscribers(peers.filter { $0.knows(places.splits) }) }
        pushes.push(next)
        complain(of: next)
        return
      } catch {
        report("the next cluster map was not kept: \(error)")
        // Dropped because the loop ends with the task.
        try? await Task.sleep(for: pause)
        pause = min(pause * 2, .seconds(2))
      }
    }
  }

  /// Says once which shards no ready worker reaches.
  private func complain(of map: ClusterMap) {
    let complaint = map.unreached.map { cluster, shards in
      "no ready worker reaches the cluster \(cluster) of the shards \(shards.map(String.init).joined(separator: ", "))"
    }.joined(separator: "; ")
    let isNew = state.withLock { state in
      defer { state.complaint = complaint }
      return state.complaint != complaint
    }
    if isNew, !complaint.isEmpty { report(complaint + ": name it in --records of a worker") }
  }
}
