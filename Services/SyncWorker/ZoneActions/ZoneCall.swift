// Calls on one zone as a whole: export, import, restore, audit, conflicts, end. Owners and operators make them.

import JSON
import Mirroring
package import ObjectPlane
package import RecordStore
package import Records
package import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

/// One call under `zones/{zone}`. The handlers are extensions, one file per subject.
package struct ZoneCall: DatabaseCall {
  package let request: DatabaseRequest
  let body: [UInt8]
  let zoneName: String
  package let store: any ShardStore
  package let context: ObjectContext

  /// - Throws: `RecordError` for a caller without permission.
  package init(
    _ request: DatabaseRequest, ofZone zoneName: String, body: [UInt8], in store: any ShardStore,
    _ context: ObjectContext
  ) throws(RecordError) {
    guard request.caller.isOperator || request.caller.userRecordName != nil else {
      throw RecordError(.authenticationRequired, "request needs authorization")
    }
    guard request.scope != .shared else {
      throw RecordError(.badRequest, "Only the owner of a shared zone exports, imports and restores it")
    }
    guard request.caller.isOperator || request.scope == .private else {
      throw RecordError(.accessDenied, "Only operators call this for zones of the public database")
    }
    self.request = request
    self.body = body
    self.zoneName = zoneName
    self.store = store
    self.context = context
  }

  package func respond(to route: ZoneRoute, startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    switch route {
    case .export: try await export()
    case .importLines: try await importLines(startNext: startNext)
    case .restore: try await restore(startNext: startNext)
    case .findAssets: try await findAssets(startNext: startNext)
    case .audit: try await audit()
    case .end: try await end(startNext: startNext)
    case .listConflicts: try await listConflicts()
    case .settleConflict: try await settleConflict(startNext: startNext)
    }
  }

  var now: Int64 { context.clock.now }

  /// The author of a restore: the caller, or the owner for an operator.
  var user: String { request.caller.userRecordName ?? request.database.owner }

  var zoneID: Zone.ID { Zone.ID(zoneName: zoneName, ownerName: request.database.owner) }

  /// - Throws: `ZONE_NOT_FOUND` if the zone does not exist or has ended.
  func zone(in snapshot: any ShardSnapshot) throws -> StoredZone {
    guard let database = try snapshot.database(request.database),
      let zone = try snapshot.zone(named: zoneName, in: database.key), !zone.isDeleted
    else {
      throw RecordError.noZone(named: zoneName)
    }
    return zone
  }

  /// Checks that the zone's state at a sequence is known.
  /// - Throws: `BAD_REQUEST` with the known range.
  func check(_ sequence: Int64, of zone: StoredZone, through last: Int64, in snapshot: any ShardSnapshot) throws {
    let horizon = try snapshot.horizon(of: zone.key) ?? zone.sequence
    guard (horizon...max(horizon, last)).contains(sequence) else {
      throw RecordError(
        .badRequest,
        "The zone's state at sequence \(sequence) is not known; the zone's known sequences are \(horizon) to \(last)")
    }
  }

  /// A query parameter as a number; nil if it is missing.
  func number(_ name: String) throws(RecordError) -> Int64? {
    guard let text = request.query[name] else { return nil }
    guard let number = Int64(text), number >= 0 else {
      throw RecordError(.badRequest, "\(name) must be an integer of at least 0")
    }
    return number
  }

  /// The query's `limit`, clamped to 1...`maximum`; `maximum` if it is missing.
  func limit(maximum: Int) throws(RecordError) -> Int {
    try number("limit").map { Int(clamping: min(max($0, 1), Int64(maximum))) } ?? maximum
  }

  /// The terms of a commit by the server, so that every store is told of it.
  func terms(_ write: ZoneWrite, _ schema: EnvironmentSchema, quota: StorageQuota? = nil) -> CommitTerms {
    CommitTerms(
      write, Stamp(timestamp: now, userRecordName: user, deviceID: request.caller.member?.deviceID ?? ""), schema,
      quota: quota, shard: store.shard, context)
  }
}
