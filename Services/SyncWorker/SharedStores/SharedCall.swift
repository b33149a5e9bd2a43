// Answers calls on a shared store in its home: the user's shard, which keeps the history and asks owners for the rest.

import JSON
import MessagePack
import Mirroring
package import ObjectPlane
import RecordStore
package import Records
import ServiceBus
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
    mirror: StoredMirror, database: DatabaseID, context: SharedContext, baseURL: String = "", standing: UserStanding? = nil,
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

  /// - Parameters:
  ///   - path: the part after the store's identifier.
  ///   - requestID: of the client's request, when repetitions must get the same answer.
  func ask(
    _ owner: String, _ method: String, _ path: [String], query: [String: String] = [:], body: [UInt8] = [], requestID: String? = nil
  ) async throws(RecordError) -> PlaneAnswer {
    try await ask(
      .object, owner, method, ["stores", mirror.identifier] + path, query: query, body: body, requestID: requestID,
      of: GuestRequest.Store(modelHash: mirror.modelHash, configuration: mirror.configuration, deviceName: mirror.deviceName))
  }

  /// Asks the record plane of an owner in the user's name.
  func askRecords(_ owner: String, _ path: [String], body: [UInt8], requestID: String? = nil) async throws(RecordError) -> PlaneAnswer {
    try await ask(.record, owner, "POST", path, query: [:], body: body, requestID: requestID, of: nil)
  }

  private func ask(
    _ plane: DatabaseRequest.Plane, _ owner: String, _ method: String, _ path: [String], query: [String: String], body: [UInt8], requestID: String?,
    of store: GuestRequest.Store?
  ) async throws(RecordError) -> PlaneAnswer {
    let request = DatabaseRequest(
      plane: plane, method: method, path: path, query: query,
      database: DatabaseID(container: database.container, environment: database.environment, owner: owner), scope: .shared,
      caller: Caller(userRecordName: user, standing: standing), requestID: requestID.map { $0 + "/" + owner } ?? context.random.uuid(), baseURL: baseURL)
    return try await context.owners.ask(GuestRequest(request, of: store), body: body, within: remaining)
  }
}

extension PlaneAnswer {
  /// - Throws: the refusal that the answer carries.
  func decoded<Value: Decodable>(as type: Value.Type = Value.self) throws(RecordError) -> Value {
    try check()
    do {
      return try MessagePackDecoder().decode(type, from: body)
    } catch {
      throw RecordError(.internalError, "A worker's answer can't be read")
    }
  }

  /// - Throws: the refusal that the answer carries.
  func json() throws(RecordError) -> JSONValue {
    try check()
    return try Self.parsed(body)
  }

  func check() throws(RecordError) {
    if status == 200 { return }
    let error = try Self.parsed(body)
    let code = (error["serverErrorCode"]?.string).flatMap(ServerErrorCode.init(rawValue:)) ?? .internalError
    let number = (error["ckErrorCode"]?.int64).flatMap { Int(exactly: $0) }
    throw RecordError(
      code, error["reason"]?.string ?? "", retryAfter: retryAfter,
      cocoaErrorCode: (error["cocoaErrorCode"]?.int64).flatMap { Int(exactly: $0) }.flatMap(CocoaErrorCode.init(rawValue:)),
      httpStatus: status == code.row.httpStatus ? nil : status, specialCKErrorCode: number == code.row.ckErrorCode ? nil : number)
  }

  private static func parsed(_ body: [UInt8]) throws(RecordError) -> JSONValue {
    do {
      return try JSONValue(parsing: body)
    } catch {
      throw RecordError(.internalError, "A worker's answer can't be read")
    }
  }
}

extension RecordError {
  /// An owner's worker does not know the user or the store. Any other refusal counts as being away until the owner
  /// answers.
  var isAbsence: Bool { code == .notFound || code == .zoneNotFound }

  /// A refusal of forwarded changes: they connect zones, or belong to no shared object.
  var isRefusedGraph: Bool { code == .badRequest && (cocoaErrorCode == .mirroring || cocoaErrorCode == .noZoneAssigned) }

  /// The error for a client that can't do anything about it.
  var asAway: RecordError {
    if code.row.isRetryable { return self }
    return RecordError(.tryAgainLater, "An owner's database does not take part now: \(reason)", retryAfter: Self.awaySeconds)
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
  package func respond(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer? {
    let path = Array(call.request.path.dropFirst(2))
    switch (call.request.method, path.first ?? "", path.count) {
    case ("DELETE", "", 0): return try await forget(startNext: startNext)
    case ("POST", "reset", 1): return try await reset(startNext: startNext)
    case ("POST", "transactions", 1): return try await save(startNext: startNext)
    case ("DELETE", "history", 1): return try await purgeHistory(startNext: startNext)
    case ("GET", "audit", 1): return try await audit()
    case ("GET", "changes", 1): return try await fetchChanges()
    case ("GET", "status", 1): return try await status()
    case ("GET", "objects", 2): return try await object(path[1], path)
    case ("GET", "objects", 3) where path[2] == "explain": return try await object(path[1], path)
    case ("POST", "records", 1): return try await records()
    case ("POST", "permissions", 1): return try await permissions()
    case ("GET", "quarantine", 1): return try await listQuarantine()
    case ("POST", "quarantine", 2) where path[1] == "retry": return try await retryQuarantine()
    case ("POST", "conflicts", 3) where path[2] == "restore": return try await restoreConflict(path[1], startNext: startNext)
    case ("POST", "conflicts", 3): throw Self.refusesResolving
    case ("GET", "shares", 1): return try await shares()
    case ("POST", "shares", 1): throw Self.refusesSharing
    case ("POST", "accept", 1): return try await accept()
    case ("POST", "purge", 1): return try await leave()
    default: return nil
    }
  }

  private static let refusesResolving = RecordError(.badRequest, "A shared store's conflicts wait for no decision: what was lost can be restored")
  private static let refusesSharing = RecordError(
    .badRequest, "objectIDs: the objects of a shared store are shared by their owners; objects are shared out of the private database", cocoaErrorCode: .mirroring)

  func home() async throws(RecordError) -> SharedHome { home(of: try await call.locate()) }

  func home(of mirror: StoredMirror) -> SharedHome {
    SharedHome(
      mirror: mirror, database: call.request.database, context: context, baseURL: call.request.baseURL, standing: call.request.caller.standing)
  }
}
