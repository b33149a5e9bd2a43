// Turns a JSON answer into text for people: lists of objects become tables, everything else names and values.

import FoundationEssentials
import JSON

enum AnswerText {
  /// The members that are milliseconds since 1970.
  private static let times: Set<String> = [
    "at", "countedSince", "created", "createdAt", "endedAt", "expires", "granted", "lastFailureAt", "lastPush",
    "lastQuarantined", "lastUsed", "oldestWaitingAt", "renewed", "startedAt",
  ]

  static func text(_ answer: JSONValue) -> String {
    var pairs: [(name: String, value: String)] = []
    var parts: [String] = []
    for (name, value) in answer.members {
      if value.kind == .array, value.count == 0 || value.elements.allSatisfy({ $0.kind == .object }) {
        let table = TextTable.text(columns: columns(value.elements), rows: rows(value.elements))
        parts.append(answer.count == 1 ? table : "\(name):\n\(table)")
      } else if value.kind == .string, let text = value.string.map(lines), text.contains("\n") {
        parts.append(answer.count == 1 ? text : "\(name):\n\(text)")
      } else {
        pairs.append((name, cell(value, of: name)))
      }
    }
    if !pairs.isEmpty { parts.insert(TextTable.text(pairs: pairs), at: 0) }
    return parts.isEmpty ? "done" : parts.joined(separator: "\n\n")
  }

  /// An object in one line.
  static func line(_ object: JSONValue) -> String {
    object.members.map { "\($0.key)=\(cell($0.value, of: $0.key))" }.joined(separator: "  ")
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
    return objects.map { object in columns.map { name in object[name].map { cell($0, of: name) } ?? "" } }
  }

  private static func cell(_ value: JSONValue, of name: String) -> String {
    switch value.kind {
    case .string: TextTable.printable(value.string ?? "")
    case .null: "-"
    case .bool: value.bool == true ? "yes" : "no"
    case .array where value.elements.allSatisfy { $0.kind != .object && $0.kind != .array }:
      value.elements.map { cell($0, of: name) }.joined(separator: ",")
    case .integer where times.contains(name): value.int64.map(time) ?? json(value)
    default: TextTable.printable(json(value))
    }
  }

  /// Text of several lines, each one printable.
  static func lines(_ text: String) -> String {
    text.split(separator: "\n", omittingEmptySubsequences: false).map { TextTable.printable(String($0)) }.joined(
      separator: "\n")
  }

  /// A time in UTC, to the second; the number itself beyond the years that people live in.
  private static func time(_ milliseconds: Int64) -> String {
    guard (1_000_000_000_000..<4_102_444_800_000).contains(milliseconds) else { return String(milliseconds) }
    return Date(timeIntervalSince1970: Double(milliseconds / 1000)).formatted(.iso8601)
  }

  static func json(_ value: JSONValue?) -> String {
    guard let value else { return "" }
    var writer = JSONWriter()
    writer.value(value)
    return String(decoding: writer.bytes, as: UTF8.self)
  }
}
