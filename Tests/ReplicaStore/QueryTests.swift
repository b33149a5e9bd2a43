// Requests: random conditions, sorts and limits, compared with filters over arrays.

import Foundation
import Testing

@testable import ReplicaStore

/// Objects as dictionaries, and what a condition says of one.
private struct Judge {
  let objects: [String: (entity: String, values: [String: Literal])]
  let tags: [String: Set<String>]
  let photos: [String: Set<String>]

  func value(_ name: String?, _ path: Path) -> Literal {
    var name = name
    for relationship in path.relationships { name = target(name, relationship) }
    guard let name else { return .null }
    if path == .id { return .object(name) }
    return objects[name]?.values[path.property] ?? .null
  }

  private func target(_ name: String?, _ relationship: String) -> String? {
    guard let name, case .object(let target)? = objects[name]?.values[relationship] else { return nil }
    return target
  }

  private func members(_ name: String, _ path: Path) -> [String] {
    var owner: String? = name
    for relationship in path.relationships { owner = target(owner, relationship) }
    guard let owner else { return [] }
    switch path.property {
    case "tags": return Array(tags[owner] ?? [])
    default:
      return objects.filter { $0.value.values["album"] == .object(owner) }.map(\.key) + Array(photos[owner] ?? [])
    }
  }

  func meets(_ name: String, _ condition: Condition) -> Bool {
    switch condition {
    case .always: true
    case .and(let one, let other): meets(name, one) && meets(name, other)
    case .or(let one, let other): meets(name, one) || meets(name, other)
    case .not(let condition): !meets(name, condition)
    case .any(let path, let condition): members(name, path).contains { meets($0, condition) }
    case .count(let path, let condition, let comparison, let count):
      Self.compare(
        .integer(Int64(members(name, path).filter { meets($0, condition) }.count)), comparison, .integer(Int64(count)))
    case .isIn(let path, let literals): literals.contains { Self.compare(value(name, path), .equal, $0) }
    case .compare(let path, let comparison, let literal): Self.compare(value(name, path), comparison, literal)
    }
  }

  static func compare(_ one: Literal, _ comparison: Condition.Comparison, _ other: Literal) -> Bool {
    switch comparison {
    case .equal: return one == other || number(one).flatMap { one in number(other).map { $0 == one } } ?? false
    case .notEqual: return !compare(one, .equal, other)
    case .less: return precedes(one, other)
    case .greater: return precedes(other, one)
    case .lessOrEqual: return one != .null && other != .null && !precedes(other, one)
    case .greaterOrEqual: return one != .null && other != .null && !precedes(one, other)
    case .contains, .hasPrefix, .hasSuffix, .equalFolded:
      guard case .text(let text) = one, case .text(let needle) = other else { return false }
      let options: String.CompareOptions = [.caseInsensitive, .diacriticInsensitive]
      switch comparison {
      case .contains: return needle.isEmpty || text.range(of: needle, options: options) != nil
      case .hasPrefix: return needle.isEmpty || text.range(of: needle, options: options.union(.anchored)) != nil
      case .hasSuffix:
        return needle.isEmpty || text.range(of: needle, options: options.union([.anchored, .backwards])) != nil
      default: return text.compare(needle, options: options) == .orderedSame
      }
    }
  }

  private static func number(_ literal: Literal) -> Double? {
    switch literal {
    case .integer(let number): Double(number)
    case .real(let number): number
    default: nil
    }
  }

  /// False if one of them is nothing.
  static func precedes(_ one: Literal, _ other: Literal) -> Bool {
    if let one = number(one), let other = number(other) { return one < other }
    if case .text(let one) = one, case .text(let other) = other {
      return one.utf8.lexicographicallyPrecedes(other.utf8)
    }
    return false
  }
}

/// Random conditions over photos.
private struct ConditionSource {
  var random: SeededGenerator
  private static let texts = ["", "a", "É", "Dune", "dúne", "sea", "SEA", "ne", "zoë"]

  init(_ seed: Int) { random = SeededGenerator(seed) }

  mutating func number(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }
  mutating func text() -> String { Self.texts[number(Self.texts.count)] }

  mutating func condition(_ entity: String, _ depth: Int) -> Condition {
    if depth > 0 {
      switch number(7) {
      case 0: return .and(condition(entity, depth - 1), condition(entity, depth - 1))
      case 1: return .or(condition(entity, depth - 1), condition(entity, depth - 1))
      case 2: return .not(condition(entity, depth - 1))
      case 3 where entity == "Photo": return .any(Path("tags"), condition("Tag", depth - 1))
      case 4 where entity != "Photo": return .any(Path("photos"), condition("Photo", depth - 1))
      case 5 where entity == "Photo": return .count(Path("tags"), condition("Tag", depth - 1), comparison(), number(3))
      case 6 where entity == "Photo": return .any(Path("photos", over: ["album"]), condition("Photo", depth - 1))
      default: break
      }
    }
    guard entity == "Photo" else { return textCondition(Path("name")) }
    switch number(8) {
    case 0: return .compare(Path("size"), comparison(), number(6) == 0 ? .null : .integer(Int64(number(4))))
    case 1: return .compare(Path("score"), comparison(), .real(Double(number(4)) / 2))
    case 2:
      return .isIn(Path("size"), [.integer(Int64(number(4))), number(2) == 0 ? .null : .integer(Int64(number(4)))])
    case 3:
      return .compare(
        Path("album"), number(2) == 0 ? .equal : .notEqual, number(3) == 0 ? .null : .object("A\(number(4))"))
    case 4: return .compare(Path("tagCount"), comparison(), .integer(Int64(number(3))))
    case 5: return textCondition(Path("name", over: ["album"]))
    case 6: return .compare(.id, .equal, .object("P\(number(30))"))
    default: return textCondition(Path("title"))
    }
  }

  private mutating func comparison() -> Condition.Comparison {
    [.equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual][number(6)]
  }

  private mutating func textCondition(_ path: Path) -> Condition {
    let searches: [Condition.Comparison] = [.contains, .hasPrefix, .hasSuffix, .equalFolded]
    if number(2) == 0 { return .compare(path, searches[number(4)], .text(text())) }
    return .compare(path, comparison(), .text(text()))
  }
}

@Test func `random requests find what filters over arrays find`() async throws {
  let store = try await TestStore.make()
  var source = ConditionSource(7)
  var objects: [String: (entity: String, values: [String: Literal])] = [:]
  var tags: [String: Set<String>] = [:]
  var photos: [String: Set<String>] = [:]
  for number in 0..<3 { objects["A\(number)"] = ("Album", ["name": .text("album \(source.text())")]) }
  for number in 0..<5 { objects["T\(number)"] = ("Tag", ["name": .text(source.text())]) }
  for number in 0..<25 {
    var values: [String: Literal] = [:]
    if source.number(5) > 0 { values["title"] = .text(source.text() + source.text()) }
    if source.number(5) > 0 { values["size"] = .integer(Int64(source.number(4))) }
    if source.number(5) > 0 { values["score"] = .real(Double(source.number(4)) / 2) }
    if source.number(3) > 0 { values["album"] = .object("A\(source.number(3))") }
    for tag in 0..<5 where source.number(3) == 0 {
      tags["P\(number)", default: []].insert("T\(tag)")
      photos["T\(tag)", default: []].insert("P\(number)")
    }
    objects["P\(number)"] = ("Photo", values)
  }
  let (made, linked) = (objects, tags)
  try await store.save { save in
    for (name, object) in made { try save.insert(object.entity, name, object.values) }
    for (photo, tags) in linked { for tag in tags { try save.link("Photo", photo, "tags", tag) } }
  }
  for name in objects.keys where objects[name]?.entity == "Photo" {
    objects[name]?.values["tagCount"] = .integer(Int64(tags[name]?.count ?? 0))
  }
  let judge = Judge(objects: objects, tags: tags, photos: photos)
  var found = 0
  for _ in 0..<1500 {
    var query = Query("Photo")
    query.condition = source.condition("Photo", 3)
    let expected = objects.filter { $0.value.entity == "Photo" && judge.meets($0.key, query.condition) }.map(\.key)
      .sorted()
    try #require(try await store.names(query).sorted() == expected, "\(query.condition)")
    let count = query
    #expect(try await store.replica.read { try $0.count(count) } == expected.count)
    found += expected.count
    // Sorted by two properties, a part of the results: neighbours are in order, and the part is that of the whole.
    query.order = [
      Order(Path("size"), isAscending: source.number(2) == 0),
      Order(Path("name", over: ["album"]), isAscending: source.number(2) == 0),
    ]
    let whole = try await store.names(query)
    #expect(whole.sorted() == expected)
    for (one, next) in zip(whole, whole.dropFirst()) { #expect(inOrder(one, next, query.order, judge)) }
    (query.offset, query.limit) = (source.number(4), source.number(6))
    #expect(try await store.names(query) == Array(whole.dropFirst(query.offset).prefix(query.limit ?? 0)))
  }
  #expect(found > 5000)
}

private func inOrder(_ one: String, _ next: String, _ order: [Order], _ judge: Judge) -> Bool {
  for order in order {
    let (a, b) = (judge.value(one, order.path), judge.value(next, order.path))
    if a == b { continue }
    let isAscending = a == .null || (b != .null && Judge.precedes(a, b))
    return isAscending == order.isAscending
  }
  return true
}

@Test(arguments: ["COMMIT", "ROLLBACK", "BEGIN", "SAVEPOINT s", "DELETE FROM e_Tag", "ATTACH ':memory:' AS m"])
func `a statement that does more than read is refused, in a save too, which ends as if it had not been`(sql: String)
  async throws
{
  let store = try await TestStore.make()
  let refusal = StoreError.invalid("the statement writes")
  await #expect(throws: refusal) { try await store.replica.read { _ = try $0.rows(sql, []) } }
  await #expect(throws: refusal) {
    try await store.save { save in
      try save.insert("Tag", "T1")
      _ = try save.snapshot.rows(sql, [])
    }
  }
  #expect(try await store.names(Query("Tag")).isEmpty)
  try await store.save { try $0.insert("Tag", "T2") }
  let count = try await store.replica.read { try $0.rows("SELECT count(*) FROM e_Tag", []) }
  #expect(count == [[.integer(1)]])
}

@Test func `a request for what the model does not have is refused and names it`() async throws {
  let store = try await TestStore.make()
  for condition: Condition in [
    .compare(Path("nothing"), .equal, .null), .any(Path("album"), .always),
    .compare(Path("name", over: ["tags"]), .equal, .null),
    .compare(Path("title"), .contains, .integer(1)),
  ] {
    var query = Query("Photo")
    query.condition = condition
    let wrong = query
    await #expect(throws: StoreError.self) { try await store.names(wrong) }
  }
}
