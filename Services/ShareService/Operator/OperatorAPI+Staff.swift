// Judges the staff's calls by their role, and keeps the audit of their changes.

import JSON
import Records
import ServiceBus
import WebServices

extension OperatorAPI {
  /// Carries out a call that its caller may make. A change is noted before it is carried out.
  /// - Throws: `accessDenied`, and the errors of the call.
  func judged(
    _ message: OperatorRequest, _ body: [UInt8], _ carryOut: (OperatorRequest) async throws -> OperatorAnswer
  ) async throws -> OperatorAnswer {
    let member = message.member ?? .tokenHolder
    let container = try? await container(of: message, body)
    if member.role == .developer {
      guard let container else {
        throw RecordError(.accessDenied, "Only operators make this call; developers make calls on one container")
      }
      guard member.maySee(container) else {
        throw RecordError(.accessDenied, "You are not a developer of the container '\(container.rawValue)'")
      }
    }
    guard message.method != "GET" else { return try await carryOut(message) }
    let number = try await directory.begin(
      NoteAct.Act(
        member, container: container, method: message.method, path: Self.shownPath(message.path), query: message.query))
    let answer: OperatorAnswer
    do {
      answer = try await carryOut(message)
    } catch {
      try await directory.end(act: number, status: (error as? RecordError ?? RecordError(ofDirectory: error)).status)
      throw error
    }
    // Dropped because the change is made; the act is in the audit without its status.
    try? await directory.end(act: number, status: answer.status)
    return answer
  }

  /// The path without credentials: of a token, its beginning, also in a path that is no call.
  private static func shownPath(_ path: [String]) -> [String] {
    guard path.count > 3, path[2] == "tokens" else { return path }
    return path[..<3] + path[3...].map { "\($0.prefix(Directory.shownCharacterCount))…" }
  }

  /// The container that a call concerns; nil for a call on the installation.
  private func container(of message: OperatorRequest, _ body: [UInt8]) async throws -> ContainerID? {
    let path = message.path
    func named(_ name: String?) -> ContainerID? { name.flatMap { ContainerID(rawValue: $0) } }
    guard path.count >= 3 else { return nil }
    if path[0] == "mirror" { return named(path[2]) }
    let item = path.count > 3 ? path[3] : nil
    switch (message.method, path[2], path.count) {
    case (_, "schema", 5...), (_, "rules", 5...), (_, "models", 5...): return named(item)
    // The list has only the caller's own containers.
    case ("GET", "containers", 3): return named(message.member?.containers?.first)
    case ("POST", "containers", 4), ("DELETE", "roles", 7): return named(item)
    case ("POST", "quarantine", 4): return named(message.query["container"])
    case ("GET", let noun, 3) where OperatorNoun(rawValue: noun)?.isListOfContainer == true:
      return named(message.query["container"])
    case ("POST", "tokens", 3), ("POST", "keys", 3): return named(try JSONValue.request(body)["container"]?.string)
    case ("POST", "roles", 3):
      let body = try JSONValue.request(body)
      return body["environment"] == nil ? nil : named(body["container"]?.string)
    case ("DELETE", "tokens", 4), ("DELETE", "keys", 4), ("DELETE", "sessions", 4):
      return try await directory.container(of: path[2], named: item ?? "")
    default: return nil
    }
  }

  /// `GET` with `container`, `after` and `limit`: the acts, newest first.
  func audit(_ request: Request) async throws -> OperatorAnswer {
    guard request.method == "GET", request.rest.isEmpty else { throw Self.noSuchCall(request) }
    let limit = try request.limit(maximum: Self.auditPage)
    let container = try request.query["container"].map { name throws(RecordError) in try Self.container(name) }
    let acts = try await directory.acts(in: container, before: try request.number("after"), limit: limit)
    return OperatorAnswer { writer in
      writer.key("acts")
      writer.beginArray()
      for act in acts {
        writer.beginObject()
        writer.member("number", act.number)
        writer.member("at", act.at)
        writer.member("name", act.name)
        writer.member("role", act.role)
        if let container = act.container { writer.member("container", container) }
        writer.member("method", act.method)
        writer.member("path", act.path)
        if !act.query.isEmpty { writer.member("query", act.query) }
        if let status = act.status { writer.member("status", status) }
        writer.endObject()
      }
      writer.endArray()
      if acts.count == limit, let last = acts.last { writer.member("after", last.number) }
    }
  }

  static let auditPage = 500
}

extension OperatorAPI.Request {
  /// A query parameter as a number of at least 0; nil if it is missing.
  /// - Throws: `badRequest`.
  func number(_ name: String) throws(RecordError) -> Int64? {
    guard let text = query[name] else { return nil }
    guard let number = Int64(text), number >= 0 else {
      throw RecordError(.badRequest, "'\(name)' must be a whole number of at least 0")
    }
    return number
  }

  /// The query's `limit`, from 1 to `maximum`; `maximum` if it is missing.
  func limit(maximum: Int) throws(RecordError) -> Int {
    try number("limit").map { Int(clamping: min(max($0, 1), Int64(maximum))) } ?? maximum
  }
}
