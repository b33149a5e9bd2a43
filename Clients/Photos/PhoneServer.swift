// The telephone's page, and what it asks of the telephone.

import FoundationEssentials
import HTTPServer

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// Serves the page of one telephone on this machine.
struct PhoneServer: HTTPHandler {
  private let phone: Phone
  private let stage: [String]

  static func start(_ phone: Phone, _ options: Options) throws -> HTTPServer {
    var configuration = HTTPServer.Configuration()
    configuration.port = options.port
    configuration.bodyByteLimit = 64 * 1024
    return try HTTPServer(configuration: configuration, handler: PhoneServer(phone: phone, stage: options.stage))
  }

  func intake(of request: HTTPRequest) -> HTTPBodyIntake { .collect() }
  func releaseHeldRequests() {}
  func refusal(status: Int, reason: String) -> HTTPResponse { Self.json(status, ["reason": reason]) }

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    let path = request.pathSegments
    // A page of another origin can send a form here, but not this header.
    if request.method == .post {
      return await act(path.first ?? "", request.body, isOwn: request.header("sec-fetch-site") != "cross-site")
    }
    switch path.first ?? "" {
    case "", "index.html": return Self.file(PackageResources.index_html, "text/html")
    case "phone.html": return Self.file(PackageResources.phone_html, "text/html")
    case "style.css": return Self.file(PackageResources.style_css, "text/css")
    case "phone.js": return Self.file(PackageResources.phone_js, "text/javascript")
    case "stage.js": return Self.file(PackageResources.stage_js, "text/javascript")
    case "stage.json": return Self.json(200, ["phones": stage])
    case "state.json":
      return HTTPResponse(
        status: 200, headers: [("Content-Type", "application/json")], body: .bytes(await phone.screen().json))
    case "state": return await stream()
    case "picture" where path.count == 2: return await picture(path[1])
    default: return refusal(status: 404, reason: "There is no \(request.target) here.")
    }
  }

  /// Each state of the screen as an event.
  private func stream() async -> HTTPResponse {
    let states = await phone.states()
    let (pieces, sink) = AsyncStream<[UInt8]>.makeStream(bufferingPolicy: .bufferingNewest(1))
    let feeding = Task {
      for await state in states { sink.yield(Array("data: ".utf8) + state.json + Array("\n\n".utf8)) }
      sink.finish()
    }
    sink.onTermination = { _ in feeding.cancel() }
    return HTTPResponse(
      status: 200, headers: [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")],
      body: .stream(pieces))
  }

  private func picture(_ id: String) async -> HTTPResponse {
    guard let bytes = await phone.picture(id) else { return refusal(status: 404, reason: "The picture is not here.") }
    let headers = [
      ("Content-Type", "image/svg+xml"), ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
    ]
    return HTTPResponse(status: 200, headers: headers, body: .bytes(bytes))
  }

  private func act(_ name: String, _ body: [UInt8], isOwn: Bool) async -> HTTPResponse {
    guard isOwn else { return refusal(status: 403, reason: "Another page can't do that.") }
    do {
      let request = try JSONDecoder().decode(Deed.self, from: Data(body))
      switch name {
      case "add": return Self.json(200, ["id": try await phone.add()])
      case "caption": try await phone.setCaption(request.text(\.caption), of: request.text(\.id))
      case "tag": try await phone.tag(request.text(\.id), as: request.text(\.tag))
      case "untag": try await phone.untag(request.text(\.id), as: request.text(\.tag))
      case "rate": try await phone.rate(request.text(\.id), stars: request.stars ?? 0)
      case "delete": try await phone.delete(request.text(\.id))
      case "airplane": try await phone.setAirplane(request.on ?? false)
      case "pin": try await phone.setPinned(request.on ?? false)
      case "share": return Self.json(200, ["url": try await phone.share(request.text(\.id))])
      case "accept": try await phone.accept(request.text(\.url))
      case "revoke": try await phone.revoke(request.text(\.id))
      // As a machine does when it takes the process away: nothing is closed, flushed or said.
      case "kill": kill(getpid(), SIGKILL)
      default: return refusal(status: 404, reason: "A telephone can't \(name).")
      }
      return Self.json(200, ["done": name])
    } catch let problem as Problem {
      return refusal(status: 409, reason: problem.reason)
    } catch {
      return refusal(status: 409, reason: "\(error)")
    }
  }

  /// What a person did, as the page says it.
  private struct Deed: Decodable {
    var id: String?
    var caption: String?
    var tag: String?
    var stars: Int?
    var on: Bool?
    var url: String?

    func text(_ member: KeyPath<Deed, String?>) throws(Problem) -> String {
      guard let text = self[keyPath: member] else { throw Problem(reason: "The request lacks what it is about.") }
      return text
    }
  }

  private static func json(_ status: Int, _ value: some Encodable) -> HTTPResponse {
    // Dropped because texts can always be written.
    let bytes = (try? JSONEncoder().encode(value)).map { [UInt8]($0) } ?? []
    return HTTPResponse(
      status: status, headers: [("Content-Type", "application/json"), ("Cache-Control", "no-store")],
      body: .bytes(bytes))
  }

  private static func file(_ bytes: [UInt8], _ type: String) -> HTTPResponse {
    HTTPResponse(
      status: 200, headers: [("Content-Type", "\(type); charset=utf-8"), ("Cache-Control", "no-store")],
      body: .bytes(bytes))
  }
}
