// Archives made to be expensive: the cost of reading them is counted, and must grow no faster than their length.

import History
import MirroringWorld
import ObjectModel
import Testing

@testable import Mirroring

/// A property list of arbitrary objects, including ones that no system writes.
private struct RawList {
  private var bytes = Array("bplist00".utf8)
  private var offsets: [Int] = []

  mutating func add(_ body: [UInt8]) -> Int {
    offsets.append(bytes.count)
    bytes += body
    return offsets.count - 1
  }

  /// Adds an object that begins within the bytes of others.
  mutating func add(at offset: Int) -> Int {
    offsets.append(offset)
    return offsets.count - 1
  }

  var byteCount: Int { bytes.count }

  mutating func text(_ text: String) -> Int { add([0x5f, 0x12] + Self.word(text.utf8.count) + Array(text.utf8)) }
  mutating func uid(_ place: Int) -> Int { add([0x80, UInt8(place)]) }
  mutating func array(_ elements: [Int]) -> Int {
    add([0xaf, 0x12] + Self.word(elements.count) + elements.flatMap(Self.word))
  }

  mutating func dictionary(_ members: [(Int, Int)]) -> Int {
    add([0xdf, 0x12] + Self.word(members.count) + (members.map(\.0) + members.map(\.1)).flatMap(Self.word))
  }

  /// A keyed archive of a dictionary.
  mutating func archive(keys: [Int], values: [Int]) -> [UInt8] {
    let members = [(text("NS.keys"), array(keys)), (text("NS.objects"), array(values))]
    let table = array([dictionary(members)])
    let place = uid(0)
    let roots = dictionary([(text("root"), place)])
    let top = dictionary([(text("$top"), roots), (text("$objects"), table)])
    return bytes + offsets.flatMap(Self.word) + [0, 0, 0, 0, 0, 0, 4, 4] + [0, 0, 0, 0] + Self.word(offsets.count) + [
      0, 0, 0, 0,
    ] + Self.word(top)
      + [0, 0, 0, 0] + Self.word(bytes.count)
  }

  private static func word(_ number: Int) -> [UInt8] { [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) } }
}

@Suite struct `Archives that cost much` {
  private static let elements = (0..<200).map { Attribute(name: "city\($0)", type: .string) }

  private static func read(_ bytes: [UInt8]) throws -> (composite: [AttributeValueElement]?, cost: Int) {
    let archive = try #require(KeyedArchive(bytes))
    let composite = archive.composite(of: elements)
    return (composite?.map { AttributeValueElement(name: $0.name) }, archive.cost)
  }

  private struct AttributeValueElement: Equatable {
    let name: String
  }

  @Test(arguments: [12_500, 25_000, 50_000, 100_000]) func `keys that are all one long text cost what the list is long`(
    count: Int
  ) throws {
    var list = RawList()
    let key = list.text(String(repeating: "k", count: count))
    let bytes = list.archive(keys: Array(repeating: key, count: count), values: Array(repeating: key, count: count))
    let (composite, cost) = try Self.read(bytes)
    #expect(composite == [] && cost <= 3 * bytes.count, "\(cost) for \(bytes.count) bytes")
  }

  @Test func `texts that lie over one another are read as far as a list is long`() throws {
    var list = RawList()
    // Each mark begins a text that consists of the next 50 000 bytes.
    let (mark, start) = ([UInt8]([0x5f, 0x12, 0, 0, 0x40, 0x40]), list.byteCount)
    _ = list.add(Array(repeating: mark, count: 100_000).flatMap { $0 })
    let keys = (0..<90_000).map { list.add(at: start + 6 * $0) }
    let bytes = list.archive(keys: keys, values: keys)
    let (composite, cost) = try Self.read(bytes)
    #expect(
      composite == nil && cost <= PropertyList.costLimit(bytes.count) + 65_536, "\(cost) for \(bytes.count) bytes")
  }

  @Test func `one long text can't be the value of every element`() throws {
    var list = RawList()
    let long = list.text(String(repeating: "v", count: 500_000))
    let short = list.text("v")
    let names = Self.elements.map { list.text($0.name) }
    let (few, many) = (
      list.archive(keys: names, values: [long, long] + Array(repeating: short, count: names.count - 2)),
      Array(repeating: long, count: names.count)
    )
    #expect(try Self.read(few).composite?.count == names.count)
    let (composite, cost) = try Self.read(list.archive(keys: names, values: many))
    #expect(composite == nil && cost <= 4 * 600_000 + 600_000, "\(cost)")
  }

  @Test func `elements that all lead to one wide dictionary are looked at as long as the list is`() throws {
    var list = RawList()
    let key = list.text("no class")
    let wide = list.dictionary(Array(repeating: (key, key), count: 50_000))
    let names = Self.elements.map { list.text($0.name) }
    let bytes = list.archive(keys: names, values: Array(repeating: wide, count: names.count))
    let (composite, cost) = try Self.read(bytes)
    #expect(composite == nil && cost <= PropertyList.costLimit(bytes.count) + 1, "\(cost)")
  }
}
