// The pings that notifiers sent lately, of all notifiers, for people who test one or ask why a device knows nothing.

import JSON
import Records
import ServiceBus

/// The latest pings of all notifiers, oldest first.
struct PingList: Sendable {
  var pings: [(notifier: String, ping: JSONValue)] = []
  /// The number of each notifier's last ping.
  var last: [String: Int64] = [:]
  var silent: [String] = []

  init() {}

  init(_ reports: [ProcessReport], after: [String: Int64], limit: Int) {
    let found = reports.elements(of: "pings").sorted { ($0.value["at"]?.int64 ?? 0) < ($1.value["at"]?.int64 ?? 0) }
    pings = found.suffix(limit).map { ($0.process, $0.value) }
    last = found.reduce(into: after) { last, ping in
      last[ping.process] = max(last[ping.process] ?? 0, ping.value["number"]?.int64 ?? 0)
    }
    silent = reports.silent
  }

  func answer() -> OperatorAnswer {
    OperatorAnswer { writer in
      writer.key("pings")
      writer.beginArray()
      for (notifier, ping) in pings {
        writer.beginObject()
        writer.member("notifier", notifier)
        for (name, value) in ping.members where name != "number" {
          writer.key(name)
          writer.value(value)
        }
        writer.endObject()
      }
      writer.endArray()
      writer.member("after", last.sorted { $0.key < $1.key }.map { "\($0.key):\($0.value)" }.joined(separator: ","))
      writer.member("silent", silent)
    }
  }
}

extension OperatorAPI {
  private static let pingPage = 500

  /// `GET` with `container`, `environment`, `user`, `owner`, `zone`, `after` and `limit`.
  func pings(_ request: Request) async throws -> OperatorAnswer {
    guard request.rest.isEmpty, request.method == "GET" else { throw Self.noSuchCall(request) }
    var question = FetchPings(limit: try request.limit(maximum: Self.pingPage))
    question.container = try request.query["container"].map { name throws in try Self.container(name).rawValue }
    question.environment = request.query["environment"]
    question.owner = request.query["owner"]
    question.zone = request.query["zone"]
    if let user = request.query["user"] { question.userRecordName = try await directory.recordName(ofUser: user) }
    for mark in request.query["after"]?.split(separator: ",") ?? [] {
      let parts = mark.split(separator: ":")
      guard parts.count == 2, let number = Int64(parts[1]) else {
        throw RecordError(.badRequest, "'after' is the member 'after' of an earlier answer")
      }
      question.after[String(parts[0])] = number
    }
    return await sentPings(question).answer()
  }
}
