// A gateway with a console of three files, and its callers.

import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Gateway

let consolePage = "<!doctype html><title>Aquifer</title>" + String(repeating: "<p>word</p>", count: 300)

func consoleWorld(
  at publicURL: String = "http://gateway", timing: Timing = .system, worker: GatewayWorld.Worker? = nil
) async throws -> GatewayWorld {
  try await GatewayWorld(
    timing: timing, worker: worker, publicURL: publicURL,
    console: await ConsoleSite([
      "index.html": Array(consolePage.utf8), "app.js": Array("export const a = 1".utf8),
      "style/main.css": Array("a{}".utf8),
    ]))
}

func consoleCookie(_ token: String) -> (String, String) { ("cookie", "a=b; aquifer-console=\(token)") }

extension GatewayWorld {
  /// The session's value against forged requests.
  func value(_ token: String) async throws -> String {
    try #require(
      try await respond(.get, "/console/session", headers: [consoleCookie(token)]).json["csrf"]?.string)
  }

  func console(
    _ method: HTTPMethod, _ path: String, _ token: String?, body: String = "{}", headers: [(String, String)] = []
  ) async throws -> HTTPResponse {
    var own = headers
    if let token { own += [consoleCookie(token), ("x-csrf-token", try await value(token))] }
    return await respond(method, "/console/api/\(path)", headers: own, body: body)
  }
}

extension HTTPRequest {
  static func get(_ segments: [String], headers: [(String, String)] = []) -> HTTPRequest {
    HTTPRequest(
      method: .get, target: "/" + segments.joined(separator: "/"), pathSegments: segments, query: [],
      headers: headers.map { (name: $0.0, value: $0.1) }, body: [], remoteAddress: "127.0.0.1")
  }
}
