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

  /// The most states that one answer looks at.
  static let limit = 1000
  /// Bytes of states that one answer reads; one state may be above it.
  private static let byteLimit = 32 << 20

  /// - Parameter access: the caller's rights in a zone; nil if the caller may not read it.
  /// - Throws: `NOT_FOUND` for a record that the zone never had.
  func answer(
    in zone: StoredZone, from snapshot: any ShardSnapshot, _ access: (StoredZone) -> (any RecordAccess)?
  ) throws -> [UInt8] {
    guard let present = try snapshot.record(named: recordName, in: zone.key), let rights = access(zone),
      try rights.mayRead(present.record)
    else {
      throw RecordError(
        .notFound, "There is no record '\(recordName.prefix(Limit.nameByteCount))' in zone '\(zone.zoneName)'")
    }
    // The states of an object span its zones.
    let former = try snapshot.formerZones(of: present.record, in: zone)
    let horizon =
      try former.isEmpty
      ? snapshot.horizon(of: zone.key) ?? zone.sequence
      : min(snapshot.horizon(of: present.record, in: zone), zone.sequence)
    var known = [zone.key: rights]
    for case let zone? in former { known[zone.key] = access(zone) }
    let zones = (former.compactMap(\.self) + [zone]).filter { known[$0.key] != nil }
    let names = Set(zones.map(\.zoneName))
    let reader = PastReader(snapshot)
    var past = try KeptPast(of: recordName, in: zones, after: after, by: reader)
    var page = AuditPage(
      AuditWriter(field: field, withoutPrefix: withoutPrefix), after: after, horizon: horizon,
      isHidden: former.first.flatMap(\.self).map { known[$0.key] == nil } ?? false)
    func isReadable(_ state: PastState, in zone: StoredZone) throws -> Bool {
      try known[zone.key]?.mayRead(state, by: reader) ?? false
    }
    while let (zone, state) = try past.next() {
      if state.stored.sequence > after, page.count > 0,
        page.count >= limit || page.byteCount >= StoreCall.pageByteCount || reader.byteCount >= Self.byteLimit
      {
        return page.finish(moreComing: true)
      }
      let target = state.stored.isDeleted ? Tombstone.movedTo(state.stored.record) : nil
      // Behind a move the next page begins with the state from before it.
      if let target, state.stored.sequence <= after, names.contains(target) {
        if let moved = try reader.state(of: recordName, in: zone.key, at: state.stored.sequence - 1) {
          page.add(moved.stored, isReadable: try isReadable(moved, in: zone))
        }
      } else if state.stored.isDeleted {
        page.addDeletion(
          state.stored, in: zone.zoneName, movedTo: target.flatMap { names.contains($0) ? $0 : nil },
          isMove: target != nil)
      } else {
        page.add(state.stored, isReadable: try isReadable(state, in: zone))
      }
    }
    return page.finish(moreComing: false)
  }
}

/// The changes of one answer. A state that the caller could not read is left out, and the next one is the earliest that
/// they know.
private struct AuditPage {
  private var writer: AuditWriter
  private let after: Int64
  private var knownFrom: Int64
  private var last: Int64
  /// The states behind `after`, whether told or not.
  private(set) var count = 0
  /// True before the first state: a state before the horizon may have had a predecessor that is not kept.
  private var isFirst = true
  /// True if the caller could not read the state before the next one.
  private var isHidden: Bool
  /// True if states were left out since the last change.
  private var hasGap: Bool

  init(_ writer: AuditWriter, after: Int64, horizon: Int64, isHidden: Bool) {
    self.writer = writer
    self.after = after
    (knownFrom, last) = (horizon, after)
    (self.isHidden, hasGap) = (isHidden, isHidden)
  }

  var byteCount: Int { writer.byteCount }

  /// - Returns: true if the state is one of this page's, and not the one before the first.
  private mutating func counts(_ state: StoredRecord) -> Bool {
    guard state.sequence > after else { return false }
    count += 1
    last = state.sequence
    return true
  }

  mutating func add(_ state: StoredRecord, isReadable: Bool) {
    let isOfPage = counts(state)
    defer { (isFirst, isHidden) = (false, !isReadable) }
    guard isReadable else { return hasGap = true }
    guard isOfPage else { return writer.begin(with: state.record.fields) }
    let isEarliest = isHidden || isFirst && state.sequence <= knownFrom
    closeGap(at: state.sequence)
    writer.add(
      AuditWriter.State(sequence: state.sequence, fields: state.record.fields, modified: state.record.modified),
      isEarliest: isEarliest)
  }

  /// Adds a deletion or a move. The deletion of what the caller could not read is no news to them.
  /// - Parameters:
  ///   - target: the name of the zone that the record moved to; nil if the caller may not read it, or without a move.
  ///   - isMove: the record lives on in another zone.
  mutating func addDeletion(_ state: StoredRecord, in zoneName: String, movedTo target: String?, isMove: Bool) {
    let isOfPage = counts(state)
    defer {
      isFirst = false
      // Nobody is told of a record's time in a zone that they may not read.
      if isMove, target == nil { (isHidden, hasGap) = (true, true) } else if !isMove { isHidden = false }
    }
    guard isOfPage, !isHidden else { return writer.begin(with: nil) }
    if let target {
      writer.addMove(at: state.sequence, from: zoneName, to: target, by: state.record.modified)
    } else {
      writer.add(
        AuditWriter.State(sequence: state.sequence, fields: nil, modified: state.record.modified), isEarliest: false)
    }
  }

  private mutating func closeGap(at sequence: Int64) {
    if hasGap { knownFrom = max(knownFrom, sequence) }
    hasGap = false
  }

  consuming func finish(moreComing: Bool) -> [UInt8] {
    writer.finish(knownFrom: knownFrom, last: last, moreComing: moreComing)
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
      body: try await read { snapshot in
        try audit.answer(in: try zone(in: snapshot), from: snapshot) { VisibleRecords(nil, to: $0.key, in: snapshot) }
      })
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
        guard let guest = locator.guest else {
          return try audit.answer(in: zone, from: snapshot) { zone in
            permissions ?? VisibleRecords(nil, to: zone.key, in: snapshot)
          }
        }
        guard let seen = guest.visible(in: zone, snapshot), let row = try locator.row(of: objectID),
          try seen.mayRead(row.record)
        else {
          throw RecordError(.notFound, "There is no object \(objectID.prefix(Limit.nameByteCount)) in this store")
        }
        return try audit.answer(in: zone, from: snapshot) { guest.visible(in: $0, snapshot) }
      })
  }
}
