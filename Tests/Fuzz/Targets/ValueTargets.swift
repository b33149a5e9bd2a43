// Values that arrive as text, and composites that arrive as bytes.

import History
@testable import Mirroring
import ObjectModel
import Records
import WebServices

extension FuzzTarget {
  /// Dates, decimal numbers, UUIDs.
  static let values = FuzzTarget(name: "values") { bytes in
    let text = String(decoding: bytes, as: UTF8.self)
    if let milliseconds = MirrorDate.milliseconds(text) {
      try holdEqual(MirrorDate.milliseconds(MirrorDate.text(milliseconds)), milliseconds, "a date is read as another")
    }
    if let number = DecimalText.double(text) {
      try holdEqual(DecimalText.double(DecimalText.text(number)), number, "a decimal number is read as another")
    }
    if let exact = DecimalText.exact(text) {
      try holdEqual(DecimalText.exact(exact), exact, "an exact decimal number has two spellings")
      try holdEqual(DecimalText.double(exact), DecimalText.double(text), "an exact decimal number is another")
    }
    if let uuid = UUIDText.canonical(text) {
      try hold(uuid.uppercased() == text.uppercased() && UUIDText.canonical(uuid) == uuid, "a UUID is another")
    }
    if let bits = bytes.count == 8 ? bytes.reduce(UInt64(0), { $0 << 8 | UInt64($1) }) : nil {
      _ = MirrorDate.text(Int64(bitPattern: bits))
      let number = Double(bitPattern: bits)
      if number.isFinite {
        try holdEqual(DecimalText.double(DecimalText.text(number)), number, "a number is read as another")
      }
    }
  }

  /// Composites in this server's encoding, and in the keyed archives that Apple's devices write.
  static let composites = FuzzTarget(
    name: "composites", seeds: { [CompositeCoding.encode(sampleComposite)] + archives }
  ) { bytes in
    let elements = Fixture.elements + [Attribute(name: "inner", type: .composite, elements: Fixture.elements)]
    guard let read = CompositeCoding.decode(bytes, elements: elements) else { return }
    try holdEqual(read.map(\.name), read.map(\.name).sorted(), "a composite's elements are in no order")
    guard !read.contains(where: \.holdsNaN) else { return }
    guard let again = CompositeCoding.decode(CompositeCoding.encode(read), elements: elements) else {
      throw Broken(description: "refuses the composite it wrote")
    }
    try holdEqual(again, read, "a composite is stored as another")
  }

  private static let sampleComposite: [AttributeValue.CompositeElement] = [
    AttributeValue.CompositeElement(name: "boolean", value: .boolean(true)),
    AttributeValue.CompositeElement(name: "date", value: .date(Fixture.now)),
    AttributeValue.CompositeElement(name: "decimal", value: .decimal("1.5")),
    AttributeValue.CompositeElement(
      name: "inner",
      value: .composite([
        AttributeValue.CompositeElement(name: "string", value: .string("a")), .init(name: "uri", value: .null),
      ])),
    AttributeValue.CompositeElement(name: "integer16", value: .integer(-3)),
  ]

  /// A property list with one dictionary, and a keyed archive of `{"string": "a", "integer16": 3}`.
  private static var archives: [[UInt8]] {
    func text(_ text: String) -> [UInt8] {
      text.utf8.count < 15
        ? [0x50 | UInt8(text.utf8.count)] + text.utf8 : [0x5f, 0x10, UInt8(text.utf8.count)] + text.utf8
    }
    func list(_ objects: [[UInt8]]) -> [UInt8] {
      var bytes = Array("bplist00".utf8)
      var offsets: [UInt8] = []
      for object in objects {
        offsets.append(UInt8(bytes.count))
        bytes += object
      }
      let table = UInt8(bytes.count)
      bytes += offsets
      return bytes + [
        0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, UInt8(objects.count), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        table,
      ]
    }
    // 0: {$objects: 3, $top: 4}; 3: the table; 4: {root: UID 1}; table[1] = 8: {NS.keys: 11, NS.objects: 12}.
    let archive = list([
      [0xd2, 1, 2, 3, 4], text("$objects"), text("$top"), [0xa6, 6, 8, 13, 14, 13, 15], [0xd1, 5, 7], text("root"),
      text("$null"), [0x80, 1], [0xd2, 9, 10, 11, 12],
      text("NS.keys"), text("NS.objects"), [0xa2, 16, 17], [0xa2, 17, 18], text("string"), text("integer16"),
      [0x10, 3], [0x80, 2], [0x80, 3], [0x80, 5],
    ])
    return [list([[0xd1, 1, 2], text("string"), text("a")]), archive]
  }
}

extension AttributeValue.CompositeElement {
  /// True when the value is unequal to itself.
  fileprivate var holdsNaN: Bool {
    switch value {
    case .double(let number): number.isNaN
    case .composite(let elements): elements.contains { $0.holdsNaN }
    default: false
    }
  }
}
