// XML as a small tree with line numbers, over libxml2; it refuses what neither model files nor answers need.

import CXML

/// An element, read with everything inside it.
public struct XMLNode: Sendable {
  public let name: String
  public let attributes: [String: String]
  /// The line where the element begins, counted from 1.
  public let line: Int
  public internal(set) var children: [XMLNode] = []
  /// The element's own characters, without those of its children.
  public internal(set) var text = ""

  public func children(named name: String) -> [XMLNode] { children.filter { $0.name == name } }
}

/// Bytes that are no document, or one that is refused.
public struct XMLError: Error, Hashable, Sendable {
  /// One sentence.
  public let reason: String
  /// Counted from 1; nil when the error concerns the whole file.
  public let line: Int?

  init(_ reason: String, line: Int? = nil) {
    self.reason = reason
    self.line = line
  }
}

public enum XMLTree {
  static let depthLimit = 64

  /// - Parameter bytes: at most 2 GB.
  /// - Throws: for anything but one well-formed UTF-8 document without entity declarations; with the line, where there
  ///   is one.
  public static func parse(_ bytes: [UInt8]) throws(XMLError) -> XMLNode {
    guard !bytes.isEmpty else { throw XMLError("The file is empty.") }
    // Another encoding would get past the check for entities below; Xcode writes UTF-8.
    guard String(validating: bytes, as: UTF8.self) != nil, !bytes.contains(0) else {
      throw XMLError("The file is not UTF-8 text.")
    }
    guard declaresUTF8(bytes) else {
      throw XMLError("The file declares another encoding than UTF-8.", line: 1)
    }
    // No file of ours declares entities, and the parser must not expand any.
    if let place = bytes.firstRange(of: Array("<!ENTITY".utf8)) {
      throw XMLError(
        "Entity declarations are not accepted.", line: bytes[..<place.lowerBound].count { $0 == UInt8(ascii: "\n") } + 1
      )
    }
    let builder = TreeBuilder()
    let outcome = builder.read(bytes)
    if let problem = builder.problem { throw problem }
    guard outcome.is_well_formed != 0, let root = builder.root else {
      let explanation = explain(outcome.code, hasRoot: builder.root != nil)
      throw XMLError("The file is not well-formed XML (\(explanation)).", line: max(Int(outcome.line), 1))
    }
    return root
  }

  /// True unless an XML declaration names an encoding other than UTF-8.
  private static func declaresUTF8(_ bytes: [UInt8]) -> Bool {
    let head = String(decoding: bytes.prefix(256), as: UTF8.self)
    guard let end = head.firstRange(of: "?>"), let key = head[..<end.lowerBound].firstRange(of: "encoding") else {
      return true
    }
    let value = head[key.upperBound..<end.lowerBound].drop {
      $0 == " " || $0 == "=" || $0 == "\t" || $0 == "\n" || $0 == "\r"
    }
    return ["\"utf-8\"", "'utf-8'"].contains { value.lowercased().hasPrefix($0) }
  }

  /// Fixed texts for the parser's codes: libxml2's own texts differ between its versions.
  private static func explain(_ code: Int32, hasRoot: Bool) -> String {
    switch code {
    case 0: "it has no root element"
    case 5 where hasRoot: "something follows its root element"
    case 4, 5, 77: "it ends too early"
    case 42: "an attribute is given twice"
    case 26: "it uses an entity that is not declared"
    case 73, 76: "a tag is not closed by its own end"
    case 9: "it has a character that XML forbids"
    default: "parser code \(code)"
    }
  }
}

/// Builds the tree from the parser's events.
private final class TreeBuilder {
  private(set) var root: XMLNode?
  private(set) var problem: XMLError?
  private var open: [XMLNode] = []

  func read(_ bytes: [UInt8]) -> cxml_outcome {
    var handler = cxml_handler(
      context: Unmanaged.passUnretained(self).toOpaque(),
      began: { context, prefix, name, attributes, count, line in
        let attributes = UnsafeBufferPointer(start: attributes, count: count)
        return TreeBuilder.at(context).began(TreeBuilder.name(prefix, name), attributes, line: Int(line)) ? 0 : 1
      },
      ended: { TreeBuilder.at($0).ended() },
      read: { context, characters, count in TreeBuilder.at(context).read(TreeBuilder.text(characters, count)) })
    return withExtendedLifetime(self) {
      bytes.withUnsafeBufferPointer { bytes in
        bytes.withMemoryRebound(to: CChar.self) { cxml_read($0.baseAddress, Int32($0.count), &handler) }
      }
    }
  }

  private static func at(_ context: UnsafeMutableRawPointer?) -> TreeBuilder {
    guard let context else { preconditionFailure("the parser lost whom it reads for") }
    return Unmanaged<TreeBuilder>.fromOpaque(context).takeUnretainedValue()
  }

  private static func name(_ prefix: UnsafePointer<CChar>?, _ name: UnsafePointer<CChar>?) -> String {
    let name = name.map { String(cString: $0) } ?? ""
    return prefix.map { "\(String(cString: $0)):\(name)" } ?? name
  }

  private static func text(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
    String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
  }

  /// - Returns: false stops the parser.
  private func began(_ name: String, _ attributes: UnsafeBufferPointer<cxml_attribute>, line: Int) -> Bool {
    guard open.count < XMLTree.depthLimit else {
      problem = XMLError("Elements are nested more than \(XMLTree.depthLimit) deep.", line: line)
      return false
    }
    let values = attributes.map { (Self.name($0.prefix, $0.name), Self.text($0.value, $0.value_byte_count)) }
    // The document is malformed if two prefixes of one namespace give the same attribute twice; the parser reports
    // that, and `first` is never used.
    open.append(
      XMLNode(name: name, attributes: Dictionary(values, uniquingKeysWith: { first, _ in first }), line: line))
    return true
  }

  private func ended() {
    guard let closed = open.popLast() else { return }
    if open.isEmpty { root = closed } else { open[open.count - 1].children.append(closed) }
  }

  private func read(_ characters: String) {
    if !open.isEmpty { open[open.count - 1].text += characters }
  }
}
