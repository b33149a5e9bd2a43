// `events`, once or continuously, and `health` for container health checks.

import Glibc
import JSON

extension Console {
  private static let followPause: UInt32 = 1
  private static let healthLimit: Duration = .seconds(2)

  /// With `--follow` prints one line for each event until Ctrl-C.
  func events(_ invocation: Invocation) async -> Int32 {
    let events = AdminCall(.events, invocation)
    if let seconds = invocation.value("watch").flatMap({ UInt32($0) }) {
      return await watch(events, .events, invocation, every: seconds)
    }
    guard invocation.flag("follow") else {
      return await send(events, invocation, within: HTTPSender.viewLimit) {
        show($0, of: .events, textKey: nil, invocation)
      }
    }
    var tail = EventTail()
    while true {
      var fresh: [JSONValue] = []
      let call = AdminCall(
        "GET", ["admin", "1", "events"],
        query: [("after", String(tail.after))] + (invocation.value("container").map { [("container", $0)] } ?? []))
      let code = await send(call, invocation) { fresh = tail.fresh(in: $0) }
      guard code == ExitCode.done else { return code }
      for event in fresh {
        terminal.output(invocation.globals.isJSON ? AnswerText.json(event) : AnswerText.line(event))
      }
      sleep(Self.followPause)
    }
  }

  /// Exit code 0 when `url` answers 200.
  func health(_ url: String) async -> Int32 {
    do throws(HTTPSender.Failure) {
      let answer = try await http.get(url, within: Self.healthLimit)
      terminal.output(Self.line(answer.body))
      return answer.status == 200 ? ExitCode.done : ExitCode.refused
    } catch {
      terminal.problem("aquifer: \(url) can't be reached: \(error.reason)")
      return ExitCode.refused
    }
  }
}

/// Remembers the events already shown. Workers answer events after a time, and several may end in one millisecond or
/// arrive late.
struct EventTail {
  /// An event that a slow shard reports this much later is still shown. Unit: milliseconds.
  private static let overlap: Int64 = 5_000

  /// Milliseconds since 1970.
  private(set) var after: Int64 = 0
  private var shown: Set<String> = []

  /// The events of an answer that were not shown before, oldest first.
  mutating func fresh(in body: [UInt8]) -> [JSONValue] {
    // Dropped because an answer that is no JSON contains no events.
    let events = ((try? JSONValue(parsing: body))?["events"]?.elements ?? []).sorted {
      Self.time(of: $0) < Self.time(of: $1)
    }
    let fresh = events.filter { !shown.contains(Self.name(of: $0)) }
    shown = Set(events.map(Self.name))
    after = max(after, events.last.map { Self.time(of: $0) - Self.overlap } ?? 0)
    return fresh
  }

  private static func time(of event: JSONValue) -> Int64 { event["endedAt"]?.int64 ?? event["startedAt"]?.int64 ?? 0 }
  private static func name(of event: JSONValue) -> String {
    AnswerText.json(event["store"]) + AnswerText.json(event["identifier"])
  }
}
