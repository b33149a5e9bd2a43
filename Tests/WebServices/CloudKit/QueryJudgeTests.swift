// Checks which records pass a query against a comparison pair by pair, and counts the cost.

import Indexing
import Records
import Testing

@testable import WebServices

extension RecordQuery {
  /// True when a record passes, at any cost.
  func matches(_ record: Record) throws -> Bool { try judged(record).passes }

  fileprivate func judged(_ record: Record, limit: Int = .max) throws -> (passes: Bool, cost: Int) {
    var look = RecordLook(record)
    var budget = CostBudget(limit: limit)
    let passes = try QueryJudge(self).passes(&look, spending: &budget)
    return (passes, budget.spent)
  }
}

@Suite struct `Judging queries` {
  private static func record(_ value: FieldValue) -> Record {
    Record(recordName: "r", recordType: "Note", fields: ["f": value], created: Wire.stamp, modified: Wire.stamp)
  }

  private static func query(_ filters: [(RecordQuery.Comparator, FieldValue)]) -> RecordQuery {
    RecordQuery(
      recordType: "Note", filters: filters.map { RecordQuery.Filter(key: .field("f"), comparator: $0.0, value: $0.1) })
  }

  // MARK: The same result as pair by pair

  private static func reference(_ name: String, _ zone: String?) -> FieldValue {
    .reference(Reference(recordName: name, action: .none, zoneID: zone.map { Zone.ID(zoneName: $0, ownerName: "_a") }))
  }

  /// Values of one kind that are easily confused.
  private static let kinds: [(FieldType, [FieldValue])] = [
    (.int64, [.int64(0), .int64(1), .int64(-1), .int64(.max)]),
    (.double, [.double(0), .double(-0.0), .double(.nan), .double(1), .double(.infinity)]),
    (.string, [.string(""), .string("\u{e9}"), .string("e\u{301}"), .string("a"), .string("ab"), .string("a\0")]),
    (
      .reference,
      [reference("a", nil), reference("a", "Z"), reference("a", "Y"), reference("b", nil), reference("b", "Z")]
    ),
    (
      .location,
      [
        .location(Location(latitude: 0, longitude: 1)), .location(Location(latitude: -0.0, longitude: 1, speed: 3)),
        .location(Location(latitude: 1, longitude: 0)),
      ]
    ),
    (.bytes, [.bytes([]), .bytes([0]), .bytes([0, 0])]),
    (.timestamp, [.timestamp(0), .timestamp(1)]),
  ]

  private static func means(_ operand: FieldValue, _ value: FieldValue) -> Bool {
    switch (value, operand) {
    case (.reference(let own), .reference(let other)):
      own.recordName == other.recordName && (other.zoneID == nil || own.zoneID == other.zoneID)
    case (.location(let own), .location(let other)): own.latitude == other.latitude && own.longitude == other.longitude
    case (.string(let own), .string(let other)): Array(own.utf8) == Array(other.utf8)
    default: value == operand
    }
  }

  @Test(arguments: [1, 5, 16, 17, 40]) func `long lists mean what short ones mean`(length: Int) throws {
    var seed: UInt64 = 7
    func number(_ limit: Int) -> Int {
      seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(seed >> 33) % limit
    }
    for (type, values) in Self.kinds {
      for _ in 0..<40 {
        let own = (0..<length).map { _ in values[number(values.count)] }
        let operands = (0..<[1, 3, 20][number(3)]).map { _ in values[number(values.count)] }
        let (list, operandList) = (FieldValue.list(element: type, own), FieldValue.list(element: type, operands))
        let found = operands.map { operand in own.contains { Self.means(operand, $0) } }
        let cases: [(RecordQuery.Comparator, FieldValue, FieldValue, Bool)] = [
          (.listContains, list, operands[0], found[0]), (.notListContains, list, operands[0], !found[0]),
          (.listContainsAny, list, operandList, found.contains(true)),
          (.notListContainsAny, list, operandList, !found.contains(true)),
          (.listContainsAll, list, operandList, !found.contains(false)),
          (.notListContainsAll, list, operandList, found.contains(false)),
          (.in, own[0], operandList, operands.contains { Self.means($0, own[0]) }),
          (.notIn, own[0], operandList, !operands.contains { Self.means($0, own[0]) }),
          (.equals, own[0], operands[0], Self.means(operands[0], own[0])),
        ]
        for (comparator, value, operand, passes) in cases {
          #expect(
            try Self.query([(comparator, operand)]).matches(Self.record(value)) == passes,
            "\(comparator) \(value) \(operand)")
        }
      }
    }
  }

  @Test func `members that begin with a text are found in long lists, too`() throws {
    let texts = (0..<100).map { "word\($0)" } + ["", "\u{e9}t\u{e9}", "z\0z", "zz"]
    let record = Self.record(.list(element: .string, texts.map(FieldValue.string)))
    for prefix in [
      "", "word", "word9", "word99", "word990", "worc", "wore", "e\u{301}", "\u{e9}", "z", "z\0", "z\u{1}", "zzz",
    ] {
      let passes = texts.contains { Array($0.utf8).starts(with: Array(prefix.utf8)) }
      #expect(try Self.query([(.listMemberBeginsWith, .string(prefix))]).matches(record) == passes, "\(prefix)")
      #expect(try Self.query([(.notListMemberBeginsWith, .string(prefix))]).matches(record) == !passes, "\(prefix)")
    }
  }

  // MARK: Costs

  /// A hundred filters with the most operands, none of which decides before the last filter.
  private static func worst(_ comparator: RecordQuery.Comparator, _ operand: (Int, Int) -> FieldValue) -> RecordQuery {
    query(
      (0..<100).map { filter in (comparator, .list(element: operand(0, 0).type, (0..<500).map { operand(filter, $0) }))
      })
  }

  @Test func `a hundred filters of 500 operands cost what the list and the operands are long, not their product`()
    throws
  {
    let query = Self.worst(.notListContainsAny) { .int64(-Int64($0 * 1000 + $1) - 1) }
    func cost(_ count: Int) throws -> Int {
      let (passes, cost) = try query.judged(Self.record(.list(element: .int64, (0..<count).map { .int64(Int64($0)) })))
      #expect(passes)
      return cost
    }
    let costs = try [25_000, 50_000, 100_000].map(cost)
    // 100 000 × 50 000 pairs would be five billion.
    #expect(costs[2] <= 4 * (100_000 + 50_000), "\(costs)")
    #expect(costs[2] - costs[1] == 2 * (costs[1] - costs[0]), "twice as many elements cost twice as much: \(costs)")
  }

  @Test(arguments: [100, 1000, 10_000]) func `texts cost by their bytes, too`(length: Int) throws {
    let text = String(repeating: "x", count: length)
    let record = Self.record(.list(element: .string, (0..<500_000 / length).map { .string(text + String($0)) }))
    let query = Self.worst(.notListContainsAny) { .string("\($0)/\($1)") }
    #expect(try query.judged(record).cost <= 4 * 50_000 + 4 * 500_000 / min(length, CostBudget.bytesPerStep))
    // A text of 800 kB among operands is hashed for each filter, and not compared with each operand.
    let among = Self.worst(.notIn) { .string("\($0)/\($1)") }
    #expect(
      try among.judged(Self.record(.string(String(repeating: "y", count: 800_000)))).cost <= 100
        * (800_000 / CostBudget.bytesPerStep + 10))
  }

  @Test func `a hundred filters for beginnings sort the list once`() throws {
    let record = Self.record(.list(element: .string, (0..<100_000).map { .string("\($0)") }))
    let query = Self.query((0..<100).map { (.notListMemberBeginsWith, .string("x\($0)")) })
    let (passes, cost) = try query.judged(record)
    #expect(passes && cost <= 20 * 100_000, "\(cost)")
  }

  @Test func `a hundred filters for words cut the text into words once`() throws {
    let record = Self.record(.string(String(repeating: "word ", count: 160_000)))
    let query = Self.query((0..<100).map { _ in (.containsAllTokens, .string("word")) })
    let (passes, cost) = try query.judged(record)
    #expect(passes && cost <= 800_000 + 1000, "\(cost)")
  }

  @Test func `many queries about one record look at its list once`() throws {
    let record = Self.record(.list(element: .int64, (0..<100_000).map { .int64(Int64($0)) }))
    var (look, budget) = (RecordLook(record), CostBudget(limit: .max))
    for number in 0..<500 {
      let judge = QueryJudge(
        Self.query([(.notListContainsAny, .list(element: .int64, (1...100).map { .int64(-Int64(number * 100 + $0)) }))])
      )
      #expect(try judge.passes(&look, spending: &budget))
    }
    #expect(budget.spent <= 4 * 100_000 + 4 * 500 * 100, "\(budget.spent)")
  }

  @Test func `a step that is not paid for is not begun`() throws {
    let record = Self.record(.list(element: .int64, (0..<100_000).map { .int64(Int64($0)) }))
    let query = Self.query([(.notListContainsAny, .list(element: .int64, [.int64(-1)]))])
    let cost = try query.judged(record).cost
    #expect(try query.judged(record, limit: cost).passes)
    #expect(throws: CostBudget.Exceeded.self) { try query.judged(record, limit: cost - 1) }
  }
}
