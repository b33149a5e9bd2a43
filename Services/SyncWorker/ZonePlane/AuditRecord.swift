// Who set what of a record, when and from where, read off the states that are kept of it (T-X02).

import Mirroring
import RecordStore
import Records
import ServiceBus
import Sharing
import WebServices

/// One record's states, as changes.
struct RecordAudit: Sendable {
  let recordName: String
  /// nil: all.
  let field: String?
  let withoutPrefix: String
  /// Changes up to this sequence are left out.
  let after: Int64
  let limit: Int
  /// Whether the caller may read what a zone had of a record that was moved out of it.
  var mayRead: @Sendable (StoredZone) -> Bool = { _ in true }

  /// States that one answer looks at, at most.
  static let limit = 1000

  /// - Throws: `NOT_FOUND` for a record that the zone never had.
  func answer(in zone: StoredZone, _ permissions: RecordPermissions?, from snapshot: any ShardSnapshot) throws -> [UInt8] {
    guard let present = try snapshot.record(named: recordName, in: zone.key), permissions?.mayRead(present.record) ?? true else {
      throw RecordError(.notFound, "There is no record '\(recordName.prefix(Limit.nameByteCount))' in zone '\(zone.zoneName)'")
    }
    // An object is the same in whichever zone it was; what it was in one the caller may not read is not for him.
    let former = try snapshot.formerZones(of: present.record, in: zone)
    let zones = former.compactMap(\.self).filter(mayRead) + [zone]
    let horizon = try former.isEmpty ? snapshot.horizon(of: zone.key) ?? zone.sequence : min(snapshot.horizon(of: present.record, in: zone), zone.sequence)
    let kept = try zones.flatMap { zone in
      try snapshot.states(of: recordName, in: zone, after: after, limit: limit + 2).map { (zone: zone.zoneName, state: $0) }
    }.sorted { $0.state.sequence < $1.state.sequence }
    // What it was then, and what it became.
    let later = kept.filter { $0.state.sequence > after }
    let isWhole = later.count <= limit
    let states = kept.last { $0.state.sequence <= after && Tombstone.movedTo($0.state.record) == nil }.map { [$0] + later.prefix(limit) } ?? Array(later.prefix(limit))
    var writer = AuditWriter(field: field, withoutPrefix: withoutPrefix)
    var last = after
    for (index, (zoneName, state)) in states.enumerated() {
      if state.isDeleted, let target = Tombstone.movedTo(state.record), zones.contains(where: { $0.zoneName == target }) {
        if state.sequence > after { writer.addMove(at: state.sequence, from: zoneName, to: target, by: state.record.modified) }
        last = max(last, state.sequence)
        continue
      }
      let fields = state.isDeleted ? nil : state.record.fields
      if index == 0, state.sequence <= after {
        writer.begin(with: fields)
        continue
      }
      guard writer.byteCount < StoreCall.pageByteCount else { return writer.finish(knownFrom: horizon, last: last, moreComing: true) }
      // The state before the horizon may have had one before it.
      let isEarliest = index == 0 && state.sequence <= horizon && !state.isDeleted
      writer.add(AuditWriter.State(sequence: state.sequence, fields: fields, modified: state.record.modified), isEarliest: isEarliest)
      last = state.sequence
    }
    return writer.finish(knownFrom: horizon, last: last, moreComing: !isWhole)
  }
}

extension ZoneCall {
  /// `GET audit?recordName=…&field=…`: of records, in their fields' names.
  func audit() async throws(RecordError) -> PlaneAnswer {
    guard let name = request.query["recordName"], !name.isEmpty else { throw RecordError(.badRequest, "recordName is missing") }
    let audit = RecordAudit(
      recordName: name, field: request.query["field"], withoutPrefix: "", after: try number("after") ?? 0,
      limit: try limit(maximum: RecordAudit.limit))
    return PlaneAnswer(body: try await read { snapshot in try audit.answer(in: try zone(in: snapshot), nil, from: snapshot) })
  }
}

extension StoreCall {
  /// `GET audit?objectID=…&property=…`: of objects, in their properties' names. Many-to-many links are records of their own.
  func audit() async throws(RecordError) -> PlaneAnswer {
    guard let objectID = request.query["objectID"], !objectID.isEmpty else { throw RecordError(.badRequest, "objectID is missing") }
    let after = try integer("after", default: 0, minimum: 0, maximum: .max)
    let permissions = try await context.schemas.schema(of: request.database.container, request.database.environment)
      .permissions(of: request.caller, in: request.database)
    let audit = RecordAudit(
      recordName: objectID, field: request.query["property"].map { ReservedName.fieldPrefix + $0 }, withoutPrefix: ReservedName.fieldPrefix, after: Int64(after),
      limit: try integer("limit", default: RecordAudit.limit, maximum: RecordAudit.limit))
    return PlaneAnswer(
      body: try await read { snapshot in
        let mirror = try mirror(in: snapshot)
        let locator = try ObjectLocator(of: mirror, in: snapshot)
        guard let zone = try locator.zone(of: objectID) else { throw RecordError(.notFound, "The store has no zone") }
        guard let guest = locator.guest else { return try audit.answer(in: zone, permissions, from: snapshot) }
        // Of what its user sees: the record as it is, and what it was in zones that are wholly his to read.
        guard let seen = guest.visible(in: zone, snapshot), let row = try locator.row(of: objectID), try seen.mayRead(row.record) else {
          throw RecordError(.notFound, "There is no object \(objectID.prefix(Limit.nameByteCount)) in this store")
        }
        var visible = audit
        visible.mayRead = { guest.access[$0.zoneName]?.zoneWide != nil }
        return try visible.answer(in: zone, nil, from: snapshot)
      })
  }
}
