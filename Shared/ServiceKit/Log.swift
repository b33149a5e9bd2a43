// Structured logs: static text, structured facts. Never a user's field value.

/// A logger with fixed facts. One line an event, JSON (or text on a terminal), on standard error.
public struct Log: Sendable {
  public enum Level: Int, Comparable, Sendable {
    case debug, info, warning, error
    public static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
  }

  public enum Fact: Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral, ExpressibleByFloatLiteral {
    case text(String)
    case integer(Int64)
    case number(Double)
    case flag(Bool)
    public init(stringLiteral value: String) { self = .text(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(booleanLiteral value: Bool) { self = .flag(value) }
    public init(floatLiteral value: Double) { self = .number(value) }
  }

  private let sink: @Sendable (Level, StaticString, [(String, Fact)]) -> Void
  private let facts: [(String, Fact)]

  public init(facts: [(String, Fact)] = [], sink: @escaping @Sendable (Level, StaticString, [(String, Fact)]) -> Void) {
    self.facts = facts
    self.sink = sink
  }

  /// A logger that adds `facts` to every line.
  public func with(_ facts: KeyValuePairs<String, Fact>) -> Log {
    Log(facts: self.facts + facts.map { ($0.key, $0.value) }, sink: sink)
  }

  public func debug(_ event: StaticString, _ facts: KeyValuePairs<String, Fact> = [:]) { write(.debug, event, facts) }
  public func info(_ event: StaticString, _ facts: KeyValuePairs<String, Fact> = [:]) { write(.info, event, facts) }
  public func warning(_ event: StaticString, _ facts: KeyValuePairs<String, Fact> = [:]) { write(.warning, event, facts) }
  public func error(_ event: StaticString, _ facts: KeyValuePairs<String, Fact> = [:]) { write(.error, event, facts) }

  private func write(_ level: Level, _ event: StaticString, _ facts: KeyValuePairs<String, Fact>) {
    sink(level, event, self.facts + facts.map { ($0.key, $0.value) })
  }

  /// Drops everything; for tests.
  public static let silent = Log { _, _, _ in }
}
