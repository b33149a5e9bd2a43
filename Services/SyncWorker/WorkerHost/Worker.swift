// Puts the worker's parts together, for the command and for tests over a bus in memory.

import Assets
import Crypto
import Mirroring
import ObjectPlane
import RecordPlane
package import RecordStore
import Records
public import ServiceBus
public import ServiceKit
import SharedStores
import Synchronization
import WebServices
import ZoneActions
import ZoneCommit

/// Serves the shards that the cluster map gives it.
public final class Worker: Sendable {
  /// The newest stored format that shards are brought to.
  public static let shardFormat = SQLiteRecordStore.format

  /// The parts that exist once the share service has answered.
  struct Parts: Sendable {
    let host: ShardHost
    let epochs: ShardEpochs
    let schemas: DirectorySchemaSource
    let generations: EnvironmentGenerations
    let duplicates: DuplicateKeeper
    let changes: ConflatedChangePublisher
    let audit: AccessAudit
    let sharedFiring: SharedDatabaseFiring
    let census: ShardCensus
    let loads: ShardLoads
    let records: RecordPlane
    let mirror: MirrorAPI
  }

  let context: ServiceContext
  private let dataPath: String
  private let folders: DataFolders
  private let assets: any AssetStore
  private let meter: RequestMeter
  /// Counts calls about short GUIDs.
  let shareCalls: Family<Counter>
  private let makeStore: @Sendable (_ shardCount: Int, _ installation: InstallationID) throws -> any RecordStore
  private let parts = Mutex<Parts?>(nil)

  /// - Throws: `ExitError` when the key file can't be used.
  public convenience init(_ context: ServiceContext) throws { try self.init(context, through: { $0 }) }

  /// - Parameter through: wraps the record store. Tests use it to choose the moment at which the process dies.
  /// - Throws: `ExitError` for an unusable key file, or an asset threshold that is too low.
  package convenience init(_ context: ServiceContext, through: @escaping @Sendable (any RecordStore) -> any RecordStore)
    throws
  {
    let dataPath = context.options.requiredText("data")
    let keys = try EncryptionKeys.ring(context.options)
    if let threshold = context.options.integer("asset-threshold"), (1..<Self.lowestAssetThreshold).contains(threshold) {
      throw ExitError(
        .configuration, "--asset-threshold is \(threshold); it must be 0 or at least \(Self.lowestAssetThreshold).")
    }
    let log = context.log
    let given = try AssetPlace(context, keys: keys)
    let records = try RecordPlace(context, data: dataPath, assets: given)
    let place = given ?? .folder(dataPath + "/assets", keys: keys)
    var options = StoreOptions()
    options.keepsPastStates = Self.recordRetention(context) > .zero
    self.init(
      context, dataPath: dataPath, keys: keys, assets: place, records: records,
      makeStore: { [options] shardCount, installation in
        through(
          try records.store(
            shardCount: shardCount, assets: place.store, keys: keys, installation: installation, options: options,
            log: log))
      })
  }

  init(
    _ context: ServiceContext, dataPath: String, keys: KeyRing = KeyRing(), assets: AssetPlace? = nil,
    records: RecordPlace? = nil,
    makeStore: @escaping @Sendable (_ shardCount: Int, _ installation: InstallationID) throws -> any RecordStore
  ) {
    self.context = context
    self.dataPath = dataPath
    let place = assets ?? .folder(dataPath + "/assets", keys: keys)
    folders = DataFolders(context, (records ?? .folder(dataPath)).claims(keys: keys) + [(.assets, place)])
    self.assets = place.store
    self.makeStore = makeStore
    meter = RequestMeter(context.metrics, log: context.log, clock: context.clock)
    shareCalls = context.metrics.counters(
      "share_calls_total", "Lookups of short GUIDs, by purpose and outcome.", labels: ["purpose", "outcome"])
  }

  /// Bytes (docs/protocol/mirroring.md#names-and-limits).
  private static let lowestAssetThreshold = 100

  /// Bytes; nil: no threshold.
  private var assetThreshold: Int? { context.options.integer("asset-threshold").flatMap { $0 == 0 ? nil : $0 } }

  private static func recordRetention(_ context: ServiceContext) -> Duration {
    context.options.duration("record-retention") ?? .seconds(604_800)
  }

  // MARK: Life

  /// Registers the messages that the worker answers, on the bus that `start` is called with.
  public func register(in handlers: inout BusHandlers) {
    registerStorage(in: &handlers)
    handlers.on(DatabaseRequest.self, isBrief: Self.isBrief) { [self] request, body, context in
      try await respond(to: request, body: body, context).onBus
    }
    handlers.on(GuestRequest.self, isBrief: Self.isBrief) { [self] message, body, context in
      let request = message.request
      guard request.plane == .object else { return try await respond(to: request, body: body, context).onBus }
      return try await respond(to: request, context) { parts, store, startNext throws(RecordError) in
        try await parts.mirror.respond(toGuest: message, body: body, in: store, startNext: startNext)
      }.onBus
    }
    handlers.on(GuestResolve.self) { [self] message, _, _ in
      Answer(Acknowledgement(), body: try await resolve(message.message))
    }
    handlers.on(ResolveShortGUIDs.self) { [self] message, _, _ in
      Answer(Acknowledgement(), body: try await resolve(message))
    }
    serveShareQuestions(in: &handlers)
    handlers.on(WorkerReport.self) { [self] message, _, _ in
      if let refusal = folders.refusal { return Answer(Acknowledgement(), body: WorkerReports.refusal(refusal)) }
      let parts = try openParts()
      let totals = await parts.host.totals
      let condition = await WorkerReports.Condition(
        problems: parts.host.problems, figures: parts.census.sum,
        queue: (Int(totals.values["queue_length"] ?? 0), Int(totals.longestQueue)),
        disk: DiskSpace(of: dataPath))
      let reports = await WorkerReports(
        stores: parts.host.openStores, openingCount: parts.host.openingCount,
        pendingPingCount: parts.changes.pendingCounts.values.reduce(0, +),
        standings: parts.host.standings, loads: parts.loads.all, condition: condition,
        facts: { database, mirror, id in await parts.mirror.objects.facts(of: mirror, in: database.id, id) })
      return Answer(Acknowledgement(), body: try await reports.answer(message))
    }
    handlers.on(WorkerCommand.self) { [self] message, _, _ in
      let parts = try openParts()
      let commands = await WorkerCommands(stores: parts.host.openStores, clock: context.clock) { key, shard in
        parts.mirror.objects.exports.signal(.backlog(mirrorKey: key), on: shard)
      }
      return Answer(Acknowledgement(), body: try await commands.answer(message))
    }
    handlers.on(PushZoneChanges.self) { [self] message, _, _ in
      parts.withLock { $0 }?.sharedFiring.note(message.changes)
      return Answer(Acknowledgement())
    }
    handlers.on(DirectoryChanged.self) { [self] message, _, _ in
      if let parts = parts.withLock({ $0 }) {
        await parts.schemas.invalidate(message)
        parts.generations.note(message)
        if message.schemas.isEmpty { return Answer(Acknowledgement()) }
        parts.duplicates.schemasChanged()
        parts.mirror.objects.schemasChanged()
      }
      return Answer(Acknowledgement())
    }
  }

  /// Waits for the share service, then serves in the background until the service is closed.
  /// - Throws: when the data folder can't be used, or the task is cancelled.
  public func start(on bus: any Bus) async throws -> any Service {
    let signingKey = try await fetchSigningKey(bus)
    let shardCount = try await createdShardCount()
    let installation = InstallationID(signingKey: signingKey)
    try await folders.claim(on: bus) { installation }
    let parts = makeParts(bus, signingKey, try makeStore(shardCount, installation))
    await parts.epochs.fetch()
    self.parts.withLock { $0 = parts }
    WorkerMetrics.add(to: context.metrics, parts, clock: context.clock)
    context.metrics.addDisk(of: dataPath)
    return RunningWorker(parts: parts, cluster: context.cluster, name: context.name)
  }

  private func fetchSigningKey(_ bus: any Bus) async throws -> [UInt8] {
    while true {
      do throws(BusError) {
        return try await bus.call(FetchSecrets(), to: .role(.share), within: .seconds(2)).signingKey
      } catch {
        context.log.debug("waiting for the share service", ["code": .text(error.code.rawValue)])
        try await context.timing.sleep(.milliseconds(100))
      }
    }
  }

  /// The number of shards that the installation was created with.
  private func createdShardCount() async throws -> Int {
    for await map in context.cluster.updates() {
      if let layout = map.layout { return layout.createdCount }
    }
    throw CancellationError()
  }

  private func makeParts(_ bus: any Bus, _ signingKey: [UInt8], _ store: any RecordStore) -> Parts {
    let schemas = DirectorySchemaSource(bus: bus, clock: context.clock, log: context.log)
    let changes = ConflatedChangePublisher(bus: bus)
    let audit = AccessAudit(context.log)
    let sleep = context.timing.sleep
    let pause: @Sendable (Duration) async -> Void = { duration in
      // Dropped because a caller that pauses checks the cancellation of its task itself.
      try? await sleep(duration)
    }
    let audiences = ShareAudiences(context.log, pause: pause)
    let subscriptions = SubscriptionIndexes()
    let firing = SharedDatabaseFiring(
      schemas: schemas, indexes: subscriptions, changes: changes, random: context.random, log: context.log)
    let publisher = AudiencePublisher(audiences: audiences, changes: changes, indexes: subscriptions, firing: firing)
    let shareNewsSignals = ShareNewsSignals()
    let backlog = DuplicateBacklog()
    let late = LateFirings(changes: publisher, random: context.random, log: context.log, pause: pause)
    let commits = CommitContext(
      clock: context.clock, random: context.random, log: context.log, schemas: schemas,
      userQuota: Int64(context.options.integer("user-quota") ?? 0),
      subscriptions: subscriptions,
      effects: EffectsPublisher(
        changes: publisher, lateFirings: late, audiences: audiences, shareNews: shareNewsSignals, duplicates: backlog))
    let signing = AssetSigning(key: signingKey, clock: context.clock)
    let people = DirectoryPeople(bus: bus, log: context.log)
    let records = RecordPlane(
      context: RecordContext(
        commits: commits, assets: assets, signing: signing, people: people, audit: audit,
        queryPageCost: QuerySearch.pageCost, queryCounts: QueryCounts(), pages: SharedPages(pause: pause)))
    let objects = ObjectContext(
      commits: commits, steadyClock: SteadyClock(keptAt: dataPath + "/steady-clock", wall: context.clock),
      assets: assets, signing: signing, people: people,
      assetThresholdByteCount: assetThreshold, storeLimit: context.options.integer("user-stores") ?? 500, pause: pause,
      watches: StoreWatches(),
      recentExports: RecentExports())
    let mirror = MirrorAPI(
      context: SharedContext(
        object: objects, owners: OwnersByBus(bus: bus, cluster: context.cluster, timing: context.timing)))
    let keeper = AssetKeeper(
      assets: assets, grace: context.options.duration("asset-grace") ?? .seconds(86_400), clock: context.clock,
      log: context.log, pause: pause)
    let history = HistoryKeeper(
      retention: context.options.duration("history-retention") ?? .seconds(7_776_000), clock: context.clock,
      log: context.log, pause: pause)
    let transactions = TransactionKeeper(clock: context.clock, log: context.log, pause: pause)
    let past = PastKeeper(
      retention: Self.recordRetention(context), clock: context.clock, log: context.log, pause: pause)
    let conflicts = PastKeeper(
      subject: .conflicts, retention: context.options.duration("conflict-retention") ?? .seconds(7_776_000),
      clock: context.clock, log: context.log,
      pause: pause)
    let duplicates = DuplicateKeeper(commits, pause: pause)
    let shareNews = ShareNews(
      signals: shareNewsSignals, tell: DirectorySharingIndex(bus: bus), timing: context.timing, log: context.log)
    let census = ShardCensus(metrics: context.metrics, clock: context.clock, log: context.log, pause: pause)
    let loads = ShardLoads(clock: context.clock, log: context.log, pause: pause)
    let generations = EnvironmentGenerations(
      schemas: schemas, changes: publisher, clock: context.clock, log: context.log, pause: pause)
    let epochs = ShardEpochs(
      bus: bus, cluster: { store.placement(ofShard: $0)?.cluster }, log: context.log, pause: pause)
    let host = ShardHost(
      name: context.name, store: store, epochs: epochs,
      work: [
        mirror, records, epochs, keeper, history, transactions, past, conflicts, generations, duplicates, audiences,
        shareNews, census, loads,
      ],
      log: context.log, checksFirst: context.options.flag("verify"), pause: pause, patience: pause)
    return Parts(
      host: host, epochs: epochs, schemas: schemas, generations: generations, duplicates: duplicates, changes: changes,
      audit: audit,
      sharedFiring: firing, census: census, loads: loads, records: records, mirror: mirror)
  }

  // MARK: Requests

  /// Small writes: they wait for the shard's writer and do little before and after. Reads may answer whole pages.
  private static let isBrief: @Sendable (_ key: String, _ byteCount: Int) -> Bool = { key, byteCount in
    !key.isEmpty && byteCount <= 16 * 1024
  }

  func openParts() throws -> Parts {
    guard let parts = parts.withLock({ $0 }) else { throw BusError(.notMine, "this worker has no cluster map yet") }
    return parts
  }

  /// Answers a request by one of the planes.
  private typealias Answering =
    @Sendable (_ parts: Parts, _ store: any ShardStore, _ startNext: @Sendable () -> Void) async throws(RecordError) ->
    PlaneAnswer

  private func respond(to request: DatabaseRequest, body: [UInt8], _ call: CallContext) async throws -> PlaneAnswer {
    try await respond(to: request, call) { parts, store, startNext throws(RecordError) in
      switch request.plane {
      case .record: try await parts.records.respond(to: request, body: body, in: store, startNext: startNext)
      case .object: try await parts.mirror.respond(to: request, body: body, in: store, startNext: startNext)
      }
    }
  }

  private func respond(to request: DatabaseRequest, _ call: CallContext, _ answering: Answering) async throws
    -> PlaneAnswer
  {
    try await RequestTrace.$id.withValue(request.traceID) { try await traced(request, call, answering) }
  }

  private func traced(_ request: DatabaseRequest, _ call: CallContext, _ answering: Answering) async throws
    -> PlaneAnswer
  {
    let parts = try openParts()
    let start = context.timing.now()
    let result = try await outcome(of: request, parts, call, answering)
    let duration = start.duration(to: context.timing.now())
    let error: RecordError? = if case .failure(let error) = result { error } else { nil }
    meter.count(
      request, inShard: context.cluster.layout?.shard(of: request.database) ?? -1, error: error, took: duration)
    switch result {
    case .success(let answer): return answer
    case .failure(let error): return Self.refusal(error, of: request)
    }
  }

  /// - Throws: `BusError` for the gateway, which then asks another worker or asks later.
  private func outcome(
    of request: DatabaseRequest, _ parts: Parts, _ call: CallContext, _ answering: Answering
  ) async throws -> Result<PlaneAnswer, RecordError> {
    guard request.caller.member?.maySee(request.database.container) ?? true else {
      return .failure(RecordError(.accessDenied, "The caller is not a developer of this container"))
    }
    let store: any ShardStore
    do {
      store = try await parts.host.store(of: request.database)
    } catch let error as RecordError {
      // The file is of a newer release: a worker of that release will hold the shard.
      if error == .shardMoved { throw BusError(.notMine, "a shard's file is of a newer release than this worker") }
      return .failure(error)
    }
    do throws(RecordError) {
      if !parts.generations.isSettled(request.database) {
        try await parts.generations.settle(
          request.database, in: store,
          isGuest: request.scope == .shared && request.caller.userRecordName != request.database.owner)
      }
      return .success(try await answering(parts, store.turns(of: request.party)) { call.startNext() })
    } catch {
      guard error == .shardMoved else { return .failure(error) }
      await parts.host.lost(store)
      throw BusError(.notMine, "shard \(store.shard) is no longer held here")
    }
  }

  /// The one place that renders errors of whole requests.
  private static func refusal(_ error: RecordError, of request: DatabaseRequest) -> PlaneAnswer {
    let body =
      request.plane == .object ? error.mirrorDictionary(uuid: request.uuid) : error.dictionary(uuid: request.uuid)
    return PlaneAnswer(status: error.status, retryAfter: error.retryAfter, error: error, body: body)
  }
}
