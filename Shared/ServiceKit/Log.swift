// Structured logs: static text, structured facts. Never a user's field value.

internal import ServiceBus
internal import Synchronization

/// A logger with fixed facts. One line an event, JSON (or text on a terminal), on standard error. Lines that are written while a client's request is
/// served say which (`request`, of `RequestTrace`).
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

  /// What is less important is dropped before its facts are put together.
  public let level: Level
  private let sink: @Sendable (Level, StaticString, [(String, Fact)]) -> Void
  private let facts: [(String, Fact)]

  public init(level: Level = .debug, facts: [(String, Fact)] = [], sink: @escaping @Sendable (Level, StaticString, [(String, Fact)]) -> Void) {
    self.level = level
    self.facts = facts
    self.sink = sink
  }

  /// A logger that adds `facts` to every line.
  public func with(_ facts: KeyValuePairs<String, Fact>) -> Log {
    Log(level: level, facts: self.facts + facts.map { ($0.key, $0.value) }, sink: sink)
  }

  public func debug(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) { write(.debug, event, facts) }
  public func info(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) { write(.info, event, facts) }
  public func warning(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) { write(.warning, event, facts) }
  public func error(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) { write(.error, event, facts) }

  private func write(_ level: Level, _ event: StaticString, _ facts: () -> KeyValuePairs<String, Fact>) {
    guard level >= self.level else { return }
    let request = RequestTrace.id.map { [("request", Fact.text($0))] } ?? []
    sink(level, event, self.facts + request + facts().map { ($0.key, $0.value) })
  }

  /// Drops everything; for tests.
  public static let silent = Log { _, _, _ in }
}

/// Lets through so many lines in a span, so that what everybody meets fills no disk.
public final class LogPace: Sendable {
  private struct State {
    var span: Int64 = 0
    var admitted = 0
    var leftOut = 0
  }

  private let lineCount: Int
  private let spanMilliseconds: Int64
  private let state = Mutex(State())

  public init(lineCount: Int = 20, perSeconds seconds: Int64 = 1) {
    self.lineCount = lineCount
    spanMilliseconds = seconds * 1000
  }

  /// - Parameter now: milliseconds.
  /// - Returns: how many lines were left out since the last that was let through; nil: this one is, too.
  public func admit(at now: Int64) -> Int? {
    state.withLock { state in
      if state.span != now / spanMilliseconds {
        state.span = now / spanMilliseconds
        state.admitted = 0
      }
      guard state.admitted < lineCount else {
        state.leftOut += 1
        return nil
      }
      state.admitted += 1
      defer { state.leftOut = 0 }
      return state.leftOut
    }
  }
}
