import Indexing
import JSON
import Records
import Testing

@testable import WebServices

@Suite struct `Query plans` {
  static func index(_ field: String, _ kind: FieldIndex.Kind = .value) -> FieldIndex {
    FieldIndex(recordType: "Note", key: .field(field), kind: kind)
  }

  static func filter(
    _ field: String, _ comparator: RecordQuery.Comparator, _ value: FieldValue, distance: Double? = nil
  ) -> RecordQuery.Filter {
    RecordQuery.Filter(key: .field(field), comparator: comparator, value: value, distance: distance)
  }

  static func plan(_ filters: [RecordQuery.Filter] = [], _ orders: [RecordQuery.Order] = []) -> QueryPlan {
    QueryPlan(RecordQuery(recordType: "Note", filters: filters, orders: orders))
  }

  static let byDate = RecordQuery.Order(key: .field("date"), isAscending: false)

  /// The chosen path as text: its kind and field.
  static func path(
    _ plan: QueryPlan, ready: Set<String>, counts: [String: Int], of recordCount: Int = 1_000_000, limit: Int = 100
  ) -> String {
    let path = plan.path(usable: { ready.contains($0.key.schemaName) }, recordCount: recordCount, limit: limit) {
      access, limit in
      min(counts[access.index.key.schemaName] ?? 0, limit)
    }
    return switch path {
    case .names(let names): "names \(names)"
    case .candidates(let access): "candidates \(access.index.key.schemaName)"
    case .walk(let index, _): "walk \(index.key.schemaName)"
    case .type: "type"
    }
  }

  @Test func `the path that looks at the fewest records is taken`() {
    let equal = Self.plan([Self.filter("a", .equals, .int64(1)), Self.filter("b", .equals, .int64(1))], [Self.byDate])
    let all: Set<String> = ["a", "b", "date"]
    #expect(Self.path(equal, ready: all, counts: ["a": 500, "b": 20]) == "candidates b")
    #expect(Self.path(equal, ready: all, counts: ["a": 20, "b": 500]) == "candidates a")
    // Where many records pass, the sort order's index fills a page soon.
    #expect(Self.path(equal, ready: all, counts: ["a": 500_000, "b": 500_000]) == "walk date")
    #expect(Self.path(equal, ready: ["a"], counts: ["a": 500_000]) == "candidates a")
    #expect(Self.path(equal, ready: ["date"], counts: [:]) == "walk date")
    #expect(Self.path(equal, ready: [], counts: [:]) == "type")
    let unordered = Self.plan([Self.filter("a", .greaterThan, .int64(1)), Self.filter("b", .equals, .int64(1))])
    #expect(Self.path(unordered, ready: all, counts: ["a": 10, "b": 20]) == "candidates a")
    // One key's records are in the order of names, so the page is full after as many records as it has.
    #expect(Self.path(unordered, ready: all, counts: ["a": 500_000, "b": 500_000]) == "candidates b")
    // Reading half of the zone for one page would cost more than reading the zone by name until the page is full.
    #expect(Self.path(unordered, ready: ["a"], counts: ["a": 500_000]) == "type")
    #expect(Self.path(unordered, ready: ["a"], counts: ["a": 500_000], of: 500_000, limit: 200) == "type")
    #expect(Self.path(Self.plan([], [Self.byDate]), ready: [], counts: [:]) == "type")
    #expect(Self.path(Self.plan(), ready: all, counts: [:]) == "type")
    #expect(
      Self.path(Self.plan([Self.filter("a", .in, .list(element: .int64, []))]), ready: [], counts: [:])
        == "candidates a")
    let named = RecordQuery.Filter(
      key: .system(.recordName), comparator: .in,
      value: .list(element: .string, [.string("b"), .string("a"), .string("b")]))
    #expect(Self.path(Self.plan([named], [Self.byDate]), ready: all, counts: [:]) == #"names ["a", "b"]"#)
    let far = RecordQuery.Order(
      key: .field("place"), isAscending: true, relativeLocation: Location(latitude: 0, longitude: 0))
    #expect(
      Self.path(
        Self.plan([Self.filter("a", .equals, .int64(1))], [far]), ready: ["a", "place"], counts: ["a": 900_000])
        == "candidates a")
  }

  @Test(arguments: [
    (filter("a", .equals, .string("x")), FieldIndex.Kind.value, 1),
    (filter("a", .in, .list(element: .int64, [.int64(1), .int64(2), .int64(1)])), .value, 2),
    (filter("a", .lessThan, .int64(1)), .value, 1), (filter("a", .beginsWith, .string("x")), .value, 1),
    (filter("a", .listContains, .string("x")), .value, 2),
    (filter("a", .listContainsAny, .list(element: .int64, [.int64(1), .int64(2)])), .value, 3),
    (filter("a", .listMemberBeginsWith, .string("x")), .value, 2),
    (filter("a", .equals, .list(element: .int64, [.int64(1), .int64(2)])), .value, 2),
    (filter("a", .containsAnyTokens, .string("x y x")), .words, 3),
    (filter("a", .equals, .location(Location(latitude: 1, longitude: 1))), .place, 1),
  ])
  func `a filter that an index helps asks for its part of it`(
    filter: RecordQuery.Filter, kind: FieldIndex.Kind, rangeCount: Int
  ) throws {
    let access = try #require(Self.plan([filter]).accesses.first)
    #expect(access.index == Self.index("a", kind))
    #expect(access.ranges.count == rangeCount)
  }

  @Test func `several words or elements that must all be there are several ways in`() {
    #expect(Self.plan([Self.filter("a", .containsAllTokens, .string("x y"))]).accesses.count == 2)
    #expect(
      Self.plan([Self.filter("a", .listContainsAll, .list(element: .int64, [.int64(1), .int64(2), .int64(3)]))])
        .accesses.count == 3)
    #expect(
      Self.plan([Self.filter("a", .near, .location(Location(latitude: 1, longitude: 1)), distance: 10)]).accesses.first?
        .index.kind == .place)
  }

  @Test(arguments: RecordQuery.Comparator.allCases.filter { $0.rawValue.hasPrefix("NOT_") })
  func `a record that a filter excludes is found by no index`(
    _ comparator: RecordQuery.Comparator
  ) {
    #expect(Self.plan([Self.filter("a", comparator, .string("x"))]).accesses == [])
  }

  @Test func `filters on the field of the order bound the walk`() {
    let plan = Self.plan(
      [Self.filter("date", .greaterThan, .timestamp(5)), Self.filter("date", .lessThanOrEquals, .timestamp(9))],
      [Self.byDate])
    let range = plan.walk?.ranges.first
    #expect((0..<12).filter { range?.contains(IndexKey.order(.timestamp($0))) == true } == [5, 6, 7, 8, 9])
  }

  @Test func `wishes name single values first, then the order, then spans`() {
    let plan = Self.plan(
      [Self.filter("span", .greaterThan, .int64(1)), Self.filter("single", .equals, .int64(1))], [Self.byDate])
    #expect(plan.wishes == [Self.index("single"), Self.index("date"), Self.index("span")])
    #expect(Self.plan().wishes == [])
  }
}
