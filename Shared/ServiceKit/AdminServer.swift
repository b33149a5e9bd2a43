// The operator's port of every process: alive, ready, metrics, version. It asks for no credentials, so it must not be
// reachable from outside.

internal import HTTPServer
internal import JSON

/// One condition for a process to take work.
public struct HealthCheck: Sendable {
  public let name: String
  /// The reason why the process is not ready; nil when the condition holds. Must return within about a second.
  public let problem: @Sendable () async -> String?

  public init(_ name: String, problem: @escaping @Sendable () async -> String?) {
    self.name = name
    self.problem = problem
  }
}

/// `/livez`, `/readyz`, `/metrics`, `/version`.
struct AdminHandler: HTTPHandler {
  let role: String
  let name: String
  let metrics: Metrics
  let checks: @Sendable () async -> [HealthCheck]

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    guard request.pathSegments.count == 1, request.method == .get else {
      return refusal(status: 404, reason: "The admin server has only /livez, /readyz, /metrics and /version.")
    }
    switch request.pathSegments[0] {
    // An answer shows that the threads still run.
    case "livez": return Self.json(200) { $0.member("alive", true) }
    case "readyz": return await readiness()
    case "metrics":
      return HTTPResponse(
        status: 200, headers: [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")],
        body: .bytes(await metrics.text()))
    case "version":
      return Self.json(200) { writer in
        writer.member("version", Release.version)
        writer.member("role", role)
        writer.member("name", name)
      }
    default: return refusal(status: 404, reason: "The admin server has only /livez, /readyz, /metrics and /version.")
    }
  }

  private func readiness() async -> HTTPResponse {
    var results: [(name: String, problem: String?)] = []
    for check in await checks() { results.append((check.name, await check.problem())) }
    let isReady = results.allSatisfy { $0.problem == nil }
    return Self.json(isReady ? 200 : 503) { writer in
      writer.member("ready", isReady)
      writer.key("checks")
      writer.beginArray()
      for result in results {
        writer.beginObject()
        writer.member("name", result.name)
        writer.member("ok", result.problem == nil)
        if let problem = result.problem { writer.member("problem", problem) }
        writer.endObject()
      }
      writer.endArray()
    }
  }

  func refusal(status: Int, reason: String) -> HTTPResponse { Self.json(status) { $0.member("reason", reason) } }

  private static func json(_ status: Int, _ members: (inout JSONWriter) -> Void) -> HTTPResponse {
    var writer = JSONWriter()
    writer.beginObject()
    members(&writer)
    writer.endObject()
    return HTTPResponse(
      status: status, headers: [("Content-Type", "application/json"), ("Cache-Control", "no-store")],
      body: .bytes(writer.bytes + [UInt8(ascii: "\n")]))
  }
}
