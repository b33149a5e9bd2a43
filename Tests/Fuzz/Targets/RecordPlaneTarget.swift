// The bodies of the record plane's calls. Each body is read as every call's; calls that it does not fit refuse it.

import JSON
import Records
import WebServices

extension FuzzTarget {
  static let recordPlane = FuzzTarget(
    name: "record-plane", seeds: { [uploadedAsset, writtenRecord] }
  ) { bytes in
    guard let body = try taken({ try JSONValue.request(bytes) }, orRefused: checkRefusal) else { return }
    try modify(body)
    for environment in Environment.allCases {
      let request = try taken(
        { try QueryRecordsRequest(body, owner: Fixture.user, schema: Fixture.schemaIndex, environment: environment) },
        orRefused: checkRefusal)
      if let request { try search(request.query) }
    }
    try subscribe(body)
    try readOthers(body)
  }

  /// A refusal must be one of the listed errors and have a reason.
  static func checkRefusal(_ error: any Error) throws {
    guard let error = error as? RecordError else { throw Broken(description: "refused with \(error)") }
    try hold(!error.reason.isEmpty, "refused with \(error.code) and no reason")
    try hold(error.code != .internalError, "refused as the server's own error: \(error.reason)")
    var writer = JSONWriter()
    writer.beginObject()
    error.writeMembers(to: &writer)
    writer.endObject()
    try hold((try? JSONValue(parsing: writer.bytes)) != nil, "the refusal is no JSON")
  }

  // MARK: records/modify

  private static func modify(_ body: JSONValue) throws {
    _ = try taken({ try ZoneReference(of: body) }, orRefused: checkRefusal)
    _ = ModifyRecordsRequest.recordNamesWithoutType(in: body)
    guard let request = try read(body) else { return }
    _ = request.undeclaredFields
    _ = request.shareRequests
    for operation in request.operations {
      // An operation without a type can only be read when the record's type is known.
      let isOfNote = operation.recordName == Fixture.name || (try? operation.patch.get())?.recordType != nil
      let existing = [nil] + (isOfNote ? [RecordOperation.Existing(record: Fixture.record, sequence: 2)] : [])
      if case .failure(let error) = operation.patch { try checkRefusal(error) }
      for existing in existing {
        guard
          case .save(let record)? = try taken(
            { try operation.decision(meeting: existing, stamp: Fixture.stamp) }, orRefused: checkRefusal)
        else { continue }
        try check(record)
      }
    }
  }

  private static func read(_ body: JSONValue) throws -> ModifyRecordsRequest? {
    try taken(
      {
        try ModifyRecordsRequest(
          body, zone: Fixture.zone, schema: Fixture.schemaIndex, recordTypes: [Fixture.name: "Note"],
          assets: Fixture.assets, newRecordName: { "drawn" },
          newShortGUID: { "guid" })
      }, orRefused: checkRefusal)
  }

  /// A record that may be saved is stored, answered, exported and read back as the same.
  private static func check(_ record: Record) throws {
    let blob = record.encoded()
    try holdEqual(
      try Record(decoding: blob, recordName: record.recordName, recordType: record.recordType), record,
      "a record is stored as another")
    try hold(record.fields.byteCount <= Limit.recordByteCount, "a record of \(record.fields.byteCount) bytes")
    guard record.recordType != ReservedName.shareRecordType else { return }
    for numbersAsStrings in [false, true] {
      let json = answer(record, numbersAsStrings: numbersAsStrings)
      guard let again = try read(try JSONValue.request(json))?.operations.first else {
        throw Broken(description: "an answered record is refused as a whole")
      }
      let decision = try again.decision(
        meeting: RecordOperation.Existing(record: record, sequence: 2), stamp: Fixture.stamp)
      guard case .save(let saved) = decision else { throw Broken(description: "an answered record is not saved") }
      try holdEqual(saved.fields, record.fields, "an answered record is saved as another")
      try holdEqual(saved.parent, record.parent, "an answered record gets another parent")
    }
    var lines = ZoneLineWriter()
    lines.record(record)
    var exported = record
    exported.shortGUID = nil
    let read = try ZoneLines(lines.bytes, receipts: Fixture.assets, takesHashes: true).records
    try holdEqual(read.map(\.record), [exported], "an exported record is imported as another")
  }

  /// A `records/modify` body that sends a record back as it was answered.
  private static func answer(_ record: Record, numbersAsStrings: Bool) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("operations")
    writer.beginArray()
    writer.beginObject()
    writer.member("operationType", "forceReplace")
    writer.key("record")
    RecordDictionaryWriter(zone: Fixture.zone, assets: Fixture.links).write(
      record, tag: RecordChangeTag(sequence: 2),
      as: RecordPresentation(desiredKeys: .all, numbersAsStrings: numbersAsStrings), to: &writer)
    writer.endObject()
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  private static var writtenRecord: [UInt8] { answer(Fixture.record, numbersAsStrings: false) }

  private static var uploadedAsset: [UInt8] {
    let field =
      #"""
      {"value":{"fileChecksum":"\#(Fixture.asset.fileChecksum)","size":1200,"receipt":"\#(Fixture.receipt)"},\#
      "type":"ASSETID"}
      """#
    return Array(
      #"{"operations":[{"operationType":"create","record":{"recordType":"Note","fields":{"photo":\#(field)}}}]}"#.utf8)
  }

  // MARK: Queries and subscriptions

  private static func search(_ query: RecordQuery) throws {
    let judge = QueryJudge(query)
    var budget = CostBudget(limit: .max)
    var look = RecordLook(Fixture.record)
    let isFound = try judge.passes(&look, spending: &budget)
    var blank = Fixture.record
    blank.fields = Fields()
    var blankLook = RecordLook(blank)
    _ = try judge.passes(&blankLook, spending: &budget)
    if let names = query.recordNames, isFound {
      try hold(names.contains(Fixture.record.recordName), "a record passes that its names exclude")
    }
    let maker = QueryMarker.Maker(key: Fixture.key, database: Fixture.database, userRecordName: Fixture.user)
    let markers = [Fixture.record, blank].map {
      QueryMarker(zoneName: "Notes", recordName: $0.recordName, sortKeys: query.sortKeys(of: $0))
    }
    for marker in markers {
      try holdEqual(
        try QueryMarker(marker.text(for: query, by: maker), for: query, by: maker), marker,
        "a marker is read as another")
      try hold(!query.precedes(marker, marker), "a record comes before itself")
    }
    try hold(
      !(query.precedes(markers[0], markers[1]) && query.precedes(markers[1], markers[0])),
      "two records come before each other")
  }

  private static func subscribe(_ body: JSONValue) throws {
    let operations = try taken(
      {
        try SubscriptionOperation.operations(of: body, owner: Fixture.user, schema: Fixture.schemaIndex) {
          "drawn-\($0)"
        }
      }, orRefused: checkRefusal)
    for case .success(let subscription)? in (operations ?? []).map(\.subscription) {
      let json = subscription.json(owner: Fixture.user)
      let again = try Subscription(try JSONValue.request(json), owner: Fixture.user, schema: Fixture.schemaIndex) {
        "none"
      }
      try holdEqual(again.json(owner: Fixture.user), json, "a stored subscription is answered differently")
      try holdEqual(again.firesOnce, subscription.firesOnce, "a stored subscription fires differently")
    }
    _ = try taken({ try LookupSubscriptionsRequest.identifiers(of: body) }, orRefused: checkRefusal)
  }

  // MARK: Other calls

  private static func readOthers(_ body: JSONValue) throws {
    let readers: [(JSONValue) throws -> Any] = [
      { try LookupRecordsRequest($0) }, { try ZoneChangesRequest.zones(of: $0) },
      { try ZoneChangesRequest(records: $0) }, { try DatabaseChangesRequest($0) },
      { try LookupZonesRequest.zones(of: $0) }, { try UploadAssetsRequest($0) { "drawn" } },
      { try RereferenceAssetsRequest($0) },
    ]
    for read in readers { _ = try taken({ try read(body) }, orRefused: checkRefusal) }
    if let operations = try taken({ try ZoneOperation.operations(of: body) }, orRefused: checkRefusal) {
      for problem in operations.compactMap(\.problem) { try checkRefusal(problem) }
      try holdEqual(Set(operations.map(\.zone)).count, operations.count, "a zone is modified twice")
    }
    for reference in try taken({ try ShortGUIDReference.references(of: body) }, orRefused: checkRefusal) ?? [] {
      var writer = JSONWriter()
      writer.beginObject()
      writer.key("shortGUIDs")
      writer.beginArray()
      reference.write(to: &writer)
      writer.endArray()
      writer.endObject()
      try holdEqual(
        try ShortGUIDReference.references(of: try JSONValue.request(writer.bytes)), [reference],
        "a short GUID is repeated differently")
    }
  }
}
