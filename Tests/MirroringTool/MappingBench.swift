// Measures the mapping of objects to records and back: a transaction's and a change log record's cost without any
// store.

import Glibc
import History
import Mirroring
import ObjectModel
import Records

/// Rounds over the same objects: a note with six attributes and a relationship, every tenth with a link to a tag.
struct MappingBench {
  let recordCount: Int

  private static let changesPerTransaction = 5
  /// Transactions of one export.
  private static let transactionsPerBatch = 80

  private static let model = ModelIndex(
    ManagedObjectModel(entities: [
      Entity(
        name: "Note",
        attributes: [
          Attribute(name: "title", type: .string), Attribute(name: "body", type: .string),
          Attribute(name: "rating", type: .integer32),
          Attribute(name: "createdAt", type: .date), Attribute(name: "isPinned", type: .boolean, defaultValue: "NO"),
          Attribute(name: "identifier", type: .uuid),
        ],
        relationships: [
          Relationship(
            name: "folder", destinationName: "Folder", inverseName: "notes", inverseEntityName: "Folder",
            isToMany: false),
          Relationship(
            name: "tags", destinationName: "Tag", inverseName: "notes", inverseEntityName: "Tag", isToMany: true),
        ]),
      Entity(
        name: "Folder",
        relationships: [
          Relationship(
            name: "notes", destinationName: "Note", inverseName: "folder", inverseEntityName: "Note", isToMany: true)
        ]),
      Entity(
        name: "Tag",
        relationships: [
          Relationship(
            name: "notes", destinationName: "Note", inverseName: "tags", inverseEntityName: "Note", isToMany: true)
        ]),
    ]))

  /// A zone with only a folder and a tag. It does not store the exported records.
  private struct Zone: RecordSource {
    let records: [String: SourceRecord]
    func record(named recordName: String) -> SourceRecord? { records[recordName] }
    func pointers(to target: String) -> [RecordPointer] { [] }
  }

  private struct NoAssets: AssetContents {
    struct Absent: Error {}
    func content(of asset: Asset) throws -> [UInt8] { throw Absent() }
    func asset(with content: [UInt8]) throws -> Asset { throw Absent() }
  }

  private static let stamp = Stamp(
    timestamp: 1_795_160_004_123, userRecordName: "_4a1c8e5f0b3d4e6f8a7b9c0d1e2f3a4b",
    deviceID: "6F0C2E61-4B7D-4C5E-8E1B-000000000000")

  private static func name(_ kind: String, _ number: Int) -> String {
    let digits = String(number, radix: 16, uppercase: true)
    return "\(kind)0C2E61-4B7D-4C5E-8E1B-" + String(repeating: "0", count: max(0, 12 - digits.count)) + digits
  }

  private let zone: Zone

  init(recordCount: Int) {
    self.recordCount = recordCount
    var records: [String: SourceRecord] = [:]
    for (name, type) in [("F", "Folder"), ("T", "Tag")] {
      let record = Record(
        recordName: name, recordType: "CD_" + type, fields: ["CD_entityName": .string(type)], created: Self.stamp,
        modified: Self.stamp)
      records[name] = SourceRecord(record: record, isDeleted: false)
    }
    zone = Zone(records: records)
  }

  private func transactions() -> [HistoryTransaction] {
    stride(from: 0, to: recordCount, by: Self.changesPerTransaction).map { first in
      let changes = (first..<min(first + Self.changesPerTransaction, recordCount)).map { number in
        HistoryChange(
          changeType: .insert, entity: "Note", objectID: Self.name("6F", number),
          attributes: [
            NamedValue(
              name: "body",
              value: .string(
                "Some lines of text, as notes have them, a hundred bytes or so of it, number \(number) of many.")),
            NamedValue(name: "createdAt", value: .date(1_795_160_004_123 + Int64(number))),
            NamedValue(name: "identifier", value: .uuid(Self.name("7A", number))),
            NamedValue(name: "isPinned", value: .boolean(number % 2 == 0)),
            NamedValue(name: "rating", value: .integer(Int64(number % 6))),
            NamedValue(name: "title", value: .string("Note \(number)")),
          ],
          relationships: [NamedValue(name: "folder", value: .toOne("F"))]
            + (number % 10 == 0 ? [NamedValue(name: "tags", value: .toMany(["T"]))] : []))
      }
      return HistoryTransaction(
        transactionID: Self.name("8B", first), timestamp: 1_795_160_004_123, author: "app", changes: changes)
    }
  }

  func run(rounds: Int) throws {
    let transactions = transactions()
    let links = LinkResolver(Self.model)
    var best: (export: Double, back: Double) = (0, 0)
    for _ in 0..<rounds {
      var (export, back) = (Duration.zero, Duration.zero)
      var (recordCount, changeCount) = (0, 0)
      for first in stride(from: 0, to: transactions.count, by: Self.transactionsPerBatch) {
        let start = Self.processorTime()
        let plan = try exported(transactions[first..<min(first + Self.transactionsPerBatch, transactions.count)], links)
        let middle = Self.processorTime()
        changeCount += try imported(plan, links)
        export += middle - start
        back += Self.processorTime() - middle
        recordCount += plan.writes.count
      }
      best = (max(best.export, Self.rate(recordCount, export)), max(best.back, Self.rate(changeCount, back)))
      precondition(
        recordCount == changeCount && recordCount == self.recordCount + (self.recordCount + 9) / 10,
        "\(recordCount) records, \(changeCount) changes")
    }
    print("objects → records  \(Int(best.export)) records/s")
    print("records → objects  \(Int(best.back)) records/s")
    print("there and back     \(Int(1 / (1 / best.export + 1 / best.back))) records/s")
  }

  /// The processor time of this process, which other programs on the machine do not affect.
  private static func processorTime() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }

  private func exported(_ transactions: ArraySlice<HistoryTransaction>, _ links: LinkResolver) throws -> ExportPlan {
    var linkCount = 0
    var exporter = Exporter(
      model: Self.model, links: links, source: zone, serializer: Serializer(contents: NoAssets()), stamp: Self.stamp
    ) {
      linkCount += 1
      return Self.name("9C", linkCount)
    }
    for transaction in transactions { try exporter.apply(transaction) }
    return exporter.plan()
  }

  /// The number of changes that the written records became.
  private func imported(_ plan: ExportPlan, _ links: LinkResolver) throws -> Int {
    let importer = Importer(model: Self.model, links: links)
    var count = 0
    for write in plan.writes {
      guard case .save(let record, _) = write.item else { continue }
      if case .change = try importer.outcome(of: SourceRecord(record: record, isDeleted: false), in: zone) {
        count += 1
      }
    }
    return count
  }

  private static func rate(_ count: Int, _ time: Duration) -> Double {
    Double(count) / (Double(time.components.seconds) + Double(time.components.attoseconds) / 1e18)
  }
}
