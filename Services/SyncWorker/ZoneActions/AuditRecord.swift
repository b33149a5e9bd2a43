// The audit of a record: the user, time and device of each change, read from the kept states (T-X02).

import Mirroring
import ObjectPlane
import RecordStore
package import Records
import ServiceBus
import Sharing
import WebServices
package import ZoneCommit

/// One record's kept states as a list of changes.
struct RecordAudit: Sendable {
  let recordName: String
  /// nil: all.
  let field: String?
  let withoutPrefix: String
  /// Changes up to this sequence are left out.
  let after: Int64
  let limit: Int
  /// True if the caller may read a zone's states of a record that moved out of it.
  var mayRead: @Sendable (StoredZone) -> Bool = { _ in true }

  /// The most states that one answer looks at.
  static let limit = 1000

  /// - Throws: `NOT_FOUND` for a record that the zone never had.
  func answer(in zone: StoredZone, _ permissions: RecordPermissions?, from snapshot: any ShardSnapshot) throws
    -> [UInt8]
  {
    guard let present = try snapshot.record(named: recordName, in: zone.key),
      permissions?.mayRead(present.record) ?? true
    else {
      throw RecordError(
        .notFound, "There is no record '\(recordName.prefix(Limit.nameByteCount))' in zone '\(zone.zoneName)'")
    }
    // The states of an object span its zones. States in zones that the caller may not read are left out.
    let former = try snapshot.formerZones(of: present.record, in: zone)
    let zones = former.compactMap(\.self).filter(mayRead) + [zone]
    let horizon =
      try former.isEmpty
      ? snapshot.horizon(of: zone.key) ?? zone.sequence
      : min(snapshot.horizon(of: present.record, in: zone), zone.sequence)
    let kept = try zones.flatMap { zone in
      try snapshot.states(of: recordName, in: zone, after: after, limit: limit + 2).map {
        (zone: zone.zoneName, state: $0)
      }
    }.sorted { $0.state.sequence < $1.state.sequence }
    // Each state with its successor.
    let later = kept.filter { $0.state.sequence > after }
    let isWhole = later.count <= limit
    let states =
      kept.last { $0.state.sequence <= after && Tombstone.movedTo($0.state.record) == nil }.map {
        [$0] + later.prefix(limit)
      } ?? Array(later.prefix(limit))
    var writer = AuditWriter(field: field, withoutPrefix: withoutPrefix)
    var last = after
    for (index, (zoneName, state)) in states.enumerated() {
      if state.isDeleted, let target = Tombstone.movedTo(state.record), zones.contains(where: { $0.zoneName == target })
      {
        if state.sequence > after {
          writer.addMove(at: state.sequence, from: zoneName, to: target, by: state.record.modified)
        }
        last = max(last, state.sequence)
        continue
      }
      let fields = state.isDeleted ? nil : state.record.fields
      if index == 0, state.sequence <= after {
        writer.begin(with: fields)
        continue
      }
      guard writer.byteCount < StoreCall.pageByteCount else {
        return writer.finish(knownFrom: horizon, last: last, moreComing: true)
      }
      // A state before the horizon may have had a predecessor that is not kept.
      let isEarliest = index == 0 && state.sequence <= horizon && !state.isDeleted
      writer.add(
        AuditWriter.State(sequence: state.sequence, fields: fields, modified: state.record.modified),
        isEarliest: isEarliest)
      last = state.sequence
    }
    return writer.finish(knownFrom: horizon, last: last, moreComing: !isWhole)
  }
}

extension ZoneCall {
  /// `GET audit?recordName=…&field=…`: the audit of a record, by field names.
  func audit() async throws(RecordError) -> PlaneAnswer {
    guard let name = request.query["recordName"], !name.isEmpty else {
      throw RecordError(.badRequest, "recordName is missing")
    }
    let audit = RecordAudit(
      recordName: name, field: request.query["field"], withoutPrefix: "", after: try number("after") ?? 0,
      limit: try limit(maximum: RecordAudit.limit))
    return PlaneAnswer(
      body: try await read { snapshot in try audit.answer(in: try zone(in: snapshot), nil, from: snapshot) })
  }
}

extension StoreCall {
  /// `GET audit?objectID=…&property=…`: the audit of an object, by property names. Many-to-many links are own records.
  package func audit() async throws(RecordError) -> PlaneAnswer {
    guard let objectID = request.query["objectID"], !objectID.isEmpty else {
      throw RecordError(.badRequest, "objectID is missing")
    }
    let after = try integer("after", default: 0, minimum: 0, maximum: .max)
    let permissions = try await context.schemas.schema(of: request.database.container, request.database.environment)
      .permissions(of: request.caller, in: request.database)
    let audit = RecordAudit(
      recordName: objectID, field: request.query["property"].map { ReservedName.fieldPrefix + $0 },
      withoutPrefix: ReservedName.fieldPrefix, after: Int64(after),
      limit: try integer("limit", default: RecordAudit.limit, maximum: RecordAudit.limit))
    return PlaneAnswer(
      body: try await read { snapshot in
        let mirror = try mirror(in: snapshot)
        let locator = try ObjectLocator(of: mirror, in: snapshot)
        guard let zone = try locator.zone(of: objectID) else { throw RecordError(.notFound, "The store has no zone") }
        guard let guest = locator.guest else { return try audit.answer(in: zone, permissions, from: snapshot) }
        // The user's view: the record now, and its states in zones that the user may read as a whole.
        guard let seen = guest.visible(in: zone, snapshot), let row = try locator.row(of: objectID),
          try seen.mayRead(row.record)
        else {
          throw RecordError(.notFound, "There is no object \(objectID.prefix(Limit.nameByteCount)) in this store")
        }
        var visible = audit
        visible.mayRead = { guest.access[$0.zoneName]?.zoneWide != nil }
        return try visible.answer(in: zone, nil, from: snapshot)
      })
  }
}
