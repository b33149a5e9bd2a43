// Two owners and a participant, each in a shard of their own, with workers that call one another in memory.

import Assets
import FixedClocks
import Foundation
import InMemoryRecordStore
import JSON
import Mirroring
import ObjectModel

@testable import ObjectPlane
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
@testable import SharedStores
import Sharing
import Synchronization
import Testing
import WebServices
@testable import WorkerHost
@testable import ZoneCommit

/// The shards, the list of who shares with whom, and the faults that tests need.
final class SharedWorld: Sendable {
  static let container = ObjectPlaneWorld.container
  /// Owners alice and carol, participant bob.
  static let users = ["_alice", "_bob", "_carol"]

  let clock = FixedClock()
  let random = SeededRandom(seed: 11)
  let changes = PublishedChanges()
  let schemas = ModelSchemas([.development: [PhotoModel.model]])
  let stores: [any ShardStore]
  let plane: MirrorAPI
  private let link: Link

  /// Carries what homes ask; the numbers of calls say which one fails.
  final class Link: Owners {
    enum Fault {
      /// Nothing arrives.
      case before
      /// The call takes effect, and its answer is lost.
      case after
      /// The owner's worker refuses.
      case refused(RecordError)
    }

    fileprivate let plane = Mutex<MirrorAPI?>(nil)
    fileprivate let stores: [any ShardStore]
    private struct State {
      var away: Set<String> = []
      var hidden: Set<String> = []
      var isListOld = false
      var isEarlier = false
      var fault: (path: String, owner: String?, kind: Fault, count: Int)?
      var first: (path: String, body: @Sendable () async -> Void)?
      var calls: [String] = []
    }

    private let state = Mutex(State())
    /// The answers of owners' record planes; nil: no call arrives there.
    private let records = Mutex<(@Sendable (DatabaseRequest, [UInt8]) async throws -> String)?>(nil)

    init(_ stores: [any ShardStore]) { self.stores = stores }

    var layout: ShardLayout? { ShardLayout(createdCount: stores.count) }
    var calls: [String] { state.withLock { $0.calls } }

    /// Owners whom the list lacks.
    func setHidden(_ owners: Set<String>) { state.withLock { $0.hidden = owners } }
    /// Runs `body` before the next call of that path arrives.
    func before(_ path: String, _ body: @escaping @Sendable () async -> Void) {
      state.withLock { $0.first = (path, body) }
    }
    /// The list of owners is what was known before.
    func setListOld(_ isOld: Bool) { state.withLock { $0.isListOld = isOld } }
    /// Requests lose what releases before `takesParts` neither say nor read: homes and guests see a peer of that time.
    func setEarlier(_ isEarlier: Bool) { state.withLock { $0.isEarlier = isEarlier } }
    func setAway(_ owners: Set<String>) { state.withLock { $0.away = owners } }
    func answerRecords(_ answer: @escaping @Sendable (DatabaseRequest, [UInt8]) async throws -> String) {
      records.withLock { $0 = answer }
    }
    /// The number of next calls of that path that fail.
    func fail(_ path: String, of owner: String? = nil, _ kind: Fault, count: Int = 1) {
      state.withLock { $0.fault = (path, owner, kind, count) }
    }

    private func fault(of path: String, _ owner: String) -> Fault? {
      state.withLock { state in
        state.calls.append("\(owner) \(path)")
        if let fault = state.fault, fault.owner.map({ $0 != owner }) ?? false { return nil }
        guard let fault = state.fault, fault.path == path, fault.count > 0 else { return nil }
        state.fault?.count -= 1
        return fault.kind
      }
    }

    func ask(_ request: GuestRequest, body: [UInt8], within limit: Duration) async throws(RecordError) -> PlaneAnswer {
      let owner = request.request.database.owner
      let path = request.request.route.path.dropFirst(2).joined(separator: "/")
      let first = state.withLock { state in
        defer { if state.first?.path == path { state.first = nil } }
        return state.first?.path == path ? state.first?.body : nil
      }
      await first?()
      let fault = fault(of: path, owner)
      let silence = RecordError(.tryAgainLater, "The service did not answer in time", retryAfter: 1)
      if case .refused(let error) = fault {
        return PlaneAnswer(
          status: error.status, retryAfter: error.retryAfter, error: error, body: error.mirrorDictionary(uuid: "uuid"))
      }
      var isLost = state.withLock { $0.away.contains(owner) }
      if case .before = fault { isLost = true }
      guard let plane = plane.withLock({ $0 }), let shard = SharedWorld.users.firstIndex(of: owner), !isLost else {
        throw silence
      }
      do {
        var decoded = try GuestRequest.decoded(from: request.encoded())
        if state.withLock({ $0.isEarlier }) {
          var plain = decoded.request
          plain.takesParts = false
          decoded = GuestRequest(plain, of: decoded.store)
        }
        let answer: PlaneAnswer
        if decoded.request.plane == .object {
          answer = try await plane.respond(toGuest: decoded, body: body, in: stores[shard], startNext: {})
        } else if let records = records.withLock({ $0 }) {
          answer = PlaneAnswer(body: Array(try await records(decoded.request, body).utf8))
        } else {
          answer = try await RecordPlane(context: plane.context.records()).respond(
            to: decoded.request, body: body, in: stores[shard], startNext: {})
        }
        if case .after = fault { throw silence }
        return answer
      } catch let error as RecordError {
        if error == silence { throw error }
        return PlaneAnswer(
          status: error.status, retryAfter: error.retryAfter, error: error, body: error.mirrorDictionary(uuid: "uuid"))
      } catch {
        throw RecordError(.internalError, "\(error)")
      }
    }

    func resolve(_ message: ResolveShortGUIDs, within limit: Duration) async throws(RecordError) -> [UInt8] {
      guard let plane = plane.withLock({ $0 }) else { return Array("[null]".utf8) }
      return try await ShareResolution(context: plane.context.records(), request: message).answer(
        from: stores[message.shard])
    }

    /// The owners by the sharing index: those with a membership of the user, active or ended.
    func owners(sharingWith user: String, _ container: ContainerID, _ environment: Environment)
      async throws(RecordError) -> SharedOwnerList
    {
      do {
        var owners: [SharedOwner] = []
        for (name, store) in zip(SharedWorld.users, stores) {
          let members = try await store.read { snapshot -> [ShareMember] in
            guard let row = try snapshot.database(SharedWorld.database(name)) else { return [] }
            return try snapshot.members(user, of: row.key)
          }
          if !members.isEmpty, !state.withLock({ $0.hidden.contains(name) }) {
            owners.append(
              SharedOwner(
                name: name, isActive: members.contains(where: \.isActive),
                sequence: members.map { max($0.since, $0.until ?? 0) }.max() ?? 0))
          }
        }
        return SharedOwnerList(owners: owners, isCurrent: !state.withLock { $0.isListOld })
      } catch {
        throw RecordError(.internalError, "\(error)")
      }
    }
  }

  private init(_ stores: [any ShardStore], folder: String) {
    self.stores = stores
    link = Link(stores)
    let context = SharedContext(
      clock: clock, random: random, schemas: schemas, changes: changes,
      assets: AssetFolder(directory: folder + "/assets"), owners: link,
      pause: { [clock] duration in
        clock.advance(by: duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000)
        await Task.yield()
      })
    plane = MirrorAPI(context: context)
    link.plane.withLock { $0 = plane }
  }

  var owners: Link { link }

  /// - Parameter commitFailure: asked at each commit of a user's shard.
  static func with(
    keepsPastStates: Bool = false, commitFailure: @escaping @Sendable (_ user: String) -> StoreError? = { _ in nil },
    _ body: (SharedWorld) async throws -> Void
  ) async throws {
    let folder = NSTemporaryDirectory() + "aquifer-shared-\(SecureRandomName.make())"
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let store = InMemoryRecordStore(
      shardCount: users.count, keepsPastStates: keepsPastStates, commitFailure: { commitFailure(users[$0]) })
    var shards: [any ShardStore] = []
    for shard in users.indices { shards.append(try await store.open(shard: shard)) }
    let world = SharedWorld(shards, folder: folder)
    try await body(world)
    for shard in shards { await shard.close() }
  }

  /// A world in which alice shares Trip, with photo P, with bob.
  static func withTrip(_ permission: SharePermission = .readWrite, _ body: (SharedWorld) async throws -> Void)
    async throws
  {
    try await with { world in
      try await world.makeZone("Trip", of: "_alice", photo: "P")
      try await world.share("Trip", of: "_alice", permission)
      try await world.setUp()
      try await body(world)
    }
  }

  static func database(_ user: String) -> DatabaseID {
    DatabaseID(container: container, environment: .development, owner: user)
  }

  func store(of user: String) throws -> any ShardStore { stores[try #require(Self.users.firstIndex(of: user))] }

  // MARK: Owners' doings

  /// Makes a zone with a photo, as a web application of the owner's does.
  func makeZone(_ zoneName: String, of owner: String, photo: String) async throws {
    try await put(photo, "Photo", ["displayName": "of \(zoneName)"], in: zoneName, of: owner)
  }

  func put(_ name: String, _ entity: String, _ texts: [String: String], in zoneName: String, of owner: String)
    async throws
  {
    let (schema, time, context) = (try await schemas.schema(of: Self.container, .development), clock.now, plane.context)
    try await store(of: owner).enqueue { transaction in
      let database = try transaction.makeDatabase(Self.database(owner))
      let zone = try transaction.makeZone(named: zoneName, in: database.key)
      let stamp = Stamp(timestamp: time, userRecordName: owner)
      var record = Record(
        recordName: name, recordType: "CD_" + entity, fields: Fields(), created: stamp, modified: stamp)
      record.fields[ReservedName.entityName] = Field(.string(entity))
      for (key, text) in texts { record.fields["CD_" + key] = Field(.string(text)) }
      let writer = try context.writer(to: zone, schema, in: transaction)
      _ = try writer.save(record, replacing: transaction.record(named: name, in: zone.key))
    }.value
  }

  /// Adds a user to a zone or changes their permission; nil removes them.
  func share(_ zoneName: String, of owner: String, with user: String = "_bob", _ permission: SharePermission?)
    async throws
  {
    try await store(of: owner).enqueue { transaction in
      let database = try transaction.makeDatabase(Self.database(owner))
      let sequence = try transaction.nextSequence(in: database.key)
      let known = try transaction.members(user, inZone: zoneName, of: database.key).first { $0.isActive }
      var member =
        known
        ?? ShareMember(
          zoneName: zoneName, userRecordName: user, shareName: ReservedName.zoneShareRecordName, rootRecordName: nil,
          role: .privateUser,
          permission: permission ?? .readOnly, since: sequence)
      if let permission { member.permission = permission } else { member.until = sequence }
      try transaction.put(member, of: database.key)
    }.value
  }

  func deleteZone(_ zoneName: String, of owner: String, as end: ZoneEnd = .deleted) async throws {
    try await store(of: owner).enqueue { transaction in
      let database = try transaction.makeDatabase(Self.database(owner))
      guard let zone = try transaction.zone(named: zoneName, in: database.key) else { return }
      for var member in try transaction.members("_bob", inZone: zoneName, of: database.key) where member.isActive {
        member.until = try transaction.nextSequence(in: database.key)
        try transaction.put(member, of: database.key)
      }
      try transaction.deleteZone(zone.key, as: end)
    }.value
  }

  /// Deletes an object, as its owner.
  func bury(_ name: String, in zoneName: String, of owner: String) async throws {
    let (schema, time, context) = (try await schemas.schema(of: Self.container, .development), clock.now, plane.context)
    try await store(of: owner).enqueue { transaction in
      let database = try transaction.makeDatabase(Self.database(owner))
      let zone = try transaction.makeZone(named: zoneName, in: database.key)
      let writer = try context.writer(to: zone, schema, in: transaction)
      guard let row = try transaction.record(named: name, in: zone.key) else { return }
      _ = try writer.delete(row, modified: Stamp(timestamp: time, userRecordName: owner))
    }.value
  }

  /// Does the work of an owner's shard loop for a guest with a due retry.
  func drainGuest(of owner: String) async throws {
    let store = try store(of: owner)
    let schema = try await schemas.schema(of: Self.container, .development)
    for mirror in try await store.read({ snapshot in try snapshot.mirrors(afterKey: 0, limit: 100) })
    where mirror.isGuest {
      let model = try #require(schema.mirrorModels[mirror.modelHash])
      let run = ExportRun(
        mirrorKey: mirror.key, shard: store.shard, database: Self.database(owner), model: model, schema: schema,
        context: plane.context.object)
      _ = try await run.commit(to: store)
    }
  }

  /// The live records of a zone by name, with their display name, value or target.
  func records(_ zoneName: String, of owner: String) async throws -> [String: String] {
    let store = try store(of: owner)
    try await store.enqueue { _ in }.value
    return try await store.read { snapshot in
      guard let row = try snapshot.database(Self.database(owner)),
        let zone = try snapshot.zone(named: zoneName, in: row.key)
      else { return [:] }
      let live = try snapshot.changes(in: zone.key, after: 0, limit: 1000).filter { !$0.isDeleted }.map(\.record)
      return Dictionary(
        uniqueKeysWithValues: live.map { record in
          (
            record.recordName,
            record.fields.string("CD_displayName") ?? record.fields.string("CD_name") ?? record.fields.string(
              "CD_photo") ?? ""
          )
        })
    }
  }

  /// The number of mirrored stores in a user's shard.
  func mirrorCount(of user: String) async throws -> Int {
    try await store(of: user).read { snapshot in try snapshot.mirrors(afterKey: 0, limit: 100).count }
  }

  // MARK: The participant's store

  func send(
    _ method: String, _ path: String, _ query: [String: String] = [:], _ body: String = "", user: String = "_bob",
    requestID: String? = nil
  ) async throws -> PlaneReply {
    let request = DatabaseRequest(
      plane: .object, method: method, path: ["stores", "S"] + path.split(separator: "/").map(String.init), query: query,
      database: Self.database(user),
      scope: .shared, caller: Caller(userRecordName: user), requestID: requestID ?? random.uuid(),
      baseURL: "https://host")
    do {
      let answer = try await plane.respond(to: request, body: Array(body.utf8), in: store(of: user), startNext: {})
      return PlaneReply(status: answer.status, bytes: answer.body, json: try JSONValue(parsing: answer.body))
    } catch let error as RecordError {
      let bytes = error.mirrorDictionary(uuid: "uuid")
      return PlaneReply(status: error.status, bytes: bytes, json: try JSONValue(parsing: bytes))
    }
  }

  func setUp() async throws {
    let reply = try await send(
      "PUT", "", [:], #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)","device":{"name":"phone"}}"#)
    try #require(reply.status == 200, "\(reply.text)")
  }

  @discardableResult
  func save(_ changes: String, id: String? = nil, waits: Bool = true) async throws -> PlaneReply {
    let transaction =
      #"""
      {"transactionID":"\#(id ?? random.uuid())","timestamp":"2026-11-20T07:33:24.123Z","author":"app",\#
      "changes":[\#(changes)]}
      """#
    return try await send(
      "POST", "transactions", waits ? ["wait": "export"] : [:], #"{"transactions":[\#(transaction)]}"#)
  }

  /// Export events of the participant's store, oldest first.
  func exportEvents() async throws -> [JSONValue] {
    try await send("GET", "events", ["type": "export"]).json["events"]?.elements ?? []
  }

  /// All of the journal, page by page.
  func allConflicts() async throws -> [JSONValue] {
    var all: [JSONValue] = []
    while true {
      let page = try await send("GET", "conflicts", ["after": String(all.last?["number"]?.int64 ?? 0)]).json
      all += page["conflicts"]?.elements ?? []
      if page["moreComing"]?.bool != true { return all }
    }
  }

  func conflicts() async throws -> [JSONValue] { try await send("GET", "conflicts").json["conflicts"]?.elements ?? [] }
}
