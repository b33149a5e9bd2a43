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
  private let paces: LogPaces?

  /// - Parameter paces: what of lines above `debug` is left out; nil: nothing.
  public init(
    level: Level = .debug, facts: [(String, Fact)] = [], paces: LogPaces? = nil, sink: @escaping @Sendable (Level, StaticString, [(String, Fact)]) -> Void
  ) {
    self.level = level
    self.facts = facts
    self.paces = paces
    self.sink = sink
  }

  /// How many lines were left out since the process began.
  public var leftOutCount: Int { paces?.leftOutCount ?? 0 }

  /// A logger that adds `facts` to every line.
  public func with(_ facts: KeyValuePairs<String, Fact>) -> Log {
    Log(level: level, facts: self.facts + facts.map { ($0.key, $0.value) }, paces: paces, sink: sink)
  }

  public func debug(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) { write(.debug, event, facts) }
  public func info(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) { write(.info, event, facts) }
  public func warning(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) { write(.warning, event, facts) }
  public func error(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) { write(.error, event, facts) }

  private func write(_ level: Level, _ event: StaticString, _ facts: () -> KeyValuePairs<String, Fact>) {
    guard level >= self.level else { return }
    var own = self.facts
    if level > .debug, let paces {
      guard let leftOut = paces.admit(event) else { return }
      if leftOut > 0 { own.append(("leftOut", .integer(Int64(leftOut)))) }
    }
    let request = RequestTrace.id.map { [("request", Fact.text($0))] } ?? []
    sink(level, event, own + request + facts().map { ($0.key, $0.value) })
  }

  /// Drops everything; for tests.
  public static let silent = Log { _, _, _ in }
}

/// A pace for each event: whatever clients bring about often is a few lines a second, and a number.
public final class LogPaces: Sendable {
  private let now: @Sendable () -> Int64
  /// By the address of the event's text, which never changes.
  private let paces = Mutex<[UInt: LogPace]>([:])
  private let leftOut = Atomic(0)

  /// - Parameter now: milliseconds.
  public init(now: @escaping @Sendable () -> Int64) { self.now = now }

  public var leftOutCount: Int { leftOut.load(ordering: .relaxed) }

  /// - Returns: how many lines of the event were left out since the last that was let through; nil: this one is, too.
  func admit(_ event: StaticString) -> Int? {
    let key = event.hasPointerRepresentation ? UInt(bitPattern: event.utf8Start) : UInt(event.unicodeScalar.value)
    let pace = paces.withLock { paces in
      let pace = paces[key] ?? LogPace()
      paces[key] = pace
      return pace
    }
    let count = pace.admit(at: now())
    if count == nil { leftOut.add(1, ordering: .relaxed) }
    return count
  }
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
