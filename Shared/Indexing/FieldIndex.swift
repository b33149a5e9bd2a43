// An index over the records of one type. Stores keep entries under its keys, and planners ask for ranges of them.

public import Records

/// An index of a database over the records of one type: by one field, or by several for the kind `unique`.
public struct FieldIndex: Hashable, Sendable {
  /// Numbers are stored: never renumber.
  public enum Kind: Int, Hashable, Sendable, CaseIterable {
    /// All records of the type; `key` is the record name.
    case type = 0
    /// Values in their order, and the elements of lists.
    case value = 1
    /// Words of strings.
    case words = 2
    /// Places on earth.
    case place = 3
    /// The values of several fields together (`UniqueKey`), to find records that share all of them. No query uses it.
    case unique = 4
  }

  public let recordType: String
  public let key: RecordKey
  public let kind: Kind

  public init(recordType: String, key: RecordKey, kind: Kind) {
    self.recordType = recordType
    self.key = key
    self.kind = kind
  }

  /// All records of a type.
  public init(recordsOfType recordType: String) {
    self.init(recordType: recordType, key: .system(.recordName), kind: .type)
  }

  /// All of `fields` together, in any order.
  public init(uniqueFields fields: [String], ofRecordType recordType: String) {
    self.init(
      recordType: recordType, key: .field(Set(fields).sorted().joined(separator: String(UniqueKey.separator))),
      kind: .unique)
  }

  /// The one key that every record has in an index of kind `type`.
  public static let typeRange = IndexRange(key: [])

  /// The distinct keys of a live record of the index's type.
  public func keys(of record: Record) -> [[UInt8]] {
    switch kind {
    case .type: return [[]]
    case .value:
      let value = key.value(in: record)
      let order = IndexKey.order(value)
      guard case .list(_, let elements)? = value else { return [order] }
      return [order] + Self.limited(elements.lazy.compactMap(IndexKey.element))
    case .words: return Self.limited(Words.keys(of: key.value(in: record)))
    case .place:
      guard case .location(let place)? = key.value(in: record) else { return [] }
      return [PlaceKey.key(of: place)]
    case .unique:
      guard case .field(let names) = key else { return [] }
      return UniqueKey.key(of: record, fields: names.split(separator: UniqueKey.separator).map(String.init)).map {
        [$0]
      } ?? []
    }
  }

  /// Each key once; or the overflow key alone when there are more than `IndexKey.countLimit`.
  private static func limited(_ keys: some Sequence<[UInt8]>) -> [[UInt8]] {
    var seen: Set<[UInt8]> = []
    var distinct: [[UInt8]] = []
    for key in keys where seen.insert(key).inserted {
      if distinct.count == IndexKey.countLimit { return [IndexKey.overflow] }
      distinct.append(key)
    }
    return distinct
  }
}
