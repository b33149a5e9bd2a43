// Answers calls on a shared store in its home: the user's shard, which keeps the history and asks owners for the rest.

import JSON
import MessagePack
import Mirroring
package import ObjectPlane
import RecordStore
package import Records
package import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

/// The services of calls on shared stores.
package struct SharedContext: CommittingContext {
  package let object: ObjectContext
  /// Finds the owners of objects in the shared database.
  package let owners: any Owners

  package init(object: ObjectContext, owners: any Owners) {
    self.object = object
    self.owners = owners
  }

  package var commits: CommitContext { object.commits }
}

/// Asks owners on behalf of one shared store.
struct SharedHome: Sendable {
  let mirror: StoredMirror
  /// The database that has the store's row: the user's own.
  let database: DatabaseID
  let context: SharedContext
  /// For URLs in answers.
  var baseURL = ""
  var standing: UserStanding?
  /// The end of all questions of one call.
  let deadline: ContinuousClock.Instant

  /// - Parameter deadline: of all questions together.
  init(
    mirror: StoredMirror, database: DatabaseID, context: SharedContext, baseURL: String = "",
    standing: UserStanding? = nil,
    deadline: ContinuousClock.Instant = .now + patience
  ) {
    self.mirror = mirror
    self.database = database
    self.context = context
    self.baseURL = baseURL
    self.standing = standing
    self.deadline = deadline
  }

  var user: String { mirror.userRecordName }

  /// The time for a call with a waiting client: less than the gateway waits.
  static let patience = Duration.seconds(8)
  /// The time for owners to export the forwarded transactions.
  static let exportPatience = Duration.seconds(40)
  /// The least time for one owner, even when others have used up the rest.
  private static let shortestPatience = Duration.milliseconds(500)

  private var remaining: Duration { max(ContinuousClock.now.duration(to: deadline), Self.shortestPatience) }

  /// The owners who share with the user, or did.
  func owners() async throws(RecordError) -> [SharedOwner] { try await ownerList().owners }

  func ownerList() async throws(RecordError) -> SharedOwnerList {
    try await context.owners.owners(sharingWith: user, database.container, database.environment)
  }

  /// - Parameter requestID: of the client's request, when repetitions must get the same answer.
  func ask(
    _ owner: String, _ route: StoreRoute, item: String = "", query: [String: String] = [:], body: [UInt8] = [],
    requestID: String? = nil
  ) async throws(RecordError) -> PlaneAnswer {
    try await ask(owner, .store(route, of: mirror.identifier, item: item), query, body, requestID, of: store)
  }

  /// - Parameter requestID: of the client's request, when repetitions must get the same answer.
  func ask(
    _ owner: String, _ route: GuestRoute, query: [String: String] = [:], body: [UInt8] = [], requestID: String? = nil
  ) async throws(RecordError) -> PlaneAnswer {
    try await ask(owner, .guest(route, of: mirror.identifier), query, body, requestID, of: store)
  }

  /// Asks the record plane of an owner in the user's name.
  func ask(_ owner: String, _ route: RecordRoute, body: [UInt8], requestID: String? = nil) async throws(RecordError)
    -> PlaneAnswer
  {
    try await ask(owner, .record(route), [:], body, requestID, of: nil)
  }

  private var store: GuestRequest.Store {
    GuestRequest.Store(modelHash: mirror.modelHash, configuration: mirror.configuration, deviceName: mirror.deviceName)
  }

  private func ask(
    _ owner: String, _ route: DatabaseRoute, _ query: [String: String], _ body: [UInt8], _ requestID: String?,
    of store: GuestRequest.Store?
  ) async throws(RecordError) -> PlaneAnswer {
    let request = DatabaseRequest(
      route, query: query,
      database: DatabaseID(container: database.container, environment: database.environment, owner: owner),
      scope: .shared,
      caller: Caller(userRecordName: user, standing: standing),
      requestID: requestID.map { $0 + "/" + owner } ?? context.random.uuid(), baseURL: baseURL)
    return try await context.owners.ask(GuestRequest(request.inParts, of: store), body: body, within: remaining)
  }
}

extension PlaneAnswer {
  /// - Throws: the refusal that the answer carries.
  func decoded<Value: Decodable>(as type: Value.Type = Value.self) throws(RecordError) -> Value {
    try check()
    return try AnswerForm.decoded(type, from: body)
  }

  /// - Throws: the refusal that the answer carries.
  func decoded<Value: ProcessAnswer>(as type: Value.Type = Value.self) throws(RecordError) -> Value {
    try check()
    return try Value(body, contentType: contentType)
  }

  /// - Throws: the refusal that the answer carries.
  func check() throws(RecordError) {
    if let error { throw error }
    guard status == 200 else { throw RecordError(.internalError, "A worker answered with status \(status)") }
  }
}

extension RecordError {
  /// An owner's worker does not know the user or the store. Any other refusal counts as being away until the owner
  /// answers.
  var isAbsence: Bool { code == .notFound || code == .zoneNotFound }

  /// A refusal of forwarded changes: they connect zones, or belong to no shared object.
  var isRefusedGraph: Bool {
    code == .badRequest && (cocoaErrorCode == .mirroring || cocoaErrorCode == .noZoneAssigned)
  }

  /// The error for a client that can't do anything about it.
  var asAway: RecordError {
    if code.row.isRetryable { return self }
    return RecordError(
      .tryAgainLater, "An owner's database is not available now: \(reason)", retryAfter: Self.awaySeconds)
  }

  private static let awaySeconds = 5
}

/// A client's call on a shared store.
package struct SharedCall: Sendable {
  /// As if the store were the user's own.
  package let call: StoreCall
  package let context: SharedContext

  package init(call: StoreCall, context: SharedContext) {
    self.call = call
    self.context = context
  }

  /// Answers the calls that differ from those on other stores.
  /// - Returns: nil for a call that is answered as for any store.
  package func respond(to route: StoreRoute, _ item: String, startNext: @Sendable () -> Void) async throws(RecordError)
    -> PlaneAnswer?
  {
    switch route {
    case .forget: return try await forget(startNext: startNext)
    case .reset: return try await reset(startNext: startNext)
    case .saveTransactions: return try await save(startNext: startNext)
    case .purgeHistory: return try await purgeHistory(startNext: startNext)
    case .audit: return try await audit()
    case .fetchChanges: return try await fetchChanges()
    case .status: return try await status()
    case .fetchObject, .explainObject: return try await object(item, route)
    case .fetchRecords: return try await records()
    case .checkPermissions: return try await permissions()
    case .listQuarantine: return try await listQuarantine()
    case .retryQuarantine: return try await retryQuarantine()
    case .restoreConflict: return try await restoreConflict(item, startNext: startNext)
    case .resolveConflict: throw Self.refusesResolving
    case .fetchShares: return try await shares()
    case .shareObjects: throw Self.refusesSharing
    case .acceptShares: return try await accept()
    case .purgeZone: return try await leave()
    case .setUp, .fetchHistory, .fetchConsumers, .registerConsumer, .removeConsumer, .fetchEvents, .listConflicts,
      .moveObjects, .resumeZone:
      return nil
    }
  }

  private static let refusesResolving = RecordError(
    .badRequest, "A shared store's conflicts need no decision: restore the loss instead")
  private static let refusesSharing = RecordError(
    .badRequest, "objectIDs: only owners share the objects of a shared store; share objects of the private database",
    cocoaErrorCode: .mirroring)

  func home() async throws(RecordError) -> SharedHome { home(of: try await call.locate()) }

  func home(of mirror: StoredMirror) -> SharedHome {
    SharedHome(
      mirror: mirror, database: call.request.database, context: context, baseURL: call.request.baseURL,
      standing: call.request.caller.standing)
  }
}
