// The path of a save from its JSON to records, and of a record from the change log to an import's JSON.

import History
import JSON
import Mirroring
import ObjectModel
import Records
import WebServices

extension HotPath {
  static func objectPlane() throws -> [HotPath] {
    let reader = TransactionReader(model: Notes.model, entityNames: nil, now: 1_795_160_004_123)
    let body = Notes.transactions
    let transactions = try reader.transactions(JSONValue.request(body))
    let rows = transactions.map { $0.encoded() }
    let mapping = Mapping()
    let records = try mapping.exported(transactions)
    return [
      HotPath("transaction of 5: read", callCount: 20) {
        try reader.transactions(JSONValue.request(body))[0].changes.count
      },
      HotPath("transaction of 5: encode", callCount: 20) { transactions.reduce(0) { $0 + $1.encoded().count } },
      HotPath("transaction of 5: decode", callCount: 20) {
        try rows.reduce(0) { try $0 + HistoryTransaction(decoding: $1).changes.count }
      },
      HotPath("transaction of 5: objects to records", callCount: 20) { try mapping.exported(transactions).count },
      HotPath("changes of 5: records to objects", callCount: 20) { try mapping.imported(records) },
    ]
  }

  /// Maps objects to records and back, in a zone with a folder.
  private struct Mapping {
    private struct Folder: RecordSource {
      let folder: SourceRecord
      func record(named recordName: String) -> SourceRecord? { recordName == Notes.folder ? folder : nil }
      func pointers(to target: String) -> [RecordPointer] { [] }
    }

    private struct NoAssets: AssetContents {
      struct Absent: Error {}
      func content(of asset: Asset) throws -> [UInt8] { throw Absent() }
      func asset(with content: [UInt8]) throws -> Asset { throw Absent() }
    }

    private let links = LinkResolver(Notes.model)
    private let zone = Folder(
      folder: SourceRecord(
        record: Record(
          recordName: Notes.folder, recordType: "CD_Folder", fields: ["CD_entityName": .string("Folder")],
          created: Notes.stamp, modified: Notes.stamp),
        isDeleted: false))

    func exported(_ transactions: [HistoryTransaction]) throws -> [Record] {
      var exporter = Exporter(
        model: Notes.model, links: links, source: zone, serializer: Serializer(contents: NoAssets()),
        stamp: Notes.stamp, makeRecordName: { Notes.name(99) })
      for transaction in transactions { try exporter.apply(transaction) }
      return exporter.plan().writes.compactMap { if case .save(let record, _) = $0.item { record } else { nil } }
    }

    /// - Returns: the length of the changes' JSON in bytes.
    func imported(_ records: [Record]) throws -> Int {
      let importer = Importer(model: Notes.model, links: links)
      let writer = ImportBatchWriter(values: MirrorValueWriter(assets: Notes.links))
      let zoneJSON = Notes.zone.json
      return try records.enumerated().reduce(0) { sum, element in
        guard
          case .change(let change) = try importer.outcome(
            of: SourceRecord(record: element.element, isDeleted: false), in: zone)
        else { return sum }
        return sum
          + writer.encoded(change, tag: RecordChangeTag(sequence: Int64(element.offset + 1)), zone: zoneJSON).count
      }
    }
  }
}
