// Whether a record passes a query, and where it stands in the query's order.

import Indexing
public import Records

extension RecordQuery {
  /// Whether `record` is of the query's type and passes all filters.
  public func matches(_ record: Record) -> Bool {
    guard record.recordType == recordType else { return false }
    return filters.allSatisfy { $0.matches($0.key.value(in: record)) }
  }

  /// The keys that decide the record's place, one an order (`IndexKey.order`: long texts count by their beginning).
  public func sortKeys(of record: Record) -> [[UInt8]] { orders.map { $0.sortKey(of: record) } }

  /// Whether records come with the largest first, names among equals as well.
  public var isDescending: Bool { orders.first.map { !$0.isAscending } ?? false }

  /// Whether a record comes before another: by the orders, missing values first in ascending ones; then by zone and name, in the
  /// direction of the first order, as an index is walked.
  public func precedes(_ first: QueryMarker, _ second: QueryMarker) -> Bool {
    for (index, order) in orders.enumerated() where first.sortKeys[index] != second.sortKeys[index] {
      return first.sortKeys[index].lexicographicallyPrecedes(second.sortKeys[index]) == order.isAscending
    }
    let (first, second) = isDescending ? (second, first) : (first, second)
    if first.zoneName != second.zoneName { return RecordQuery.zone(first.zoneName, precedes: second.zoneName) }
    return RecordNameOrder.precedes(first.recordName, second.recordName)
  }

  /// The order of zones by name.
  public static func zone(_ first: String, precedes second: String) -> Bool { first.utf8.lexicographicallyPrecedes(second.utf8) }

  /// The only names that can pass, each once, where a filter gives them; nil where any can.
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
  /// Places without a distance come after all that have one, as if they were infinitely far.
  fileprivate func sortKey(of record: Record) -> [UInt8] {
    let value = key.value(in: record)
    guard let relativeLocation else { return IndexKey.order(value) }
    guard case .location(let place)? = value else { return IndexKey.order(.double(.infinity)) }
    return IndexKey.order(.double(Earth.distance(place, relativeLocation)))
  }
}

extension RecordQuery.Filter {
  /// Whether a field's value passes. A missing value passes exactly the negated comparators.
  func matches(_ field: FieldValue?) -> Bool {
    switch comparator {
    case .equals: field.map { $0.isEqual(to: value) } ?? false
    case .notEquals: !(field.map { $0.isEqual(to: value) } ?? false)
    case .lessThan: isOrdered(field) { $0 < 0 }
    case .lessThanOrEquals: isOrdered(field) { $0 <= 0 }
    case .greaterThan: isOrdered(field) { $0 > 0 }
    case .greaterThanOrEquals: isOrdered(field) { $0 >= 0 }
    case .in: isAmongOperands(field)
    case .notIn: !isAmongOperands(field)
    case .listContains: contains(field, value)
    case .notListContains: !contains(field, value)
    case .listContainsAny: value.listElements.contains { contains(field, $0) }
    case .notListContainsAny: !value.listElements.contains { contains(field, $0) }
    case .listContainsAll: value.listElements.allSatisfy { contains(field, $0) }
    case .notListContainsAll: !value.listElements.allSatisfy { contains(field, $0) }
    case .beginsWith: field.map(begins) ?? false
    case .notBeginsWith: !(field.map(begins) ?? false)
    case .listMemberBeginsWith: field?.listElements.contains(where: begins) ?? false
    case .notListMemberBeginsWith: !(field?.listElements.contains(where: begins) ?? false)
    case .near: isNear(field)
    case .containsAllTokens: Words.words(of: field).map { words.allSatisfy($0.contains) } ?? false
    case .containsAnyTokens: Words.words(of: field).map { words.contains(where: $0.contains) } ?? false
    }
  }

  private func isNear(_ field: FieldValue?) -> Bool {
    guard case .location(let place)? = field, case .location(let center) = value, let distance else { return false }
    return Earth.distance(place, center) <= distance
  }

  private func isOrdered(_ field: FieldValue?, _ holds: (Int) -> Bool) -> Bool {
    field?.compared(with: value).map(holds) ?? false
  }

  private func isAmongOperands(_ field: FieldValue?) -> Bool {
    guard let field else { return false }
    return value.listElements.contains { field.isEqual(to: $0) }
  }

  private func contains(_ field: FieldValue?, _ element: FieldValue) -> Bool {
    field?.listElements.contains { $0.isEqual(to: element) } ?? false
  }

  private func begins(_ field: FieldValue) -> Bool {
    guard case .string(let text) = field, case .string(let prefix) = value else { return false }
    return text.utf8.starts(with: prefix.utf8)
  }
}

extension FieldValue {
  /// A list's elements; none for a scalar.
  var listElements: [FieldValue] {
    if case .list(_, let values) = self { values } else { [] }
  }

  /// Whether a filter's `operand` means this value. References are equal by name, and by zone where the filter names one.
  fileprivate func isEqual(to operand: FieldValue) -> Bool {
    switch (self, operand) {
    case (.reference(let own), .reference(let other)): own.recordName == other.recordName && (other.zoneID == nil || own.zoneID == other.zoneID)
    case (.list(_, let own), .list(_, let other)): own.count == other.count && zip(own, other).allSatisfy { $0.isEqual(to: $1) }
    case (.location(let own), .location(let other)): own.latitude == other.latitude && own.longitude == other.longitude
    // Byte for byte, as an index compares them: Swift's own equality would take canonically equivalent strings for one.
    case (.string(let own), .string(let other)): own.utf8.elementsEqual(other.utf8)
    default: self == operand
    }
  }

  /// < 0, 0 or > 0; nil for values that have no order.
  fileprivate func compared(with other: FieldValue) -> Int? {
    switch (self, other) {
    case (.int64(let a), .int64(let b)), (.timestamp(let a), .timestamp(let b)): a < b ? -1 : a > b ? 1 : 0
    case (.double(let a), .double(let b)): a < b ? -1 : a > b ? 1 : a == b ? 0 : nil
    case (.string(let a), .string(let b)): a.comparedByBytes(with: b)
    case (.reference(let a), .reference(let b)): a.recordName.comparedByBytes(with: b.recordName)
    default: nil
    }
  }
}

extension String {
  fileprivate func comparedByBytes(with other: String) -> Int {
    if utf8.elementsEqual(other.utf8) { return 0 }
    return utf8.lexicographicallyPrecedes(other.utf8) ? -1 : 1
  }
}
