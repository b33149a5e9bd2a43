// A device: its graph, what it has not exported, and how far it has imported.

package import History
package import Mirroring
package import ObjectModel
import Records

package final class TestClient {
  package let store: String
  package private(set) var graph = Graph()
  package private(set) var token = 0
  /// The token when the last run of pages ended: other devices' changes up to here were delivered, whatever has moved since.
  private var seen = 0
  private var unexported: [HistoryTransaction] = []
  private let zone: TestZone
  private var importer: Importer

  /// - Parameter model: the version of the sample model that the device's app has; edits of others are the test's mistake.
  package init(_ store: String, _ zone: TestZone, model: ManagedObjectModel = Sample.model) {
    self.store = store
    self.zone = zone
    importer = Self.importer(of: model)
  }

  private static func importer(of model: ManagedObjectModel) -> Importer {
    let index = ModelIndex(model)
    return Importer(model: index, links: LinkResolver(index))
  }

  package func save(_ transaction: HistoryTransaction) {
    graph.apply(transaction)
    unexported.append(transaction)
  }

  /// - Returns: what was exported, in order: for the oracle.
  @discardableResult
  package func export() throws -> [HistoryTransaction] {
    try exportPlan().transactions
  }

  /// The same, with what was written.
  package func exportPlan() throws -> (transactions: [HistoryTransaction], plan: ExportPlan) {
    defer { unexported = [] }
    return (unexported, try zone.export(unexported, from: store))
  }

  /// What the server answers to a request for changes.
  package struct Page {
    package let outcomes: [ImportOutcome]
    package let isLast: Bool
    fileprivate let next: Int

    package var changes: [ImportChange] { outcomes.compactMap { if case .change(let change) = $0 { change } else { nil } } }
  }

  /// The server exports what it has of a store before it answers, and so must be asked only after `export`.
  package func fetch(limit: Int = .max, in order: (inout [SourceRecord]) -> Void = { _ in }) throws -> Page {
    precondition(unexported.isEmpty, "\(store) has \(unexported.count) transactions to export")
    var page = Array(zone.feed(after: token, seen: seen, for: store).prefix(limit))
    let isLast = page.count < limit
    let next = isLast ? zone.sequence : zone.rows[page[page.count - 1].record.recordName]?.sequence ?? token
    order(&page)
    return Page(outcomes: try page.map { try importer.outcome(of: $0, in: zone) }, isLast: isLast, next: next)
  }

  /// - Parameter keepsToken: false: the device stops after it has stored the changes and before it has stored how far they reach.
  package func apply(_ page: Page, keepsToken: Bool = true) {
    for change in page.changes { graph.apply(change) }
    guard keepsToken else { return }
    token = page.next
    if page.isLast { seen = page.next }
  }

  /// One page.
  /// - Returns: how many changes were delivered.
  @discardableResult
  package func importPage(limit: Int = .max, in order: (inout [SourceRecord]) -> Void = { _ in }) throws -> Int {
    let page = try fetch(limit: limit, in: order)
    apply(page)
    return page.changes.count
  }

  /// Loses a page: a mistake that no device makes, for tests that have to see it.
  package func skipPage() throws { token = try fetch().next }

  /// The app was replaced by one with another version of the model: it asks for everything from the beginning, and gives up pointers and
  /// links that wait for objects of entities it does not know any more (I8).
  package func replaceModel(by model: ManagedObjectModel) {
    importer = Self.importer(of: model)
    graph.forgetPending(unknownTo: model)
    token = 0
    seen = 0
  }
}
