// A zone in memory: records in a dictionary, searched from end to end, and assets in another.

import Crypto
import History
import Mirroring
import ObjectModel
import Records

final class TestZone: RecordSource {
  struct Row {
    var stored: SourceRecord
    var sequence: Int
    var origin: String
    var sequenceOfOthers: Int
  }

  private(set) var rows: [String: Row] = [:]
  private(set) var sequence = 0
  private var nameCounter = 0
  let assets = TestAssets()
  let fields = RelationshipFields(models: [Sample.index])

  func record(named recordName: String) -> SourceRecord? { rows[recordName]?.stored }

  func pointers(to target: String) -> [RecordPointer] {
    rows.sorted { $0.key < $1.key }.flatMap { name, row in
      row.stored.isDeleted
        ? [] : fields.references(of: row.stored.record).filter { $0.target == target }.map { RecordPointer(field: $0.field, source: name) }
    }
  }

  var live: [Record] { rows.sorted { $0.key < $1.key }.map(\.value.stored).filter { !$0.isDeleted }.map(\.record) }
  func live(_ recordType: String) -> [Record] { live.filter { $0.recordType == recordType } }
  subscript(name: String) -> Record? { rows[name].flatMap { $0.stored.isDeleted ? nil : $0.stored.record } }

  func put(_ record: Record, isDeleted: Bool = false, origin: String = "") {
    sequence += 1
    let old = rows[record.recordName]
    let others = old.map { $0.origin == origin ? $0.sequenceOfOthers : $0.sequence } ?? 0
    var record = record
    if isDeleted { record.fields = Tombstone.fields(of: record) }
    rows[record.recordName] = Row(
      stored: SourceRecord(record: record, isDeleted: isDeleted), sequence: sequence, origin: origin, sequenceOfOthers: others)
  }

  func exporter(of store: String, serializer: Serializer? = nil, entityNames: Set<String>? = nil) -> Exporter {
    Exporter(
      model: Sample.index, links: Sample.links, entityNames: entityNames, source: self, serializer: serializer ?? Serializer(contents: assets),
      stamp: Stamp(timestamp: 1000, userRecordName: "_user", deviceID: store),
      makeRecordName: {
        self.nameCounter += 1
        return "LINK-\(self.nameCounter)"
      })
  }

  /// Exports transactions in one run and writes the plan.
  @discardableResult
  func export(_ transactions: [HistoryTransaction], from store: String = "A", serializer: Serializer? = nil) throws -> ExportPlan {
    var exporter = exporter(of: store, serializer: serializer)
    for transaction in transactions { try exporter.apply(transaction) }
    let plan = exporter.plan()
    for write in plan.writes {
      let origin = write.isServersOwn ? "" : store
      switch write.item {
      case .save(let record, _): put(record, origin: origin)
      case .delete(let record): put(record, isDeleted: true, origin: origin)
      }
    }
    return plan
  }

  @discardableResult
  func save(_ changes: HistoryChange..., from store: String = "A", author: String? = nil) throws -> ExportPlan {
    try export([transaction(changes, author: author)], from: store)
  }

  /// Rows changed after `token`, without `store`'s echoes: `seen` is where the store last had everything.
  func feed(after token: Int, seen: Int? = nil, for store: String) -> [SourceRecord] {
    rows.values.filter { $0.sequence > token && !($0.origin == store && $0.sequenceOfOthers <= seen ?? token) }.sorted { $0.sequence < $1.sequence }.map(\.stored)
  }
}

final class TestAssets: AssetContents {
  private(set) var contents: [[UInt8]: [UInt8]] = [:]

  struct Missing: Error {}

  func content(of asset: Asset) throws -> [UInt8] {
    guard let content = contents[asset.hash] else { throw Missing() }
    return content
  }

  func asset(with content: [UInt8]) -> Asset {
    let hash = SHA256.hash(content)
    contents[hash] = content
    return Asset(hash: hash, byteCount: Int64(content.count))
  }
}

func transaction(_ changes: [HistoryChange], id: String = "T", author: String? = nil) -> HistoryTransaction {
  HistoryTransaction(transactionID: id, timestamp: 0, author: author, changes: changes)
}

func insert(
  _ entity: String, _ id: String, _ attributes: KeyValuePairs<String, AttributeValue> = [:], _ relationships: KeyValuePairs<String, RelationshipValue> = [:]
) -> HistoryChange {
  change(.insert, entity, id, attributes, relationships)
}

func update(
  _ entity: String, _ id: String, _ attributes: KeyValuePairs<String, AttributeValue> = [:], _ relationships: KeyValuePairs<String, RelationshipValue> = [:]
) -> HistoryChange {
  change(.update, entity, id, attributes, relationships)
}

func delete(_ entity: String, _ id: String) -> HistoryChange { change(.delete, entity, id, [:], [:]) }

private func change(
  _ type: HistoryChange.ChangeType, _ entity: String, _ id: String, _ attributes: KeyValuePairs<String, AttributeValue>,
  _ relationships: KeyValuePairs<String, RelationshipValue>
) -> HistoryChange {
  HistoryChange(
    changeType: type, entity: entity, objectID: id,
    attributes: attributes.map { NamedValue(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name },
    relationships: relationships.map { NamedValue(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name })
}

func record(_ type: String, _ name: String, _ fields: Fields) -> Record {
  let stamp = Stamp(timestamp: 1, userRecordName: "_other")
  return Record(recordName: name, recordType: type, fields: fields, created: stamp, modified: stamp)
}
