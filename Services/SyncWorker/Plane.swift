// What the worker's two planes share: the world they stand in, and how they answer.

import Assets
import RecordStore
import Records
import ServiceBus
import ServiceKit

/// Where workers get schemas from: a cache over the share service, or a fixed value in tests.
protocol SchemaSource: Sendable {
  /// - Throws: `RecordError.notFound` for an unknown container, `.tryAgainLater` while the directory is away and nothing is cached.
  func schema(of container: ContainerID, _ environment: Environment) async throws(RecordError) -> EnvironmentSchema
  /// Adds to a development schema; returns when the directory has it.
  func extend(_ container: ContainerID, with fields: [ExtendSchema.SchemaField]) async throws(RecordError)
  /// What a user was given who is not there to be asked; nil: nothing, or nobody can tell now.
  func standing(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async -> UserStanding?
}

/// Takes what happened after its commit and pushes it on: zone changes conflated, notifications as they merge.
protocol ChangePublisher: Sendable {
  func publish(_ change: ZoneChange)
  func publish(_ notification: SubscriptionNotification)
  func publish(_ change: StoreChange)
}

/// What a plane's handlers are given.
struct PlaneContext: Sendable {
  let clock: any WallClock
  /// By which leases run, whatever becomes of the wall clock (`SteadyClock`); nil: by that.
  var steadyClock: (any WallClock)?
  let random: any RandomSource
  let log: Log
  let schemas: any SchemaSource
  let changes: any ChangePublisher
  let assets: AssetStore
  /// Signs asset URLs (`FetchSecrets`).
  let signingKey: [UInt8]
  /// Values of attributes with at least so many bytes become assets (`ckAssetThresholdBytes`); nil: only what a record has no room for.
  var assetThresholdByteCount: Int?
  /// Bytes that a database of a user without a quota of his own may hold; 0: any number.
  var userQuota: Int64 = 0
  /// Mirrored stores that a user may have of one database; 0: any number.
  var storeLimit = 0
  /// What one page of a query costs (`QuerySearch.pageCost`).
  var queryPageCost = QuerySearch.pageCost
  /// Queries that cost more than one answer may: one for all planes of a worker.
  var queryCounts = QueryCounts()
  /// What is known of databases' subscriptions: one for all planes of a worker.
  var subscriptions = SubscriptionIndexes()
  /// What commits fire: one for all planes of a worker.
  let lateFirings: LateFirings
  /// Returns after that time, or early when its task is cancelled.
  var pause: @Sendable (Duration) async -> Void = { _ in await Task.yield() }
  /// Who waits for which store: one for all planes of a worker.
  var watches = StoreWatches()
  /// Which run exported what: one for all planes of a worker.
  var recentExports = RecentExports()
  /// Where more duplicates are left than one commit may merge.
  var duplicates = DuplicateBacklog()
  /// Whom invitations mean.
  var people: any PeopleSource = NoDirectory()
  /// Who tried to come to what is not his: one for all planes of a worker.
  var audit = AccessAudit(.silent)
  /// Whom changes of shared zones are told to: one for all planes of a worker.
  var audiences = ShareAudiences(.silent)
  /// Told of commits that change who has access to what.
  var shareNews = ShareNewsSignals()
  /// Where objects of the shared database are.
  var owners: any Owners = NoOwners()
}

/// Queries that were answered in part, or not.
final class QueryCounts: Sendable {
  /// Pages that ended because of what they cost.
  let cutPages = Counter()
  /// Searches that could not end so, and cost too much.
  let givenUp = Counter()
}

/// An HTTP answer a plane made.
struct PlaneAnswer: Sendable {
  var status = 200
  /// nil: JSON.
  var contentType: String?
  var retryAfter: Int?
  var mayWait = false
  var body: [UInt8]
}

/// Background work on a shard that this worker holds.
protocol ShardWork: Sendable {
  /// Started when the shard is open, cancelled before it is let go of, which waits for the return. Returning early is fine.
  func run(on store: any ShardStore) async
}

extension ShardWork {
  /// Tells of a round of work that failed. A shard that was fenced or closed is somebody else's to look after; anything else is tried again in the
  /// next round.
  func report(_ message: StaticString, _ error: any Error, on store: any ShardStore, to log: Log) {
    switch error {
    case is CancellationError, StoreError.fenced, StoreError.closed: break
    default: log.error(message, ["shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
    }
  }
}

/// One call on one shard. What its store throws becomes a `RecordError`.
protocol ShardCall: Sendable {
  var store: any ShardStore { get }
  var context: PlaneContext { get }
}

/// A client's, operator's or home's call about one database.
protocol DatabaseCall: ShardCall {
  var request: DatabaseRequest { get }
}

extension ShardCall {
  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws(RecordError) -> Value {
    do {
      return try await store.read(body)
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
  }

  func value<Value: Sendable>(of commit: PendingCommit<Value>) async throws(RecordError) -> Value {
    do {
      return try await commit.value
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
  }
}

/// A plane: turns a request that was routed to a shard it holds into an answer.
///
/// What stores throw becomes a `RecordError` by `RecordError(storing:)`; the shard's host recognises `RecordError.shardMoved`.
protocol Plane: ShardWork {
  /// - Parameter startNext: to be called once the request has its place in the shard's writer queue.
  /// - Throws: `RecordError` for a failure of the whole request; the caller renders it as the error dictionary.
  func respond(
    to request: DatabaseRequest, body: [UInt8], in store: any ShardStore, startNext: @Sendable () -> Void
  ) async throws(RecordError) -> PlaneAnswer
  /// Told that environments may have other schemas than before.
  func schemasChanged() async
}

extension Plane {
  func schemasChanged() async {}
  func run(on store: any ShardStore) async {}
}

extension DatabaseRequest {
  /// The request's identifier as answers show it.
  var uuid: String {
    if let traceID { return traceID }
    // Of a gateway that says nothing else: without what it put before the client's own.
    guard let colon = requestID.firstIndex(of: ":") else { return requestID }
    return String(requestID[requestID.index(after: colon)...])
  }
}
