// Routes, errors and what browsers need: the notifier's face to HTTP.

import HTTPServer
import Records
import ServiceKit
import WebServices

extension Authenticator.Question {
  /// The credentials of a request: `ckAPIToken` and `ckWebAuthToken`, or a bearer token.
  init(_ request: HTTPRequest, _ container: ContainerID, _ environment: Environment) {
    func given(_ name: String) -> String? { request.query(name).flatMap { $0.isEmpty ? nil : $0 } }
    self.init(
      container: container, environment: environment, apiToken: given("ckAPIToken"),
      userToken: given("ckWebAuthToken") ?? given("ckSession") ?? request.header("authorization").flatMap(Self.bearerToken))
  }

  private static func bearerToken(_ header: String) -> String? {
    let parts = header.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
    let token = parts[1].drop { $0 == " " }
    return token.isEmpty ? nil : String(token)
  }
}

/// Answers of the notifier's HTTP server.
struct NotifierHandler: HTTPHandler {
  let notifier: Notifier

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    let path = request.pathSegments
    if request.method == .options { return CORS.preflight }
    do throws(RecordError) {
      let isStream = path.count == 5 && path[0] == "mirror" && path[1] == "1" && path[4] == "pings"
      let isCourier = path.count == 3 && path[0] == "courier" && path[1] == "1"
      guard isStream || isCourier else {
        throw RecordError(.notFound, "The notifier has /mirror/1/{container}/{environment}/pings and /courier/1/{token}.")
      }
      guard request.method == .get else { throw RecordError(.badRequest, "Only GET is answered here.", httpStatus: 405) }
      return isStream ? try await notifier.openStream(request, container: path[2], environment: path[3]) : try await notifier.poll(path[2])
    } catch {
      notifier.metrics.refused[error.code.rawValue].increment()
      return answer(error)
    }
  }

  func refusal(status: Int, reason: String) -> HTTPResponse { answer(ErrorAnswer.error(forStatus: status, reason: reason)) }

  func releaseHeldRequests() { notifier.releaseAll() }

  /// Errors can be read from any page: they tell nothing of anybody.
  private func answer(_ error: RecordError) -> HTTPResponse {
    let uuid = notifier.random.uuid()
    var headers = [ErrorAnswer.jsonHeader, ("X-Apple-Request-UUID", uuid)] + CORS.headers(origin: nil, allowed: [])
    if let retryAfter = error.retryAfter { headers.append(("Retry-After", String(retryAfter))) }
    return HTTPResponse(status: error.status, headers: headers, body: .bytes(error.dictionary(uuid: uuid)))
  }
}

enum ErrorAnswer {
  static let jsonHeader = (name: "Content-Type", value: "application/json")

  /// The error that stands for what the HTTP server refused by itself.
  static func error(forStatus status: Int, reason: String) -> RecordError {
    switch status {
    case 404: RecordError(.notFound, reason)
    case 413: RecordError(.quotaExceeded, reason)
    case 503: RecordError(.tryAgainLater, reason, retryAfter: 1)
    case 400..<500: RecordError(.badRequest, reason, httpStatus: status)
    default: RecordError(.internalError, reason, httpStatus: status)
    }
  }
}

/// What pages of other origins may read (wire-protocol section 2.6).
enum CORS {
  private static let exposed = (name: "Access-Control-Expose-Headers", value: "X-Apple-CloudKit-Web-Auth-Token, X-Apple-Request-UUID")

  /// A preflight carries no credentials, so any origin passes here; the request itself is checked against its API token's origins.
  static let preflight = HTTPResponse(
    status: 204,
    headers: headers(origin: nil, allowed: []) + [
      ("Access-Control-Allow-Methods", "GET, OPTIONS"), ("Access-Control-Allow-Headers", "content-type, authorization, last-event-id, cache-control"),
    ])

  /// - Parameter allowed: of the API token; empty: any.
  static func allows(_ origin: String?, allowed: [String]) -> Bool {
    guard let origin, !allowed.isEmpty else { return true }
    return allowed.contains { $0 == "*" || $0.lowercased() == origin.lowercased() }
  }

  static func headers(origin: String?, allowed: [String]) -> [(name: String, value: String)] {
    guard let origin, !allowed.isEmpty else { return [("Access-Control-Allow-Origin", "*"), exposed] }
    return [("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), exposed]
  }
}
