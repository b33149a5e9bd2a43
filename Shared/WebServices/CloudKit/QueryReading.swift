// The body of `records/query` (docs/protocol/record-plane.md#records-query).

import Indexing
public import JSON
import ObjectModel
public import Records

/// A query, and how its answer is paged and shown.
public struct QueryRecordsRequest: Sendable {
  public let query: RecordQuery
  /// nil: the default zone, or all zones if `isZoneWide`.
  public let zone: ZoneReference?
  /// True if the query searches all zones.
  public let isZoneWide: Bool
  public let resultsLimit: Int
  public let continuationMarker: String?
  public let presentation: RecordPresentation

  /// - Parameters:
  ///   - owner: the owner of the searched zones; references without an owner mean theirs.
  ///   - environment: production refuses unknown types and queries without a declared index.
  public init(_ request: JSONValue, owner: String, schema: SchemaIndex, environment: Environment) throws(RecordError) {
    zone = try request.member("zoneID").map { json throws(RecordError) in try ZoneReference(json) }
    isZoneWide = try request.optionalBool("zoneWide") ?? false && zone == nil
    resultsLimit = try ResultsLimit.clamped(request)
    continuationMarker = try request.optionalString("continuationMarker")
    presentation = try RecordPresentation(of: request)
    let query = try request.requiredObject("query")
    do {
      self.query = try QueryReader(
        zone: Zone.ID(zoneName: zone?.zoneName ?? ReservedName.defaultZone, ownerName: owner), schema: schema
      ).read(query)
    } catch {
      throw error.within("query")
    }
    if environment == .production { try schema.check(self.query) }
  }
}

struct QueryReader {
  let zone: Zone.ID
  let schema: SchemaIndex

  private static let filterLimit = 100
  private static let orderLimit = 10
  /// The values in a filter's list, and the words in its text: each is compared with every record that is looked at.
  private static let operandLimit = 500

  func read(_ json: JSONValue) throws(RecordError) -> RecordQuery {
    let recordType = try json.requiredString("recordType")
    let declarations = schema.fields(of: recordType)
    let filters =
      json.member("filterBy") == nil
      ? []
      : try json.requiredList("filterBy", limit: Self.filterLimit) { json throws(RecordError) in
        try filter(json, declarations)
      }
    let orders =
      json.member("sortBy") == nil
      ? []
      : try json.requiredList("sortBy", limit: Self.orderLimit) { json throws(RecordError) in
        try order(json, declarations)
      }
    return RecordQuery(recordType: recordType, filters: filters, orders: orders)
  }

  private func filter(_ json: JSONValue, _ declarations: [String: SchemaIndex.FieldDeclaration]) throws(RecordError)
    -> RecordQuery.Filter
  {
    let text = try json.requiredString("comparator")
    guard let comparator = RecordQuery.Comparator(wireName: text) else {
      throw RecordError(.badRequest, "unknown comparator '\(text.prefix(40))'")
    }
    let key = try key(of: json, declarations)
    let fieldValue = try json.requiredObject("fieldValue")
    guard let value = fieldValue.member("value") else { throw RecordError(.badRequest, "fieldValue.value is missing") }
    do throws(RecordError) {
      let type = try type(of: fieldValue, value, comparator, key, declarations)
      let filter = RecordQuery.Filter(
        key: key, comparator: comparator, value: try read(value, as: type, key),
        distance: comparator == .near ? try distance(of: json) : nil)
      guard max(filter.value.listElements.count, filter.words.count) <= Self.operandLimit else {
        throw RecordError(.badRequest, "the filter has more than \(Self.operandLimit) values")
      }
      return filter
    } catch {
      throw error.within(key.name)
    }
  }

  private func distance(of json: JSONValue) throws(RecordError) -> Double {
    guard let value = json.member("distance") else { throw RecordError(.badRequest, "distance is missing") }
    guard case .double(let metres) = try ValueReader(zone: zone).value(value, as: .double), metres >= 0 else {
      throw RecordError(.badRequest, "distance must be a number of metres")
    }
    return metres
  }

  private func order(_ json: JSONValue, _ declarations: [String: SchemaIndex.FieldDeclaration]) throws(RecordError)
    -> RecordQuery.Order
  {
    let key = try key(of: json, declarations)
    let isAscending = try json.optionalBool("ascending") ?? true
    let relative = json.member("relativeLocation")
    if case .field(let name) = key, let type = declarations[name]?.type,
      !(relative == nil ? Self.isSortable(type) : type == .location)
    {
      throw RecordError(.badRequest, "Field '\(name)' is not marked sortable")
    }
    guard let relative else { return RecordQuery.Order(key: key, isAscending: isAscending) }
    guard case .field = key else { throw RecordError(.badRequest, "Field '\(key.name)' is not a location") }
    do throws(RecordError) {
      guard
        case .location(let place) = try ValueReader(zone: zone).value(
          relative.member("value") ?? relative, as: .location)
      else {
        throw RecordError(.badRequest, "LOCATION must be an object with latitude and longitude")
      }
      return RecordQuery.Order(key: key, isAscending: isAscending, relativeLocation: place)
    } catch {
      throw error.within("relativeLocation")
    }
  }

  private static func isSortable(_ type: FieldType) -> Bool {
    switch type {
    case .int64, .double, .string, .timestamp, .reference: true
    default: false
    }
  }

  private func key(of json: JSONValue, _ declarations: [String: SchemaIndex.FieldDeclaration]) throws(RecordError)
    -> RecordQuery.Key
  {
    if let name = try json.optionalString("systemFieldName") {
      guard let field = RecordQuery.SystemField(rawValue: name) ?? RecordQuery.SystemField(fieldName: name) else {
        throw RecordError(.badRequest, "unknown systemFieldName '\(name.prefix(40))'")
      }
      return .system(field)
    }
    let name = try json.requiredString("fieldName")
    if name.hasPrefix("___") {
      guard let field = RecordQuery.SystemField(fieldName: name) else {
        throw RecordError(.badRequest, "unknown system field '\(name.prefix(40))'")
      }
      return .system(field)
    }
    // Encrypted fields cannot be searched, and contents of assets and bytes are not compared.
    if let declared = declarations[name],
      declared.isEncrypted || [.bytes, .asset].contains(declared.type.element ?? declared.type)
    {
      throw SchemaIndex.refusal(name, "queryable")
    }
    return .field(name)
  }

  /// The type for reading a filter's value: by the schema and the comparator, or else by the request.
  private func type(
    of fieldValue: JSONValue, _ value: JSONValue, _ comparator: RecordQuery.Comparator, _ key: RecordQuery.Key,
    _ declarations: [String: SchemaIndex.FieldDeclaration]
  ) throws(RecordError) -> FieldType {
    let declared: FieldType? =
      switch key {
      case .field(let name): declarations[name]?.type
      case .system(let field): field.type
      }
    let sent = try fieldValue.optionalString("type").map { text throws(RecordError) in try WireType(text).type }
    // Words of an untyped value match whatever type the field has.
    if comparator.isOfWords, value.kind == .array { return .stringList }
    guard let declared else {
      if comparator == .near { return .location }
      if comparator.isOfWords { return .string }
      if let sent { return comparator.takesList && sent.element == nil ? .list(of: sent) : sent }
      return try ValueReader.inferredType(of: value)
    }
    guard let expected = comparator.valueType(for: declared) else {
      throw RecordError(.badRequest, "\(comparator.rawValue) does not apply to a field of type \(declared.wireName)")
    }
    if case .field = key, let sent, sent != expected, !(comparator.takesList && sent == expected.element) {
      throw RecordError(.badRequest, "the filter's value is \(sent.wireName), it must be \(expected.wireName)")
    }
    return expected
  }

  /// System fields that hold names accept references and strings.
  private func read(_ value: JSONValue, as type: FieldType, _ key: RecordQuery.Key) throws(RecordError) -> FieldValue {
    if case .system = key {
      if type == .stringList, value.kind == .array {
        var names: [FieldValue] = []
        for element in value.elements { names.append(.string(try name(element))) }
        return .list(element: .string, names)
      }
      if type == .string { return .string(try name(value)) }
    }
    return try ValueReader(zone: zone).value(value, as: type)
  }

  private func name(_ value: JSONValue) throws(RecordError) -> String {
    guard let name = value.string ?? value.member("recordName")?.string else {
      throw RecordError(.badRequest, "the filter's value must name a record")
    }
    return name
  }
}

extension RecordQuery.Comparator {
  /// Also accepts `CONTAINS_ANY`, the name that one client uses.
  init?(wireName: String) {
    guard let comparator = wireName == "CONTAINS_ANY" ? .containsAnyTokens : Self(rawValue: wireName) else {
      return nil
    }
    self = comparator
  }

  /// True if the comparator looks for words.
  var isOfWords: Bool { self == .containsAllTokens || self == .containsAnyTokens }

  /// True if the filter's value is a list.
  var takesList: Bool {
    switch self {
    case .in, .notIn, .listContainsAny, .notListContainsAny, .listContainsAll, .notListContainsAll: true
    default: false
    }
  }

  /// The type of the filter's value for a field of type `field`; nil if the comparator does not apply.
  func valueType(for field: FieldType) -> FieldType? {
    switch self {
    case .equals, .notEquals: field
    case .lessThan, .lessThanOrEquals, .greaterThan, .greaterThanOrEquals:
      [.int64, .double, .string, .timestamp].contains(field) ? field : nil
    case .in, .notIn: field.element == nil ? .list(of: field) : nil
    case .listContains, .notListContains: field.element
    case .listContainsAny, .notListContainsAny, .listContainsAll, .notListContainsAll:
      field.element == nil ? nil : field
    case .beginsWith, .notBeginsWith: field == .string ? .string : nil
    case .listMemberBeginsWith, .notListMemberBeginsWith: field == .stringList ? .string : nil
    case .near: field == .location ? .location : nil
    case .containsAllTokens, .containsAnyTokens: field == .string || field == .stringList ? .string : nil
    }
  }
}

extension SchemaIndex {
  static func refusal(_ field: String, _ index: String) -> RecordError {
    RecordError(.badRequest, "Field '\(field)' is not marked \(index)")
  }

  /// Applies production's limits: it refuses unknown types, and fields without the index that the query needs.
  fileprivate func check(_ query: RecordQuery) throws(RecordError) {
    guard contains(recordType: query.recordType) else {
      throw RecordError(.badRequest, "Did not find record type: \(query.recordType.prefix(Limit.nameByteCount))")
    }
    for filter in query.filters {
      let index = filter.comparator.isOfWords ? (Schema.Indexes.searchable, "searchable") : (.queryable, "queryable")
      guard indexes(of: filter.key, in: query.recordType).contains(index.0) else {
        throw Self.refusal(filter.key.name, index.1)
      }
    }
    // A query without filters selects all records by their names.
    if query.filters.isEmpty, !indexes(of: .system(.recordName), in: query.recordType).contains(.queryable) {
      throw Self.refusal(RecordKey.system(.recordName).name, "queryable")
    }
    for order in query.orders where !indexes(of: order.key, in: query.recordType).contains(.sortable) {
      throw Self.refusal(order.key.name, "sortable")
    }
  }
}
