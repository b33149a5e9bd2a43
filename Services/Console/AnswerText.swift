// Turns a JSON answer into text for people: lists of objects become tables, everything else names and values.

import JSON

enum AnswerText {
  static func text(_ answer: JSONValue) -> String {
    var pairs: [(name: String, value: String)] = []
    var parts: [String] = []
    for (name, value) in answer.members {
      if value.kind == .array, value.count == 0 || value.elements.allSatisfy({ $0.kind == .object }) {
        let table = TextTable.text(columns: columns(value.elements), rows: rows(value.elements))
        parts.append(answer.count == 1 ? table : "\(name):\n\(table)")
      } else if value.kind == .string, let text = value.string, text.contains("\n") {
        parts.append(answer.count == 1 ? text : "\(name):\n\(text)")
      } else {
        pairs.append((name, cell(value)))
      }
    }
    if !pairs.isEmpty { parts.insert(TextTable.text(pairs: pairs), at: 0) }
    return parts.isEmpty ? "done" : parts.joined(separator: "\n\n")
  }

  /// An object in one line.
  static func line(_ object: JSONValue) -> String {
    object.members.map { "\($0.key)=\(cell($0.value))" }.joined(separator: "  ")
  }

  /// The members' names in the order in which they first occur.
  private static func columns(_ objects: [JSONValue]) -> [String] {
    var names: [String] = []
    for object in objects {
      for (name, _) in object.members where !names.contains(name) { names.append(name) }
    }
    return names
  }

  private static func rows(_ objects: [JSONValue]) -> [[String]] {
    let columns = columns(objects)
    return objects.map { object in columns.map { object[$0].map(cell) ?? "" } }
  }

  private static func cell(_ value: JSONValue) -> String {
    switch value.kind {
    case .string: value.string ?? ""
    case .null: "-"
    case .bool: value.bool == true ? "yes" : "no"
    case .array where value.elements.allSatisfy { $0.kind != .object && $0.kind != .array }:
      value.elements.map(cell).joined(separator: ",")
    default: json(value)
    }
  }

  static func json(_ value: JSONValue?) -> String {
    guard let value else { return "" }
    var writer = JSONWriter()
    writer.value(value)
    return String(decoding: writer.bytes, as: UTF8.self)
  }
}
