// The latest log lines of the process, in memory, so that operators find a request's lines across all processes.

internal import JSON
public import ServiceBus
internal import Synchronization

/// A ring of lines.
public final class RecentLog: Sendable {
  static let lineLimit = 10_000
  static let byteLimit = 4_000_000

  private struct Line {
    let at: Int64
    let level: Log.Level
    let isSlow: Bool
    let request: String?
    let json: [UInt8]
  }

  private struct State {
    /// Oldest first.
    var lines: ArraySlice<Line> = []
    var byteCount = 0
  }

  private let state = Mutex(State())

  public init() {}

  func keep(_ line: LogLine) {
    let json = line.object
    let request = line.facts.last { $0.0 == "request" }.flatMap { if case .text(let text) = $0.1 { text } else { nil } }
    state.withLock { state in
      state.lines.append(
        Line(
          at: line.milliseconds, level: line.level, isSlow: line.isAboutSlowRequest, request: request, json: json))
      state.byteCount += json.count
      while state.lines.count > Self.lineLimit || state.byteCount > Self.byteLimit {
        state.byteCount -= state.lines.removeFirst().json.count
      }
    }
  }

  /// The answer to a question of the share service.
  public func answer(_ question: FetchLog) -> [UInt8] {
    let least = Log.level(named: question.level) ?? .debug
    let lines = state.withLock { Array($0.lines) }.filter { line in
      line.at > question.after && line.level >= least && (!question.isSlow || line.isSlow)
        && question.request.map { $0 == line.request } ?? true
    }
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("lines")
    writer.beginArray()
    for line in lines.suffix(max(question.limit, 0)) { writer.raw(line.json) }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}

extension LogLine {
  fileprivate var isAboutSlowRequest: Bool { "\(event)" == "request was slow" }

  /// `{"at","level","event","request","facts"}`.
  fileprivate var object: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("at", milliseconds)
    writer.member("level", level.name)
    writer.member("event", "\(event)")
    var others: [(String, Log.Fact)] = []
    for (index, (name, fact)) in facts.enumerated() {
      // The last fact of a name counts, so an event's own facts override the logger's.
      if facts[(index + 1)...].contains(where: { $0.0 == name }) { continue }
      if name == "request" { Self.write(name, fact, to: &writer) } else { others.append((name, fact)) }
    }
    writer.key("facts")
    writer.beginObject()
    for (name, fact) in others { Self.write(name, fact, to: &writer) }
    writer.endObject()
    writer.endObject()
    return writer.bytes
  }
}
