// Queries of `records/query` as values (docs/protocol/record-plane.md#records-query).

public import Indexing
public import Records

/// The query dictionary: records of one type that pass all filters, in an order.
public struct RecordQuery: Hashable, Sendable {
  /// The raw value is `comparator`.
  public enum Comparator: String, Hashable, Sendable, CaseIterable {
    case equals = "EQUALS"
    case notEquals = "NOT_EQUALS"
    case lessThan = "LESS_THAN"
    case lessThanOrEquals = "LESS_THAN_OR_EQUALS"
    case greaterThan = "GREATER_THAN"
    case greaterThanOrEquals = "GREATER_THAN_OR_EQUALS"
    case near = "NEAR"
    case containsAllTokens = "CONTAINS_ALL_TOKENS"
    case containsAnyTokens = "CONTAINS_ANY_TOKENS"
    case `in` = "IN"
    case notIn = "NOT_IN"
    case listContains = "LIST_CONTAINS"
    case notListContains = "NOT_LIST_CONTAINS"
    case listContainsAny = "LIST_CONTAINS_ANY"
    case notListContainsAny = "NOT_LIST_CONTAINS_ANY"
    case listContainsAll = "LIST_CONTAINS_ALL"
    case notListContainsAll = "NOT_LIST_CONTAINS_ALL"
    case beginsWith = "BEGINS_WITH"
    case notBeginsWith = "NOT_BEGINS_WITH"
    case listMemberBeginsWith = "LIST_MEMBER_BEGINS_WITH"
    case notListMemberBeginsWith = "NOT_LIST_MEMBER_BEGINS_WITH"
  }

  public typealias SystemField = Indexing.SystemField
  /// The field that a filter or an order uses.
  public typealias Key = RecordKey

  public struct Filter: Hashable, Sendable {
    public let key: Key
    public let comparator: Comparator
    public let value: FieldValue
    /// Metres; only with NEAR.
    public let distance: Double?
    /// The words for CONTAINS_ALL_TOKENS and CONTAINS_ANY_TOKENS; sorted, because markers depend on them.
    let words: [Words.Word]

    public init(key: Key, comparator: Comparator, value: FieldValue, distance: Double? = nil) {
      words = comparator.isOfWords ? (Words.words(of: value) ?? []).sorted { $0.lexicographicallyPrecedes($1) } : []
      self.key = key
      self.comparator = comparator
      self.value = value
      self.distance = distance
    }
  }

  public struct Order: Hashable, Sendable {
    public let key: Key
    public let isAscending: Bool
    /// Orders by the distance from this place instead of by the value.
    public let relativeLocation: Location?

    public init(key: Key, isAscending: Bool, relativeLocation: Location? = nil) {
      self.key = key
      self.isAscending = isAscending
      self.relativeLocation = relativeLocation
    }
  }

  public let recordType: String
  /// A record must pass all of them.
  public let filters: [Filter]
  /// The first one counts most. Zone and record name decide among equals, in the direction of the first order.
  public let orders: [Order]

  public init(recordType: String, filters: [Filter] = [], orders: [Order] = []) {
    self.recordType = recordType
    self.filters = filters
    self.orders = orders
  }
}
