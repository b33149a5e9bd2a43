// A world that makes each kind of write through the planes, in a situation in which a rule applies.

import JSON
import Mirroring
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

/// A kind of write and a rule: one cell of the table.
struct RuleCell: Hashable, Sendable, CustomStringConvertible {
  let write: ZoneWrite
  let rule: WriteRule

  init(_ write: ZoneWrite, _ rule: WriteRule) { (self.write, self.rule) = (write, rule) }

  var description: String { "\(write) × \(rule)" }
}

/// A write in a situation in which a rule bites.
struct RuleSituation: Sendable {
  let cell: RuleCell
  let kind: StoreKind
  /// - Returns: true if the rule took effect; false if the write went through without it.
  let observe: @Sendable (RuleWorld) async throws -> Bool

  init(
    _ write: ZoneWrite, _ rule: WriteRule, on kind: StoreKind = .memory,
    _ observe: @escaping @Sendable (RuleWorld) async throws -> Bool
  ) {
    (cell, self.kind, self.observe) = (RuleCell(write, rule), kind, observe)
  }
}

/// A zone with the user who writes to it.
struct RulePlace: Sendable {
  let scope: DatabaseScope
  let user: String
  let zone: String

  static let home = RulePlace(scope: .private, user: "_alice", zone: ReservedName.privateMirrorZone)
  /// Another zone of alice's.
  static let trips = RulePlace(scope: .private, user: "_alice", zone: "Trips")
  /// The public database, where GRANTs say what bob may do.
  static let open = RulePlace(scope: .public, user: "_bob", zone: ReservedName.defaultZone)

  var isPublic: Bool { scope == .public }
  var database: DatabaseID {
    let owner = isPublic ? DatabaseID.publicOwner : "_alice"
    return DatabaseID(container: ObjectPlaneWorld.container, environment: .development, owner: owner)
  }
}

/// The calls, declarations and looks of situations. Tag E is in the zone, tag N comes; the name of both is "x".
struct RuleWorld: Sendable {
  let base: ObjectPlaneWorld

  /// Tags may point to others by CloudKit references, too.
  init(_ world: ObjectPlaneWorld) async throws {
    base = world
    let schema = try await world.schemas.schema(of: ObjectPlaneWorld.container, .development).schema
    let pointer = Schema.Field(name: "to", type: .reference)
    let tag = Schema.RecordType(name: "CD_Tag", fields: [pointer], grants: [])
    world.schemas.replaceSchema(schema.merging(Schema(recordTypes: [tag]), replacesConflicts: false), in: .development)
  }

  // MARK: Calls

  /// A POST; the gateway sends the caller's quota along.
  func call(
    _ path: String, _ body: String = "", on plane: DatabaseRequest.Plane = .object, query: [String: String] = [:],
    at place: RulePlace = .home, by user: String? = nil, asOperator: Bool = false
  ) async throws -> PlaneReply {
    let user = user ?? place.user
    let quota = base.schemas.userQuotas.withLock { $0[user] }
    let caller =
      asOperator
      ? Caller(userRecordName: nil, isOperator: true)
      : Caller(userRecordName: user, standing: quota.map { UserStanding(quotaByteCount: $0) })
    let request = DatabaseRequest(
      plane: plane, method: "POST", path: path.split(separator: "/").map(String.init), query: query,
      database: place.database, scope: place.scope, caller: caller, requestID: base.random.uuid(),
      baseURL: "https://host")
    if plane == .object { return try await base.send(request, body) }
    do {
      let answer = try await base.records.respond(to: request, body: Array(body.utf8), in: base.store, startNext: {})
      return PlaneReply(status: answer.status, bytes: answer.body, json: try JSONValue(parsing: answer.body))
    } catch let error as RecordError {
      let bytes = error.dictionary(uuid: request.uuid)
      return PlaneReply(status: error.status, bytes: bytes, json: try JSONValue(parsing: bytes))
    }
  }

  func modify(_ operations: String..., at place: RulePlace) async throws -> PlaneReply {
    let list = operations.joined(separator: ",")
    let body = #"{"operations":[\#(list)],"zoneID":{"zoneName":"\#(place.zone)"},"atomic":false}"#
    return try await call("records/modify", body, on: .record, at: place)
  }

  /// Records that a record client makes, one after the other.
  func put(_ operations: String..., at place: RulePlace) async throws {
    for operation in operations {
      let reply = try await modify(operation, at: place)
      try #require(reply.status == 200 && reply.records.allSatisfy { $0.code == nil }, "\(reply.text)")
    }
  }

  /// A tag whose CloudKit reference is validated.
  static func pointer(_ name: String, to target: String) -> String {
    let fields = #""CD_entityName":{"value":"Tag"},"to":{"value":{"recordName":"\#(target)","action":"VALIDATE"}}"#
    return #"{"operationType":"create","record":{"recordName":"\#(name)","recordType":"CD_Tag","fields":{\#(fields)}}}"#
  }

  func setUp(_ store: String, at place: RulePlace = .home) async throws {
    try await base.setUp(store, user: place.user, scope: place.scope)
  }

  /// A save of store A, exported.
  func export(_ changes: String..., by store: String = "A", at place: RulePlace = .home) async throws {
    let saved = try await base.export(store, changes.joined(separator: ","), user: place.user, scope: place.scope)
    try #require(saved.json["event"]?["succeeded"]?.bool == true, "\(saved.text)")
  }

  /// Exports what waits in store A, by a save that says nothing itself.
  /// - Returns: the code of the first refusal; nil: there is none.
  func exportBacklog(at place: RulePlace) async throws -> String? {
    let author = "NSCloudKitMirroringDelegate.import"
    let transaction = #"{"transactionID":"\#(base.random.uuid())","author":"\#(author)","changes":[]}"#
    let body = #"{"transactions":[\#(transaction)]}"#
    let saved = try await call("stores/A/transactions", body, query: ["wait": "export"], at: place)
    try #require(saved.status == 200, "\(saved.text)")
    let event = try #require(saved.json["event"], "\(saved.text)")
    return event["error"]?["partialErrors"]?.elements.first?.code
  }

  /// Lets a zone take a line of an export: a tag with the name "x".
  func importLine(_ name: String, to target: String? = nil, at place: RulePlace) async throws -> PlaneReply {
    let reference = target.map { #"{"recordName":"\#($0)","action":"VALIDATE"}"# }
    let pointer = reference.map { #","to":{"type":"REFERENCE","value":\#($0)}"# } ?? ""
    let tag = #""CD_entityName":{"type":"STRING","value":"Tag"},"CD_name":{"type":"STRING","value":"x"}"#
    let stamp = #"{"userRecordName":"_alice","timestamp":1}"#
    let stamps = #""created":\#(stamp),"modified":\#(stamp)"#
    let record = #""recordName":"\#(name)","recordType":"CD_Tag","fields":{\#(tag)\#(pointer)},\#(stamps)"#
    let path = "zones/\(place.zone)/import"
    return try await call(
      path, #"{"record":{\#(record)}}"#, query: ["merge": "true"], at: place, asOperator: place.isPublic)
  }

  func restore(_ body: String, at place: RulePlace) async throws -> PlaneReply {
    try await call("zones/\(place.zone)/restore", "{\(body)}", at: place, asOperator: place.isPublic)
  }

  /// A share of alice's, to which bob is invited as a reader.
  struct Shared {
    let reply: PlaneReply
    /// Where its objects are.
    let place: RulePlace
    let shortGUID: String
  }

  /// Shares an object of store A in a zone of its own, or in one that is there.
  func share(_ name: String, to zone: String? = nil) async throws -> Shared {
    let bob = #"{"userIdentity":{"userRecordName":"_bob"},"permission":"READ_ONLY"}"#
    let target = zone.map { #"{"zoneName":"\#($0)"}"# } ?? "null"
    let body = #"{"objectIDs":["\#(name)"],"to":\#(target),"participants":[\#(bob)]}"#
    let reply = try await call("stores/A/shares", body)
    let made = reply.json["zoneID"]?["zoneName"]?.string ?? ""
    return Shared(
      reply: reply, place: RulePlace(scope: .private, user: "_alice", zone: made),
      shortGUID: reply.json["share"]?["shortGUID"]?.string ?? "")
  }

  /// - Returns: the error's code; nil: there is none.
  func accept(_ shortGUID: String, by user: String) async throws -> String? {
    let item = ResolveShortGUIDs.Item(shortGUID: shortGUID, fetchesRootRecord: false, desiredKeys: nil)
    let message = ResolveShortGUIDs(
      purpose: .accept, shard: base.store.shard, container: ObjectPlaneWorld.container, environment: .development,
      caller: Caller(userRecordName: user), items: [item], baseURL: "https://host")
    let answer = try await ShareResolution(context: base.records.context, request: message).answer(from: base.store)
    let result = try #require(try JSONValue(parsing: answer).elements.first)
    return result.isNull ? "NOT_FOUND" : result.code
  }

  // MARK: Situations

  /// Leaves no room in alice's database.
  func fill() { base.schemas.userQuotas.withLock { $0 = ["_alice": 1] } }

  /// Sets the permissions of all signed-in users in the public database.
  func grant(_ permissions: Schema.Grant.Permission...) async throws {
    var schema = try await base.schemas.schema(of: ObjectPlaneWorld.container, .development).schema
    for index in schema.recordTypes.indices {
      schema.recordTypes[index].grants = [Schema.Grant(permissions: permissions, role: "_icloud")]
    }
    base.schemas.replaceSchema(schema, in: .development)
  }

  /// Declares that names of tags are unique, once the index knows those that are there.
  func declare(_ policy: EnvironmentRules.Unique.Policy) async throws {
    base.declareTags(.report)
    try await base.settleDuplicates()
    base.declareTags(policy)
  }

  enum Watch {
    case tags, zone, database
  }

  func subscribe(_ watch: Watch, at place: RulePlace = .home) async throws {
    let zone = #""zoneID":{"zoneName":"\#(place.zone)","ownerRecordName":"\#(place.database.owner)"}"#
    let query = #""query":{"recordType":"CD_Tag","filterBy":[]},"firesOn":["create","update","delete"]"#
    let kind =
      switch watch {
      case .tags: #""subscriptionType":"query",\#(zone),\#(query)"#
      case .zone: #""subscriptionType":"zone",\#(zone)"#
      case .database: #""subscriptionType":"database""#
      }
    let body = #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"watch",\#(kind)}}]}"#
    let reply = try await call("subscriptions/modify", body, on: .record, at: place)
    try #require(reply.json["subscriptions"]?.elements.map(\.code) == [nil], "\(reply.text)")
    _ = base.changes.takeNotifications()
  }

  /// True if the subscription was told of the change.
  func isTold(_ watch: Watch) throws -> Bool {
    let kind: [Watch: String] = [.tags: "qry", .zone: "fet", .database: "met"]
    let lines = try base.changes.takeNotifications().map { try $0.line }
    #expect(lines.allSatisfy { $0.hasPrefix("_alice watch: \(kind[watch] ?? "") ") }, "\(lines)")
    return !lines.isEmpty
  }

  // MARK: Looks

  /// The zone's live records; nil: there is no such zone.
  func records(at place: RulePlace) async throws -> [StoredRecord]? {
    try await base.store.enqueue { _ in }.value
    return try await base.store.read { snapshot in
      guard let database = try snapshot.database(place.database),
        let zone = try snapshot.zone(named: place.zone, in: database.key), !zone.isDeleted
      else { return nil }
      return try snapshot.changes(in: zone.key, after: 0, limit: 1000).filter { !$0.isDeleted }
    }
  }

  func record(_ name: String, at place: RulePlace) async throws -> StoredRecord? {
    try await records(at: place)?.first { $0.record.recordName == name }
  }

  /// How many tags have the name "x".
  func count(at place: RulePlace) async throws -> Int {
    try await records(at: place)?.count { $0.record.fields.string("CD_name") == "x" } ?? 0
  }

  /// True if a duplicate was merged.
  func isMerged(at place: RulePlace) async throws -> Bool {
    try await base.store.read { snapshot in
      guard let database = try snapshot.database(place.database),
        let zone = try snapshot.zone(named: place.zone, in: database.key)
      else { return false }
      return try !snapshot.pendingRedirects(in: zone.key, afterName: nil, limit: 1).isEmpty
    }
  }

  /// The database's last sequence.
  func sequence(at place: RulePlace) async throws -> Int64 {
    try await base.store.read { snapshot in try snapshot.database(place.database)?.sequence ?? 0 }
  }
}
