// `/console`: its pages, its sessions, and its calls, which are operator calls with the session's credentials.

import Authentication
import Crypto
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  static let consoleCookie = "aquifer-console"
  /// Of a session (docs/protocol/operator-api.md#the-console). Unit: seconds.
  private static let consoleTime = 8 * 3600

  /// Answers a request for a page of the console, and turns a call of the console into the operator call that it means.
  /// - Returns: nil for a request that a route answers.
  /// - Throws: `authenticationFailed` for a call without a session, `accessDenied` for a change that the console's own
  ///   page did not send.
  func enterConsole(_ exchange: inout IncomingRequest) async throws(RecordError) -> HTTPResponse? {
    let request = exchange.request
    guard request.pathSegments.first == "console" else {
      if isConsoleOnly { throw Self.unknownPath }
      return nil
    }
    guard let consoleSite else { throw Self.unknownPath }
    exchange.isConsole = true
    if request.pathSegments == ["console", "session"] { return nil }
    if let call = request.consoleCall {
      guard request.cookie(Self.consoleCookie) != nil else {
        throw RecordError(.authenticationFailed, "Sign in to the console")
      }
      try await checkOrigin(of: exchange)
      exchange.request = call
      return nil
    }
    exchange.route = "/console/{…}"
    guard request.method == .get else {
      exchange.allowedMethods = "GET"
      throw RecordError(.badRequest, "This endpoint takes GET", httpStatus: 405)
    }
    if request.pathSegments == ["console"] {
      return HTTPResponse(status: 308, headers: [("Location", "/console/"), ("Cache-Control", "no-cache")])
    }
    guard let file = consoleSite.response(to: request) else { throw Self.unknownPath }
    return file
  }

  // MARK: Forged requests

  /// Another page can make a browser send the cookie, but it can't read the session's value.
  private func checkOrigin(of exchange: IncomingRequest) async throws(RecordError) {
    let request = exchange.request
    guard request.method != .get, let token = request.cookie(Self.consoleCookie) else { return }
    let value = try await forgeryValue(of: token)
    guard isOwn(request), let sent = request.header("x-csrf-token"),
      ConstantTime.areEqual(Array(sent.utf8), Array(value.utf8))
    else {
      throw RecordError(.accessDenied, "A change needs the session's value 'csrf' in the header X-CSRF-Token")
    }
  }

  /// The value that proves that a request comes from a page that has read the session.
  private func forgeryValue(of token: String) async throws(RecordError) -> String {
    Hex.encode(
      HMACSHA256.code(for: Array("aquifer console \(token)".utf8), key: try await secrets.signingKey()))
  }

  // MARK: Sessions

  /// `GET`, `POST {"operatorToken"}` or `{"name","password"}`, `DELETE`.
  func consoleSession(_ exchange: IncomingRequest) async throws(RecordError) -> HTTPResponse {
    let request = exchange.request
    switch request.method {
    case .post: return try await openConsole(request)
    case .delete:
      try await checkOrigin(of: exchange)
      guard let token = request.cookie(Self.consoleCookie) else {
        throw RecordError(.authenticationFailed, "Sign in to the console")
      }
      _ = try await share.call(CloseConsole(token: token))
      state.authenticator.forgetAll()
      var response = Self.json(Array(#"{"ended":true}"#.utf8))
      response.headers += [("Cache-Control", "no-store"), ("Set-Cookie", consoleCookie("", seconds: 0, request))]
      return response
    default:
      guard let token = request.cookie(Self.consoleCookie) else {
        throw RecordError(.authenticationFailed, "Sign in to the console")
      }
      return try await session(token)
    }
  }

  private func openConsole(_ request: HTTPRequest) async throws(RecordError) -> HTTPResponse {
    try take(.address(request.clientNetwork))
    guard isOwn(request), request.header("content-type")?.lowercased().hasPrefix("application/json") == true else {
      throw RecordError(.accessDenied, "Only the console's own page signs in, with a body of application/json")
    }
    let entry = try Self.entry(request.body)
    let reply = try await share.call(OpenConsole(entry, clientAddress: request.remoteAddress))
    if let seconds = reply.retryAfter {
      throw RecordError(.throttled, "Too many attempts", retryAfter: seconds)
    }
    if reply.lacksRole {
      throw RecordError(.accessDenied, "This user is neither an operator nor a developer: an operator grants the role")
    }
    guard let token = reply.token else {
      let subject = if case .operatorToken = entry { "operator token" } else { "name or the password" }
      throw RecordError(.authenticationFailed, "The \(subject) is wrong")
    }
    // The browser's earlier session ends: nobody can have put this browser into a session that they know.
    if let earlier = request.cookie(Self.consoleCookie) { _ = try await share.call(CloseConsole(token: earlier)) }
    var response = try await session(token)
    response.headers.append(("Set-Cookie", consoleCookie(token, seconds: Self.consoleTime, request)))
    return response
  }

  private static func entry(_ body: [UInt8]) throws(RecordError) -> OpenConsole.Entry {
    let body = try JSONValue.request(body)
    if let token = body["operatorToken"]?.string, !token.isEmpty { return .operatorToken(token) }
    guard let name = body["name"]?.string?.trimmingSpaces(), let password = body["password"]?.string, !name.isEmpty,
      !password.isEmpty
    else {
      throw RecordError(.badRequest, "Send 'operatorToken', or 'name' and 'password'")
    }
    return .user(name: name, password: password)
  }

  private func session(_ token: String) async throws(RecordError) -> HTTPResponse {
    let question = Authenticator.Question(container: nil, environment: nil, apiToken: nil, userToken: token)
    let reply = try await state.authenticator.answer(to: question, from: share)
    guard let member = reply.member, let end = reply.sessionEnd else {
      throw RecordError(.authenticationFailed, "The session has ended")
    }
    let value = try await forgeryValue(of: token)
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("role", member.role.rawValue)
    writer.member("name", member.name)
    writer.key("containers")
    writer.beginArray()
    for container in member.containers ?? [] { writer.string(container) }
    writer.endArray()
    writer.member("csrf", value)
    writer.member("expires", end)
    writer.endObject()
    var response = Self.json(writer.bytes)
    response.headers.append(("Cache-Control", "no-store"))
    return response
  }

  private func consoleCookie(_ value: String, seconds: Int, _ request: HTTPRequest) -> String {
    let isSecure = options.publicAddress.url(for: request).hasPrefix("https://")
    return
      """
      \(Self.consoleCookie)=\(value); Path=/console; Max-Age=\(seconds); HttpOnly; \
      SameSite=Strict\(isSecure ? "; Secure" : "")
      """
  }
}

extension HTTPRequest {
  /// The operator call that a call of the console means; nil for other requests.
  var consoleCall: HTTPRequest? {
    guard pathSegments.count > 2, pathSegments.starts(with: ["console", "api"]) else { return nil }
    return HTTPRequest(
      method: method, target: target, pathSegments: ["admin", "1"] + pathSegments.dropFirst(2), query: query,
      headers: headers, body: body, sink: sink, remoteAddress: remoteAddress, forwardedOrigin: forwardedOrigin)
  }
}

extension Credentials {
  /// The credentials of a call of the console.
  init(ofConsole request: HTTPRequest) {
    let token = request.cookie(Gateway.consoleCookie)
    self.init(apiToken: nil, userToken: token, isBearer: false, isCookie: token != nil)
  }
}
