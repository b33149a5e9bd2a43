// Sessions and the audit of sign-ins over HTTP.

import JSON
import Records
import ServiceBus

extension OperatorAPI {
  /// `GET` with `user` and `container`, `DELETE /{name}`.
  func sessions(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let rows = try await directory.sessions(ofUser: request.query["user"]).filter {
        $0.container.rawValue == request.query["container"] ?? $0.container.rawValue
      }
      return OperatorAnswer(list: "sessions", rows) { row, writer in
        writer.member("session", row.name)
        writer.member("user", row.userName)
        writer.member("container", row.container.rawValue)
        writer.member("environment", row.environment.rawValue)
        if let client = row.client { writer.member("client", client) }
        if let way = row.way { writer.member("way", way) }
        if let provider = row.provider { writer.member("provider", provider) }
        writer.member("created", row.created)
        writer.member("lastUsed", row.lastUsed)
        writer.member("expires", row.expires)
      }
    case ("DELETE", 1):
      try await directory.endSession(request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("revoked", true) }
    default: throw Self.noSuchCall(request)
    }
  }

  /// `GET` with `container`, `user`, `after` and `limit`: the sign-ins, newest first.
  func signIns(_ request: Request) async throws -> OperatorAnswer {
    guard request.method == "GET", request.rest.isEmpty else { throw Self.noSuchCall(request) }
    let limit = try request.limit(maximum: Self.auditPage)
    let container = try request.query["container"].map { name throws(RecordError) in try Self.container(name) }
    let rows = try await directory.signIns(
      in: container, ofUser: request.query["user"], before: try request.number("after"), limit: limit)
    return OperatorAnswer { writer in
      writer.key("signIns")
      writer.beginArray()
      for row in rows {
        writer.beginObject()
        Self.write(row, to: &writer)
        writer.endObject()
      }
      writer.endArray()
      if rows.count == limit, let last = rows.last { writer.member("after", last.number) }
    }
  }

  private static func write(_ row: Directory.SignInRow, to writer: inout JSONWriter) {
    let signIn = row.signIn
    writer.member("number", row.number)
    writer.member("at", row.at)
    if let user = row.userName ?? signIn.user { writer.member("user", user) }
    writer.member("way", signIn.source.way.rawValue)
    if let provider = signIn.source.provider { writer.member("provider", provider) }
    if let container = signIn.container { writer.member("container", container.rawValue) }
    if let environment = signIn.environment { writer.member("environment", environment.rawValue) }
    writer.member("address", signIn.source.address)
    if let client = signIn.source.client { writer.member("client", client) }
    if let session = signIn.session { writer.member("session", session) }
    if let refusal = signIn.refusal { writer.member("refusal", refusal) }
  }
}
