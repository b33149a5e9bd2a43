// The bodies and queries of the object plane's calls, and the mirroring of accepted saves.

import History
import JSON
import Mirroring
import ObjectModel
import Records
import WebServices

extension FuzzTarget {
  static let objectPlane = FuzzTarget(
    name: "object-plane",
    seeds: {
      [
        Array(
          #"""
          {"transactions":[{"transactionID":"a","changes":[{"changeType":"insert","entity":"Note","objectID":"n",\#
          "attributes":{"binary":{"asset":{"fileChecksum":"","size":1,"receipt":"\#(Fixture.receipt)"}}}}]}]}
          """#
          .utf8)
      ]
    }
  ) { bytes in
    try readQuery(String(decoding: bytes, as: UTF8.self))
    guard let body = try taken({ try JSONValue.request(bytes) }, orRefused: checkRefusal) else { return }
    try save(body)
    let readers: [(JSONValue) throws -> Any] = [
      { try SetUpStoreRequest($0) }, { try PurgeZoneRequest($0) }, { try EndZoneRequest($0) },
      { try ResumeZoneRequest($0) }, { try ObjectIDsRequest($0) },
      { try ResetStoreRequest($0) }, { try MoveObjectsRequest($0) }, { try ShareObjectsRequest($0) },
      { try ResolveConflictRequest($0) },
      { try SettleConflictRequest($0) },
      { try RegisterConsumerRequest($0) }, { try RetryQuarantineRequest($0) }, { try ZoneRestoreRequest($0) },
      { try ZoneAssetsRequest($0) },
      { try TransactionReader.importTokens($0) },
    ]
    for read in readers { _ = try taken({ try read(body) }, orRefused: checkRefusal) }
    if let rules = try taken({ try RulesDocument.rules(body) }, orRefused: checkRefusal) {
      try holdEqual(
        try RulesDocument.rules(try JSONValue.request(RulesDocument.json(rules))), rules,
        "stored rules are read as others")
      _ = rules.problems(in: [NamedModel(name: "model", index: Fixture.model)])
    }
  }

  // MARK: Saves

  private static func save(_ body: JSONValue) throws {
    let reader = TransactionReader(model: Fixture.model, entityNames: nil, now: Fixture.now, assets: Fixture.assets)
    guard let transactions = try taken({ try reader.transactions(body) }, orRefused: checkRefusal) else { return }
    var exporter = Exporter(
      model: Fixture.model, links: LinkResolver(Fixture.model), source: EmptyZone(),
      serializer: Serializer(contents: Contents()), stamp: Fixture.stamp,
      makeRecordName: { "drawn" })
    for transaction in transactions {
      try holdEqual(
        try HistoryTransaction(decoding: transaction.encoded()), transaction, "a transaction is stored as another")
      try exporter.apply(transaction)
    }
    for case .save(let record, _) in exporter.plan().writes.map(\.item) {
      try holdEqual(
        try Record(decoding: record.encoded(), recordName: record.recordName, recordType: record.recordType), record,
        "an exported record is stored as another")
      let importer = Importer(model: Fixture.model, links: LinkResolver(Fixture.model))
      if case .problem(let problem) = try importer.outcome(
        of: SourceRecord(record: record, isDeleted: false), in: EmptyZone())
      {
        throw Broken(description: "what was exported can't be imported: \(problem)")
      }
    }
  }

  private struct EmptyZone: RecordSource {
    func record(named recordName: String) -> SourceRecord? { nil }
    func pointers(to target: String) -> [RecordPointer] { [] }
  }

  private struct Contents: AssetContents {
    struct Absent: Error {}
    func content(of asset: Asset) throws -> [UInt8] { throw Absent() }
    func asset(with content: [UInt8]) throws -> Asset { Asset(hash: Fixture.key, byteCount: Int64(content.count)) }
  }

  // MARK: Queries

  /// `name=value` pairs joined by `&`, decoded.
  private static func readQuery(_ text: String) throws {
    guard !text.hasPrefix("{") else { return }
    let pairs = text.split(separator: "&").map {
      $0.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    }
    let query = Dictionary(pairs.map { ($0[0], $0.count == 2 ? $0[1] : "") }, uniquingKeysWith: { first, _ in first })
    guard let request = try taken({ try HistoryRequest(query) }, orRefused: checkRefusal) else { return }
    try hold(request.limit >= 1, "a page of \(request.limit) transactions")
    let change = HistoryChange(changeType: .delete, entity: "Note", objectID: Fixture.name, tombstone: [])
    let transaction = HistoryTransaction(
      transactionID: "a", timestamp: Fixture.now, author: "load", contextName: nil, bundleID: nil, processID: nil,
      changes: [change])
    if let found = request.filter.apply(to: transaction) {
      try holdEqual(found.places.count, found.transaction.changes.count, "changes lost their places")
    }
  }
}

extension FuzzTarget {
  /// A page of a zone's import. An accepted page is exported and imported as the same.
  static let zoneLines = FuzzTarget(
    name: "zone-lines", seeds: { [page(of: [Fixture.record])] }
  ) { bytes in
    for takesHashes in [false, true] {
      guard
        let lines = try taken(
          { try ZoneLines(bytes, receipts: Fixture.assets, takesHashes: takesHashes) }, orRefused: checkRefusal)
      else { continue }
      try hold(lines.records.count <= ZoneLines.recordLimit, "a page of \(lines.records.count) records")
      let records = lines.records.map(\.record)
      for record in records where record.fields.allSatisfy({ !$0.field.value.holdsNaN }) {
        try holdEqual(
          try Record(decoding: record.encoded(), recordName: record.recordName, recordType: record.recordType), record,
          "an imported record is stored as another")
      }
      guard takesHashes else { continue }
      let again = try ZoneLines(page(of: records), receipts: Fixture.assets, takesHashes: true)
      try holdEqual(page(of: again.records.map(\.record)), page(of: records), "an imported page is exported as another")
    }
  }

  private static func page(of records: [Record]) -> [UInt8] {
    var writer = ZoneLineWriter()
    writer.header(zone: Fixture.zone, of: Fixture.database, sequence: 7)
    for record in records { writer.record(record) }
    writer.end()
    return writer.bytes
  }
}

extension FieldValue {
  /// True when the value is unequal to itself.
  var holdsNaN: Bool {
    switch self {
    case .double(let number): number.isNaN
    case .list(_, let values): values.contains { $0.holdsNaN }
    default: false
    }
  }
}
