// Writes log lines to standard error: JSON for machines, text for a terminal.

internal import Glibc
internal import JSON

extension Log {
  public enum Format: String, Sendable, CaseIterable {
    case json, text
  }

  /// A logger that writes each event as one line, at once.
  /// - Parameters:
  ///   - format: nil for text on a terminal and JSON otherwise.
  ///   - level: the least level that is written.
  ///   - service: the name of the process, e.g. `notifier-1`.
  public static func standardError(format: Format? = nil, level: Level = .info, service: String) -> Log {
    let format = format ?? (isatty(STDERR_FILENO) == 1 ? .text : .json)
    let clock = SystemClock()
    return Log(level: level, paces: LogPaces { clock.now }) { eventLevel, event, facts in
      let line = LogLine(milliseconds: clock.now, level: eventLevel, service: service, event: event, facts: facts)
      writeAll(line.bytes(format))
    }
  }

  /// The level of that name: `debug`, `info`, `warning`, `error`.
  static func level(named name: String) -> Level? { Level.allNames.first { $0.name == name }?.level }

  private static func writeAll(_ bytes: [UInt8]) {
    bytes.withUnsafeBytes { buffer in
      var rest = buffer[...]
      while !rest.isEmpty {
        let count = write(STDERR_FILENO, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        // Dropped because the error has no other output.
        if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { return }
      }
    }
  }
}

extension Log.Level {
  static let allNames: [(name: String, level: Log.Level)] = [
    ("debug", .debug), ("info", .info), ("warning", .warning), ("error", .error),
  ]

  var name: String {
    switch self {
    case .debug: "debug"
    case .info: "info"
    case .warning: "warning"
    case .error: "error"
    }
  }
}

/// One event and its renderings.
struct LogLine {
  let milliseconds: Int64
  let level: Log.Level
  let service: String
  let event: StaticString
  let facts: [(String, Log.Fact)]

  /// The line with its line feed.
  func bytes(_ format: Log.Format) -> [UInt8] {
    switch format {
    case .json: json
    case .text: Array(text.utf8)
    }
  }

  private var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("ts", Timestamp.text(milliseconds))
    writer.member("level", level.name)
    writer.member("service", service)
    writer.member("event", "\(event)")
    let reserved: Set = ["ts", "level", "service", "event"]
    for (index, (name, fact)) in facts.enumerated() where !reserved.contains(name) {
      // The last fact of a name counts, so an event's own facts override the logger's.
      if facts[(index + 1)...].contains(where: { $0.0 == name }) { continue }
      Self.write(name, fact, to: &writer)
    }
    writer.endObject()
    return writer.bytes + [UInt8(ascii: "\n")]
  }

  static func write(_ name: String, _ fact: Log.Fact, to writer: inout JSONWriter) {
    writer.key(name)
    switch fact {
    case .text(let text): writer.string(text)
    case .integer(let integer): writer.integer(integer)
    case .number(let number): if number.isFinite { writer.double(number) } else { writer.string("\(number)") }
    case .flag(let flag): writer.bool(flag)
    }
  }

  private var text: String {
    var line = "\(Timestamp.text(milliseconds).dropFirst(11)) \(level.name.padding(to: 7)) \(service) \(event)"
    for (name, fact) in facts {
      line += " \(name)="
      switch fact {
      case .text(let text): line += Self.shown(text)
      case .integer(let integer): line += "\(integer)"
      case .number(let number): line += "\(number)"
      case .flag(let flag): line += "\(flag)"
      }
    }
    return line + "\n"
  }

  /// Quotes the text unless it is one plain word, so that it cannot imitate another fact, another line or a terminal's
  /// escape.
  private static func shown(_ text: String) -> String {
    let isPlain =
      !text.isEmpty
      && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "=") }
    return isPlain ? text : text.debugDescription
  }
}

extension String {
  func padding(to count: Int) -> String { self + String(repeating: " ", count: max(0, count - self.count)) }
}

/// Formats times in RFC 3339, in UTC with milliseconds.
public enum Timestamp {
  /// - Parameter milliseconds: since 1970; may be negative.
  public static func text(_ milliseconds: Int64) -> String {
    let day = milliseconds.floorDivided(by: 86_400_000)
    let ofDay = Int(milliseconds - day * 86_400_000)
    // Converts days to a civil date by eras of 400 years that begin in March (Howard Hinnant's algorithm).
    let shifted = day + 719_468
    let era = shifted.floorDivided(by: 146_097)
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    let date =
      "\(digits(Int(year), 4))-\(digits(Int(month), 2))-\(digits(Int(dayOfYear - (153 * shiftedMonth + 2) / 5 + 1), 2))"
    let time =
      """
      \(digits(ofDay / 3_600_000, 2)):\(digits(ofDay / 60_000 % 60, 2)):\
      \(digits(ofDay / 1000 % 60, 2)).\(digits(ofDay % 1000, 3))
      """
    return "\(date)T\(time)Z"
  }

  private static func digits(_ value: Int, _ count: Int) -> String {
    let text = String(value)
    return String(repeating: "0", count: max(0, count - text.count)) + text
  }
}

extension Int64 {
  fileprivate func floorDivided(by divisor: Int64) -> Int64 {
    let quotient = self / divisor
    return self % divisor < 0 ? quotient - 1 : quotient
  }
}
