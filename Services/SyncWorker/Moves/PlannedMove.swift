// What a move takes along, found in a snapshot: the writer only looks whether it still holds.

import Mirroring
import RecordStore
import Records

/// Graphs that move to one zone.
struct PlannedMove: Sendable {
  /// What leaves one zone.
  struct Part: Sendable {
    /// As it was when it was planned.
    let zone: StoredZone
    /// The object that was asked for first.
    let root: String
    let plan: MovePlan
  }

  private(set) var parts: [Part] = []

  /// Records that are written, the copies that they leave apart.
  var count: Int { parts.reduce(0) { $0 + $1.plan.items.count } }

  /// Objects in the order they were found.
  var objectIDs: [String] { parts.flatMap(\.plan.items).lazy.filter(\.isObject).map(\.recordName) }

  /// - Parameters:
  ///   - target: the name of the zone they go to; what is there already stays as it is.
  ///   - mayLeave: throws for an object of a zone that is not to be left.
  ///   - progress: told how many records were looked at.
  /// - Throws: `BAD_REQUEST` with 134060 for an object that the store does not have, and for what is too much or may not.
  init(
    of objectIDs: [String], of mirror: StoredMirror, to target: String, _ model: MirrorModel, _ schema: EnvironmentSchema, in snapshot: any ShardSnapshot,
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
            planners.append((zone, objectID, MovePlanner(Self.source(zone, schema, in: snapshot), boundaries: boundaries)))
            return planners.count - 1
          }()
        try planners[index].planner.add(objectID, progress: progress)
      }
      for (zone, root, planner) in planners { parts.append(Part(zone: zone, root: root, plan: try planner.finish())) }
    } catch let refusal as MoveRefusal {
      throw refusal.recordError
    }
    guard count <= Limit.moveCount else { throw MoveRefusal.tooManyRecords(from: objectIDs[0], limit: Limit.moveCount).recordError }
  }

  /// The object that is meant, a duplicate's name standing for its survivor, and the zone that has its record.
  private static func locate(_ objectID: String, _ locator: ObjectLocator, in snapshot: any ShardSnapshot) throws -> (String, StoredZone) {
    guard let zone = try locator.zone(of: objectID) else { throw MoveRefusal.unknownObject(objectID) }
    if try locator.row(of: objectID)?.isDeleted == false { return (objectID, zone) }
    guard try snapshot.hasRedirects(in: zone.databaseKey), let redirect = try snapshot.redirect(of: objectID, in: zone.key) else {
      throw MoveRefusal.unknownObject(objectID)
    }
    return (redirect.survivor, zone)
  }

  /// The zone as the planner looks at it. Nothing is remembered: a graph may be larger than memory is wanted for.
  private static func source(_ zone: StoredZone, _ schema: EnvironmentSchema, in snapshot: any ShardSnapshot) -> MoveSource {
    MoveSource { name in
      try snapshot.record(named: name, in: zone.key).map { SourceRecord(record: $0.record, isDeleted: $0.isDeleted, sequence: $0.sequence) }
    } outgoing: { record in
      schema.references(of: record).map { RecordPointerTarget(field: $0.field, target: $0.target) }
    } incoming: { name in
      try snapshot.references(to: name, in: zone.key, limit: Limit.moveCount + 1).map { RecordPointer(field: $0.field, source: $0.source) }
    } duplicates: { name in
      guard try snapshot.hasRedirects(in: zone.databaseKey) else { return (nil, []) }
      let survivor = try snapshot.redirect(of: name, in: zone.key).flatMap { $0.isPending ? $0.survivor : nil }
      return (survivor, try snapshot.redirects(to: name, in: zone.key, limit: Limit.moveCount + 1).map(\.loser))
    } isShared: { name in
      try snapshot.share(ofRoot: name, in: zone.key)?.state != nil
    }
  }

  // MARK: Whether it still holds

  /// More changes of a zone than these are not looked through: the move is planned anew.
  private static let changeLimit = 1000

  /// Whether nothing of the graphs has changed since they were planned: no record of theirs, none that points to them, and none that they point to,
  /// were it only a name then.
  func holds(_ schema: EnvironmentSchema, in snapshot: any ShardSnapshot) throws -> Bool {
    for part in parts {
      guard let zone = try snapshot.zone(key: part.zone.key), !zone.isDeleted else { return false }
      if zone.sequence == part.zone.sequence { continue }
      let changes = try snapshot.changes(in: zone.key, after: part.zone.sequence, limit: Self.changeLimit)
      if changes.count == Self.changeLimit { return false }
      let names = part.plan.visited
      for row in changes {
        if names.contains(row.record.recordName) { return false }
        if !row.isDeleted, row.record.parent.map(names.contains) == true || schema.references(of: row.record).contains(where: { names.contains($0.target) }) {
          return false
        }
      }
    }
    return true
  }
}
