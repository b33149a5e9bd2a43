// The notifier's HTTP interface: routes, errors and CORS headers.

import Authentication
import HTTPServer
import Records
import ServiceKit
import WebServices

extension Authenticator.Question {
  /// The credentials of a request: `ckAPIToken` and `ckWebAuthToken`, or a bearer token.
  init(_ request: HTTPRequest, _ container: ContainerID, _ environment: Environment) {
    let credentials = Credentials(of: request)
    self.init(
      container: container, environment: environment, apiToken: credentials.apiToken, userToken: credentials.userToken)
  }
}

/// Answers requests of the notifier's HTTP server.
struct NotifierHandler: HTTPHandler {
  let notifier: Notifier

  private static let preflight = CORS.preflight(
    methods: "GET, OPTIONS", headers: "content-type, authorization, last-event-id, cache-control")

  func executor(for request: HTTPRequest) -> (any TaskExecutor)? { notifier.executor }

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    let path = request.pathSegments
    if request.method == .options { return Self.preflight }
    let traceID = request.clientTraceID ?? notifier.random.uuid()
    let isStream = path.count == 5 && path[0] == "mirror" && path[1] == "1" && path[4] == "pings"
    let isCourier = path.count == 3 && path[0] == "courier" && path[1] == "1"
    let route = isStream ? "pings" : isCourier ? "courier" : "unknown"
    do throws(RecordError) {
      guard isStream || isCourier else {
        throw RecordError(
          .notFound, "The notifier serves only /mirror/1/{container}/{environment}/pings and /courier/1/{token}.")
      }
      guard request.method == .get else {
        throw RecordError(.badRequest, "The notifier answers only GET.", httpStatus: 405)
      }
      var response =
        isStream
        ? try await notifier.openStream(request, container: path[2], environment: path[3])
        : try await notifier.poll(path[2])
      response.headers.append(("X-Apple-Request-UUID", traceID))
      notifier.metrics.count(route: route, status: response.status)
      return response
    } catch {
      notifier.metrics.refused[error.code.rawValue].increment()
      return answer(error, route: route, traceID: traceID)
    }
  }

  func refusal(status: Int, reason: String) -> HTTPResponse {
    answer(RecordError(refusedWith: status, reason: reason), route: "refused", traceID: notifier.random.uuid())
  }

  func releaseHeldRequests() { notifier.releaseAll() }

  /// Pages of every origin may read errors, which contain no data of any user.
  private func answer(_ error: RecordError, route: String, traceID: String) -> HTTPResponse {
    notifier.metrics.count(route: route, status: error.status)
    var headers = [ErrorAnswer.jsonHeader, ("X-Apple-Request-UUID", traceID)] + CORS.headers(origin: nil, allowed: [])
    if let retryAfter = error.retryAfter { headers.append(("Retry-After", String(retryAfter))) }
    return HTTPResponse(status: error.status, headers: headers, body: .bytes(error.dictionary(uuid: traceID)))
  }
}

enum ErrorAnswer {
  static let jsonHeader = (name: "Content-Type", value: "application/json")
}
