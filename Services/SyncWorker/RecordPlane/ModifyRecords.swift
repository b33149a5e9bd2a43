// records/modify (docs/protocol/record-plane.md#records-modify): read and typed here, decided and written in the
// shard's store, shown here again.

import Assets
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import WebServices
import ZoneCommit

extension RecordPlaneCall {
  func modifyRecords(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let zone = try zone(ZoneReference(of: json))
    guard let user = request.caller.userRecordName else {
      throw RecordError(.authenticationRequired, "request needs authorization")
    }
    let wantsConflicts = try wantsConflictRecords()
    let key = IdempotencyKey(request: request, body: body)
    for _ in 0..<Self.attemptCount {
      let (modify, schema) = try await readModification(of: zone, key)
      let people = try await people(named: modify.shareRequests, in: zone, by: user)
      if zone.isDefault, modify.isAtomic == true {
        throw RecordError(.badRequest, "atomic operations not supported in default zone")
      }
      let modification = RecordModification(
        database: database, zone: zone, operations: modify.operations, isAtomic: modify.isAtomic ?? !zone.isDefault,
        terms: CommitTerms(
          .edit, by: WriteAuthor(userRecordName: user, device: request.clientID),
          Stamp(
            timestamp: context.clock.now, userRecordName: user, deviceID: request.caller.member?.deviceID ?? "1"),
          schema, quota: try await quota(),
          shard: store.shard, context),
        permissions: schema.permissions(of: request.caller, in: database), key: key, finder: finder, people: people)
      try await context.assets.prepare(modify.assets, for: store.shard, of: request.party, log: context.log)
      let pending = store.enqueue(expecting: { modification.lookups }) { transaction in
        try modification.commit(in: transaction)
      }
      startNext()
      do {
        let result = try await pending.value
        result.effects.publish(by: context)
        return try answer(
          result, to: modification, wantsConflicts ? try await conflicts(in: result, of: modification) : [:])
      } catch is RecordTypeUnknown {
        continue
      } catch is PeopleUnknown {
        continue
      } catch {
        throw RecordError(storing: error, log: context.log)
      }
    }
    throw RecordError(
      .tryAgainLater, "The records change their types faster than the request can be read", retryAfter: 1)
  }

  /// The writes of a participant, too, are charged to the owner of the zone (S9).
  private func quota() async throws(RecordError) -> StorageQuota? {
    guard request.scope == .shared else {
      return StorageQuota(of: request.caller, in: database, standard: context.commits.userQuota)
    }
    return StorageQuota(
      await context.schemas.standing(of: database.owner, database.container, database.environment), in: database,
      standard: context.commits.userQuota)
  }

  /// The people that share requests name. Other requests, and callers who may not invite, cause no lookup: such a
  /// caller must not learn whether the zone exists or the directory answers.
  private func people(named requests: [ShareRequest], in zone: Zone.ID, by user: String) async throws(RecordError)
    -> SharePeople
  {
    let finder = finder
    func mayInvite() async throws(RecordError) -> Bool {
      try await read { snapshot in
        guard let view = try finder.find(zone, in: snapshot) else { return false }
        return view.access?.members.contains { AccessMatrix.verdict(.changeParticipants, $0.standing) == .allowed }
          ?? true
      }
    }
    guard !requests.isEmpty, try await mayInvite() else { return SharePeople(owner: database.owner, caller: user) }
    return try await SharePeople(
      owner: database.owner, caller: user, looking: requests.flatMap(\.patch.lookups), in: context.people)
  }

  /// Operations without a type are read with the type the record had just before; it is seldom another one at the
  /// write.
  private static let attemptCount = 3

  // MARK: Reading

  /// The request, read with a schema that covers it: development's is extended first, production's refuses what it
  /// lacks.
  private func readModification(of zone: Zone.ID, _ key: IdempotencyKey) async throws(RecordError) -> (
    modify: ModifyRecordsRequest, schema: EnvironmentSchema
  ) {
    var schema = try await context.schemas.schema(of: database.container, database.environment)
    let recordTypes = try await recordTypes(
      of: ModifyRecordsRequest.recordNamesWithoutType(in: json), in: zone,
      schema.permissions(of: request.caller, in: database))
    var modify = try read(zone, schema, recordTypes, key)
    if database.environment == .production { return (modify.covered(by: schema.schemaIndex), schema) }
    let undeclared = modify.undeclaredFields
    if undeclared.isEmpty { return (modify, schema) }
    let (fitting, additions) = modify.fitted(to: schema.schemaIndex, undeclared)
    if additions.isEmpty { return (fitting, schema) }
    try await context.schemas.extend(database.container, with: additions)
    schema = try await context.schemas.schema(of: database.container, database.environment)
    // Read again: what another request declared meanwhile decides the types of this one's values too.
    modify = try read(zone, schema, recordTypes, key)
    let (covered, missing) = modify.fitted(to: schema.schemaIndex, modify.undeclaredFields)
    guard missing.isEmpty else { throw RecordError(.tryAgainLater, "The schema is being extended", retryAfter: 1) }
    return (covered, schema)
  }

  private func read(
    _ zone: Zone.ID, _ schema: EnvironmentSchema, _ recordTypes: [String: String], _ key: IdempotencyKey
  ) throws(RecordError) -> ModifyRecordsRequest {
    var count = 0
    let (shard, random) = (store.shard, context.random)
    return try ModifyRecordsRequest(
      json, zone: zone, schema: schema.schemaIndex, recordTypes: recordTypes, assets: assetReader,
      newRecordName: {
        count += 1
        return key.recordName(at: count)
      }, newShortGUID: { ShortGUID(shard: shard, random: random.bytes).text })
  }

  private func recordTypes(of names: [String], in zone: Zone.ID, _ permissions: RecordPermissions?)
    async throws(RecordError) -> [String: String]
  {
    if names.isEmpty { return [:] }
    let finder = finder
    return try await read { snapshot in
      guard let view = try finder.find(zone, in: snapshot) else { return [:] }
      let (row, visible) = (view.row, VisibleRecords(view, in: snapshot))
      var types: [String: String] = [:]
      for name in names.prefix(Limit.operationsPerRequest) {
        guard let stored = try snapshot.record(named: name, in: row.key), !stored.isDeleted,
          permissions?.mayRead(stored.record) ?? true,
          try visible.isVisible(stored.record)
        else { continue }
        types[name] = stored.record.recordType
      }
      return types
    }
  }

  // MARK: Answering

  private func answer(
    _ result: RecordModification.Result, to modification: RecordModification, _ conflicts: [Int: RecordConflict]
  ) throws(RecordError) -> PlaneAnswer {
    let isAtomicFailure =
      modification.isAtomic && result.items.count > 1
      && result.items.contains { if case .failed = $0 { true } else { false } }
    let records = writer(for: modification.zone, showing: result.shares)
    var output = ListAnswer("records", of: request, reservingByteCount: Self.byteCount(of: result)) { output in
      guard isAtomicFailure else { return }
      output.member("uuid", request.uuid)
      RecordError(.atomicError, "Atomic failure").writeMembers(to: &output)
    }
    for (place, (operation, item)) in zip(modification.operations, result.items).enumerated() {
      switch item {
      case .saved(let stored):
        output.add { output in
          let presentation = operation.presentation(isShort: output.bytes.count > Self.pageByteCount)
          records.write(stored.record, tag: stored.tag, as: presentation, to: &output)
        }
      case .deleted: output.add { RecordDictionaryWriter.writeDeleted(operation.recordName, to: &$0) }
      case .failed(let error):
        guard let conflict = conflicts[place], output.byteCount < Self.pageByteCount else {
          output.add(error, ofRecord: operation.recordName)
          continue
        }
        output.add(error) { output in
          records.writeConflict(error, conflict, numbersAsStrings: operation.presentation.numbersAsStrings, to: &output)
        }
      }
    }
    var answer = try output.finish { output in
      if wantsSyncToken, !isAtomicFailure, let token = result.zone?.shownSyncToken { output.member("syncToken", token) }
    }
    if isAtomicFailure { answer.status = ServerErrorCode.atomicError.row.httpStatus }
    return answer
  }
}

extension RecordPlaneCall {
  /// What the JSON of an answer may take, so that it need not be moved while it grows.
  private static func byteCount(of result: RecordModification.Result) -> Int {
    let byteCount = result.items.reduce(1024) { sum, item in
      guard case .saved(let stored) = item else { return sum + 256 }
      return sum + stored.record.fields.byteCount + membersByteCount
    }
    return min(byteCount, pageByteCount)
  }
}

extension RecordOperation {
  /// - Parameter isShort: the answer has no room left for fields that the request did not send itself.
  fileprivate func presentation(isShort: Bool) -> RecordPresentation {
    guard isShort, case .success(let patch) = patch else { return presentation }
    let names = patch.changes.map(\.name).filter { presentation.desiredKeys.contains($0) }
    return RecordPresentation(desiredKeys: DesiredKeys(names), numbersAsStrings: presentation.numbersAsStrings)
  }
}

extension ModifyRecordsRequest {
  /// With the operations refused that a production schema does not cover.
  fileprivate func covered(by schema: SchemaIndex) -> ModifyRecordsRequest {
    refusing { patch in
      // Shares are part of the protocol, not of a schema.
      guard let recordType = patch.recordType, recordType != ReservedName.shareRecordType else { return nil }
      guard schema.contains(recordType: recordType) else { return SchemaGate.unknownType(recordType) }
      let unknown = patch.changes.first { $0.field != nil && !$0.isDeclared }
      return unknown.map { SchemaGate.unknownField($0.name, of: recordType) }
    }
  }

  /// With the operations refused whose new fields would make their type too wide, and the fields that the others need
  /// declared.
  fileprivate func fitted(
    to schema: SchemaIndex, _ undeclared: [UndeclaredField]
  ) -> (fitting: ModifyRecordsRequest, fields: [ExtendSchema.SchemaField]) {
    if undeclared.isEmpty { return (self, []) }
    var counts: [String: Int] = [:]
    for field in undeclared { counts[field.recordType, default: schema.fields(of: field.recordType).count] += 1 }
    let tooWide = counts.filter { $0.value > Limit.fieldsPerRecordType }
    let fields = undeclared.filter { tooWide[$0.recordType] == nil }
      .map {
        ExtendSchema.SchemaField(recordType: $0.recordType, field: $0.field, type: $0.type, isEncrypted: $0.isEncrypted)
      }
    if tooWide.isEmpty { return (self, fields) }
    let fitting = refusing { patch in
      guard let recordType = patch.recordType, let count = tooWide[recordType] else { return nil }
      guard patch.changes.contains(where: { $0.field != nil && !$0.isDeclared }) else { return nil }
      return RecordError(
        .badRequest, "record type '\(recordType)' would have \(count) fields, the limit is \(Limit.fieldsPerRecordType)"
      )
    }
    return (fitting, fields)
  }
}

extension ModifyRecordsRequest {
  /// The assets that the operations name.
  fileprivate var assets: [Asset] {
    operations.flatMap { operation in
      guard case .success(let patch) = operation.patch else { return [Asset]() }
      return patch.changes.flatMap { $0.field?.value.assets ?? [] }
    }
  }
}
