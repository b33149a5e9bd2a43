// XML as a small tree with line numbers, over the toolchain's parser, with what a model file never needs refused.

import Foundation
import FoundationXML
import Records

/// An element of a document that was read whole.
struct XMLNode {
  let name: String
  let attributes: [String: String]
  /// Where it begins; the first line is 1.
  let line: Int
  var children: [XMLNode] = []
  /// Its own characters, without those of its children.
  var text = ""

  func children(named name: String) -> [XMLNode] { children.filter { $0.name == name } }
}

enum XMLTree {
  static let depthLimit = 64

  /// - Throws: `ModelReadingError` naming the line, for anything that is not one well-formed UTF-8 document without entity declarations.
  static func parse(_ bytes: [UInt8]) throws(ModelReadingError) -> XMLNode {
    guard bytes.count <= Limit.requestByteCount else {
      throw ModelReadingError("The file has \(bytes.count) bytes; a model file has at most \(Limit.requestByteCount).")
    }
    guard !bytes.isEmpty else { throw ModelReadingError("The file is empty.") }
    // Other encodings would get past the check for entities below; Xcode writes UTF-8.
    guard String(validating: bytes, as: UTF8.self) != nil, !bytes.contains(0) else { throw ModelReadingError("The file is not UTF-8 text.") }
    guard declaresUTF8(bytes) else { throw ModelReadingError("The file declares another encoding than UTF-8.", line: 1) }
    // Entities could make a small file expand without end; no model has any, and the parser expands them without a word.
    if let place = bytes.firstRange(of: Array("<!ENTITY".utf8)) {
      throw ModelReadingError("Entity declarations are not accepted.", line: bytes[..<place.lowerBound].count { $0 == UInt8(ascii: "\n") } + 1)
    }
    let parser = XMLParser(data: Data(bytes))
    let builder = TreeBuilder()
    parser.delegate = builder
    let isWellFormed = parser.parse()
    if let problem = builder.problem { throw problem }
    guard isWellFormed, parser.parserError == nil, let root = builder.root else {
      let line = max(parser.lineNumber, 1)
      throw ModelReadingError("The file is not well-formed XML (\(explain(parser.parserError, hasRoot: builder.root != nil))).", line: line)
    }
    return root
  }

  /// Whether the XML declaration, if there is one, leaves the bytes UTF-8.
  private static func declaresUTF8(_ bytes: [UInt8]) -> Bool {
    let head = String(decoding: bytes.prefix(256), as: UTF8.self)
    guard let end = head.firstRange(of: "?>"), let key = head[..<end.lowerBound].firstRange(of: "encoding") else { return true }
    let value = head[key.upperBound..<end.lowerBound].drop { $0 == " " || $0 == "=" || $0 == "\t" || $0 == "\n" || $0 == "\r" }
    return ["\"utf-8\"", "'utf-8'"].contains { value.lowercased().hasPrefix($0) }
  }

  /// Static words for the parser's codes: its own texts differ between versions.
  private static func explain(_ error: (any Error)?, hasRoot: Bool) -> String {
    guard let error = error as NSError? else { return "it has no root element" }
    return switch error.code {
    case 5 where hasRoot: "something follows its root element"
    case 4, 5: "it ends too early"
    case 42: "an attribute is given twice"
    case 26: "it uses an entity that is not declared"
    case 73, 76, 77: "a tag is not closed by its own end"
    case 9: "it has a character that XML forbids"
    default: "parser code \(error.code)"
    }
  }
}

/// Collects elements as the parser meets them.
private final class TreeBuilder: NSObject, XMLParserDelegate {
  private(set) var root: XMLNode?
  private(set) var problem: ModelReadingError?
  private var open: [XMLNode] = []

  func parser(
    _ parser: XMLParser, didStartElement elementName: String, namespaceURI: String?, qualifiedName: String?, attributes: [String: String]
  ) {
    guard open.count < XMLTree.depthLimit else { return refuse(parser, "Elements are nested more than \(XMLTree.depthLimit) deep.") }
    open.append(XMLNode(name: elementName, attributes: attributes, line: parser.lineNumber))
  }

  func parser(_ parser: XMLParser, didEndElement elementName: String, namespaceURI: String?, qualifiedName: String?) {
    guard let closed = open.popLast() else { return }
    if open.isEmpty { root = closed } else { open[open.count - 1].children.append(closed) }
  }

  func parser(_ parser: XMLParser, foundCharacters string: String) {
    guard !open.isEmpty else { return }
    open[open.count - 1].text += string
  }

  private func refuse(_ parser: XMLParser, _ reason: String) {
    if problem == nil { problem = ModelReadingError(reason, line: parser.lineNumber) }
    parser.abortParsing()
  }
}
