// The place of a record in a query's order.

import Indexing
public import Records

extension RecordQuery {
  /// The keys that decide the record's place, one per order (`IndexKey.order`: only the beginning of a long text
  /// counts).
  public func sortKeys(of record: Record) -> [[UInt8]] { orders.map { $0.sortKey(of: record) } }

  /// True if records come in descending order, by name too where keys are equal.
  public var isDescending: Bool { orders.first.map { !$0.isAscending } ?? false }

  /// True if a record comes before another: by the orders, where missing values come first in ascending ones; then by
  /// zone and name in the direction of the first order, as a walk through an index gives them.
  public func precedes(_ first: QueryMarker, _ second: QueryMarker) -> Bool {
    for (index, order) in orders.enumerated() where first.sortKeys[index] != second.sortKeys[index] {
      return first.sortKeys[index].lexicographicallyPrecedes(second.sortKeys[index]) == order.isAscending
    }
    let (first, second) = isDescending ? (second, first) : (first, second)
    if first.zoneName != second.zoneName { return RecordQuery.zone(first.zoneName, precedes: second.zoneName) }
    return RecordNameOrder.precedes(first.recordName, second.recordName)
  }

  /// The order of zones by name.
  public static func zone(_ first: String, precedes second: String) -> Bool {
    first.utf8.lexicographicallyPrecedes(second.utf8)
  }

  /// The only names that can pass, each once, if a filter lists names; nil if any name can pass.
  public var recordNames: [String]? {
    for filter in filters where filter.key == .system(.recordName) {
      switch (filter.comparator, filter.value) {
      case (.equals, .string(let name)): return [name]
      case (.in, .list(_, let values)):
        let names = values.compactMap { value in if case .string(let name) = value { name } else { nil } }
        return Set(names).sorted()
      default: continue
      }
    }
    return nil
  }
}

extension RecordQuery.Order {
  /// Records without a distance come after all others, as if they were infinitely far.
  fileprivate func sortKey(of record: Record) -> [UInt8] {
    let value = key.value(in: record)
    guard let relativeLocation else { return IndexKey.order(value) }
    guard case .location(let place)? = value else { return IndexKey.order(.double(.infinity)) }
    return IndexKey.order(.double(Earth.distance(place, relativeLocation)))
  }
}
