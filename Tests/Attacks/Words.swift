// Request bodies for attacks.

/// JSON put together by hand, because no JSON writer would produce these bodies.
enum Words {
  static func list(_ values: some Sequence<Int>) -> String { "[\(values.map(String.init).joined(separator: ","))]" }

  static func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

  /// `"a":1,"b":1` …
  static func members(_ count: Int, _ name: (Int) -> String) -> String {
    (0..<count).map { #""\#(name($0))":1"# }.joined(separator: ",")
  }

  /// An operation that creates or replaces a record.
  static func save(_ recordName: String, type: String = "Note", _ fields: String) -> String {
    #"""
    {"operationType":"forceUpdate","record":{"recordName":"\#(recordName)","recordType":"\#(type)",\#
    "fields":{\#(fields)}}}
    """#
  }

  static func modify(_ operations: [String], zone: String = "Zone") -> String {
    #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[\#(operations.joined(separator: ","))]}"#
  }

  /// A field of a query's `filterBy`.
  static func filter(_ field: String, _ comparator: String, _ values: some Sequence<Int>) -> String {
    #"""
    {"fieldName":"\#(field)","comparator":"\#(comparator)","fieldValue":{"type":"INT64_LIST","value":\#(list(values))}}
    """#
  }

  static func query(_ type: String, filters: [String] = [], orders: [String] = []) -> String {
    let sort = orders.map { #"{"fieldName":"\#($0)","ascending":true}"# }.joined(separator: ",")
    return #"{"recordType":"\#(type)","filterBy":[\#(filters.joined(separator: ","))],"sortBy":[\#(sort)]}"#
  }
}
