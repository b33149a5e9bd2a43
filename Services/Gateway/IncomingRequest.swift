// The facts about a request that is being answered, as they become known.

import Authentication
import HTTPServer
import ServiceBus

/// The facts about a request that is being answered.
struct IncomingRequest: Sendable {
  enum Wait: Hashable, Sendable {
    /// For a change (`wait=`, event streams): the gateway holds the request, and nobody works on it meanwhile.
    case change
    /// For the export of a save: the worker holds the request.
    case export
  }

  /// For a call of the console, the operator call that it means.
  var request: HTTPRequest
  /// Drawn by the gateway, so it is unique. The directory recognises repetitions of a request by it.
  let uuid: String
  /// The identifier in logs and in the answer: the client's, if it sent one.
  let traceID: String
  /// The route's pattern, a label of metrics.
  var route = GatewayMetrics.unknownRoute
  /// The origins that the API token allows, once they are known.
  var allowedOrigins: [String] = []
  /// The value of the `Allow` header of a 405 answer.
  var allowedMethods: String?
  /// The question to the directory and its answer, once it is known.
  var authentication: (question: Authenticator.Question, reply: Authenticate.Reply)?
  /// True for HTML pages: scripts of other pages get no CORS headers for them.
  var isPage = false
  /// True for pages and calls of the console, whose credentials are in its cookie.
  var isConsole = false
  /// What the client waits for, once the route is known; nil for a request that is answered at once.
  var wait: Wait?
  /// The request's place among those under way, once its caller is known.
  var place: RequestPlaces.Place?
  /// The party whose memory budget pays for the answer; nil: the sender's address pays.
  var party: String?

  init(request: HTTPRequest, uuid: String, traceID: String) {
    self.request = request
    self.uuid = uuid
    self.traceID = traceID
  }

  /// A copy for streams that check credentials again later, and must not keep the request's place.
  var withoutPlace: IncomingRequest {
    var exchange = self
    exchange.place = nil
    return exchange
  }

  var isMirror: Bool { Self.isMirror(request) }

  var credentials: Credentials { isConsole ? Credentials(ofConsole: request) : Credentials(of: request) }

  static func isMirror(_ request: HTTPRequest) -> Bool {
    request.pathSegments.first == "mirror" || request.pathSegments.first == "admin"
  }
}
