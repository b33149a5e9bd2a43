// Reads the pictures that operators set, so that browsers get none that fetches, moves or asks for anything.

import Records
import ServiceBus
import XML

extension ProviderIcon {
  static let byteLimit = 16_384
  /// Unit: pixels.
  private static let sideLimit = 512
  /// Elements that draw. Scripts, styles, pictures within pictures, animations and links are not among them.
  private static let elements: Set<String> = [
    "svg", "g", "defs", "symbol", "use", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text",
    "tspan", "title", "desc", "linearGradient", "radialGradient", "stop", "clipPath", "mask", "pattern",
  ]

  /// - Parameter bytes: a file of the operator.
  /// - Throws: `badRequest` with the reason.
  init(checking bytes: [UInt8]) throws(RecordError) {
    guard bytes.count <= Self.byteLimit else {
      throw Self.refusal("has \(bytes.count) bytes, and \(Self.byteLimit) at most are taken")
    }
    if bytes.starts(with: Self.signature) {
      try Self.checkPNG(bytes)
      self.init(kind: .png, bytes: bytes)
    } else {
      try Self.checkSVG(bytes)
      self.init(kind: .svg, bytes: bytes)
    }
  }

  private static func refusal(_ clause: String) -> RecordError { RecordError(.badRequest, "The icon \(clause)") }

  // MARK: PNG

  private static let signature: [UInt8] = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
  /// Length, type and checksum of a chunk.
  private static let frameByteCount = 12
  private static let headerByteCount = 13

  /// Chunks from the header to the end, and nothing behind it.
  private static func checkPNG(_ bytes: [UInt8]) throws(RecordError) {
    var rest = bytes.dropFirst(signature.count)
    var isFirst = true
    while rest.count >= frameByteCount {
      let (length, type) = (number(rest.prefix(4)), String(decoding: rest.dropFirst(4).prefix(4), as: UTF8.self))
      guard length <= rest.count - frameByteCount, isFirst == (type == "IHDR") else { break }
      if isFirst {
        guard length == headerByteCount else { break }
        let sides = [number(rest.dropFirst(8).prefix(4)), number(rest.dropFirst(12).prefix(4))]
        guard sides.allSatisfy((1...sideLimit).contains) else {
          throw refusal("is \(sides[0]) by \(sides[1]) pixels; each side has 1 to \(sideLimit)")
        }
        isFirst = false
      }
      rest = rest.dropFirst(frameByteCount + length)
      if type == "IEND", rest.isEmpty { return }
    }
    throw refusal("is a damaged PNG, or has something behind its end")
  }

  /// Big-endian.
  private static func number(_ bytes: ArraySlice<UInt8>) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }

  // MARK: SVG

  private static func checkSVG(_ bytes: [UInt8]) throws(RecordError) {
    let root: XMLNode
    do throws(XMLError) {
      root = try XMLTree.parse(bytes)
    } catch {
      throw refusal("is neither a PNG nor an SVG. \(error.reason)")
    }
    guard root.name == "svg" else { throw refusal("is neither a PNG nor an SVG: its root element is '\(root.name)'") }
    try check(root)
  }

  private static func check(_ node: XMLNode) throws(RecordError) {
    guard elements.contains(node.name) else {
      throw refusal("has an element '\(node.name)' in line \(node.line), which draws nothing")
    }
    for (name, value) in node.attributes where !isHarmless(name, value) {
      throw refusal("has an attribute '\(name)' in line \(node.line) that runs or fetches something")
    }
    for child in node.children { try check(child) }
  }

  /// True for an attribute that runs no script and refers to nothing but parts of the same picture.
  private static func isHarmless(_ name: String, _ value: String) -> Bool {
    let name = name.lowercased()
    if name.hasPrefix("on") { return false }
    if name == "href" || name.hasSuffix(":href") { return value.hasPrefix("#") }
    let value = value.lowercased()
    return value.ranges(of: "url(").allSatisfy { value[$0.upperBound...].hasPrefix("#") } && !value.contains("\\")
      && !value.contains("@import")
  }
}
