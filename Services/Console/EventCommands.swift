// `events`, once or for as long as one watches; `health` for container health checks.

import Glibc
import JSON

extension Console {
  private static let followPause: UInt32 = 1
  private static let healthLimit: Duration = .seconds(2)

  /// With `--follow` one line an event, until Ctrl-C.
  func events(_ invocation: Invocation) async -> Int32 {
    guard invocation.flag("follow") else { return await send(AdminCall("GET", ["admin", "1", "events"]), invocation) }
    var seen: String?
    while true {
      var newest = seen
      let call = AdminCall("GET", ["admin", "1", "events"], query: seen.map { [("after", $0)] } ?? [])
      let code = await send(call, invocation) { body in newest = showEvents(body, isJSON: invocation.globals.isJSON) ?? newest }
      guard code == ExitCode.done else { return code }
      seen = newest
      sleep(Self.followPause)
    }
  }

  /// - Returns: the identifier of the last event; nil without any.
  private func showEvents(_ body: [UInt8], isJSON: Bool) -> String? {
    // Dropped because what is no JSON has no event in it.
    guard let events = (try? JSONValue(parsing: body))?["events"]?.elements else { return nil }
    for event in events {
      var writer = JSONWriter()
      writer.value(event)
      let line = String(decoding: writer.bytes, as: UTF8.self)
      terminal.output(isJSON ? line : AnswerText.line(event))
    }
    return events.last?["identifier"]?.string
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
