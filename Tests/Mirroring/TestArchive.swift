// Keyed archives of dictionaries, laid out like Foundation's. Apple's devices store composites in them.

/// A binary property list with an NSDictionary whose keys are strings.
struct TestArchive {
  enum Member {
    case text(String), number(Int64), real(Double), flag(Bool), data([UInt8])
    /// Seconds since 2001.
    case date(Double)
    case uuid([UInt8])
    case decimal(mantissa: UInt64, exponent: Int64, isNegative: Bool)
  }

  private indirect enum Object {
    case text(String), integer(Int64), real(Double), flag(Bool), data([UInt8]), uid(Int), array([Object]), dictionary(
      [(String, Object)])
  }

  let bytes: [UInt8]

  init(members: [(String, Member)]) {
    var table: [Object] = [.text("$null")]
    func add(_ object: Object) -> Object {
      table.append(object)
      return .uid(table.count - 1)
    }
    func ofClass(_ name: String, _ members: [(String, Object)]) -> Object {
      .dictionary(
        members + [
          (
            "$class",
            add(.dictionary([("$classname", .text(name)), ("$classes", .array([.text(name), .text("NSObject")]))]))
          )
        ])
    }
    // The root comes first, as in Foundation's archives.
    table.append(.text("the root's place"))
    let keys = members.map { add(.text($0.0)) }
    let values = members.map { member -> Object in
      switch member.1 {
      case .text(let text): add(.text(text))
      case .number(let number): add(.integer(number))
      case .real(let number): add(.real(number))
      case .flag(let flag): add(.flag(flag))
      case .data(let bytes): add(.data(bytes))
      case .date(let seconds): add(ofClass("NSDate", [("NS.time", .real(seconds))]))
      case .uuid(let bytes): add(ofClass("NSUUID", [("NS.uuidbytes", .data(bytes))]))
      case .decimal(let mantissa, let exponent, let isNegative):
        add(
          ofClass(
            "NSDecimalNumber",
            [
              ("NS.exponent", .integer(exponent)), ("NS.length", .integer(4)), ("NS.negative", .flag(isNegative)),
              ("NS.compact", .flag(true)),
              ("NS.mantissa.bo", .integer(1)),
              (
                "NS.mantissa",
                .data(withUnsafeBytes(of: mantissa.littleEndian) { Array($0) } + [UInt8](repeating: 0, count: 8))
              ),
            ]))
      }
    }
    table[1] = ofClass("NSDictionary", [("NS.keys", .array(keys)), ("NS.objects", .array(values))])
    let top: Object = .dictionary([
      ("$version", .integer(100_000)), ("$archiver", .text("NSKeyedArchiver")),
      ("$top", .dictionary([("root", .uid(1))])), ("$objects", .array(table)),
    ])
    var writer = Writer()
    let root = writer.write(top)
    bytes = writer.finished(root: root)
  }

  /// Writes the objects in order, with references of two bytes.
  private struct Writer {
    private var bytes = Array("bplist00".utf8)
    private var offsets: [Int] = []

    mutating func write(_ object: Object) -> Int {
      let body: [UInt8]
      switch object {
      case .text(let text):
        body =
          text.utf8.allSatisfy { $0 < 0x80 }
          ? Self.head(5, text.utf8.count) + Array(text.utf8)
          : Self.head(6, text.utf16.count) + text.utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] }
      case .integer(let number): body = [0x13] + Self.word(UInt64(bitPattern: number))
      case .real(let number): body = [0x23] + Self.word(number.bitPattern)
      case .flag(let flag): body = [flag ? 0x09 : 0x08]
      case .data(let data): body = Self.head(4, data.count) + data
      case .uid(let place): body = [0x80, UInt8(place)]
      case .array(let elements):
        body = Self.head(0xa, elements.count) + elements.map { write($0) }.flatMap(Self.reference)
      case .dictionary(let members):
        let keys = members.map { write(.text($0.0)) }
        let values = members.map { write($0.1) }
        body = Self.head(0xd, members.count) + (keys + values).flatMap(Self.reference)
      }
      offsets.append(bytes.count)
      bytes += body
      return offsets.count - 1
    }

    func finished(root: Int) -> [UInt8] {
      bytes + offsets.flatMap { Self.word(UInt64($0)).suffix(4) } + [0, 0, 0, 0, 0, 0, 4, 2]
        + Self.word(UInt64(offsets.count)) + Self.word(UInt64(root))
        + Self.word(UInt64(bytes.count))
    }

    private static func head(_ kind: UInt8, _ count: Int) -> [UInt8] {
      count < 15 ? [kind << 4 | UInt8(count)] : [kind << 4 | 0xf, 0x11] + word(UInt64(count)).suffix(2)
    }
    private static func reference(_ index: Int) -> [UInt8] { Array(word(UInt64(index)).suffix(2)) }
    private static func word(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }
  }
}
