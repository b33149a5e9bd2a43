// Serves `conflicts`, `conflicts/{n}/restore` and `conflicts/{n}/resolve` for stores, zone owners and operators.

import JSON
import Mirroring
import ObjectModel
import ObjectPlane
package import RecordStore
package import Records
import ServiceBus
import WebServices
package import ZoneCommit

extension StoreCall {
  package func listConflicts() async throws(RecordError) -> PlaneAnswer {
    let (call, _) = try await conflictCall()
    return try await call.list(
      after: Int64(try integer("after", default: 0, minimum: 0, maximum: .max)),
      limit: try integer("limit", default: .max, maximum: .max),
      objectID: request.query["objectID"], state: try ConflictCall.state(request.query["state"]))
  }

  package func restoreConflict(_ number: String, startNext: @Sendable () -> Void) async throws(RecordError)
    -> PlaneAnswer
  {
    try await conflictCall().call.restore(try ConflictCall.number(number), startNext: startNext)
  }

  package func resolveConflict(_ number: String, startNext: @Sendable () -> Void) async throws(RecordError)
    -> PlaneAnswer
  {
    let number = try ConflictCall.number(number)
    let asked = try ResolveConflictRequest(try JSONValue.request(body))
    let (call, mirror) = try await conflictCall()
    let reader = TransactionReader(
      model: call.model.index, entityNames: call.model.entityNames(inConfiguration: mirror.configuration), now: now,
      assets: assetReader)
    return try await call.resolve(number, asked, reader, startNext: startNext)
  }

  package func conflictCall() async throws(RecordError) -> (call: ConflictCall, mirror: StoredMirror) {
    let mirror = try await locate()
    let (model, schema) = try await model(of: mirror)
    let call = ConflictCall(
      request: request, store: store, context: context, model: model, schema: schema, visibleUser: conflictUser,
      zoneName: nil,
      isShared: mirror.scope == .shared && !mirror.isGuest,
      stamp: Stamp(timestamp: now, userRecordName: user, deviceID: mirror.deviceID),
      values: MirrorValueWriter(assets: assetLinks),
      quota: await ownersQuota(), guest: isGuest ? user : nil)
    return (call, mirror)
  }

  /// The user with the visible conflicts: in the public database the caller; nil elsewhere, for all users.
  var conflictUser: String? { request.scope == .public ? user : nil }
}

extension ZoneCall {
  func listConflicts() async throws(RecordError) -> PlaneAnswer {
    try await conflictCall().list(
      after: try number("after") ?? 0, limit: try limit(maximum: 200), objectID: request.query["objectID"],
      state: try ConflictCall.state(request.query["state"]))
  }

  /// `POST conflicts` `{"number","action":"restore"|"resolve"}`, with `pick` or `value` to resolve.
  func settleConflict(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked = try SettleConflictRequest(try JSONValue.request(body))
    let call = try await conflictCall()
    guard let resolution = asked.resolution else { return try await call.restore(asked.number, startNext: startNext) }
    let reader = TransactionReader(
      model: call.model.index, entityNames: nil, now: now, assets: context.signing.reader(for: request))
    return try await call.resolve(asked.number, resolution, reader, startNext: startNext)
  }

  private func conflictCall() async throws(RecordError) -> ConflictCall {
    let schema = try await context.schemas.schema(of: request.database.container, request.database.environment)
    guard let hash = schema.latestModelHash, let model = schema.mirrorModels[hash] else {
      throw RecordError(.conflict, "The environment has no model")
    }
    _ = try await read { snapshot in try zone(in: snapshot) }
    return ConflictCall(
      request: request, store: store, context: context, model: model, schema: schema, visibleUser: nil,
      zoneName: zoneName,
      stamp: Stamp(timestamp: now, userRecordName: user),
      values: MirrorValueWriter(assets: context.signing.links(for: request, shard: store.shard)),
      quota: await ownersQuota())
  }
}

extension ConflictCall {
  package static func number(_ text: String) throws(RecordError) -> Int64 {
    guard let number = Int64(text), number > 0 else {
      throw RecordError(.badRequest, "the number of a conflict is a positive integer")
    }
    return number
  }

  static func state(_ name: String?) throws(RecordError) -> ConflictState? {
    guard let name else { return nil }
    guard let state = ConflictState(name: name) else {
      throw RecordError(
        .badRequest, "state must be one of \(ConflictState.allCases.map(\.name).joined(separator: ", "))")
    }
    return state
  }
}
