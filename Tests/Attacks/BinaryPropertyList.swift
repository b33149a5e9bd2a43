// Binary property lists that are small but expand to much.

enum BinaryPropertyList {
  /// A keyed archive whose root is a dictionary with 60 000 keys, all of them one string.
  static let sameKeys: [UInt8] = {
    let (count, null, long) = (60_000, 7, 9)
    return list([
      dictionary([(1, 2), (3, 4)]), string("$top"), dictionary([(5, 6)]), string("$objects"), array([7, 8]),
      string("root"), [0x80, 1], string("$null"),
      dictionary(Array(repeating: (long, null), count: count)), string(String(repeating: "k", count: 200_000)),
    ])
  }()

  /// Nested arrays, each with 200 references to the next: 200 to the power of 30 elements.
  static let bomb: [UInt8] = {
    let depth = 30
    let arrays = (0..<depth).map { level in array(Array(repeating: 8 + level + 1, count: 200)) }
    return list(
      [
        dictionary([(1, 2), (3, 4)]), string("$top"), dictionary([(5, 6)]), string("$objects"), array([7, 8]),
        string("root"), [0x80, 1], string("$null"),
      ] + arrays + [string("end")])
  }()

  static func base64(_ bytes: [UInt8]) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    var text: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = (0..<3).reduce(0) { $0 << 8 | Int(start + $1 < bytes.count ? bytes[start + $1] : 0) }
      for place in 0..<4 { text.append(start + place <= bytes.count ? alphabet[group >> (18 - 6 * place) & 63] : 0x3D) }
    }
    return String(decoding: text, as: UTF8.self)
  }

  // MARK: Objects

  private static func list(_ objects: [[UInt8]]) -> [UInt8] {
    var bytes = Array("bplist00".utf8)
    var offsets: [Int] = []
    for object in objects {
      offsets.append(bytes.count)
      bytes += object
    }
    let table = bytes.count
    for offset in offsets { bytes += bigEndian(offset, 4) }
    // The trailer: unused bytes, sizes of an offset and a reference, number of objects, top object, place of the
    // offsets.
    return bytes + [0, 0, 0, 0, 0, 0, 4, 2] + bigEndian(objects.count, 8) + bigEndian(0, 8) + bigEndian(table, 8)
  }

  private static func string(_ text: String) -> [UInt8] { header(0x50, text.utf8.count) + Array(text.utf8) }
  private static func array(_ places: [Int]) -> [UInt8] {
    header(0xA0, places.count) + places.flatMap { bigEndian($0, 2) }
  }
  private static func dictionary(_ members: [(key: Int, value: Int)]) -> [UInt8] {
    header(0xD0, members.count) + members.flatMap { bigEndian($0.key, 2) } + members.flatMap { bigEndian($0.value, 2) }
  }

  private static func header(_ kind: UInt8, _ count: Int) -> [UInt8] {
    count < 15 ? [kind | UInt8(count)] : [kind | 15, 0x12] + bigEndian(count, 4)
  }

  private static func bigEndian(_ value: Int, _ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * (count - 1 - $0))) }
  }
}
