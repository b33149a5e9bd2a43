// Dispatches the calls of the object plane in the worker (docs/protocol/mirror-api.md) and finds their store.

import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

/// The object plane of the shards this worker holds.
struct ObjectPlane: Plane {
  let context: PlaneContext
  let exports = ShardExports()
  let imports = ImportJournal()
  let moves = MoveRuns()

  func respond(
    to request: DatabaseRequest, body: [UInt8], in store: any ShardStore, startNext: @Sendable () -> Void
  ) async throws(RecordError) -> PlaneAnswer {
    if request.path.first == "zones" { return try await ZoneCall(request, body: body, in: store, context).respond(startNext: startNext) }
    let endpoint = try Endpoint.of(request)
    guard let user = request.caller.userRecordName else { throw RecordError(.authenticationRequired, "request needs authorization") }
    let call = StoreCall(request: request, body: body, storeIdentifier: request.path[1], user: user, store: store, plane: self)
    guard request.scope != .shared else {
      // A call on the shared scope goes to the user's home, which asks the guests in others' databases.
      guard request.database.owner == user else { throw call.missing }
      return try await SharedCall(call: call).respond(startNext: startNext)
    }
    return try await endpoint.answer(call, startNext)
  }

  func schemasChanged() async { exports.signalAll(.schemaChanged) }

  /// Facts on a store's exports that are known without reading its changes.
  func facts(of mirror: StoredMirror, in database: DatabaseID, quarantined: Int = 0, _ id: MirrorID) async -> StoreFacts {
    var isModelKnown = true
    do {
      isModelKnown = try await context.schemas.schema(of: database.container, database.environment).mirrorModels[mirror.modelHash] != nil
    } catch {
      // Dropped because a directory that is away says nothing about models.
    }
    return StoreFacts(
      pendingCount: mirror.lastTransactionNumber - mirror.exportedTransactionNumber, quarantinedCount: quarantined,
      isExporting: exports.runs.isRunning(id), isFailing: exports.runs.isFailing(id), isModelKnown: isModelKnown,
      throttledUntil: exports.throttledUntil(id.key, on: id.shard, at: context.clock.now))
  }

  func run(on store: any ShardStore) async {
    await ExportLoop(store: store, context: context, exports: exports).run()
  }
}

/// One call on one store, with everything that a handler needs; each subject's handlers are an extension in a file.
struct StoreCall: DatabaseCall {
  let request: DatabaseRequest
  let body: [UInt8]
  let storeIdentifier: String
  let user: String
  let store: any ShardStore
  let plane: ObjectPlane

  var context: PlaneContext { plane.context }
  var exports: ShardExports { plane.exports }
  var imports: ImportJournal { plane.imports }
  var now: Int64 { context.clock.now }

  // MARK: The store that is meant

  /// The answer for a missing store and for another user's alike.
  var missing: RecordError { RecordError(.notFound, "There is no store \(storeIdentifier) of this user in this database") }

  /// The store's row in `snapshot`. Stores of other users or databases count as missing.
  func mirror(in snapshot: any ShardSnapshot) throws -> StoredMirror {
    guard let database = try snapshot.database(request.database), let mirror = try snapshot.mirror(rowIdentifier, in: database.key),
      mirror.userRecordName == user, mirror.scope == request.scope
    else { throw missing }
    if mirror.lease != 0 { try checkLease(of: mirror, in: snapshot) }
    return mirror
  }

  func locate() async throws(RecordError) -> StoredMirror {
    // A lease has a row of its own, which the cached store lacks.
    if let mirror = store.committedMirror(rowIdentifier, of: request.database), mirror.userRecordName == user, mirror.scope == request.scope, mirror.lease == 0 {
      return mirror
    }
    return try await read { snapshot in try mirror(in: snapshot) }
  }

  /// The model with which the store was set up.
  func model(of mirror: StoredMirror) async throws(RecordError) -> (MirrorModel, EnvironmentSchema) {
    let schema = try await context.schemas.schema(of: request.database.container, request.database.environment)
    guard let model = schema.mirrorModels[mirror.modelHash] else {
      throw RecordError(.conflict, "The environment no longer knows the model of store \(storeIdentifier): push it, then set the store up again")
    }
    return (model, schema)
  }

  // MARK: Query parameters

  /// - Returns: the parameter's value, at most `maximum`.
  /// - Throws: `BAD_REQUEST` unless it is a whole number of at least `minimum`.
  func integer(_ name: String, default value: Int, minimum: Int = 1, maximum: Int) throws(RecordError) -> Int {
    guard let text = request.query[name] else { return value }
    guard let number = Int(text), number >= minimum else { throw RecordError(.badRequest, "\(name) must be an integer of at least \(minimum)") }
    return min(number, maximum)
  }

  func flag(_ name: String) throws(RecordError) -> Bool {
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
  var assetReader: AssetReader { AssetReader(of: request, context) }

  var assetLinks: RecordDictionaryWriter.AssetLinks { context.assetLinks(for: request, shard: store.shard) }

  /// Where a page ends, so that the answer stays well below the bus's message limit.
  static let pageByteCount = 3_000_000

  func event(_ event: StoredEvent) -> MirrorEvent { MirrorEvent(event, storeIdentifier: storeIdentifier) }
}

extension MirrorEvent {
  init(_ event: StoredEvent, storeIdentifier: String) {
    self.init(
      identifier: event.identifier, type: event.kind.wireName, storeIdentifier: storeIdentifier, startDate: event.startedAt, endDate: event.endedAt,
      succeeded: event.succeeded, errorJSON: event.errorJSON, savedCount: event.savedCount, deletedCount: event.deletedCount)
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
