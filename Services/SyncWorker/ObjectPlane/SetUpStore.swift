// Sets up a store, and sets it up again with another model, policy or lease.

import JSON
import Mirroring
import ObjectModel
import RecordStore
package import Records
import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

extension StoreCall {
  package func setUp(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    guard !storeIdentifier.hasPrefix(ReservedName.staffDevicePrefix) else {
      throw RecordError(.badRequest, "A store's identifier can't begin with '\(ReservedName.staffDevicePrefix)'")
    }
    let setUp = try SetUpStoreRequest(try JSONValue.request(body))
    let schema = try await context.schemas.schema(of: request.database.container, request.database.environment)
    guard let model = schema.mirrorModels[setUp.modelHash] else { return await refusal(of: setUp.modelHash, schema) }
    if let name = setUp.configuration, model.index.entities(inConfiguration: name) == nil {
      throw RecordError(.badRequest, "configuration: the model has no configuration '\(name)'")
    }
    let gap = SchemaGate.schemaGap(model.index, configuration: setUp.configuration, schema.schema)
    if !gap.isEmpty {
      guard request.database.environment == .development else { return answer(gap) }
      try await extend(with: gap, model.index, setUp.configuration)
    }
    let at = now
    let identifier = context.random.uuid()
    let terms = CommitTerms(.makeZone, Stamp(timestamp: at, userRecordName: user), schema, shard: store.shard, context)
    let commit = store.enqueue { transaction in try install(setUp, at: at, event: identifier, terms, in: transaction) }
    startNext()
    let (installed, effects) = try await value(of: commit)
    let mirror = installed.mirror
    // Transactions that waited for their model can be exported.
    if mirror.exportedTransactionNumber < mirror.lastTransactionNumber {
      exports.signal(.backlog(mirrorKey: mirror.key), on: store.shard)
    }
    context.noticed(id(of: mirror))
    effects.publish(by: context)
    return PlaneAnswer(
      body: StoreAnswer.setup(
        storeIdentifier: storeIdentifier, historyToken: mirror.historyToken(mirror.lastTransactionNumber),
        lease: installed.lease,
        accountChange: accountChange(setUp.account)))
  }

  /// A store as it was set up, with the lease that was asked for.
  private struct Installed: Sendable {
    var mirror: StoredMirror
    var lease: (token: String, until: Int64)?
  }

  /// - Returns: the store's row, and the effects of a zone made in this call.
  private func install(
    _ setUp: SetUpStoreRequest, at: Int64, event identifier: String, _ terms: CommitTerms,
    in transaction: any ShardTransaction
  ) throws -> (Installed, ZoneEffects) {
    let database = try transaction.makeDatabase(request.database)
    var mirror: StoredMirror
    var state: StoredSyncState
    if let existing = try transaction.mirror(storeIdentifier, in: database.key) {
      guard existing.userRecordName == user else { throw missing }
      guard existing.scope == request.scope else {
        throw RecordError(
          .conflict, "The store identifier is in use for the user's \(existing.scope.rawValue) database")
      }
      try checkSetUp(setUp, of: existing, in: transaction)
      (mirror, state) = (existing, try transaction.syncState(of: existing.key))
      if mirror.modelHash != setUp.modelHash || mirror.configuration != setUp.configuration {
        state.changeModel(of: mirror)
        // Records that did not fit the former model may fit this one.
        _ = try transaction.retryUnimported(nil, of: mirror.key, at: at)
      }
      mirror.modelHash = setUp.modelHash
      mirror.configuration = setUp.configuration
      mirror.deviceName = setUp.deviceName ?? existing.deviceName
    } else {
      try checkRoom(in: database.key, transaction)
      mirror = try transaction.makeMirror(
        storeIdentifier, in: database.key, userRecordName: user, scope: request.scope, modelHash: setUp.modelHash,
        configuration: setUp.configuration,
        deviceName: setUp.deviceName, createdAt: at)
      state = StoredSyncState()
      state.sinceSequence = database.sequence
    }
    if let policies = setUp.zonePolicies { state.zonePolicies = policies.mapValues(\.rawValue) }
    let lease = try setUp.lease.map { try take($0, of: &mirror, &state, at: at) }
    try transaction.update(mirror)
    try transaction.put(state, of: mirror.key)
    let installed = Installed(mirror: mirror, lease: lease)
    _ = try transaction.put(setUpEvent(identifier, setUp.account, at: at), of: mirror.key)
    guard let zoneName = mirror.defaultZoneName else { return (installed, ZoneEffects()) }
    // A save makes an ended zone again, the launch of an app does not.
    if try transaction.zone(named: zoneName, in: database.key) != nil { return (installed, ZoneEffects()) }
    let commit = try terms.begin(in: database, transaction)
    _ = try commit.makeZone(named: zoneName)
    return (installed, try commit.finish())
  }

  /// Bounds the stores of a database: their rows count in no quota, and each one costs time in every look for exports.
  private func checkRoom(in database: Int64, _ transaction: any ShardTransaction) throws {
    let limit = context.storeLimit
    guard limit > 0, try transaction.mirrorCount(of: user, in: database) >= limit else { return }
    throw RecordError(
      .quotaExceeded,
      "You have \(limit) stores of the database, which is the limit: DELETE those of devices that are gone")
  }

  /// The event of the setup; it reports a client's store that belongs to another account.
  private func setUpEvent(_ identifier: String, _ account: SetUpStoreRequest.Account?, at: Int64) -> StoredEvent {
    var event = StoredEvent(identifier: identifier, kind: .setup, startedAt: at, endedAt: at, succeeded: true)
    guard accountChange(account) == .accountChange else { return event }
    event.errorJSON = MirrorErrors.failure(
      RecordError(
        .conflict, "The client's objects belong to another account: do not save them to this one",
        cocoaErrorCode: .accountChanged))
    return event
  }

  /// The reason why the client's objects are not the caller's; nil when they are, or when their account is unknown.
  private func accountChange(_ account: SetUpStoreRequest.Account?) -> ResetReason? {
    switch account {
    case nil, .user(recordName: user): nil
    case .some(.none): .accountLogin
    case .user: .accountChange
    }
  }

  // MARK: Models the environment does not know

  /// The refusal of an unknown model; if the other environment knows it, with the schema gap (T-S12).
  private func refusal(of modelHash: String, _ schema: EnvironmentSchema) async -> PlaneAnswer {
    let other: Environment = request.database.environment == .development ? .production : .development
    // Dropped because the gap is a courtesy: without it the refusal is the same.
    let known = try? await context.schemas.schema(of: request.database.container, other).modelIndexes[modelHash]
    return answer(known.map { SchemaGate.schemaGap($0, schema.schema) } ?? [])
  }

  private func answer(_ gap: [SchemaFieldName]) -> PlaneAnswer {
    PlaneAnswer(
      status: ServerErrorCode.conflict.row.httpStatus, body: StoreAnswer.schemaGap(gap, uuid: context.random.uuid()))
  }

  /// Adds missing types and fields in development (M7), also for a model whose schema was replaced since.
  private func extend(with gap: [SchemaFieldName], _ model: ModelIndex, _ configuration: String?)
    async throws(RecordError)
  {
    let missing = Set(gap)
    let fields = SchemaGenerator.schema(for: model, configuration: configuration).recordTypes.flatMap { type in
      type.fields.filter {
        missing.contains(SchemaFieldName(recordType: type.name, field: $0.name))
          || missing.contains(SchemaFieldName(recordType: type.name, field: nil))
      }
      .map {
        ExtendSchema.SchemaField(recordType: type.name, field: $0.name, type: $0.type, isEncrypted: $0.isEncrypted)
      }
    }
    try await context.schemas.extend(request.database.container, with: fields)
  }
}
