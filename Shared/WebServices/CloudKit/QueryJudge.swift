// Decides whether a record passes a query's filters, within a budget of steps.

import Indexing
public import Records

/// A query prepared for many records: long lists of operands are hashed once.
public struct QueryJudge: Sendable {
  public let query: RecordQuery
  /// One entry per filter; nil where the filter compares its operands one by one.
  private let operands: [Set<ComparedValue>?]

  public init(_ query: RecordQuery) {
    self.query = query
    operands = query.filters.map { filter in
      guard filter.comparator == .in || filter.comparator == .notIn,
        filter.value.listElements.count > RecordLook.scannedCount
      else { return nil }
      return Set(filter.value.listElements.map(ComparedValue.init))
    }
  }

  /// True if a record is of the query's type and passes all filters.
  /// - Throws: errors of `budget`.
  public func passes(_ look: inout RecordLook, spending budget: inout CostBudget) throws -> Bool {
    guard look.record.recordType == query.recordType else { return false }
    for (index, filter) in query.filters.enumerated() {
      try budget.spend()
      guard try filter.passes(&look, operands[index], &budget) else { return false }
    }
    return true
  }
}

extension RecordQuery.Filter {
  /// True if the record passes. A missing value passes negated comparators and no others.
  fileprivate func passes(_ look: inout RecordLook, _ operands: Set<ComparedValue>?, _ budget: inout CostBudget) throws
    -> Bool
  {
    switch comparator {
    case .equals: try isEqual(&look, &budget)
    case .notEquals: try !isEqual(&look, &budget)
    case .lessThan: try isOrdered(&look, &budget) { $0 < 0 }
    case .lessThanOrEquals: try isOrdered(&look, &budget) { $0 <= 0 }
    case .greaterThan: try isOrdered(&look, &budget) { $0 > 0 }
    case .greaterThanOrEquals: try isOrdered(&look, &budget) { $0 >= 0 }
    case .in: try isAmong(operands, &look, &budget)
    case .notIn: try !isAmong(operands, &look, &budget)
    case .listContains: try look.list(key, contains: value, &budget)
    case .notListContains: try !look.list(key, contains: value, &budget)
    case .listContainsAny: try value.listElements.contains { try look.list(key, contains: $0, &budget) }
    case .notListContainsAny: try !value.listElements.contains { try look.list(key, contains: $0, &budget) }
    case .listContainsAll: try value.listElements.allSatisfy { try look.list(key, contains: $0, &budget) }
    case .notListContainsAll: try !value.listElements.allSatisfy { try look.list(key, contains: $0, &budget) }
    case .beginsWith: try begins(&look, &budget)
    case .notBeginsWith: try !begins(&look, &budget)
    case .listMemberBeginsWith: try memberBegins(&look, &budget)
    case .notListMemberBeginsWith: try !memberBegins(&look, &budget)
    case .near: isNear(key.value(in: look.record))
    case .containsAllTokens: try hasWords(&look, &budget) { found in words.allSatisfy(found.contains) }
    case .containsAnyTokens: try hasWords(&look, &budget) { found in words.contains(where: found.contains) }
    }
  }

  private func isEqual(_ look: inout RecordLook, _ budget: inout CostBudget) throws -> Bool {
    guard let field = key.value(in: look.record) else { return false }
    try budget.spend(bytes: field.lookedAtByteCount)
    try budget.spend(value.listElements.count)
    return field.isMeant(by: value)
  }

  private func isOrdered(_ look: inout RecordLook, _ budget: inout CostBudget, _ holds: (Int) -> Bool) throws -> Bool {
    guard let field = key.value(in: look.record) else { return false }
    try budget.spend(bytes: field.lookedAtByteCount)
    return field.compared(with: value).map(holds) ?? false
  }

  private func isAmong(_ operands: Set<ComparedValue>?, _ look: inout RecordLook, _ budget: inout CostBudget) throws
    -> Bool
  {
    guard let field = key.value(in: look.record) else { return false }
    try budget.spend(bytes: field.lookedAtByteCount)
    if let operands {
      let field = ComparedValue(field)
      return operands.contains(field) || field.withoutZone.map(operands.contains) ?? false
    }
    try budget.spend(value.listElements.count)
    return value.listElements.contains { field.isMeant(by: $0) }
  }

  private func begins(_ look: inout RecordLook, _ budget: inout CostBudget) throws -> Bool {
    guard let field = key.value(in: look.record), case .string(let prefix) = value else { return false }
    try budget.spend(bytes: prefix.utf8.count)
    return field.begins(with: prefix)
  }

  private func memberBegins(_ look: inout RecordLook, _ budget: inout CostBudget) throws -> Bool {
    guard case .string(let prefix) = value else { return false }
    return try look.list(key, hasPrefix: prefix, &budget)
  }

  private func isNear(_ field: FieldValue?) -> Bool {
    guard case .location(let place)? = field, case .location(let center) = value, let distance else { return false }
    return Earth.distance(place, center) <= distance
  }

  private func hasWords(_ look: inout RecordLook, _ budget: inout CostBudget, _ holds: (Set<Words.Word>) -> Bool) throws
    -> Bool
  {
    guard let found = try look.words(of: key, &budget) else { return false }
    for word in words { try budget.spend(bytes: word.count) }
    return holds(found)
  }
}

extension FieldValue {
  /// A list's elements; empty for a scalar.
  var listElements: [FieldValue] {
    if case .list(_, let values) = self { values } else { [] }
  }
}
