// Structured logs: each line has a constant text and named facts, and never a user's field value.

internal import ServiceBus
internal import Synchronization

/// A logger with fixed facts. It writes one line an event to standard error, as JSON or, on a terminal, as text. A line
/// written while a client's request is served names the request (`request`, from `RequestTrace`).
public struct Log: Sendable {
  public enum Level: Int, Comparable, Sendable {
    case debug, info, warning, error
    public static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
  }

  public enum Fact: Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByFloatLiteral
  {
    case text(String)
    case integer(Int64)
    case number(Double)
    case flag(Bool)
    public init(stringLiteral value: String) { self = .text(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(booleanLiteral value: Bool) { self = .flag(value) }
    public init(floatLiteral value: Double) { self = .number(value) }
  }

  /// The least level that is written. The facts of lower levels are not evaluated.
  public let level: Level
  private let sink: @Sendable (Level, StaticString, [(String, Fact)]) -> Void
  private let facts: [(String, Fact)]
  private let paces: LogPaces?

  /// - Parameter paces: the limits on repeated lines above `debug`; nil for no limits.
  public init(
    level: Level = .debug, facts: [(String, Fact)] = [], paces: LogPaces? = nil,
    sink: @escaping @Sendable (Level, StaticString, [(String, Fact)]) -> Void
  ) {
    self.level = level
    self.facts = facts
    self.paces = paces
    self.sink = sink
  }

  /// The number of lines that paces have dropped since the process began.
  public var leftOutCount: Int { paces?.leftOutCount ?? 0 }

  public func with(_ facts: KeyValuePairs<String, Fact>) -> Log {
    Log(level: level, facts: self.facts + facts.map { ($0.key, $0.value) }, paces: paces, sink: sink)
  }

  /// The same log, whose lines are also kept in memory.
  func keeping(in recent: RecentLog, service: String, clock: any WallClock) -> Log {
    Log(level: level, facts: facts, paces: paces) { [sink] level, event, facts in
      recent.keep(LogLine(milliseconds: clock.now, level: level, service: service, event: event, facts: facts))
      sink(level, event, facts)
    }
  }

  public func debug(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) {
    write(.debug, event, facts)
  }
  public func info(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) {
    write(.info, event, facts)
  }
  public func warning(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) {
    write(.warning, event, facts)
  }
  public func error(_ event: StaticString, _ facts: @autoclosure () -> KeyValuePairs<String, Fact> = [:]) {
    write(.error, event, facts)
  }

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

  /// Drops everything, for tests.
  public static let silent = Log { _, _, _ in }
}

/// Limits each event to a few lines a second, so that events that clients cause often cannot flood the log. The lines
/// it drops are counted.
public final class LogPaces: Sendable {
  private let now: @Sendable () -> Int64
  /// The key is the address of the event's constant text.
  private let paces = Mutex<[UInt: LogPace]>([:])
  private let leftOut = Atomic(0)

  /// - Parameter now: the current time in milliseconds.
  public init(now: @escaping @Sendable () -> Int64) { self.now = now }

  public var leftOutCount: Int { leftOut.load(ordering: .relaxed) }

  /// - Returns: the number of lines of the event dropped since the last one that was written; nil to drop this one.
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

/// Limits lines to a number for each span of time, so that frequent events do not fill the disk.
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

  /// - Parameter now: the current time in milliseconds.
  /// - Returns: the number of lines dropped since the last one that was written; nil to drop this one.
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
