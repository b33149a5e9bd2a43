// Codable values: round trips, differences between releases, and damaged bytes.

import Testing

import MessagePack

private struct Everything: Codable, Hashable {
  enum Colour: String, Codable { case red, green }
  enum Event: Codable, Hashable {
    case idle
    case moved(from: Int, to: [String])
    case renamed(String)
  }
  struct Inner: Codable, Hashable {
    var name = "inner"
    var payload: [UInt8] = [0, 255]
    var next: [Inner] = []
  }
  struct Empty: Codable, Hashable {}

  var small: Int8 = -128
  var unsigned: UInt64 = .max
  var integer = Int.min
  var double = -0.5
  var float: Float = 0.25
  var flag = true
  var text = "café \u{0} 😀"
  var bytes: [UInt8] = Array(0...255)
  var noBytes: [UInt8] = []
  var chunks: [[UInt8]] = [[1], [], [2, 3]]
  var optionalBytes: [UInt8]? = [9]
  var colour = Colour.green
  var colours: [Colour] = [.red, .green]
  var events: [Event] = [.idle, .moved(from: 1, to: ["a", "b"]), .renamed("x")]
  var inner = Inner(next: [Inner(), Inner(name: "deep", next: [Inner()])])
  var absent: Inner?
  var table: [String: [Int]] = ["a": [1, 2], "": [], "é": [3]]
  var numbered: [Int: String] = [1: "one"]
  var empty = Empty()
  var sparse: [Int?] = [1, nil, 3]
  var set: Set<String> = ["one", "two"]
}

/// A class whose subclass asks for a container of its own.
private class Base: Codable {
  var base = 1
  init() {}
}

private final class Derived: Base {
  var derived = 2
  private enum Key: CodingKey { case derived }

  override init() { super.init() }

  required init(from decoder: any Decoder) throws {
    derived = try decoder.container(keyedBy: Key.self).decode(Int.self, forKey: .derived)
    try super.init(from: decoder)
  }

  override func encode(to encoder: any Encoder) throws {
    try super.encode(to: encoder)
    var container = encoder.container(keyedBy: Key.self)
    try container.encode(derived, forKey: .derived)
  }
}

struct CodableTests {
  @Test func `a value with every kind of member comes back equal`() throws {
    let value = Everything()
    #expect(try MessagePackDecoder().decode(Everything.self, from: MessagePackEncoder().encode(value)) == value)
    var other = Everything()
    other.absent = Everything.Inner(name: "present")
    other.optionalBytes = nil
    #expect(try MessagePackDecoder().decode(Everything.self, from: MessagePackEncoder().encode(other)) == other)
  }

  @Test func `top-level scalars and arrays come back`() throws {
    #expect(try MessagePackDecoder().decode(Int.self, from: MessagePackEncoder().encode(5)) == 5)
    #expect(try MessagePackDecoder().decode([String].self, from: MessagePackEncoder().encode(["a"])) == ["a"])
    #expect(
      try MessagePackDecoder().decode([UInt8].self, from: MessagePackEncoder().encode([1, 2] as [UInt8])) == [1, 2])
    #expect(try MessagePackDecoder().decode([Int]?.self, from: MessagePackEncoder().encode([Int]?.none)) == nil)
  }

  @Test func `bytes are one value of their length`() throws {
    let encoded = try MessagePackEncoder().encode(["b": [UInt8](repeating: 7, count: 1000)])
    #expect(encoded.count < 1020)
    #expect(try MessagePackValue(parsing: encoded)["b"]?.kind == .bytes)
  }

  @Test func `a class and its superclass share one map`() throws {
    let encoded = try MessagePackEncoder().encode(Derived())
    #expect(try MessagePackValue(parsing: encoded).count == 2)
    let decoded = try MessagePackDecoder().decode(Derived.self, from: encoded)
    #expect(decoded.base == 1 && decoded.derived == 2)
  }

  @Test func `a newer release's extra keys are ignored and an older one's absent optionals are nil`() throws {
    struct Newer: Codable {
      var added: [String: [Int]] = ["x": [1]]
      var name = "n"
      var list = [1, 2]
    }
    struct Older: Codable, Equatable {
      var name: String
      var gone: Int?
    }
    #expect(
      try MessagePackDecoder().decode(Older.self, from: MessagePackEncoder().encode(Newer()))
        == Older(name: "n", gone: nil))
  }

  @Test func `an error names the place and what was expected there`() throws {
    struct Outer: Codable {
      struct Item: Codable {
        enum Kind: String, Codable { case a }
        var count: Int8
        var kind: Kind
      }
      var items: [Item]
    }
    struct Loose: Encodable {
      struct Item: Encodable {
        var count: Int?
        var kind: String?
      }
      var items: [Item]?
    }
    func reason(_ loose: Loose) throws -> String {
      let encoded = try MessagePackEncoder().encode(loose)
      return
        (#expect(throws: MessagePackError.self) { _ = try MessagePackDecoder().decode(Outer.self, from: encoded) })?
        .reason ?? ""
    }
    #expect(try reason(Loose()) == "items: is missing")
    #expect(
      try reason(Loose(items: [.init(count: 1, kind: "a"), .init(count: 300, kind: "a")]))
        == "items[1].count: expected an integer within Int8, found integer")
    #expect(try reason(Loose(items: [.init(kind: "a")])) == "items[0].count: is missing")
    #expect(try reason(Loose(items: [.init(count: 1, kind: "b")])).hasPrefix("items[0].kind: "))
    let wrong = #expect(throws: MessagePackError.self) {
      _ = try MessagePackDecoder().decode(Outer.self, from: [0xa1, 0x61])
    }
    #expect(wrong?.reason == "the value: expected a map, found string")
  }

  @Test func `decoding of spoiled bytes ends in a value or a typed error`() throws {
    let good = try MessagePackEncoder().encode(Everything())
    #expect(throws: Never.self) { _ = try MessagePackDecoder().decode(Everything.self, from: good) }
    var generator = SplitMix(state: 3)
    var refusedCount = 0
    for _ in 0..<20_000 {
      var bytes = good
      for _ in 0..<Int.random(in: 1...4, using: &generator) {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
        case 1: bytes.insert(UInt8.random(in: 0x80...255, using: &generator), at: place)
        case 2: bytes.remove(at: place)
        default: bytes.removeSubrange(place...)
        }
        if bytes.isEmpty { break }
      }
      do throws(MessagePackError) {
        _ = try MessagePackDecoder().decode(Everything.self, from: bytes)
      } catch {
        refusedCount += 1
      }
    }
    #expect(refusedCount > 10_000)
  }

  @Test func `random bytes never crash the reader`() {
    var generator = SplitMix(state: 4)
    for _ in 0..<50_000 {
      let bytes = (0..<Int.random(in: 0...24, using: &generator)).map { _ in
        UInt8.random(in: 0...255, using: &generator)
      }
      // Dropped because either outcome is right here: the test looks for crashes only.
      guard let value = try? MessagePackValue(parsing: bytes) else { continue }
      _ = value.elements.map(\.kind)
      _ = value.pairs.map { ($0.key.string, $0.value.bytes) }
    }
  }
}

struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
