// A device: its graph, what it has not exported, and how far it has imported.

package import History
package import Mirroring
import Records

package final class TestClient {
  package let store: String
  package private(set) var graph = Graph()
  package private(set) var token = 0
  /// The token when the last run of pages ended: other devices' changes up to here were delivered, whatever has moved since.
  private var seen = 0
  private var unexported: [HistoryTransaction] = []
  private let zone: TestZone
  private let importer = Importer(model: Sample.index, links: Sample.links)

  package init(_ store: String, _ zone: TestZone) {
    self.store = store
    self.zone = zone
  }

  package func save(_ transaction: HistoryTransaction) {
    graph.apply(transaction)
    unexported.append(transaction)
  }

  /// - Returns: what was exported, in order: for the oracle.
  @discardableResult
  package func export() throws -> [HistoryTransaction] {
    defer { unexported = [] }
    try zone.export(unexported, from: store)
    return unexported
  }

  /// One page. The server exports what it has of a store before it answers, and so must be asked only after `export`.
  /// - Returns: how many changes were delivered.
  @discardableResult
  package func importPage(limit: Int = .max, in order: (inout [SourceRecord]) -> Void = { _ in }) throws -> Int {
    precondition(unexported.isEmpty)
    var page = Array(zone.feed(after: token, seen: seen, for: store).prefix(limit))
    let isLast = page.count < limit
    let next = isLast ? zone.sequence : zone.rows[page[page.count - 1].record.recordName]?.sequence ?? token
    order(&page)
    var count = 0
    for stored in page {
      if case .change(let change) = try importer.outcome(of: stored, in: zone) {
        graph.apply(change)
        count += 1
      }
    }
    token = next
    if isLast { seen = next }
    return count
  }
}

/// A generator of numbers that is the same everywhere.
package struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  package init(seed: Int) { state = UInt64(truncatingIfNeeded: seed) &* 0x9e37_79b9_7f4a_7c15 | 1 }

  package mutating func next() -> UInt64 {
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state &* 0x2545_f491_4f6c_dd1d
  }
}
