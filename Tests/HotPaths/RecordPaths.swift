// A worker's processing of record plane requests, without the store's part.

import JSON
import Records
import WebServices

extension HotPath {
  static func recordPlane() throws -> [HotPath] {
    var paths: [HotPath] = []
    for (count, calls) in [(1, 50), (200, 3)] {
      let body = Notes.modification(count)
      let operations = try Notes.request(body).operations
      let records = try Notes.records(count)
      paths.append(HotPath("records/modify of \(count): read", callCount: calls) { try read(body) })
      paths.append(
        HotPath("records/modify of \(count): decide", callCount: calls) {
          try operations.reduce(0) { sum, operation in
            guard case .save(let record) = try operation.decision(meeting: nil, stamp: Notes.stamp) else { return 0 }
            return sum + record.fields.count
          }
        })
      paths.append(
        HotPath("records/modify of \(count): answer", callCount: calls) { page(of: records, key: "records") })
    }
    let rows = try Notes.records(200).map { (name: Array($0.recordName.utf8), content: $0.encoded()) }
    paths.append(
      HotPath("changes/zone of 200: rows to page", callCount: 3) {
        let writer = RecordDictionaryWriter(zone: Notes.zone, assets: Notes.links)
        return try page(key: "records", byteCount: rows.reduce(1024) { $0 + $1.content.count + 768 }) { output in
          for (place, row) in rows.enumerated() {
            let tag = RecordChangeTag(sequence: Int64(place + 1))
            try row.name.withUnsafeBufferPointer { name in
              try row.content.withUnsafeBytes { content in
                try writer.write(
                  stored: content, recordName: name, recordType: "CD_Note", tag: tag, as: .complete, to: &output)
              }
            }
          }
        }
      })
    let request = Array(
      #"{"zones":[{"zoneID":{"zoneName":"Notes"},"syncToken":"\#(token.text)","resultsLimit":200}]}"#.utf8)
    paths.append(
      HotPath("changes/zone: read") {
        guard case .token(let text) = try ZoneChangesRequest.zones(of: JSONValue.request(request))[0].position else {
          return 0
        }
        return try Int(SyncToken(text, as: .zone).positions[0].sequence)
      })
    let record = try Notes.records(1)[0]
    let blob = record.encoded()
    paths.append(HotPath("record row: encode") { record.encodedNotingEncryption().bytes.count })
    paths.append(
      HotPath("record row: decode") {
        try Record(decoding: blob, recordName: Notes.folder, recordType: "CD_Note").fields.count
      })
    return paths
  }

  private static let token = SyncToken(.zone, incarnation: 0x1234_5678_9abc_def0, sequence: 123_456)

  /// Reads a body like `RecordPlaneCall.modifyRecords` before it asks the store.
  private static func read(_ body: [UInt8]) throws -> Int {
    let json = try JSONValue.request(body)
    let reference = try ZoneReference(of: json)
    guard ModifyRecordsRequest.recordNamesWithoutType(in: json).isEmpty else { return 0 }
    let request = try ModifyRecordsRequest(
      json, zone: Zone.ID(zoneName: reference.zoneName, ownerName: Notes.user), schema: Notes.schema
    ) { "" }
    return request.undeclaredFields.isEmpty ? request.operations.count : 0
  }

  private static func page(of records: [Record], key: String) -> Int {
    let writer = RecordDictionaryWriter(zone: Notes.zone, assets: Notes.links)
    return page(key: key, byteCount: records.reduce(1024) { $0 + $1.fields.byteCount + 768 }) { output in
      for (place, record) in records.enumerated() {
        writer.write(record, tag: RecordChangeTag(sequence: Int64(place + 1)), as: .complete, to: &output)
      }
    }
  }

  private static func page(key: String, byteCount: Int, _ write: (inout JSONWriter) throws -> Void) rethrows -> Int {
    var output = JSONWriter(reservingByteCount: byteCount)
    output.beginObject()
    output.key(key)
    output.beginArray()
    try write(&output)
    output.endArray()
    output.member("syncToken", token.text)
    output.endObject()
    return output.bytes.count
  }
}
