// Seeded random transactions with every kind of value.

import Records

import History

struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &self) }
  mutating func flip() -> Bool { Bool.random(using: &self) }

  mutating func text() -> String {
    let scalars: [Unicode.Scalar] = ["a", "b", "Z", "0", " ", "é", "😀", "\u{0}"]
    var text = ""
    for _ in 0..<below(40) { text.unicodeScalars.append(scalars[below(scalars.count)]) }
    return text
  }

  mutating func number() -> Int64 { flip() ? Int64(below(200) - 100) : Int64.random(in: .min ... .max, using: &self) }
}

extension AttributeValue {
  static func random(depth: Int, _ generator: inout SplitMix) -> AttributeValue {
    switch generator.below(depth > 0 ? 13 : 11) {
    case 0: .null
    case 1: .integer(generator.number())
    case 2: .double(Double.random(in: -1e9...1e9, using: &generator))
    case 3: .decimal(generator.text())
    case 4: .string(generator.text())
    case 5: .boolean(generator.flip())
    case 6: .date(generator.number())
    case 7: .uuid(generator.text())
    case 8: .uri(generator.text())
    case 9: .binary((0..<generator.below(300)).map { UInt8(truncatingIfNeeded: $0) })
    case 10: .asset(Asset(hash: (0..<generator.below(33)).map { UInt8($0) }, byteCount: generator.number()))
    default:
      .composite(
        (0..<generator.below(4)).map { _ in
          CompositeElement(name: generator.text(), value: random(depth: depth - 1, &generator))
        })
    }
  }
}

extension HistoryTransaction {
  static func random(_ generator: inout SplitMix) -> HistoryTransaction {
    func texts() -> [String] { (0..<generator.below(4)).map { _ in generator.text() } }
    func optional() -> String? { generator.flip() ? generator.text() : nil }
    func attributes() -> [NamedValue<AttributeValue>] {
      (0..<generator.below(6)).map { _ in NamedValue(name: generator.text(), value: .random(depth: 3, &generator)) }
    }
    func relationship() -> RelationshipValue {
      switch generator.below(3) {
      case 0: .toOne(optional())
      case 1: .toMany(texts())
      default: .toManyDelta(add: texts(), remove: texts())
      }
    }
    let changes = (0..<generator.below(6)).map { _ in
      HistoryChange(
        changeType: [.insert, .update, .delete][generator.below(3)], entity: generator.text(),
        objectID: generator.text(), attributes: attributes(),
        relationships: (0..<generator.below(4)).map { _ in NamedValue(name: generator.text(), value: relationship()) },
        tombstone: attributes())
    }
    return HistoryTransaction(
      transactionID: generator.text(), timestamp: generator.number(), author: optional(), contextName: optional(),
      bundleID: optional(), processID: optional(),
      changes: changes)
  }
}
