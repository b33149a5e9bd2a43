// zones/list, zones/lookup and zones/modify (docs/protocol/record-plane.md#zones-calls).

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

extension RecordPlaneCall {
  func listZones() async throws(RecordError) -> PlaneAnswer {
    let database = database
    let isShared = request.scope == .shared
    let finder = finder
    let zones = try await read { snapshot -> [StoredZone] in
      guard let row = try snapshot.database(database) else { return [] }
      return try finder.zones(of: row, in: snapshot).map(\.row).filter { $0.zoneName != ReservedName.defaultZone }
        .sorted { $0.zoneName < $1.zoneName }
    }
    // The documented call is a GET and answers `atomic`. The POST is what icloud.com and pyicloud send: it was never
    // seen to answer it, and pyicloud's strict model refuses a key it has not seen.
    let isDocumented = request.route == .record(.listZonesAsDocumented)
    var output = ListAnswer("zones", of: request, reservingByteCount: 256 * (zones.count + 1))
    if !isShared {
      let standard = Zone.ID(zoneName: ReservedName.defaultZone, ownerName: database.owner)
      output.add { ZoneDictionary.write(standard, syncToken: nil, statesAtomicity: isDocumented, to: &$0) }
    }
    for stored in zones {
      let zone = Zone.ID(zoneName: stored.zoneName, ownerName: database.owner)
      output.add {
        ZoneDictionary.write(zone, syncToken: stored.syncToken.text, statesAtomicity: isDocumented, to: &$0)
      }
    }
    return try output.finish()
  }

  func lookUpZones() async throws(RecordError) -> PlaneAnswer {
    let references = try LookupZonesRequest.zones(of: json)
    var wanted: [Result<Zone.ID, RecordError>] = []
    for reference in references { wanted.append(Result { () throws(RecordError) in try zone(reference) }) }
    let finder = finder
    let zones = wanted
    let found = try await read { snapshot in
      try zones.map { zone throws -> StoredZone? in
        guard case .success(let id) = zone else { return nil }
        return try finder.find(id, in: snapshot)?.row
      }
    }
    var output = ListAnswer("zones", of: request, reservingByteCount: 256 * (references.count + 1))
    for (index, reference) in references.enumerated() {
      if case .success(let id) = zones[index], found[index] != nil || id.isDefault {
        output.add { ZoneDictionary.write(id, syncToken: found[index]?.shownSyncToken, to: &$0) }
      } else {
        let error = RecordError.noZone(named: reference.zoneName)
        output.add(error) {
          ZoneDictionary.writeError(error, of: reference, defaultOwner: ownerRecordName, to: &$0)
        }
      }
    }
    return try output.finish()
  }

  // MARK: zones/modify

  func modifyZones(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let operations = try ZoneOperation.operations(of: json)
    if request.scope != .private {
      let place =
        database.isPublic
        ? "The public database has one zone, _defaultZone" : "Zones of the shared database belong to their owners"
      throw RecordError(.badRequest, "\(place): zones can be created and deleted only in the private database")
    }
    var plans: [ZoneModification.Plan] = []
    for operation in operations {
      plans.append(
        ZoneModification.Plan(
          operation: operation,
          problem: operation.problem
            ?? (operation.zone.ownerRecordName ?? database.owner == database.owner
              ? nil : RecordError.noZone(named: operation.zone.zoneName))))
    }
    let schema = try await context.schemas.schema(of: database.container, database.environment)
    let modification = ZoneModification(
      database: database, plans: plans, key: IdempotencyKey(request: request, body: body),
      making: terms(.makeZone, schema), ending: terms(.endZone, schema))
    let pending = store.enqueue(expecting: { modification.lookups }) { transaction in
      try modification.commit(in: transaction)
    }
    startNext()
    let (results, effects) = try await value(of: pending)
    effects.publish(by: context)
    return write(results, of: operations)
  }

  private func terms(_ write: ZoneWrite, _ schema: EnvironmentSchema) -> CommitTerms {
    let user = request.caller.userRecordName ?? database.owner
    return CommitTerms(
      write, by: WriteAuthor(userRecordName: request.caller.userRecordName, device: request.clientID),
      Stamp(
        timestamp: context.clock.now, userRecordName: user, deviceID: request.caller.member?.deviceID ?? ""), schema,
      shard: store.shard, context)
  }

  private func write(_ results: [ZoneModification.Outcome], of operations: [ZoneOperation]) -> PlaneAnswer {
    var output = JSONWriter(reservingByteCount: 256 * (operations.count + 1))
    output.beginObject()
    output.key("zones")
    output.beginArray()
    for (operation, result) in zip(operations, results) {
      let zone = Zone.ID(zoneName: operation.zone.zoneName, ownerName: database.owner)
      switch result {
      case .changed(let stored, let sequence):
        ZoneDictionary.write(
          zone, syncToken: SyncToken(.zone, incarnation: stored.incarnation, sequence: sequence).text, to: &output)
      case .deleted: ZoneDictionary.writeDeleted(zone, to: &output)
      case .failed(let error):
        ZoneDictionary.writeError(error, of: operation.zone, defaultOwner: ownerRecordName, to: &output)
      }
    }
    output.endArray()
    output.endObject()
    return PlaneAnswer(body: output.bytes)
  }
}

/// The write of `zones/modify`.
private struct ZoneModification: Sendable {
  struct Plan: Sendable {
    let operation: ZoneOperation
    let problem: RecordError?
  }

  enum Outcome: Sendable {
    /// A repetition reports no later changes, so that the client's feed brings them.
    case changed(StoredZone, upTo: Int64)
    /// Also when an earlier try of the same request deleted the zone.
    case deleted
    case failed(RecordError)
  }

  let database: DatabaseID
  let plans: [Plan]
  let key: IdempotencyKey
  let making: CommitTerms
  let ending: CommitTerms

  /// What `commit` looks up.
  var lookups: [ExpectedLookup] {
    let asked = plans.filter { $0.problem == nil }.map(\.operation)
    return [key.lookup, .liveZoneCount(database)] + asked.map { .zone($0.zone.zoneName, database: database) }
  }

  /// - Returns: one outcome per operation, and the effects to publish.
  func commit(in transaction: any ShardTransaction) throws -> ([Outcome], ZoneEffects) {
    let earlier = try key.outcome(in: transaction)?.items
    var outcomes: [Outcome] = []
    var effects = ZoneEffects()
    // Counted once: a request may make 200 zones, and each count reads all that there are.
    var liveCount = try transaction.database(database).map { try transaction.liveZoneCount(in: $0.key) } ?? 0
    for (index, plan) in plans.enumerated() {
      switch earlier.flatMap({ index < $0.count ? $0[index] : nil }) {
      case .failed(let error): outcomes.append(.failed(error))
      case let item:
        outcomes.append(
          try plan.problem.map { .failed($0) }
            ?? apply(plan.operation, repeating: item, besides: &liveCount, &effects, in: transaction))
      }
    }
    if earlier == nil {
      try key.put(RequestOutcome(at: making.stamp.timestamp, items: outcomes.map(\.item)), in: transaction)
    }
    return (outcomes, effects)
  }

  /// - Parameters:
  ///   - item: the request's earlier outcome; nil: the request is no repetition.
  ///   - liveCount: of the database's zones.
  private func apply(
    _ operation: ZoneOperation, repeating item: RequestOutcome.Item?, besides liveCount: inout Int,
    _ effects: inout ZoneEffects,
    in transaction: any ShardTransaction
  ) throws -> Outcome {
    let isRepeated = item != nil
    let row = try transaction.database(database)
    let existing = try row.flatMap { try transaction.zone(named: operation.zone.zoneName, in: $0.key) }
    switch operation.kind {
    case .create:
      // A repetition must not restore a zone that was deleted in the meantime.
      if let existing, isRepeated || !existing.isDeleted {
        if case .saved(let sequence) = item { return .changed(existing, upTo: sequence) }
        return .changed(existing, upTo: existing.sequence)
      }
      do throws(RecordError) {
        try ZoneRoom.check(besides: liveCount)
      } catch {
        return .failed(error)
      }
      let commit = try making.begin(in: transaction.makeDatabase(database), transaction)
      let zone = try commit.makeZone(named: operation.zone.zoneName)
      effects.add(try commit.finish())
      liveCount += 1
      return .changed(zone, upTo: zone.sequence)
    case .delete:
      if isRepeated { return .deleted }
      guard let row, let existing, !existing.isDeleted else {
        return .failed(RecordError.noZone(named: operation.zone.zoneName))
      }
      let commit = try ending.begin(in: row, transaction)
      try commit.end(existing, as: .deleted)
      effects.add(try commit.finish())
      liveCount -= 1
      return .deleted
    }
  }
}

extension ZoneModification.Outcome {
  fileprivate var item: RequestOutcome.Item {
    switch self {
    case .changed(_, let sequence): .saved(sequence: sequence)
    case .deleted: .deleted
    case .failed(let error): .failed(error)
    }
  }
}
