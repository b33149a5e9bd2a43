// A call on one store: its request, the store that it means, and the parts of its answer.

import Mirroring
import ObjectModel
package import RecordStore
package import Records
package import ServiceBus
import ServiceKit
package import WebServices
package import ZoneCommit

/// One call on one store, with everything that a handler needs; each subject's handlers are an extension in a file.
package struct StoreCall: DatabaseCall {
  package let request: DatabaseRequest
  package let body: [UInt8]
  package let storeIdentifier: String
  package let user: String
  package let store: any ShardStore
  package let plane: ObjectPlane

  package init(
    request: DatabaseRequest, body: [UInt8], storeIdentifier: String, user: String, store: any ShardStore,
    plane: ObjectPlane
  ) {
    self.request = request
    self.body = body
    self.storeIdentifier = storeIdentifier
    self.user = user
    self.store = store
    self.plane = plane
  }

  package var context: ObjectContext { plane.context }
  package var exports: ShardExports { plane.exports }
  package var imports: ImportJournal { plane.imports }
  package var now: Int64 { context.clock.now }

  /// True when the store's objects are in this database and the database is another user's.
  package var isGuest: Bool { request.scope == .shared && request.database.owner != user }

  /// The identifier under which the store's row is stored.
  package var rowIdentifier: String {
    isGuest ? StoredMirror.guestIdentifier(storeIdentifier, of: user) : storeIdentifier
  }

  // MARK: The store that is meant

  /// The answer for a missing store and for another user's alike.
  package var missing: RecordError {
    RecordError(.notFound, "There is no store \(storeIdentifier) of this user in this database")
  }

  /// The store's row in `snapshot`. Stores of other users or databases count as missing.
  package func mirror(in snapshot: any ShardSnapshot) throws -> StoredMirror {
    guard let database = try snapshot.database(request.database),
      let mirror = try snapshot.mirror(rowIdentifier, in: database.key),
      mirror.userRecordName == user, mirror.scope == request.scope
    else { throw missing }
    if mirror.lease != 0 { try checkLease(of: mirror, in: snapshot) }
    return mirror
  }

  package func locate() async throws(RecordError) -> StoredMirror {
    // A lease has a row of its own, which the cached store lacks.
    if let mirror = store.committedMirror(rowIdentifier, of: request.database), mirror.userRecordName == user,
      mirror.scope == request.scope, mirror.lease == 0
    {
      return mirror
    }
    return try await read { snapshot in try mirror(in: snapshot) }
  }

  /// The model with which the store was set up.
  package func model(of mirror: StoredMirror) async throws(RecordError) -> (MirrorModel, EnvironmentSchema) {
    let schema = try await context.schemas.schema(of: request.database.container, request.database.environment)
    guard let model = schema.mirrorModels[mirror.modelHash] else {
      throw RecordError(
        .conflict,
        "The environment no longer knows the model of store \(storeIdentifier): push it, then set the store up again")
    }
    return (model, schema)
  }

  // MARK: Query parameters

  /// - Returns: the parameter's value, at most `maximum`.
  /// - Throws: `BAD_REQUEST` unless it is a whole number of at least `minimum`.
  package func integer(_ name: String, default value: Int, minimum: Int = 1, maximum: Int) throws(RecordError) -> Int {
    guard let text = request.query[name] else { return value }
    guard let number = Int(text), number >= minimum else {
      throw RecordError(.badRequest, "\(name) must be an integer of at least \(minimum)")
    }
    return min(number, maximum)
  }

  package func flag(_ name: String) throws(RecordError) -> Bool {
    switch request.query[name] {
    case nil, "false", "0": return false
    case "true", "1", "": return true
    default: throw RecordError(.badRequest, "\(name) must be true or false")
    }
  }

  /// A token of a kind; nil when there is none. An empty one counts as none.
  func token(_ name: String, as kind: SyncToken.Kind) throws(RecordError) -> SyncToken? {
    guard let text = request.query[name], !text.isEmpty else { return nil }
    do {
      return try SyncToken(text, as: kind)
    } catch {
      throw error.recordError
    }
  }

  // MARK: Writing answers

  /// Reads the assets of the caller's requests.
  package var assetReader: AssetReader { context.signing.reader(for: request) }

  package var assetLinks: RecordDictionaryWriter.AssetLinks { context.signing.links(for: request, shard: store.shard) }

  /// Where a page ends, so that the answer stays well below the bus's message limit.
  package static let pageByteCount = 3_000_000

  package func event(_ event: StoredEvent) -> MirrorEvent { MirrorEvent(event, storeIdentifier: storeIdentifier) }
}

extension MirrorEvent {
  package init(_ event: StoredEvent, storeIdentifier: String) {
    self.init(
      identifier: event.identifier, type: event.kind.wireName, storeIdentifier: storeIdentifier,
      startDate: event.startedAt, endDate: event.endedAt,
      succeeded: event.succeeded, errorJSON: event.errorJSON, savedCount: event.savedCount,
      deletedCount: event.deletedCount)
  }
}

extension StoredEvent.Kind {
  var wireName: String {
    switch self {
    case .setup: "setup"
    case .import: "import"
    case .export: "export"
    }
  }

  init?(wireName: String) {
    guard let kind = [Self.setup, .import, .export].first(where: { $0.wireName == wireName }) else { return nil }
    self = kind
  }
}

extension StoreCall {
  /// Refuses the calls about shares; a missing store is reported first.
  func refuseSharing() async throws(RecordError) -> PlaneAnswer {
    _ = try await locate()
    throw RecordError(.badRequest, "\(request.route.path[2]): this server does not offer sharing")
  }
}
