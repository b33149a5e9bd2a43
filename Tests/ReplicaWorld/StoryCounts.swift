// How often each kind of thing happens in stories: whether two ways to tell them tell the same.

import ReplicaSync

/// Counts by kind.
package struct StoryCounts: Sendable {
  package private(set) var counts: [String: Int] = [:]

  package init() {}

  /// A line for each kind, in the order of their names.
  package var lines: [String] { counts.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" } }

  package mutating func add(_ other: StoryCounts) { counts.merge(other.counts, uniquingKeysWith: +) }

  private mutating func note(_ kind: String) { counts[kind, default: 0] += 1 }

  /// - Parameter line: of a trace, such as `1 saves insert p1 v2, delete p3`.
  mutating func note(line: String) {
    let words = line.split(separator: " ", maxSplits: 2).map(String.init)
    guard words.count > 1 else { return }
    switch words[1] {
    case "saves":
      note("saves")
      for phrase in words.dropFirst(2).flatMap({ $0.split(separator: ",") }) {
        if let verb = phrase.split(separator: " ").first { note("saves: \(verb)") }
      }
    case "is": note("devices go online")
    case "died": note("devices die")
    default: note("ends of zones")
    }
  }

  mutating func note(_ request: TransportRequest, _ fault: FaultyTransport.Fault) {
    note("requests: \(Self.kind(request))")
    if fault != .none { note("requests: \(fault)") }
  }

  mutating func note(_ answer: TransportResponse, to request: TransportRequest) {
    let kind = Self.kind(request)
    if answer.status != 200 { return note("answers: \(answer.status) to \(kind)") }
    if !kind.contains("page") { return }
    note("\(kind): \(answer.body.firstRange(of: Self.nothing) == nil ? "with changes" : "empty")")
  }

  private static let nothing = Array(#""changes":[]"#.utf8)

  private static func kind(_ request: TransportRequest) -> String {
    let path = request.url.prefix { $0 != "?" }
    if path.hasSuffix("/changes") { return request.url.contains("wait=") ? "awaited page" : "page" }
    if path.hasSuffix("/transactions") { return "export" }
    if path.contains("/objects/") { return "object" }
    return request.method == "PUT" ? "set-up" : "other"
  }
}
