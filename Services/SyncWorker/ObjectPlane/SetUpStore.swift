// A store's beginning and end: set up, reset, forgotten.

import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

extension StoreCall {
  func setUp(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
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
    let watch = context.watch(schema, by: user)
    let commit = store.enqueue { transaction in try install(setUp, at: at, event: identifier, watch, in: transaction) }
    startNext()
    let (mirror, zone, fired) = try await value(of: commit)
    // What could not be exported for want of its model can be now.
    if mirror.exportedTransactionNumber < mirror.lastTransactionNumber { await exports.signal(.backlog(mirrorKey: mirror.key), on: store.shard) }
    context.noticed(id(of: mirror))
    if let zone {
      context.changes.publish(ZoneChange(zone, of: request.database, originStore: nil, originUser: nil, hasSubscriptions: fired != nil))
      context.publish(fired ?? [])
    }
    return PlaneAnswer(body: StoreAnswer.setup(storeIdentifier: storeIdentifier, historyToken: mirror.historyToken(mirror.lastTransactionNumber)))
  }

  /// - Returns: the store's row, its zone if that was made now, and what its making fired (nil: nobody has subscribed).
  private func install(
    _ setUp: SetUpStoreRequest, at: Int64, event identifier: String, _ watch: SubscriptionWatch, in transaction: any ShardTransaction
  ) throws -> (StoredMirror, StoredZone?, [FiredSubscription]?) {
    let database = try transaction.makeDatabase(request.database)
    var mirror: StoredMirror
    if let existing = try transaction.mirror(storeIdentifier, in: database.key) {
      guard existing.userRecordName == user else { throw missing }
      guard existing.scope == request.scope else {
        throw RecordError(.conflict, "The store identifier is in use for the user's \(existing.scope.rawValue) database")
      }
      mirror = existing
      mirror.modelHash = setUp.modelHash
      mirror.configuration = setUp.configuration
      mirror.deviceName = setUp.deviceName ?? existing.deviceName
      try transaction.update(mirror)
    } else {
      mirror = try transaction.makeMirror(
        storeIdentifier, in: database.key, userRecordName: user, scope: request.scope, modelHash: setUp.modelHash, configuration: setUp.configuration,
        deviceName: setUp.deviceName, createdAt: at)
    }
    _ = try transaction.put(StoredEvent(identifier: identifier, kind: .setup, startedAt: at, endedAt: at, succeeded: true), of: mirror.key)
    guard let zoneName = mirror.defaultZoneName else { return (mirror, nil, nil) }
    let isNew = try transaction.zone(named: zoneName, in: database.key)?.isDeleted ?? true
    let zone = try transaction.makeZone(named: zoneName, in: database.key)
    if !isNew { return (mirror, nil, nil) }
    let firing = try watch.firing(in: database.key, transaction)
    firing?.zone(changed: zone.zoneName, sequence: zone.sequence, by: nil)
    return (mirror, zone, try firing?.finish())
  }

  // MARK: Models the environment does not know

  /// What can be told of an unknown model: if the other environment knows it, what is missing here (T-S12).
  private func refusal(of modelHash: String, _ schema: EnvironmentSchema) async -> PlaneAnswer {
    let other: Environment = request.database.environment == .development ? .production : .development
    // Dropped because the gap is a courtesy: without it the refusal is the same.
    let known = try? await context.schemas.schema(of: request.database.container, other).modelIndexes[modelHash]
    return answer(known.map { SchemaGate.schemaGap($0, schema.schema) } ?? [])
  }

  private func answer(_ gap: [SchemaFieldName]) -> PlaneAnswer {
    PlaneAnswer(status: ServerErrorCode.conflict.row.httpStatus, body: StoreAnswer.schemaGap(gap, uuid: context.random.uuid()))
  }

  /// Development makes types and fields as they are needed (section 3), also for a model whose schema was replaced since.
  private func extend(with gap: [SchemaFieldName], _ model: ModelIndex, _ configuration: String?) async throws(RecordError) {
    let missing = Set(gap)
    let fields = SchemaGenerator.schema(for: model, configuration: configuration).recordTypes.flatMap { type in
      type.fields.filter {
        missing.contains(SchemaFieldName(recordType: type.name, field: $0.name)) || missing.contains(SchemaFieldName(recordType: type.name, field: nil))
      }
      .map { ExtendSchema.SchemaField(recordType: type.name, field: $0.name, type: $0.type, isEncrypted: $0.isEncrypted) }
    }
    try await context.schemas.extend(request.database.container, with: fields)
  }

  // MARK: Reset and removal

  /// Forgets what the store exported and imported: it is a new one under its old name, and is sent everything, its own records included.
  /// Transactions that were saved are exported first: an acknowledged save is not lost by a reset.
  func reset(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    if try ResetStoreRequest(try JSONValue.request(body)).rescansHistory { try await rescanHistory() }
    let at = now
    let identifier = context.random.uuid()
    try await replace(startNext: startNext) { transaction, mirror in
      let fresh = try transaction.renewMirror(mirror.key, createdAt: at)
      _ = try transaction.put(StoredEvent(identifier: identifier, kind: .setup, startedAt: at, endedAt: at, succeeded: true), of: fresh.key)
    }
    return PlaneAnswer(body: StoreAnswer.reset())
  }

  /// Forgets the store; its records stay, with what it saved last.
  func forget(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    try await replace(startNext: startNext) { transaction, mirror in try transaction.deleteMirror(mirror.key) }
    return PlaneAnswer(body: StoreAnswer.empty)
  }

  /// Exports what is pending and then runs `body`, both in one commit unless there is more than a batch.
  private func replace(
    startNext: @Sendable () -> Void, with body: @escaping @Sendable (any ShardTransaction, StoredMirror) throws -> Void
  ) async throws(RecordError) {
    let mirror = try await locate()
    if mirror.exportedTransactionNumber < mirror.lastTransactionNumber { try checkThrottle(of: mirror) }
    var next = try await exportRun(for: mirror)
    var isFirst = true
    while true {
      let (outcome, isDone): (ExportOutcome, Bool)
      do {
        (outcome, isDone) = try await next.isolating { run in
          let commit = store.enqueue { transaction -> (ExportOutcome, isDone: Bool) in
            guard try transaction.mirror(key: mirror.key) != nil else { throw missing }
            let outcome = try run.callAsFunction(transaction)
            guard !outcome.moreComing, let current = try transaction.mirror(key: mirror.key) else { return (outcome, false) }
            try body(transaction, current)
            return (outcome, true)
          }
          if isFirst { startNext() }
          isFirst = false
          return try await commit.value
        }
      } catch {
        throw RecordError(storing: error, log: context.log)
      }
      outcome.publish(by: context)
      next.advance(after: outcome)
      if isDone {
        await imports.forget(id(of: mirror))
        context.noticed(id(of: mirror))
        return
      }
    }
  }
}

extension ZoneChange {
  /// That a zone changed, up to its sequence.
  init(_ zone: StoredZone, of database: DatabaseID, originStore: String?, originUser: String?, hasSubscriptions: Bool) {
    self.init(
      database: database, zoneName: zone.zoneName, sequence: zone.sequence, syncToken: zone.syncToken.text, originStore: originStore, originUser: originUser,
      audience: database.isPublic ? [] : [database.owner], hasSubscriptions: hasSubscriptions)
  }
}
