// records/lookup (docs/protocol/record-plane.md#records-lookup).

import JSON
import RecordStore
import Records
import ServiceBus
import WebServices
import ZoneCommit

extension RecordPlaneCall {
  func lookUpRecords() async throws(RecordError) -> PlaneAnswer {
    let zone = try zone(ZoneReference(of: json))
    let lookup = try LookupRecordsRequest(json)
    let permissions = try await permissions()
    let (finder, caller) = (finder, request.caller.userRecordName)
    let found = try await read { snapshot in
      let view = try finder.require(zone, in: snapshot)
      let visible = view.map { VisibleRecords($0, in: snapshot) }
      let row = view?.row
      var records: [StoredRecord?] = []
      records.reserveCapacity(lookup.items.count)
      var byteCount = 0
      for item in lookup.items {
        // Records beyond the answer's room are not fetched; their items say so below.
        guard let row, byteCount <= Self.pageByteCount else { break }
        var record = try snapshot.record(named: item.recordName, in: row.key)
        if let permissions, let found = record, !permissions.mayRead(found.record) { record = nil }
        if let visible, !visible.seesEverything, let found = record, try !visible.isVisible(found.record) {
          record = nil
        }
        byteCount += record?.record.fields.byteCount ?? 0
        records.append(record)
      }
      let shares = try row.flatMap {
        try ShownShares.shown(with: records.compactMap(\.self), in: $0, to: caller, snapshot)
      }
      return (row, records, shares)
    }
    let records = writer(for: zone, showing: found.2)
    var output = ListAnswer("records", of: request, reservingByteCount: 512 * (lookup.items.count + 1))
    for (index, item) in lookup.items.enumerated() {
      let isFull = output.byteCount > Self.pageByteCount
      if !isFull, index < found.1.count, let stored = found.1[index], !stored.isDeleted {
        output.add { records.write(stored.record, tag: stored.tag, as: item.presentation, to: &$0) }
      } else if isFull || (index >= found.1.count && found.0 != nil) {
        output.add(Self.noRoom, ofRecord: item.recordName)
      } else {
        output.add(RecordError(.notFound, "Record not found"), ofRecord: item.recordName)
      }
    }
    return try output.finish { output in
      if wantsSyncToken, let token = found.0?.shownSyncToken { output.member("syncToken", token) }
    }
  }

  /// The error for the rest of a lookup, which can't be paged.
  private static let noRoom = RecordError(
    .badRequest, "The records are too large for one answer: look up fewer at a time")
}
