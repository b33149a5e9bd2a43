// A record for many filters: costly parts are computed once, so that all filters together cost about as much as their
// own size and the record's.

import Indexing
public import Records

/// The values that several filters need of one record. Keep it while filters of one query, or of many subscriptions,
/// look at that record.
public struct RecordLook {
  public let record: Record
  private var elements: [RecordKey: Elements] = [:]
  private var words: [RecordKey: Set<Words.Word>?] = [:]

  public init(_ record: Record) { self.record = record }

  /// The length up to which a list is searched for each operand; a longer list is hashed or sorted once.
  static let scannedCount = 16

  /// A list's elements, prepared for searches.
  private struct Elements {
    var distinct: Set<ComparedValue>?
    /// Texts in the order of their bytes.
    var sorted: [String]?
  }

  /// True if a list of the record has an element that `operand` matches; false for a value that is no list.
  mutating func list(_ key: RecordKey, contains operand: FieldValue, _ budget: inout CostBudget) throws -> Bool {
    guard case .list(_, let values)? = key.value(in: record) else { return false }
    try budget.spend(bytes: operand.lookedAtByteCount)
    if values.count <= Self.scannedCount {
      try budget.spend(values.count)
      return values.contains { $0.isMeant(by: operand) }
    }
    if elements[key]?.distinct == nil {
      elements[key, default: Elements()].distinct = try Self.distinct(values, &budget)
    }
    return elements[key]?.distinct?.contains(ComparedValue(operand)) == true
  }

  private static func distinct(_ values: [FieldValue], _ budget: inout CostBudget) throws -> Set<ComparedValue> {
    try budget.spend(values.count)
    var distinct: Set<ComparedValue> = []
    distinct.reserveCapacity(values.count)
    for value in values {
      try budget.spend(bytes: value.lookedAtByteCount)
      let value = ComparedValue(value)
      distinct.insert(value)
      if let anywhere = value.withoutZone { distinct.insert(anywhere) }
    }
    return distinct
  }

  /// True if a list of the record has a text that begins with `prefix`.
  mutating func list(_ key: RecordKey, hasPrefix prefix: String, _ budget: inout CostBudget) throws -> Bool {
    guard case .list(element: .string, let values)? = key.value(in: record) else { return false }
    try budget.spend(bytes: prefix.utf8.count)
    if values.count <= Self.scannedCount {
      try budget.spend(values.count)
      return values.contains { $0.begins(with: prefix) }
    }
    if elements[key]?.sorted == nil { elements[key, default: Elements()].sorted = try Self.sorted(values, &budget) }
    let texts = elements[key]?.sorted ?? []
    var (low, high) = (0, texts.count)
    while low < high {
      try budget.spend()
      let middle = (low + high) / 2
      if texts[middle].comparedByBytes(with: prefix) < 0 { low = middle + 1 } else { high = middle }
    }
    return low < texts.count && texts[low].utf8.starts(with: prefix.utf8)
  }

  private static func sorted(_ values: [FieldValue], _ budget: inout CostBudget) throws -> [String] {
    let texts = values.compactMap { value in if case .string(let text) = value { text } else { nil } }
    let rounds = Int.bitWidth - texts.count.leadingZeroBitCount
    for text in texts { try budget.spend(rounds * (1 + text.utf8.count / CostBudget.bytesPerStep)) }
    return texts.sorted { $0.comparedByBytes(with: $1) < 0 }
  }

  /// The words of a text or of a list of texts; nil for other values.
  mutating func words(of key: RecordKey, _ budget: inout CostBudget) throws -> Set<Words.Word>? {
    if let known = words[key] { return known }
    let value = key.value(in: record)
    // Each character costs a lookup in Unicode's tables.
    if case .list(_, let values)? = value {
      for value in values { try budget.spend(1 + value.lookedAtByteCount) }
    } else {
      try budget.spend(1 + (value?.lookedAtByteCount ?? 0))
    }
    let found = Words.words(of: value)
    words[key] = .some(found)
    return found
  }
}

extension FieldValue {
  func begins(with prefix: String) -> Bool {
    if case .string(let text) = self { text.utf8.starts(with: prefix.utf8) } else { false }
  }
}
