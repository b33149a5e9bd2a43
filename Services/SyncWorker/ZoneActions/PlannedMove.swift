// Finds the records of a move in a snapshot, so that the writer only checks whether the plan still holds.

import Mirroring
import ObjectPlane
import RecordStore
import Records
import ZoneCommit

/// Graphs that move to one zone.
struct PlannedMove: Sendable {
  /// The records that leave one zone.
  struct Part: Sendable {
    /// The zone's state when the move was planned.
    let zone: StoredZone
    /// The first requested object of the zone.
    let root: String
    let plan: MovePlan
  }

  private(set) var parts: [Part] = []

  /// Records to write, without the tombstones they leave.
  var count: Int { parts.reduce(0) { $0 + $1.plan.items.count } }

  /// Objects in the order of their discovery.
  var objectIDs: [String] { parts.flatMap(\.plan.items).lazy.filter(\.isObject).map(\.recordName) }

  /// - Parameters:
  ///   - target: the name of the target zone. Objects that are there already stay as they are.
  ///   - mayLeave: throws for an object that must stay in its zone.
  ///   - progress: gets the number of records looked at.
  /// - Throws: `BAD_REQUEST` with 134060 for an object that the store does not have, and for refused graphs.
  init(
    of objectIDs: [String], of mirror: StoredMirror, to target: String, _ model: MirrorModel,
    _ schema: EnvironmentSchema, in snapshot: any ShardSnapshot,
    mayLeave: (String, StoredZone) throws -> Void, progress: (Int) throws -> Void
  ) throws {
    let locator = try ObjectLocator(of: mirror, in: snapshot)
    let boundaries = ShareBoundaries(model.index, model.links)
    var planners: [(zone: StoredZone, root: String, planner: MovePlanner)] = []
    do {
      for sent in objectIDs {
        let (objectID, zone) = try Self.locate(sent, locator, in: snapshot)
        if zone.zoneName == target { continue }
        try mayLeave(objectID, zone)
        let index =
          planners.firstIndex { $0.zone.key == zone.key }
          ?? {
            planners.append(
              (zone, objectID, MovePlanner(Self.source(zone, schema, in: snapshot), boundaries: boundaries)))
            return planners.count - 1
          }()
        try planners[index].planner.add(objectID, progress: progress)
      }
      for (zone, root, planner) in planners { parts.append(Part(zone: zone, root: root, plan: try planner.finish())) }
    } catch let refusal as MoveRefusal {
      throw refusal.recordError
    }
    guard count <= Limit.moveCount else {
      throw MoveRefusal.tooManyRecords(from: objectIDs[0], limit: Limit.moveCount).recordError
    }
  }

  /// The object of a sent name and the zone of its record. A duplicate's name stands for its survivor.
  private static func locate(_ objectID: String, _ locator: ObjectLocator, in snapshot: any ShardSnapshot) throws -> (
    String, StoredZone
  ) {
    guard let zone = try locator.zone(of: objectID) else { throw MoveRefusal.unknownObject(objectID) }
    if try locator.row(of: objectID)?.isDeleted == false { return (objectID, zone) }
    guard try snapshot.hasRedirects(in: zone.databaseKey),
      let redirect = try snapshot.redirect(of: objectID, in: zone.key)
    else {
      throw MoveRefusal.unknownObject(objectID)
    }
    return (redirect.survivor, zone)
  }

  /// The zone as the planner reads it. Nothing is cached, because a graph may be too large for memory.
  private static func source(_ zone: StoredZone, _ schema: EnvironmentSchema, in snapshot: any ShardSnapshot)
    -> MoveSource
  {
    MoveSource { name in
      try snapshot.record(named: name, in: zone.key).map {
        SourceRecord(record: $0.record, isDeleted: $0.isDeleted, sequence: $0.sequence)
      }
    } outgoing: { record in
      schema.references(of: record).map { RecordPointerTarget(field: $0.field, target: $0.target) }
    } incoming: { name in
      try snapshot.references(to: name, in: zone.key, limit: Limit.moveCount + 1).map {
        RecordPointer(field: $0.field, source: $0.source)
      }
    } duplicates: { name in
      guard try snapshot.hasRedirects(in: zone.databaseKey) else { return (nil, []) }
      let survivor = try snapshot.redirect(of: name, in: zone.key).flatMap { $0.isPending ? $0.survivor : nil }
      return (survivor, try snapshot.redirects(to: name, in: zone.key, limit: Limit.moveCount + 1).map(\.loser))
    } isShared: { name in
      try snapshot.share(ofRoot: name, in: zone.key)?.state != nil
    }
  }

  // MARK: Check of the plan

  /// With more changes in a zone, or more bytes of them, the move is planned again without looking at the rest.
  private static let changeLimit = 1000
  private static let changeByteLimit = 16 << 20

  /// True if no record of the graphs has changed since the plan, and none that points to them or that they point to,
  /// even if it was only a name then.
  func holds(
    _ schema: EnvironmentSchema, in snapshot: any ShardSnapshot, byteLimit: Int = changeByteLimit
  ) throws -> Bool {
    for part in parts {
      guard let zone = try snapshot.zone(key: part.zone.key), !zone.isDeleted else { return false }
      if zone.sequence == part.zone.sequence { continue }
      var changes = RecordRows(of: zone.key)
      let isAtEnd = try snapshot.readChanges(
        after: part.zone.sequence, limit: Self.changeLimit, byteLimit: byteLimit, into: &changes)
      guard isAtEnd else { return false }
      let names = part.plan.visited
      for index in changes.indices {
        let row = try changes.record(at: index)
        if names.contains(row.record.recordName) { return false }
        if !row.isDeleted,
          row.record.parent.map(names.contains) == true
            || schema.references(of: row.record).contains(where: { names.contains($0.target) })
        {
          return false
        }
      }
    }
    return true
  }
}
