// Queries as values: what `records/query` asks for (wire-protocol 3.5).

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

  /// What every record has besides its fields. The raw value is `systemFieldName`.
  public enum SystemField: String, Hashable, Sendable, CaseIterable {
    case recordName, share, parent
    case createdUserRecordName, createdTimestamp, modifiedTimestamp, modifiedUserRecordName

    /// The same under the name that schemas and `fieldName` use.
    public init?(fieldName: String) {
      switch fieldName {
      case "___recordId", "___recordID": self = .recordName
      case "___share": self = .share
      case "___parent": self = .parent
      case "___createdBy": self = .createdUserRecordName
      case "___createTime": self = .createdTimestamp
      case "___modTime": self = .modifiedTimestamp
      case "___modifiedBy": self = .modifiedUserRecordName
      default: return nil
      }
    }

    /// How values of the field are compared; names are compared as strings, whatever dictionary they came in.
    var type: FieldType { self == .createdTimestamp || self == .modifiedTimestamp ? .timestamp : .string }
  }

  /// What a filter or an order looks at.
  public enum Key: Hashable, Sendable {
    case field(String)
    case system(SystemField)

    /// As requests spell it, for refusals.
    public var name: String {
      switch self {
      case .field(let name): name
      case .system(let field): field.rawValue
      }
    }
  }

  public struct Filter: Hashable, Sendable {
    public let key: Key
    public let comparator: Comparator
    public let value: FieldValue

    public init(key: Key, comparator: Comparator, value: FieldValue) {
      self.key = key
      self.comparator = comparator
      self.value = value
    }
  }

  public struct Order: Hashable, Sendable {
    public let key: Key
    public let isAscending: Bool

    public init(key: Key, isAscending: Bool) {
      self.key = key
      self.isAscending = isAscending
    }
  }

  public let recordType: String
  /// All of them must hold.
  public let filters: [Filter]
  /// The first decides; the zone's and the record's name decide among equals.
  public let orders: [Order]

  public init(recordType: String, filters: [Filter] = [], orders: [Order] = []) {
    self.recordType = recordType
    self.filters = filters
    self.orders = orders
  }
}
