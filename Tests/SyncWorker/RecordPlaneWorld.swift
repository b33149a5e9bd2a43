// A record plane over a store of choice, with everything around it under the tests' control.

import Assets
import FixedClocks
import Foundation
import InMemoryRecordStore
import JSON
import ObjectModel

@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices
@testable import SharedStores
@testable import ZoneCommit

/// Random bytes from a seed.
final class SeededRandom: RandomSource, RandomNumberGenerator {
  private let state: Mutex<UInt64>

  init(seed: UInt64) { state = Mutex(seed) }

  /// SplitMix64.
  func next() -> UInt64 {
    state.withLock { state in
      state &+= 0x9e37_79b9_7f4a_7c15
      var z = state
      z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
      z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
      return z ^ (z >> 31)
    }
  }

  func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) } }
}

/// A directory of one schema an environment, that development may extend.
final class FixedSchemas: SchemaSource {
  private let schemas: Mutex<[Environment: Schema]>
  private let versions = Mutex<Int64>(1)
  /// Custom roles by user, as an operator granted them.
  let userRoles = Mutex<[String: [String]]>([:])
  /// Unique constraints on the photo model's entities.
  let rules = Mutex<EnvironmentRules>(.none)

  init(_ schema: Schema = Schema()) { schemas = Mutex([.development: schema, .production: schema]) }

  func schema(of container: ContainerID, _ environment: Environment) async throws(RecordError) -> EnvironmentSchema {
    let schema = schemas.withLock { $0[environment] ?? Schema() }
    let model = ModelIndex(PhotoModel.model)
    return EnvironmentSchema(
      version: versions.withLock { $0 }, schema: schema, models: [model.modelHash: PhotoModel.model],
      latestModelHash: model.modelHash,
      userRoles: userRoles.withLock { $0 }, rules: rules.withLock { $0 })
  }

  func standing(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async -> UserStanding?
  { nil }

  func extend(_ container: ContainerID, with fields: [ExtendSchema.SchemaField]) async throws(RecordError) {
    versions.withLock { $0 += 1 }
    schemas.withLock { schemas in
      var schema = schemas[.development] ?? Schema()
      for field in fields where schema.recordType(named: field.recordType)?.field(named: field.field) == nil {
        let added = Schema.Field(name: field.field, type: field.type, isEncrypted: field.isEncrypted)
        if let index = schema.recordTypes.firstIndex(where: { $0.name == field.recordType }) {
          schema.recordTypes[index].fields.append(added)
        } else {
          schema.recordTypes.append(Schema.RecordType(name: field.recordType, fields: [added], grants: []))
        }
      }
      schemas[.development] = schema
    }
  }
}

/// Keeps what was published.
final class PublishedChanges: ChangePublisher {
  private let changes = Mutex<[ZoneChange]>([])
  private let notifications = Mutex<[SubscriptionNotification]>([])
  private let stores = Mutex<[StoreChange]>([])
  func publish(_ change: ZoneChange) { changes.withLock { $0.append(change) } }
  func publish(_ notification: SubscriptionNotification) { notifications.withLock { $0.append(notification) } }
  func publish(_ change: StoreChange) { stores.withLock { $0.append(change) } }
  /// The changes of watched stores since the last call.
  func takeStores() -> [StoreChange] {
    stores.withLock { stores in
      defer { stores = [] }
      return stores
    }
  }
  /// The notifications of subscriptions since the last call.
  func takeNotifications() -> [SubscriptionNotification] {
    notifications.withLock { notifications in
      defer { notifications = [] }
      return notifications
    }
  }
  /// The published changes since the last call.
  func take() -> [ZoneChange] {
    changes.withLock { changes in
      defer { changes = [] }
      return changes
    }
  }
}

struct PlaneReply {
  let status: Int
  let bytes: [UInt8]
  let json: JSONValue

  var text: String { String(decoding: bytes, as: UTF8.self) }
  var code: String? { json["serverErrorCode"]?.string }
  var reason: String? { json["reason"]?.string }
  var records: [JSONValue] { json["records"]?.elements ?? [] }
  var zones: [JSONValue] { json["zones"]?.elements ?? [] }
  var syncToken: String? { json["syncToken"]?.string }
  var moreComing: Bool? { json["moreComing"]?.bool }
}

/// Alice's (and others') databases in one shard.
final class RecordPlaneWorld {
  static let container = ContainerID(rawValue: "iCloud.org.example.notes")!

  let clock = FixedClock()
  let random: SeededRandom
  let schemas: FixedSchemas
  let changes = PublishedChanges()
  let people = FixedPeople()
  let store: any ShardStore
  let plane: RecordPlane
  /// The services of all planes.
  let context: SharedContext
  private let container: ContainerID
  private var requestCount = 0

  init(
    _ store: any ShardStore, schema: Schema = Schema(), seed: UInt64 = 1,
    container: String = RecordPlaneWorld.container.rawValue,
    assets: any AssetStore = AssetFolder(directory: "/nonexistent"), queryPageCost: Int = QuerySearch.pageCost
  ) {
    self.store = store
    self.container = ContainerID(rawValue: container) ?? Self.container
    random = SeededRandom(seed: seed)
    schemas = FixedSchemas(schema)
    let (audiences, subscriptions) = (ShareAudiences(.silent), SubscriptionIndexes())
    let publisher = AudiencePublisher(audiences: audiences, changes: changes, indexes: subscriptions)
    let context = SharedContext(
      clock: clock, random: random, schemas: schemas, changes: publisher, assets: assets, subscriptions: subscriptions,
      audiences: audiences, people: people)
    self.context = context
    plane = RecordPlane(context: context.records(queryPageCost: queryPageCost))
  }

  /// Over a store in memory.
  static func inMemory(schema: Schema = Schema(), seed: UInt64 = 1, queryPageCost: Int = QuerySearch.pageCost)
    async throws -> RecordPlaneWorld
  {
    let random = SeededRandom(seed: seed)
    return RecordPlaneWorld(
      try await InMemoryRecordStore(shardCount: 1, makeIncarnation: { random.next() }).open(shard: 0), schema: schema,
      seed: seed,
      queryPageCost: queryPageCost)
  }

  func request(
    _ path: String, method: String = "POST", user: String? = "_alice", caller: Caller? = nil, owner: String? = nil,
    scope: DatabaseScope = .private,
    environment: Environment = .development, query: [String: String] = [:], requestID: String? = nil
  ) -> DatabaseRequest {
    requestCount += 1
    let owner = scope == .public ? DatabaseID.publicOwner : owner ?? user ?? "_alice"
    return DatabaseRequest(
      plane: .record, method: method, path: path.split(separator: "/").map(String.init), query: query,
      database: DatabaseID(container: container, environment: environment, owner: owner), scope: scope,
      caller: caller ?? Caller(userRecordName: user),
      requestID: requestID ?? "gateway:\(requestCount)", baseURL: "https://host")
  }

  /// Sends a request, with a failure rendered as the worker does.
  func send(_ request: DatabaseRequest, _ body: String = "") async throws -> PlaneReply {
    try await send(request, bytes: Array(body.utf8))
  }

  func send(_ request: DatabaseRequest, bytes body: [UInt8]) async throws -> PlaneReply {
    do {
      let answer = try await plane.respond(to: request, body: body, in: store, startNext: {})
      return PlaneReply(status: answer.status, bytes: answer.body, json: try JSONValue(parsing: answer.body))
    } catch let error as RecordError {
      let bytes = error.dictionary(uuid: request.uuid)
      return PlaneReply(status: error.status, bytes: bytes, json: try JSONValue(parsing: bytes))
    }
  }

  func post(
    _ path: String, _ body: String, user: String? = "_alice", scope: DatabaseScope = .private,
    query: [String: String] = [:]
  ) async throws -> PlaneReply {
    try await send(request(path, user: user, scope: scope, query: query), body)
  }

  func makeZone(_ name: String = "Trips") async throws {
    let reply = try await post(
      "zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"\#(name)"}}}]}"#)
    try #require(reply.status == 200 && reply.zones.first?["serverErrorCode"] == nil)
    _ = changes.take()
  }

  /// One operation on a record of zone Trips (or another), not atomic.
  func operate(
    _ kind: String, _ name: String, tag: String? = nil, type: String? = "Note", fields: String? = nil,
    zone: String = "Trips", user: String = "_alice",
    scope: DatabaseScope = .private, requestID: String? = nil
  ) async throws -> PlaneReply {
    var record = #""recordName":"\#(name)""#
    if let type { record += #","recordType":"\#(type)""# }
    if let tag { record += #","recordChangeTag":"\#(tag)""# }
    if let fields { record += #","fields":\#(fields)"# }
    return try await send(
      request("records/modify", user: user, scope: scope, requestID: requestID),
      #"""
      {"operations":[{"operationType":"\#(kind)","record":{\#(record)}}],"zoneID":{"zoneName":"\#(zone)"},\#
      "atomic":false}
      """#
    )
  }

  func lookUp(_ names: [String], zone: String = "Trips", user: String = "_alice", scope: DatabaseScope = .private)
    async throws -> PlaneReply
  {
    let records = names.map { #"{"recordName":"\#($0)"}"# }.joined(separator: ",")
    return try await post(
      "records/lookup", #"{"records":[\#(records)],"zoneID":{"zoneName":"\#(zone)"}}"#, user: user, scope: scope)
  }

  /// One page of a zone's feed.
  func changes(since token: String?, zone: String = "Trips", limit: Int? = nil, more: String = "") async throws
    -> JSONValue
  {
    let token = token.map { #","syncToken":"\#($0)""# } ?? ""
    let limit = limit.map { #","resultsLimit":\#($0)"# } ?? ""
    let reply = try await post(
      "changes/zone", #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"}\#(token)\#(limit)\#(more)}]}"#)
    try #require(reply.status == 200)
    return try #require(reply.zones.first)
  }
}

extension JSONValue {
  /// As text, for comparing whole answers.
  var text: String {
    var writer = JSONWriter()
    writer.value(self)
    return String(decoding: writer.bytes, as: UTF8.self)
  }

  var tag: String? { self["recordChangeTag"]?.string }
  var code: String? { self["serverErrorCode"]?.string }
  var reason: String? { self["reason"]?.string }
  var name: String? { self["recordName"]?.string }
  var names: [String] { elements.compactMap(\.name) }
  /// A field's value.
  func value(_ field: String) -> JSONValue? { self["fields"]?[field]?["value"] }
}

/// Makes a folder for `body` and removes it afterwards.
func withTemporaryFolder(_ body: (String) async throws -> Void) async throws {
  let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-worker-\(UUID().uuidString)")
  defer { try? FileManager.default.removeItem(at: folder) }
  try await body(folder.path)
}
