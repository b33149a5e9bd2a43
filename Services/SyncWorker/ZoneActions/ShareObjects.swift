// `share(_:to:)` of a store: a graph and its share, in one commit (A8).

import JSON
import Mirroring
import ObjectPlane
import RecordStore
package import Records
import ServiceBus
import ServiceKit
import Sharing
import WebServices
package import ZoneCommit

extension StoreCall {
  /// `POST shares`: moves objects and everything connected with them into a zone of their own that is shared, or into
  /// the zone of an existing share. Zone, share, records and tombstones are one commit.
  package func shareObjects(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked = try ShareObjectsRequest(try JSONValue.request(body))
    let mirror = try await locate()
    let defaultZoneName = try privateZoneName(of: mirror, for: "shares")
    let wanted = try asked.zone.map { zone throws(RecordError) in try ownZoneName(zone, "to") }
    guard wanted != defaultZoneName else {
      throw RecordError(
        .badRequest, "to: zone '\(defaultZoneName)' takes the store's new objects, and can't be shared",
        cocoaErrorCode: .mirroring)
    }
    let (model, schema) = try await model(of: mirror)
    let people = try await SharePeople(
      owner: request.database.owner, caller: user, looking: asked.patch.lookups, in: context.people)
    let fresh = ReservedName.shareZonePrefix + IdempotencyKey(request: request, body: body).recordName(at: 0)
    let known = try await read { snapshot in
      try shareZone(of: asked.objectIDs, try self.mirror(in: snapshot), in: snapshot)
    }
    let zoneName = wanted ?? known ?? fresh
    let sharing = ZoneShare(
      patch: asked.patch.identified(by: people.found), title: asked.title, people: people, schema: schema,
      stamp: Stamp(timestamp: now, userRecordName: user, deviceID: mirror.identifier),
      making: ShareState.Making(at: now, shard: store.shard, context.random))
    let move = GraphMove(
      call: self, objectIDs: asked.objectIDs, zoneName: zoneName, model: model, schema: schema, makesZone: wanted == nil
    )
    startNext()
    let moved = try await move.run(
      mayLeave: { objectID, zone, snapshot in
        guard zone.zoneName != defaultZoneName,
          try zone.zoneName.hasPrefix(ReservedName.shareZonePrefix) || snapshot.isShared(zone)
        else { return }
        throw RecordError(
          .badRequest, "\(objectID) is already assigned to the zone '\(zone.zoneName)' and cannot be moved",
          cocoaErrorCode: .mirroring)
      },
      mayEnter: { zone, snapshot in
        let mirror = try self.mirror(in: snapshot)
        if let refusal = try ZoneStanding(of: mirror, to: zone, in: snapshot).refusal {
          throw RecordError(.conflict, "to: \(refusal.reason)")
        }
        if try snapshot.hasHierarchyShares(zone) {
          throw RecordError.alreadyShared(
            "Records of the zone '\(zone.zoneName)' are shared already: the zone can't be shared as a whole")
        }
      }
    ) { commit in
      try sharing.write(in: commit)
    }
    let zoneID = Zone.ID(zoneName: zoneName, ownerName: request.database.owner)
    var records = RecordDictionaryWriter(zone: zoneID, assets: assetLinks)
    records.shares = moved.value.shown
    return PlaneAnswer(
      body: ShareObjectsRequest.answer(
        moved.value.stored.record, tag: moved.value.stored.tag, by: records, zone: zoneID, moved: moved.objectIDs))
  }

  /// The zone of the share that has the objects already; nil: none.
  /// - Throws: `BAD_REQUEST` with 134060 for objects of two shares.
  private func shareZone(of objectIDs: [String], _ mirror: StoredMirror, in snapshot: any ShardSnapshot) throws
    -> String?
  {
    let locator = try ObjectLocator(of: mirror, in: snapshot)
    if locator.isSingle { return nil }
    var found: (objectID: String, zone: StoredZone)?
    for objectID in objectIDs {
      guard let zone = try locator.zone(of: objectID), zone.zoneName != mirror.defaultZoneName,
        try zone.zoneName.hasPrefix(ReservedName.shareZonePrefix) || snapshot.isShared(zone)
      else {
        continue
      }
      if let found, found.zone.key != zone.key {
        throw RecordError(
          .badRequest,
          """
          \(found.objectID) is already assigned to the zone '\(found.zone.zoneName)' and \(objectID) to \
          '\(zone.zoneName)': objects of two shares cannot be shared together
          """,
          cocoaErrorCode: .mirroring)
      }
      found = found ?? (objectID, zone)
    }
    return found?.zone.zoneName
  }

  /// `GET shares`: all shares of the store, or with `objectID` the share of that object.
  package func fetchShares() async throws(RecordError) -> PlaneAnswer {
    let objectID = request.query["objectID"].flatMap { $0.isEmpty ? nil : $0 }
    let found = try await read { snapshot -> [(Zone.ID, StoredRecord, ShownShares)] in
      let mirror = try self.mirror(in: snapshot)
      let zones: [StoredZone]
      if let objectID {
        let locator = try ObjectLocator(of: mirror, in: snapshot)
        guard let zone = try locator.zone(of: objectID), try locator.row(of: objectID)?.isDeleted == false else {
          throw RecordError(.notFound, "There is no object \(objectID.prefix(Limit.nameByteCount)) in this store")
        }
        zones = [zone]
      } else {
        guard try mirror.scope == .private && snapshot.database(key: mirror.databaseKey)?.hasShares == true else {
          return []
        }
        zones = try snapshot.mirroredZones(of: mirror, after: 0).filter { !$0.isDeleted }
      }
      return try zones.flatMap { try shares(in: $0, of: objectID, snapshot) }
    }
    let assets = assetLinks
    return PlaneAnswer(
      body: ShareObjectsRequest.answer(
        found.map { zone, stored, shown in
          var records = RecordDictionaryWriter(zone: zone, assets: assets)
          records.shares = shown
          return (stored.record, stored.tag, records)
        }))
  }

  /// - Parameter objectID: nil for all shares of the zone.
  private func shares(in zone: StoredZone, of objectID: String?, _ snapshot: any ShardSnapshot) throws -> [(
    Zone.ID, StoredRecord, ShownShares
  )] {
    guard try snapshot.database(key: zone.databaseKey)?.hasShares == true else { return [] }
    let zoneID = Zone.ID(zoneName: zone.zoneName, ownerName: request.database.owner)
    let ancestors = try objectID.map { try self.ancestors(of: $0, in: zone, snapshot) }
    var found: [(Zone.ID, StoredRecord, ShownShares)] = []
    var last: String?
    while case let rows = try snapshot.shares(in: zone.key, afterName: last, limit: 200), let end = rows.last {
      for share in rows where share.rootRecordName.map({ ancestors?.contains($0) ?? true }) ?? true {
        guard let record = try snapshot.record(named: share.name, in: zone.key), !record.isDeleted,
          let shown = try ShownShares.shown(with: [record], in: zone, to: user, snapshot)
        else { continue }
        found.append((zoneID, record, shown))
      }
      last = end.name
    }
    return found
  }

  /// A record's name and those of its ancestors.
  private func ancestors(of recordName: String, in zone: StoredZone, _ snapshot: any ShardSnapshot) throws -> Set<
    String
  > {
    var found: Set<String> = []
    var next: String? = recordName
    while let name = next, found.insert(name).inserted {
      next = try snapshot.record(named: name, in: zone.key)?.record.parent
    }
    return found
  }
}

/// The share of a whole zone, made or changed in the commit that fills the zone.
struct ZoneShare: Sendable {
  let patch: SharePatch
  let title: String?
  let people: SharePeople
  let schema: EnvironmentSchema
  let stamp: Stamp
  let making: ShareState.Making

  struct Written: Sendable {
    let stored: StoredRecord
    let shown: ShownShares
  }

  func write(in commit: MoveCommit) throws -> Written {
    let transaction = commit.transaction
    let zone = commit.zone
    let name = ReservedName.zoneShareRecordName
    let existing = try transaction.record(named: name, in: zone.key)
    let share = try transaction.share(named: name, in: zone.key)
    guard let writing = commit.commit else {
      guard let existing, !existing.isDeleted else {
        throw RecordError(.notFound, "The share that the request made has ended meanwhile")
      }
      return try written(existing, in: commit)
    }
    let writer = ShareWriter(writer: writing.serversWriter(to: zone))
    let decision: ShareDecision
    var record: Record
    if let existing, !existing.isDeleted, let state = share?.state {
      decision = try state.applying(patch, by: .owner, making)
      record = existing.record
      guard decision.isChanged || title.map({ $0 != record.fields.string(ReservedName.shareTitle) }) ?? false else {
        return try written(existing, in: commit)
      }
      record.modified = stamp
    } else {
      let state = ShareState(
        of: people.owner, rootRecordName: nil, participantID: making.participantID(), at: making.time)
      decision = ShareDecision(from: nil, to: try state.applying(patch, by: .owner, making).state)
      record = Record(
        recordName: name, recordType: ReservedName.shareRecordType, fields: Fields(), created: stamp, modified: stamp)
      // A zone that is shared again keeps its URL (T-P17).
      record.shortGUID = share?.shortGUID ?? making.shortGUID()
    }
    if let title { record.fields[ReservedName.shareTitle] = Field(.string(title)) }
    let row = StoredShare(
      name: name, rootRecordName: nil, shortGUID: share?.shortGUID ?? record.shortGUID ?? making.shortGUID(),
      state: share?.state)
    let stored = try writer.save(record, replacing: existing, row, decision)
    return try written(stored, in: commit)
  }

  private func written(_ stored: StoredRecord, in commit: MoveCommit) throws -> Written {
    let shown =
      try ShownShares.shown(with: [stored], in: commit.zone, to: people.caller.userRecordName, commit.transaction)
      ?? ShownShares(to: people.caller)
    return Written(stored: stored, shown: shown)
  }
}

extension ShardSnapshot {
  /// True if the zone is shared as a whole.
  func isShared(_ zone: StoredZone) throws -> Bool {
    try share(named: ReservedName.zoneShareRecordName, in: zone.key)?.state != nil
  }

  /// True if hierarchies of the zone are shared.
  func hasHierarchyShares(_ zone: StoredZone) throws -> Bool {
    try shares(in: zone.key, afterName: nil, limit: 2).contains { $0.rootRecordName != nil }
  }
}
