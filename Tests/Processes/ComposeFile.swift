// Reads the part of YAML used in compose.yaml: nested mappings, flow sequences and mappings, anchors, aliases, merges.

import Foundation

struct ComposeFile {
  let root: Value

  /// - Parameter variables: the values of `${NAME:-default}`; names without a value get the default.
  init(_ text: String, variables: [String: String] = [:]) throws {
    var reader = Reader(text: Self.substituted(text, variables))
    root = try reader.mapping(indentation: 0)
  }

  /// Services that start together, in the order of their dependencies.
  var services: [(name: String, service: Value)] {
    var ordered: [(name: String, service: Value)] = []
    var waiting = root["services"].members.filter { $0.value["profiles"] == .null }.sorted { $0.key < $1.key }
    while !waiting.isEmpty {
      let ready = waiting.filter { entry in
        entry.value["depends_on"].members.keys.allSatisfy { name in ordered.contains { $0.name == name } }
      }
      if ready.isEmpty { return ordered }
      ordered += ready.map { ($0.key, $0.value) }
      waiting.removeAll { entry in ready.contains { $0.key == entry.key } }
    }
    return ordered
  }

  private static func substituted(_ text: String, _ variables: [String: String]) -> String {
    text.replacing(/\$\{(\w+):-([^}]*)\}/) { variables[String($0.output.1)] ?? String($0.output.2) }
  }
}

private struct Reader {
  private var lines: [(indentation: Int, text: Substring)]
  private var position = 0
  private var anchors: [String: Value] = [:]

  init(text: String) {
    lines = text.split(separator: "\n").compactMap { line in
      let content = line.drop { $0 == " " }
      return content.isEmpty || content.hasPrefix("#") ? nil : (line.count - content.count, content)
    }
  }

  mutating func mapping(indentation: Int) throws -> Value {
    var members: [String: Value] = [:]
    while position < lines.count, lines[position].indentation == indentation {
      let line = lines[position].text
      guard let colon = line.firstRange(of: ":") else { throw Unexpected("no mapping: \(line)") }
      position += 1
      let value = try self.value(line[colon.upperBound...].trimmingPrefix { $0 == " " }, indentation: indentation)
      let key = line[..<colon.lowerBound]
      if key == "<<" { members.merge(value.members) { own, _ in own } } else { members[String(key)] = value }
    }
    return .object(members)
  }

  private mutating func value(_ text: Substring, indentation: Int) throws -> Value {
    var text = text
    var anchor: String?
    if text.hasPrefix("&") {
      anchor = String(text.dropFirst().prefix { $0 != " " })
      text = text.drop { $0 != " " }.drop { $0 == " " }
    }
    let value: Value
    if text.isEmpty {
      let isNested = position < lines.count && lines[position].indentation > indentation
      value = isNested ? try mapping(indentation: lines[position].indentation) : .null
    } else if text.hasPrefix("*") {
      guard let known = anchors[String(text.dropFirst())] else { throw Unexpected("no anchor: \(text)") }
      value = known
    } else {
      var rest = text
      value = try flow(&rest)
    }
    if let anchor { anchors[anchor] = value }
    return value
  }

  private func flow(_ rest: inout Substring) throws -> Value {
    switch rest.first {
    case "[":
      var elements: [Value] = []
      try items(&rest, end: "]") { elements.append(try flow(&$0)) }
      return .array(elements)
    case "{":
      var members: [String: Value] = [:]
      try items(&rest, end: "}") { rest in
        let key = rest.prefix { $0 != ":" }
        rest = rest.dropFirst(key.count + 1).drop { $0 == " " }
        members[String(key)] = try flow(&rest)
      }
      return .object(members)
    case "\"":
      let text = rest.dropFirst().prefix { $0 != "\"" }
      rest = rest.dropFirst(text.count + 2)
      return .string(String(text))
    default:
      let text = rest.prefix { !",]}".contains($0) }
      rest = rest.dropFirst(text.count)
      return ["true": .bool(true), "false": .bool(false)][text] ?? Int64(text).map(Value.integer)
        ?? .string(String(text))
    }
  }

  private func items(_ rest: inout Substring, end: Character, _ item: (inout Substring) throws -> Void) throws {
    rest = rest.dropFirst()
    while let next = rest.first {
      if next == end { rest = rest.dropFirst(); return }
      if next == "," || next == " " { rest = rest.dropFirst(); continue }
      try item(&rest)
    }
    throw Unexpected("no \(end)")
  }
}
