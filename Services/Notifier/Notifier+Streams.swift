// Event streams of devices that are connected, each with the credentials of its request.

import Authentication
import HTTPServer
import Records
import ServiceBus
import Synchronization
import WebServices

extension Notifier {
  /// `GET /mirror/1/{container}/{environment}/pings`
  func openStream(_ request: HTTPRequest, container: String, environment: String) async throws(RecordError)
    -> HTTPResponse
  {
    guard let container = ContainerID(rawValue: container) else {
      throw RecordError(.badRequest, "The container's identifier is malformed.")
    }
    guard let environment = Environment(rawValue: environment) else {
      throw RecordError(.badRequest, "The environment is neither development nor production.")
    }
    let devices = try Self.devices(of: request)
    let question = Authenticator.Question(request, container, environment)
    let (user, origins) = try await user(of: question)
    let origin = request.header("origin")
    guard CORS.allows(origin, allowed: origins) else {
      throw RecordError(.accessDenied, "The API token is not for pages of this origin.")
    }
    try state.withLock { state throws(RecordError) in
      let count = state.streamCounts[user, default: 0]
      guard count < limits.streamsPerUser else {
        throw RecordError(.throttled, "The user has \(count) event streams; close one first.", retryAfter: 60)
      }
      state.streamCounts[user] = count + 1
    }
    let stream = EventStream(question: question, metrics: metrics) { [weak self] in self?.closed($0) }
    // Connected before the first byte is sent, so that a client that has read that byte misses no later change.
    let scope = PingBoard.Scope(container: container, environment: environment)
    let id = switchboard.connect(PingBoard.Listener(scope: scope, userRecordName: user, devices: devices), stream)
    let isDraining = state.withLock { state in
      state.streams[ObjectIdentifier(stream)] = (stream, id, user)
      return state.isDraining
    }
    if isDraining { stream.end() }
    return HTTPResponse(
      status: 200,
      headers: [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no")]
        + CORS.headers(origin: origin, allowed: origins),
      body: .source(stream))
  }

  /// The stores whose own changes a stream is not told of: an app has one for each of its databases.
  private static func devices(of request: HTTPRequest) throws(RecordError) -> [String] {
    var devices: [String] = []
    for (name, value) in request.query where name == "device" && !devices.contains(value) {
      guard devices.count < PingBoard.Listener.listLimit else {
        throw RecordError(
          .badRequest,
          "device: a stream has at most \(PingBoard.Listener.listLimit) devices; open another one for further ones.")
      }
      devices.append(value)
    }
    return devices
  }

  private func closed(_ stream: EventStream) {
    let entry = state.withLock { state in
      let entry = state.streams.removeValue(forKey: ObjectIdentifier(stream))
      if let user = entry?.user, let count = state.streamCounts[user] {
        state.streamCounts[user] = count > 1 ? count - 1 : nil
      }
      return entry
    }
    if let entry { switchboard.disconnect(entry.id) }
  }
}
