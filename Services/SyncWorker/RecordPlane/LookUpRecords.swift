// records/lookup (docs/protocol/record-plane.md#records-lookup).

import JSON
import RecordStore
import Records
import ServiceBus
import WebServices
import ZoneCommit

/// The records of a lookup as they were read.
private struct LookedUp: Sendable {
  let zone: StoredZone
  var rows: RecordRows
  /// For each item the place of its row, nil without one; fewer than items where the answer has no more room.
  var places: [Int?] = []
  var shares: ShownShares?

  init(zone: StoredZone) {
    self.zone = zone
    rows = RecordRows(of: zone.key)
  }
}

extension RecordPlaneCall {
  func lookUpRecords() async throws(RecordError) -> PlaneAnswer {
    let zone = try zone(ZoneReference(of: json))
    let lookup = try LookupRecordsRequest(json)
    let permissions = try await permissions()
    let (finder, caller) = (finder, request.caller.userRecordName)
    let found = try await read { snapshot -> LookedUp? in
      guard let view = try finder.require(zone, in: snapshot) else { return nil }
      let visible = VisibleRecords(view, in: snapshot)
      let isRestricted = permissions != nil || !visible.seesEverything
      var found = LookedUp(zone: view.row)
      for item in lookup.items {
        // Records beyond the answer's room are not fetched; their items say so below.
        guard found.rows.byteCount <= Self.pageByteCount else { break }
        let place = found.rows.count
        guard try snapshot.readRecord(named: item.recordName, into: &found.rows) else {
          found.places.append(nil)
          continue
        }
        if isRestricted {
          let record = try found.rows.record(at: place).record
          guard permissions?.mayRead(record) ?? true, try visible.seesEverything || visible.isVisible(record) else {
            found.rows.removeAll(from: place)
            found.places.append(nil)
            continue
          }
        }
        found.places.append(place)
      }
      found.shares = try ShownShares.shown(with: found.rows.recordsWithShares(), in: view.row, to: caller, snapshot)
      return found
    }
    let records = writer(for: zone, showing: found?.shares)
    var output = ListAnswer(
      "records", of: request, reservingByteCount: found.map { room(for: $0.rows) } ?? 512 * (lookup.items.count + 1))
    for (index, item) in lookup.items.enumerated() {
      let isFull = output.byteCount > Self.pageByteCount
      if !isFull, let found, index < found.places.count, let place = found.places[index], !found.rows[place].isDeleted {
        try output.add { output throws(RecordError) in
          try write(found.rows, at: place, by: records, as: item.presentation, to: &output)
        }
      } else if isFull || found.map({ index >= $0.places.count }) ?? false {
        output.add(Self.noRoom, ofRecord: item.recordName)
      } else {
        output.add(RecordError(.notFound, "Record not found"), ofRecord: item.recordName)
      }
    }
    return try output.finish { output in
      if wantsSyncToken, let token = found?.zone.shownSyncToken { output.member("syncToken", token) }
    }
  }

  /// The error for the rest of a lookup, which can't be paged.
  private static let noRoom = RecordError(
    .badRequest, "The records are too large for one answer: look up fewer at a time")
}
