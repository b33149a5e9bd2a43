// Answers queries by a scan with rules of its own, as a reference for the record plane.

import Foundation

/// A field's value, as tests write it.
enum NaiveValue: Equatable {
  case int(Int64), double(Double), text(String), name(String), texts([String]), ints([Int64]), place(Double, Double)

  var json: String {
    func quoted(_ text: String) -> String { "\"\(text)\"" }
    return switch self {
    case .int(let number): "\(number)"
    case .double(let number): "\(number)"
    case .text(let text): quoted(text)
    case .name(let name): #"{"recordName":\#(quoted(name)),"action":"NONE"}"#
    case .texts(let texts): "[" + texts.map(quoted).joined(separator: ",") + "]"
    case .ints(let numbers): "[" + numbers.map { "\($0)" }.joined(separator: ",") + "]"
    case .place(let latitude, let longitude): #"{"latitude":\#(latitude),"longitude":\#(longitude)}"#
    }
  }

  /// < 0, 0 or > 0 for two of a kind that can be sorted.
  static func compare(_ a: NaiveValue, _ b: NaiveValue) -> Int {
    switch (a, b) {
    case (.int(let a), .int(let b)): a < b ? -1 : a > b ? 1 : 0
    case (.double(let a), .double(let b)): a < b ? -1 : a > b ? 1 : 0
    case (.text(let a), .text(let b)), (.name(let a), .name(let b)):
      Array(a.utf8) == Array(b.utf8) ? 0 : Array(a.utf8).lexicographicallyPrecedes(Array(b.utf8)) ? -1 : 1
    default: 0
    }
  }

  /// Metres, by the angle between two vectors.
  static func distance(_ a: (Double, Double), _ b: (Double, Double)) -> Double {
    func vector(_ place: (Double, Double)) -> [Double] {
      let (latitude, longitude) = (place.0 * .pi / 180, place.1 * .pi / 180)
      return [cos(latitude) * cos(longitude), cos(latitude) * sin(longitude), sin(latitude)]
    }
    let (u, v) = (vector(a), vector(b))
    let cross = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
    return 6_371_008.8 * atan2(cross.reduce(0) { $0 + $1 * $1 }.squareRoot(), u[0] * v[0] + u[1] * v[1] + u[2] * v[2])
  }
}

struct NaiveNote: Equatable {
  let zone: String
  let name: String
  let type: String
  var fields: [String: NaiveValue]

  var id: String { zone + "/" + name }
}

/// A filter as JSON, and what it means.
struct NaiveFilter {
  let json: String
  let passes: (NaiveNote) -> Bool
}

struct NaiveOrder {
  let json: String
  let isAscending: Bool
  /// The compared value; nil if the record lacks it.
  let value: (NaiveNote) -> NaiveValue?
  /// True if records without a value come first.
  var missingFirst = true
}

struct NaiveQuery {
  let type: String
  let filters: [NaiveFilter]
  let orders: [NaiveOrder]

  var json: String {
    #"""
    {"recordType":"\#(type)","filterBy":[\#(filters.map(\.json).joined(separator: ","))],\#
    "sortBy":[\#(orders.map(\.json).joined(separator: ","))]}
    """#
  }

  func passes(_ note: NaiveNote) -> Bool { note.type == type && filters.allSatisfy { $0.passes(note) } }

  func precedes(_ a: NaiveNote, _ b: NaiveNote) -> Bool {
    for order in orders {
      let comparison =
        switch (order.value(a), order.value(b)) {
        case (nil, nil): 0
        case (nil, _): order.missingFirst ? -1 : 1
        case (_, nil): order.missingFirst ? 1 : -1
        case (let a?, let b?): NaiveValue.compare(a, b)
        }
      if comparison != 0 { return (comparison < 0) == order.isAscending }
    }
    let (a, b) = orders.first?.isAscending ?? true ? (a, b) : (b, a)
    if a.zone != b.zone { return a.zone < b.zone }
    // Names that are UUIDs come after the others.
    let (isUUIDA, isUUIDB) = (
      UUID(uuidString: a.name)?.uuidString == a.name, UUID(uuidString: b.name)?.uuidString == b.name
    )
    return isUUIDA == isUUIDB ? Array(a.name.utf8).lexicographicallyPrecedes(Array(b.name.utf8)) : isUUIDB
  }
}

/// Draws notes, filters and orders.
struct NaiveGenerator {
  var random: SeededRandom

  static let words = ["red", "Blue", "green", "été", "über", "東京", "x1", "apple", "Apple"]
  static let names = (0..<220).map { number in
    number % 2 == 0 ? "r\(number)" : "6F0C2E61-4B7D-4C5E-8E1B-\(String(repeating: "0", count: 9))\(100 + number)"
  }
  static let zones = ["Alps", "Trips"]
  /// Longer than what indexes keep of a text.
  static let long = String(repeating: "long ", count: 60)

  mutating func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
  mutating func word() -> String { Self.words[number(Self.words.count)] }

  mutating func text() -> String {
    (number(10) == 0 ? Self.long : "")
      + (0..<number(4)).map { _ in word() }.joined(separator: [" ", ", ", "-"][number(3)])
  }

  mutating func place() -> NaiveValue {
    switch number(4) {
    case 0: .place(Double(number(1800)) / 10 - 90, Double(number(3600)) / 10 - 180)
    case 1: .place(Double(number(200)) / 100 + 88, Double(number(3600)) / 10 - 180)
    case 2:
      .place(
        Double(number(200)) / 1000,
        number(2) == 0 ? 180 - Double(number(100)) / 1000 : -180 + Double(number(100)) / 1000)
    default: .place(52 + Double(number(1000)) / 1000, 13 + Double(number(1000)) / 1000)
    }
  }

  mutating func value(of field: String) -> NaiveValue {
    switch field {
    case "n", "t": .int(Int64(number(12)) - 4)
    case "d": .double(Double(number(40)) / 4 - 5)
    case "s": .text(text())
    case "r": .name("target\(number(5))")
    case "l": .texts((0..<number(4)).map { _ in word() })
    case "i": .ints((0..<number(4)).map { _ in Int64(number(6)) })
    default: place()
    }
  }

  static let fields = ["n", "t", "d", "s", "r", "l", "i", "p"]

  mutating func note() -> NaiveNote {
    var fields: [String: NaiveValue] = [:]
    for field in Self.fields where number(8) > 0 { fields[field] = value(of: field) }
    let name = number(Self.names.count)
    // A record keeps its type.
    return NaiveNote(
      zone: Self.zones[number(2)], name: Self.names[name], type: name % 5 == 0 ? "Task" : "Note", fields: fields)
  }

  // MARK: Queries

  mutating func query() -> NaiveQuery {
    NaiveQuery(
      type: number(6) == 0 ? "Task" : "Note", filters: (0..<number(3)).map { _ in filter() },
      orders: (0..<number(3)).map { _ in order() })
  }

  mutating func order() -> NaiveOrder {
    let isAscending = number(2) == 0
    if number(5) == 0, case .place(let latitude, let longitude) = place() {
      return NaiveOrder(
        json:
          #"""
          {"fieldName":"p","ascending":\#(isAscending),"relativeLocation":{"value":{"latitude":\#(latitude),\#
          "longitude":\#(longitude)}}}
          """#,
        isAscending: isAscending,
        value: { note in
          guard case .place(let a, let b)? = note.fields["p"] else { return nil }
          // Rounded, as two formulas differ in the last digits.
          return .double((NaiveValue.distance((a, b), (latitude, longitude)) * 1000).rounded())
        }, missingFirst: false)
    }
    let field = ["n", "t", "d", "s", "r"][number(5)]
    return NaiveOrder(
      json: #"{"fieldName":"\#(field)","ascending":\#(isAscending)}"#, isAscending: isAscending,
      value: { note in
        // The comparison uses the part of a text that indexes keep.
        if case .text(let text)? = note.fields[field] {
          return .text(String(decoding: text.utf8.prefix(256), as: UTF8.self))
        }
        return note.fields[field]
      })
  }

  private static func json(_ field: String, _ comparator: String, _ value: String, _ more: String = "") -> String {
    #"{"fieldName":"\#(field)","comparator":"\#(comparator)","fieldValue":{"value":\#(value)}\#(more)}"#
  }

  mutating func filter() -> NaiveFilter {
    switch number(10) {
    case 0, 1: comparison()
    case 2: equality()
    case 3, 4: list()
    case 5: prefix()
    case 6, 7: tokens()
    case 8: near()
    default: membership()
    }
  }

  private mutating func comparison() -> NaiveFilter {
    let field = ["n", "t", "d", "s"][number(4)]
    let operand = value(of: field)
    let (comparator, holds): (String, (Int) -> Bool) =
      [
        ("LESS_THAN", { $0 < 0 }), ("LESS_THAN_OR_EQUALS", { $0 <= 0 }), ("GREATER_THAN", { $0 > 0 }),
        ("GREATER_THAN_OR_EQUALS", { $0 >= 0 }),
      ][number(4)]
    return NaiveFilter(json: Self.json(field, comparator, operand.json)) { note in
      note.fields[field].map { holds(NaiveValue.compare($0, operand)) } ?? false
    }
  }

  private mutating func equality() -> NaiveFilter {
    let field = Self.fields[number(8)]
    let (operand, isNegated) = (value(of: field), number(3) == 0)
    if case .texts(let texts) = operand, texts.isEmpty { return equality() }
    if case .ints(let numbers) = operand, numbers.isEmpty { return equality() }
    return NaiveFilter(json: Self.json(field, isNegated ? "NOT_EQUALS" : "EQUALS", operand.json)) {
      ($0.fields[field] == operand) != isNegated
    }
  }

  private mutating func membership() -> NaiveFilter {
    let field = ["n", "d", "s", "r"][number(4)]
    let operands = (0..<1 + number(3)).map { _ in value(of: field) }
    let isNegated = number(3) == 0
    return NaiveFilter(
      json: Self.json(field, isNegated ? "NOT_IN" : "IN", "[" + operands.map(\.json).joined(separator: ",") + "]")
    ) { note in
      (note.fields[field].map(operands.contains) ?? false) != isNegated
    }
  }

  private mutating func list() -> NaiveFilter {
    let isText = number(2) == 0
    let field = isText ? "l" : "i"
    let operands = (0..<1 + number(2)).map { _ in isText ? NaiveValue.text(word()) : .int(Int64(number(6))) }
    let isNegated = number(3) == 0
    func elements(_ note: NaiveNote) -> [NaiveValue] {
      switch note.fields[field] {
      case .texts(let texts)?: texts.map { .text($0) }
      case .ints(let numbers)?: numbers.map { .int($0) }
      default: []
      }
    }
    let all = "[" + operands.map(\.json).joined(separator: ",") + "]"
    let negation = isNegated ? "NOT_" : ""
    switch number(3) {
    case 0:
      return NaiveFilter(json: Self.json(field, negation + "LIST_CONTAINS", operands[0].json)) {
        elements($0).contains(operands[0]) != isNegated
      }
    case 1:
      return NaiveFilter(json: Self.json(field, negation + "LIST_CONTAINS_ANY", all)) { note in
        operands.contains(where: elements(note).contains) != isNegated
      }
    default:
      return NaiveFilter(json: Self.json(field, negation + "LIST_CONTAINS_ALL", all)) { note in
        operands.allSatisfy(elements(note).contains) != isNegated
      }
    }
  }

  private mutating func prefix() -> NaiveFilter {
    let prefix = number(4) == 0 ? Self.long : String(word().prefix(1 + number(3)))
    let negation = number(4) == 0 ? "NOT_" : ""
    let begins: (String) -> Bool = { $0.hasPrefix(prefix) }
    if number(2) == 0 {
      return NaiveFilter(json: Self.json("s", negation + "BEGINS_WITH", "\"\(prefix)\"")) { note in
        if case .text(let text)? = note.fields["s"] { begins(text) == negation.isEmpty } else { !negation.isEmpty }
      }
    }
    return NaiveFilter(json: Self.json("l", negation + "LIST_MEMBER_BEGINS_WITH", "\"\(prefix)\"")) { note in
      if case .texts(let texts)? = note.fields["l"] {
        texts.contains(where: begins) == negation.isEmpty
      } else {
        !negation.isEmpty
      }
    }
  }

  private mutating func tokens() -> NaiveFilter {
    // A sign of 東京 is a word of its own.
    func words(_ text: String) -> Set<String> {
      Set(text.lowercased().replacing("東京", with: "東 京").split { !$0.isLetter && !$0.isNumber }.map(String.init))
    }
    let sought = [word(), word()].prefix(1 + number(2)).joined(separator: " ").uppercased()
    let isAny = number(2) == 0
    let comparator = isAny ? ["CONTAINS_ANY_TOKENS", "CONTAINS_ANY"][number(2)] : "CONTAINS_ALL_TOKENS"
    return NaiveFilter(json: Self.json("s", comparator, "\"\(sought)\"")) { note in
      guard case .text(let text)? = note.fields["s"] else { return false }
      return isAny ? !words(sought).isDisjoint(with: words(text)) : words(sought).isSubset(of: words(text))
    }
  }

  private mutating func near() -> NaiveFilter {
    guard case .place(let latitude, let longitude) = place() else { return near() }
    let distance = [1.0, 20_000, 300_000, 3_000_000, 15_000_000][number(5)] + 0.123
    return NaiveFilter(
      json: Self.json(
        "p", "NEAR", #"{"latitude":\#(latitude),"longitude":\#(longitude)}"#, #","distance":\#(distance)"#)
    ) { note in
      guard case .place(let a, let b)? = note.fields["p"] else { return false }
      return NaiveValue.distance((a, b), (latitude, longitude)) <= distance
    }
  }
}
