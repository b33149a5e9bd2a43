// The types that the worker's two planes share: their context, their answers and their protocol.

import Assets
import RecordStore
import Records
import ServiceBus
import ServiceKit

/// Where workers get schemas from: a cache over the share service, or a fixed value in tests.
protocol SchemaSource: Sendable {
  /// - Throws: `RecordError.notFound` for an unknown container, `.tryAgainLater` if the directory is away and
  ///   nothing is cached.
  func schema(of container: ContainerID, _ environment: Environment) async throws(RecordError) -> EnvironmentSchema
  /// Adds to a development schema; returns when the directory has it.
  func extend(_ container: ContainerID, with fields: [ExtendSchema.SchemaField]) async throws(RecordError)
  /// The standing of a user without a request; nil if there is none, or the directory is silent.
  func standing(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async -> UserStanding?
}

/// Publishes the effects of a commit: zone changes conflated, notifications merged.
protocol ChangePublisher: Sendable {
  func publish(_ change: ZoneChange)
  func publish(_ notification: SubscriptionNotification)
  func publish(_ change: StoreChange)
}

/// The services and limits that a plane's handlers work with.
struct PlaneContext: Sendable {
  let clock: any WallClock
  /// The clock of leases (`SteadyClock`), which does not follow the wall clock's jumps; nil: the wall clock.
  var steadyClock: (any WallClock)?
  let random: any RandomSource
  let log: Log
  let schemas: any SchemaSource
  let changes: any ChangePublisher
  let assets: AssetStore
  /// Signs asset URLs (`FetchSecrets`).
  let signingKey: [UInt8]
  /// An attribute's value of at least this many bytes becomes an asset (`ckAssetThresholdBytes`); nil: only a value
  /// that the record has no room for.
  var assetThresholdByteCount: Int?
  /// Bytes that a database may hold if its user has no quota of their own; 0: no limit.
  var userQuota: Int64 = 0
  /// Mirrored stores that a user may have of one database; 0: no limit.
  var storeLimit = 0
  /// The most that one page of a query may cost (`QuerySearch.pageCost`).
  var queryPageCost = QuerySearch.pageCost
  /// Counts queries over the cost limit of one answer; one for all planes of a worker.
  var queryCounts = QueryCounts()
  /// The cached subscriptions of databases; one for all planes of a worker.
  var subscriptions = SubscriptionIndexes()
  /// Fires the subscriptions that commits match; one for all planes of a worker.
  let lateFirings: LateFirings
  /// Returns after that time, or early when its task is cancelled.
  var pause: @Sendable (Duration) async -> Void = { _ in await Task.yield() }
  /// The requests that wait for a store; one for all planes of a worker.
  var watches = StoreWatches()
  /// Remembers the last export runs of stores; one for all planes of a worker.
  var recentExports = RecentExports()
  /// Databases with more duplicates than one commit may merge.
  var duplicates = DuplicateBacklog()
  /// Finds the users that invitations name.
  var people: any PeopleSource = NoDirectory()
  /// Records refused attempts at other users' data; one for all planes of a worker.
  var audit = AccessAudit(.silent)
  /// Finds the users that a change of a shared zone concerns; one for all planes of a worker.
  var audiences = ShareAudiences(.silent)
  /// Hears of commits that change access.
  var shareNews = ShareNewsSignals()
  /// Finds the owners of objects in the shared database.
  var owners: any Owners = NoOwners()
}

/// Counts queries with a partial answer, and queries without one.
final class QueryCounts: Sendable {
  /// Pages that ended early because of their cost.
  let cutPages = Counter()
  /// Searches that cost too much and could not end with a partial page.
  let givenUp = Counter()
}

/// A plane's HTTP answer.
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
  /// Runs from the shard's opening until cancellation. The shard closes after the return. An early return is fine.
  func run(on store: any ShardStore) async
}

extension ShardWork {
  /// Logs a failed round of work. A fenced or closed shard belongs to another worker and is not logged; the next round
  /// tries again after any other error.
  func report(_ message: StaticString, _ error: any Error, on store: any ShardStore, to log: Log) {
    switch error {
    case is CancellationError, StoreError.fenced, StoreError.closed: break
    default: log.error(message, ["shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
    }
  }
}

/// One call on one shard. Errors of its store become a `RecordError`.
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

/// A plane answers a request for a shard that this worker holds.
///
/// `RecordError(storing:)` turns errors of the store into a `RecordError`. `ShardHost` recognises `.shardMoved`.
protocol Plane: ShardWork {
  /// - Parameter startNext: called once the request has its place in the shard's writer queue.
  /// - Throws: `RecordError` for a failure of the whole request; the caller renders it as the error dictionary.
  func respond(
    to request: DatabaseRequest, body: [UInt8], in store: any ShardStore, startNext: @Sendable () -> Void
  ) async throws(RecordError) -> PlaneAnswer
  /// Called when environments may have other schemas than before.
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
    // A gateway of an earlier release sends no trace identifier: drops the prefix that it put before the client's own.
    guard let colon = requestID.firstIndex(of: ":") else { return requestID }
    return String(requestID[requestID.index(after: colon)...])
  }
}
