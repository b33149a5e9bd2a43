import Crypto
import Indexing
import JSON
import ObjectModel
import Records
import Testing

@testable import WebServices

@Suite struct `Queries` {
  static func request(_ text: String, schema: SchemaIndex = Wire.schema, environment: Environment = .development) throws
    -> QueryRecordsRequest
  {
    try QueryRecordsRequest(try Wire.json(text), owner: "_alice", schema: schema, environment: environment)
  }

  static func query(filters: String = "[]", orders: String = "[]") throws -> RecordQuery {
    try request(#"{"query":{"recordType":"Note","filterBy":\#(filters),"sortBy":\#(orders)}}"#).query
  }

  static let record = Record(
    recordName: "m", recordType: "Note",
    fields: [
      "double": .double(1.5), "int64": .int64(5), "int64List": .list(element: .int64, [.int64(1), .int64(2)]),
      "location": .location(Location(latitude: 1, longitude: 2)),
      "reference": .reference(Reference(recordName: "b", action: .none)),
      "string": .string("Milk"), "stringList": .list(element: .string, [.string("red"), .string("green")]),
      "timestamp": .timestamp(1000),
    ], created: Wire.stamp, modified: Wire.later, parent: "root")

  static func matches(_ key: String, _ comparator: String, _ value: String) throws -> Bool {
    let filter =
      #"[{"\#(key.hasPrefix("system.") ? "systemFieldName" : "fieldName")":"\#(key.replacing("system.", with: ""))","#
    return try query(filters: filter + #""comparator":"\#(comparator)","fieldValue":{"value":\#(value)}}]"#).matches(
      record)
  }

  @Test(arguments: [
    ("string", "EQUALS", #""Milk""#, true), ("string", "EQUALS", #""milk""#, false),
    ("string", "NOT_EQUALS", #""milk""#, true),
    ("missing", "EQUALS", "1", false), ("missing", "NOT_EQUALS", "1", true),
    ("int64", "LESS_THAN", "6", true), ("int64", "LESS_THAN", "5", false), ("int64", "LESS_THAN_OR_EQUALS", "5", true),
    ("int64", "GREATER_THAN", "4", true), ("int64", "GREATER_THAN", "5", false),
    ("int64", "GREATER_THAN_OR_EQUALS", "5", true),
    ("double", "GREATER_THAN", "1", true), ("timestamp", "LESS_THAN", "1001", true),
    ("string", "GREATER_THAN", #""Mil""#, true),
    ("missing", "LESS_THAN", "1", false),
    ("int64", "IN", "[1,5]", true), ("int64", "IN", "[]", false), ("int64", "NOT_IN", "[1,2]", true),
    ("missing", "NOT_IN", "[1]", true),
    ("string", "IN", #"["a","Milk"]"#, true), ("reference", "IN", #"[{"recordName":"b"}]"#, true),
    ("string", "BEGINS_WITH", #""Mi""#, true), ("string", "BEGINS_WITH", #""mi""#, false),
    ("string", "NOT_BEGINS_WITH", #""X""#, true),
    ("stringList", "LIST_CONTAINS", #""red""#, true), ("stringList", "LIST_CONTAINS", #""blue""#, false),
    ("stringList", "NOT_LIST_CONTAINS", #""blue""#, true),
    ("int64List", "LIST_CONTAINS_ANY", "[7,2]", true), ("int64List", "LIST_CONTAINS_ANY", "[7]", false),
    ("int64List", "NOT_LIST_CONTAINS_ANY", "[7]", true),
    ("int64List", "LIST_CONTAINS_ALL", "[1,2]", true), ("int64List", "LIST_CONTAINS_ALL", "[1,7]", false),
    ("int64List", "NOT_LIST_CONTAINS_ALL", "[1,7]", true),
    ("stringList", "LIST_MEMBER_BEGINS_WITH", #""gr""#, true),
    ("stringList", "NOT_LIST_MEMBER_BEGINS_WITH", #""gr""#, false),
    ("stringList", "EQUALS", #"["red","green"]"#, true), ("stringList", "EQUALS", #"["green","red"]"#, false),
    ("reference", "EQUALS", #"{"recordName":"b"}"#, true),
    ("reference", "EQUALS", #"{"recordName":"b","zoneID":{"zoneName":"Other"}}"#, false),
    ("location", "EQUALS", #"{"latitude":1,"longitude":2}"#, true),
    ("___recordId", "EQUALS", #"{"recordName":"m"}"#, true), ("___recordID", "IN", #"["m","n"]"#, true),
    ("system.recordName", "BEGINS_WITH", #""m""#, true),
    ("___parent", "EQUALS", #"{"recordName":"root"}"#, true), ("___share", "EQUALS", #"{"recordName":"s"}"#, false),
    ("___createdBy", "EQUALS", #"{"recordName":"_alice"}"#, true), ("___modifiedBy", "EQUALS", #""_bob""#, true),
    ("string", "CONTAINS_ALL_TOKENS", #""MILK""#, true), ("string", "CONTAINS_ALL_TOKENS", #""milk bread""#, false),
    ("string", "CONTAINS_ALL_TOKENS", #""""#, true),
    ("string", "CONTAINS_ANY_TOKENS", #"["bread","milk"]"#, true), ("string", "CONTAINS_ANY", #""bread milk""#, true),
    ("string", "CONTAINS_ANY", #""""#, false),
    ("stringList", "CONTAINS_ALL_TOKENS", #""Green red""#, true), ("missing", "CONTAINS_ALL_TOKENS", #""x""#, false),
    ("___createTime", "LESS_THAN", "1700000000001", true),
    ("system.modifiedTimestamp", "GREATER_THAN", "1700000000000", true),
  ])
  func `a filter passes what it should`(key: String, comparator: String, value: String, passes: Bool) throws {
    #expect(try Self.matches(key, comparator, value) == passes)
  }

  @Test func `NEAR passes what is within the distance, and sorting by distance begins with the nearest`() throws {
    func near(_ distance: String) throws -> RecordQuery {
      try Self.query(
        filters:
          #"""
          [{"fieldName":"location","comparator":"NEAR","distance":\#(distance),"fieldValue":{"value":{"latitude":1,\#
          "longitude":2.001}}}]
          """#
      )
    }
    #expect(try near("112").matches(Self.record))
    #expect(try !near("111").matches(Self.record))
    #expect(try near(#""112.5""#).matches(Self.record))
    let query = try Self.query(
      orders:
        #"""
        [{"fieldName":"location","relativeLocation":{"value":{"latitude":0,"longitude":179},"type":"LOCATION"}},\#
        {"fieldName":"location","relativeLocation":{"latitude":0,"longitude":0}}]
        """#
    )
    let longitudes: [Double?] = [-179, 178.5, 0, nil, 170]
    let keys = longitudes.map { longitude in
      var record = Self.record
      record.fields["location"] = longitude.map { Field(.location(Location(latitude: 0, longitude: $0))) }
      return (longitude, query.sortKeys(of: record)[0])
    }
    #expect(keys.sorted { $0.1.lexicographicallyPrecedes($1.1) }.map(\.0) == [178.5, -179, 170, 0, nil])
  }

  /// `Note`: n is QUERYABLE, s is SORTABLE, t is SEARCHABLE, and createTime may be queried.
  static let declared = SchemaIndex(
    Schema(recordTypes: [
      Schema.RecordType(
        name: "Note",
        fields: [
          Schema.Field(name: "n", type: .int64, indexes: .queryable),
          Schema.Field(name: "s", type: .string, indexes: .sortable),
          Schema.Field(name: "t", type: .string, indexes: .searchable),
        ], grants: [], systemIndexes: ["___createTime": [.queryable, .sortable]])
    ]))

  @Test(
    arguments: [
      (#"{"recordType":"None"}"#, "Did not find record type: None"),
      (#"{"recordType":"Note"}"#, "Field 'recordName' is not marked queryable"),
      (#"{"recordType":"Note","sortBy":[{"fieldName":"s"}]}"#, "Field 'recordName' is not marked queryable"),
      (#"{"recordType":"Note","filterBy":[{"fieldName":"n","comparator":"EQUALS","fieldValue":{"value":1}}]}"#, nil),
      (
        #"{"recordType":"Note","filterBy":[{"fieldName":"s","comparator":"EQUALS","fieldValue":{"value":"1"}}]}"#,
        "Field 's' is not marked queryable"
      ),
      (
        #"{"recordType":"Note","filterBy":[{"fieldName":"x","comparator":"EQUALS","fieldValue":{"value":"1"}}]}"#,
        "Field 'x' is not marked queryable"
      ),
      (
        #"""
        {"recordType":"Note","filterBy":[{"fieldName":"t","comparator":"CONTAINS_ALL_TOKENS",\#
        "fieldValue":{"value":"1"}}]}
        """#,
        nil
      ),
      (
        #"""
        {"recordType":"Note","filterBy":[{"fieldName":"s","comparator":"CONTAINS_ANY_TOKENS",\#
        "fieldValue":{"value":"1"}}]}
        """#,
        "Field 's' is not marked searchable"
      ),
      (
        #"""
        {"recordType":"Note","filterBy":[{"fieldName":"n","comparator":"EQUALS","fieldValue":{"value":1}}],\#
        "sortBy":[{"fieldName":"n"}]}
        """#,
        "Field 'n' is not marked sortable"
      ),
      (
        #"""
        {"recordType":"Note","filterBy":[{"fieldName":"n","comparator":"EQUALS","fieldValue":{"value":1}}],\#
        "sortBy":[{"fieldName":"s"},{"fieldName":"___createTime"}]}
        """#,
        nil
      ),
      (
        #"""
        {"recordType":"Note","filterBy":[{"systemFieldName":"recordName","comparator":"EQUALS",\#
        "fieldValue":{"value":{"recordName":"a"}}}]}
        """#,
        "Field 'recordName' is not marked queryable"
      ),
      (
        #"""
        {"recordType":"Note","filterBy":[{"fieldName":"___createTime","comparator":"LESS_THAN",\#
        "fieldValue":{"value":1}}]}
        """#,
        nil
      ),
      (
        #"""
        {"recordType":"Note","filterBy":[{"fieldName":"___modTime","comparator":"LESS_THAN","fieldValue":{"value":1}}]}
        """#,
        "Field 'modifiedTimestamp' is not marked queryable"
      ),
      (
        #"""
        {"recordType":"Note","filterBy":[{"fieldName":"___parent","comparator":"EQUALS",\#
        "fieldValue":{"value":{"recordName":"a"}}}]}
        """#,
        nil
      ),
    ] as [(String, String?)])
  func `production answers what its schema has indexes for, development everything`(query: String, reason: String?)
    throws
  {
    let text = #"{"query":\#(query)}"#
    _ = try Self.request(text, schema: Self.declared)
    if let reason {
      #expect(try Wire.reason { _ = try Self.request(text, schema: Self.declared, environment: .production) } == reason)
    } else {
      _ = try Self.request(text, schema: Self.declared, environment: .production)
    }
  }

  @Test func `an index is kept while the schema declares it`() {
    func declares(_ key: RecordKey, _ kind: FieldIndex.Kind, _ environment: Environment = .production) -> Bool {
      Self.declared.declares(FieldIndex(recordType: "Note", key: key, kind: kind), in: environment)
    }
    #expect(
      declares(.field("n"), .value) && declares(.field("s"), .value) && !declares(.field("t"), .value)
        && declares(.field("t"), .words))
    #expect(
      !declares(.field("n"), .words) && declares(.field("n"), .place) && !declares(.field("x"), .value, .development))
    #expect(declares(.system(.createdTimestamp), .value) && !declares(.system(.modifiedTimestamp), .value))
    #expect(declares(.system(.modifiedTimestamp), .value, .development) && declares(.system(.recordName), .type))
  }

  @Test func `filters are joined by and, and the type must fit`() throws {
    let both = try Self.query(
      filters:
        #"""
        [{"fieldName":"int64","comparator":"EQUALS","fieldValue":{"value":5}},{"fieldName":"string",\#
        "comparator":"EQUALS","fieldValue":{"value":"x"}}]
        """#
    )
    #expect(try !both.matches(Self.record))
    #expect(try !RecordQuery(recordType: "Task").matches(Self.record))
    #expect(try RecordQuery(recordType: "Note").matches(Self.record))
  }

  @Test func `all 21 comparators are known`() {
    #expect(RecordQuery.Comparator.allCases.count == 21)
  }

  @Test func `a filter has a bounded number of values`() throws {
    func filter(_ comparator: String, _ value: String) -> String {
      #"[{"fieldName":"string","comparator":"\#(comparator)","fieldValue":{"value":\#(value)}}]"#
    }
    let (few, many) = (
      (0..<500).map { "\"w\($0)\"" }.joined(separator: ","), (0..<501).map { "\"w\($0)\"" }.joined(separator: ",")
    )
    _ = try Self.query(filters: filter("IN", "[\(few)]"))
    for (comparator, value) in [("IN", "[\(many)]"), ("CONTAINS_ANY_TOKENS", "\"\(many.replacing("\"", with: ""))\"")] {
      #expect(
        try Wire.reason { _ = try Self.query(filters: filter(comparator, value)) }
          == "query: filterBy[0]: string: the filter has more than 500 values")
    }
  }

  @Test func `an IN list may come with the element's type`() throws {
    let query = try Self.query(
      filters: #"[{"fieldName":"int64","comparator":"IN","fieldValue":{"value":[5],"type":"INT64"}}]"#)
    #expect(try query.matches(Self.record))
  }

  @Test
  func `records are ordered by each order in turn, missing values first, names last and in the direction of the first`()
    throws
  {
    let query = try Self.query(orders: #"[{"fieldName":"int64","ascending":false},{"fieldName":"string"}]"#)
    func record(_ name: String, _ number: Int64?, _ text: String?) -> Record {
      var record = Record(
        recordName: name, recordType: "Note", fields: Fields(), created: Wire.stamp, modified: Wire.stamp)
      record.fields["int64"] = number.map { Field(.int64($0)) }
      record.fields["string"] = text.map { Field(.string($0)) }
      return record
    }
    let records = [
      record("a", 1, "x"), record("b", 2, "y"), record("c", 2, nil), record("d", nil, "a"), record("e", 2, "y"),
      record("f", 2, "Y"),
    ]
    func marker(_ record: Record) -> QueryMarker {
      QueryMarker(zoneName: "Trips", recordName: record.recordName, sortKeys: query.sortKeys(of: record))
    }
    let sorted = records.sorted { query.precedes(marker($0), marker($1)) }
    #expect(sorted.map(\.recordName) == ["c", "f", "e", "b", "a", "d"])
  }

  @Test func `zoneWide holds only without a zone`() throws {
    #expect(try Self.request(#"{"query":{"recordType":"Note"},"zoneWide":true}"#).isZoneWide)
    #expect(try !Self.request(#"{"query":{"recordType":"Note"},"zoneWide":true,"zoneID":{"zoneName":"A"}}"#).isZoneWide)
  }
}
