// A device: its graph, its unexported transactions, and its import token.

package import History
package import Mirroring
package import ObjectModel
import Records

package final class TestClient {
  package let store: String
  package private(set) var graph = Graph()
  package private(set) var token = 0
  /// The token at the end of the last run of pages: all changes of other devices up to it were delivered.
  private var seen = 0
  private var unexported: [HistoryTransaction] = []
  /// The zone of every imported object.
  package private(set) var places: [String: String] = [:]
  private let database: TestDatabase
  private var importer: Importer

  /// - Parameter model: the device's version of the sample model. Edits of unknown entities are an error of the test.
  package convenience init(_ store: String, _ zone: TestZone, model: ManagedObjectModel = Sample.model) {
    self.init(store, TestDatabase(zone), model: model)
  }

  package init(_ store: String, _ database: TestDatabase, model: ManagedObjectModel = Sample.model) {
    self.store = store
    self.database = database
    importer = Self.importer(of: model)
  }

  package var isOfOneZone: Bool { database.zones.count == 1 }

  private static func importer(of model: ManagedObjectModel) -> Importer {
    let index = ModelIndex(model)
    return Importer(model: index, links: LinkResolver(index))
  }

  /// - Returns: true when the server accepted the save. A refused save is not applied.
  @discardableResult
  package func save(_ transaction: HistoryTransaction) throws -> Bool {
    guard try database.accepts(transaction, after: unexported) else { return false }
    graph.apply(transaction)
    unexported.append(transaction)
    return true
  }

  /// - Returns: the exported transactions, in order, for the oracle.
  @discardableResult
  package func export() throws -> [HistoryTransaction] {
    try exportPlan().transactions
  }

  /// Exports, and also returns the written records.
  package func exportPlan() throws -> (transactions: [HistoryTransaction], plan: ExportPlan) {
    defer { unexported = [] }
    return (unexported, try database.export(unexported, from: store))
  }

  /// The server's answer to a request for changes.
  package struct Page {
    /// The outcome for one record.
    package struct Entry {
      /// Set when the object is in another zone than the device knows.
      package let move: (from: String, to: String)?
      package let outcome: ImportOutcome
      package let recordName: String
      package let zoneName: String
    }

    package let entries: [Entry]
    package let isLast: Bool
    fileprivate let next: Int

    package var outcomes: [ImportOutcome] { entries.map(\.outcome) }
    package var changes: [ImportChange] {
      outcomes.compactMap { if case .change(let change) = $0 { change } else { nil } }
    }
  }

  /// The server exports a store's transactions before it answers, so this must be called after `export`.
  package func fetch(limit: Int = .max, in order: (inout [Int]) -> Void = { _ in }) throws -> Page {
    precondition(unexported.isEmpty, "\(store) has \(unexported.count) transactions to export")
    let rows = Array(database.feed(after: token, seen: seen, for: store).prefix(limit))
    let isLast = rows.count < limit
    let next = isLast ? database.sequence : rows.last?.sequence ?? token
    var places = Array(rows.indices)
    order(&places)
    return Page(entries: try places.map { try entry(rows[$0]) }, isLast: isLast, next: next)
  }

  private func entry(_ row: TestDatabase.Row) throws -> Page.Entry {
    let record = row.stored.record
    let outcome =
      row.stored.isDeleted && database.isTold(of: record)
      ? .nothing : try importer.outcome(of: row.stored, in: row.zone)
    let view = MoveView(told: Int64(seen), hasBeenComplete: seen > 0, store: store)
    let origin =
      row.stored.isDeleted
      ? nil
      : view.origin(of: record, MoveReceipts(of: record, in: TestDatabase.incarnation), in: row.zone.name) { _ in true }
    return Page.Entry(
      move: origin.map { ($0, row.zone.name) }, outcome: outcome, recordName: record.recordName, zoneName: row.zone.name
    )
  }

  /// - Parameter keepsToken: false: the device stops after it has stored the changes but not the token.
  package func apply(_ page: Page, keepsToken: Bool = true) {
    for entry in page.entries {
      if let move = entry.move { places[entry.recordName] = move.to }
      guard case .change(let change) = entry.outcome else { continue }
      if case .delete(_, let id) = change { places[id] = nil }
      if case .save = change { places[entry.recordName] = entry.zoneName }
      graph.apply(change)
    }
    guard keepsToken else { return }
    token = page.next
    if page.isLast { seen = page.next }
  }

  /// Imports one page.
  /// - Returns: the number of changes.
  @discardableResult
  package func importPage(limit: Int = .max, in order: (inout [Int]) -> Void = { _ in }) throws -> Int {
    let page = try fetch(limit: limit, in: order)
    apply(page)
    return page.changes.count
  }

  /// Skips a page: an error that no real device makes, for tests that must notice it.
  package func skipPage() throws { token = try fetch().next }

  /// The app was replaced by one with another version of the model: it asks for everything from the beginning, and
  /// gives up pointers and links that wait for objects of entities it does not know any more (I8).
  package func replaceModel(by model: ManagedObjectModel) {
    importer = Self.importer(of: model)
    graph.forgetPending(unknownTo: model)
    token = 0
    seen = 0
  }
}
