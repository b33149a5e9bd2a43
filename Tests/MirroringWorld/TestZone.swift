// A zone in memory: records in a dictionary that is searched from end to end, and assets in another one.

import Crypto
package import History
package import Mirroring
package import ObjectModel
package import Records

/// The state shared by a database's zones: one sequence, and unique names.
package final class TestClock {
  package fileprivate(set) var last = 0
  fileprivate var nameCounter = 0

  package init() {}
}

package final class TestZone: RecordSource {
  package struct Row {
    package var stored: SourceRecord
    package var sequence: Int
    package var origin: String
    package var sequenceOfOthers: Int
  }

  package private(set) var rows: [String: Row] = [:]
  /// Earlier states of the rows, ascending.
  private var past: [String: [Row]] = [:]
  private let model: ModelIndex
  /// nil: exports don't judge conflicts.
  private let rules: ConflictRules?
  package let name: String
  private let clock: TestClock
  package var sequence: Int { clock.last }
  package let assets = TestAssets()
  package let fields: RelationshipFields

  package init(
    _ model: ModelIndex = Sample.index, rules: ConflictRules? = nil, name: String = "home",
    clock: TestClock = TestClock()
  ) {
    self.name = name
    self.clock = clock
    self.model = model
    self.rules = rules
    fields = RelationshipFields(models: [model])
  }

  package func record(named recordName: String) -> SourceRecord? {
    rows[recordName].map { row in
      SourceRecord(
        record: row.stored.record, isDeleted: row.stored.isDeleted, sequence: Int64(row.sequence),
        origin: Self.key(of: row.origin),
        sequenceOfOthers: Int64(row.sequenceOfOthers))
    }
  }

  /// A store's name as a number; 0 for the server.
  private static func key(of store: String) -> Int64 { store.utf8.reduce(0) { $0 << 8 | Int64($1) } }

  package func history(of recordName: String, since sequence: Int64) -> RecordHistory {
    let states = (past[recordName] ?? []) + (rows[recordName].map { [$0] } ?? [])
    let ancestor = states.last { $0.sequence <= sequence }?.stored
    return RecordHistory(
      ancestor: ancestor.map { $0.isDeleted ? .nothing : .record($0.record) } ?? .nothing,
      states: states.filter { $0.sequence > sequence }.map {
        RecordHistory.State(record: $0.stored.record, isDeleted: $0.stored.isDeleted)
      })
  }

  /// The other zones of its database, by name.
  var others: (String) -> TestZone? = { _ in nil }

  package func source(ofMoved recordName: String) -> (any RecordSource)? {
    var zone = self
    while let next = zone.rows[recordName].flatMap({ $0.stored.isDeleted ? Tombstone.movedTo($0.stored.record) : nil })
      .flatMap(others), next.rows[recordName] != nil
    {
      zone = next
    }
    return zone === self ? nil : zone
  }

  package func pointers(to target: String) -> [RecordPointer] {
    rows.sorted { $0.key < $1.key }.flatMap { name, row in
      row.stored.isDeleted
        ? []
        : fields.references(of: row.stored.record).filter { $0.target == target }.map {
          RecordPointer(field: $0.field, source: name)
        }
    }
  }

  package var live: [Record] {
    rows.sorted { $0.key < $1.key }.map(\.value.stored).filter { !$0.isDeleted }.map(\.record)
  }
  package func live(_ recordType: String) -> [Record] { live.filter { $0.recordType == recordType } }
  package subscript(name: String) -> Record? { rows[name].flatMap { $0.stored.isDeleted ? nil : $0.stored.record } }

  package func put(_ record: Record, isDeleted: Bool = false, origin: String = "", movedTo: String? = nil) {
    clock.last += 1
    let old = rows[record.recordName]
    if let old { past[record.recordName, default: []].append(old) }
    let others = old.map { $0.origin == origin ? $0.sequenceOfOthers : $0.sequence } ?? 0
    var record = record
    if isDeleted { (record.fields, record.versions) = (Tombstone.fields(of: record), []) }
    if let movedTo { record.fields[ReservedName.movedTo] = Field(.string(movedTo)) }
    rows[record.recordName] = Row(
      stored: SourceRecord(record: record, isDeleted: isDeleted), sequence: sequence, origin: origin,
      sequenceOfOthers: others)
  }

  package func exporter(
    of store: String, serializer: Serializer? = nil, entityNames: Set<String>? = nil,
    elsewhere: Exporter.Elsewhere? = nil
  ) -> Exporter {
    Exporter(
      model: model, links: LinkResolver(model), entityNames: entityNames, source: self,
      serializer: serializer ?? Serializer(contents: assets),
      stamp: Stamp(timestamp: 1000, userRecordName: "_user", deviceID: store), elsewhere: elsewhere,
      judge: rules.map {
        ConflictJudge(
          rules: $0, store: Self.key(of: store), stamp: Stamp(timestamp: 1000, userRecordName: "_user", deviceID: store)
        )
      },
      makeRecordName: {
        self.clock.nameCounter += 1
        return "LINK-\(self.clock.nameCounter)"
      })
  }

  /// Deletes a record like a client of the record plane: references to it stay.
  package func delete(_ recordName: String) {
    guard let record = self[recordName] else { return }
    put(record, isDeleted: true)
  }

  /// Exports transactions in one run and writes the plan.
  @discardableResult
  package func export(_ transactions: [HistoryTransaction], from store: String = "A", serializer: Serializer? = nil)
    throws -> ExportPlan
  {
    var exporter = exporter(of: store, serializer: serializer)
    for transaction in transactions { try exporter.apply(transaction) }
    return write(exporter.plan(), from: store)
  }

  /// Exports a slice of a transaction and writes the plan.
  @discardableResult
  package func export(_ slice: ArraySlice<ExportStep>, of transaction: HistoryTransaction, from store: String = "A")
    throws -> ExportPlan
  {
    var exporter = exporter(of: store)
    try exporter.apply(slice, of: transaction)
    return write(exporter.plan(), from: store)
  }

  @discardableResult
  package func write(_ plan: ExportPlan, from store: String) -> ExportPlan {
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
  package func save(_ changes: HistoryChange..., from store: String = "A", author: String? = nil) throws -> ExportPlan {
    try export([transaction(changes, author: author)], from: store)
  }

  /// Rows changed after `token`, without `store`'s own changes. Until `seen` the store has everything of the others.
  package func feed(after token: Int, seen: Int? = nil, for store: String) -> [SourceRecord] {
    rows.values.filter { $0.sequence > token && !($0.origin == store && $0.sequenceOfOthers <= seen ?? token) }.sorted {
      $0.sequence < $1.sequence
    }.map(\.stored)
  }
}

package final class TestAssets: AssetContents {
  package private(set) var contents: [[UInt8]: [UInt8]] = [:]

  package init() {}

  package struct Missing: Error {}

  package func content(of asset: Asset) throws -> [UInt8] {
    guard let content = contents[asset.hash] else { throw Missing() }
    return content
  }

  package func asset(with content: [UInt8]) -> Asset {
    let hash = SHA256.hash(content)
    contents[hash] = content
    return Asset(hash: hash, byteCount: Int64(content.count))
  }
}

package func transaction(_ changes: [HistoryChange], id: String = "T", author: String? = nil) -> HistoryTransaction {
  HistoryTransaction(transactionID: id, timestamp: 0, author: author, changes: changes)
}

package func insert(
  _ entity: String, _ id: String, _ attributes: KeyValuePairs<String, AttributeValue> = [:],
  _ relationships: KeyValuePairs<String, RelationshipValue> = [:]
) -> HistoryChange {
  change(.insert, entity, id, attributes, relationships)
}

package func update(
  _ entity: String, _ id: String, _ attributes: KeyValuePairs<String, AttributeValue> = [:],
  _ relationships: KeyValuePairs<String, RelationshipValue> = [:]
) -> HistoryChange {
  change(.update, entity, id, attributes, relationships)
}

package func delete(_ entity: String, _ id: String) -> HistoryChange { change(.delete, entity, id, [:], [:]) }

private func change(
  _ type: HistoryChange.ChangeType, _ entity: String, _ id: String, _ attributes: KeyValuePairs<String, AttributeValue>,
  _ relationships: KeyValuePairs<String, RelationshipValue>
) -> HistoryChange {
  HistoryChange(
    changeType: type, entity: entity, objectID: id,
    attributes: attributes.map { NamedValue(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name },
    relationships: relationships.map { NamedValue(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name })
}

package func record(_ type: String, _ name: String, _ fields: Fields) -> Record {
  let stamp = Stamp(timestamp: 1, userRecordName: "_other")
  return Record(recordName: name, recordType: type, fields: fields, created: stamp, modified: stamp)
}
