import HTTPServer
import JSON
import Records
import ServiceBus
import Synchronization
import Testing

@testable import Gateway

struct ConsolePageTests {
  private static let protection = [
    "Content-Security-Policy":
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
      + "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
  ]

  @Test func `the pages are served with their type, a tag of their content, and no right to anything foreign`()
    async throws
  {
    let world = try await consoleWorld()
    for (path, type, content) in [
      ("/console/", "text/html; charset=utf-8", consolePage),
      ("/console/index.html", "text/html; charset=utf-8", consolePage),
      ("/console/app.js", "text/javascript; charset=utf-8", "export const a = 1"),
      ("/console/style/main.css", "text/css; charset=utf-8", "a{}"),
    ] {
      let segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
      let response = await world.gateway.respond(to: .get(segments))
      #expect(response.status == 200 && response.text == content && response.header("Content-Type") == type)
      for (name, value) in Self.protection { #expect(response.header(name) == value) }
      #expect(response.header("Access-Control-Allow-Origin") == nil)
      let tag = try #require(response.header("ETag"))
      #expect(response.header("Cache-Control") == "no-cache")
      let again = await world.gateway.respond(to: .get(segments, headers: [("if-none-match", "\"x\", \(tag)")]))
      #expect(again.status == 304 && again.bytes.isEmpty && again.header("ETag") == tag)
    }
  }

  @Test func `a consolePage is compressed once for browsers that take it so`() async throws {
    let world = try await consoleWorld()
    let response = await world.gateway.respond(to: .get(["console", ""], headers: [("accept-encoding", "gzip")]))
    #expect(response.header("Content-Encoding") == "gzip" && response.header("Vary") == "Accept-Encoding")
    #expect(response.bytes.starts(with: [0x1f, 0x8b]) && response.bytes.count < consolePage.utf8.count / 5)
  }

  @Test func `the address without a final slash leads to the pages, and other paths lead nowhere`() async throws {
    let world = try await consoleWorld()
    let moved = await world.respond(.get, "/console")
    #expect(moved.status == 308 && moved.header("Location") == "/console/")
    for path in ["/console/absent.js", "/console/../openapi.json", "/console/style", "/console/session/x"] {
      #expect(await world.respond(.get, path).status == 404, "\(path)")
    }
    #expect(await world.respond(.post, "/console/app.js").status == 405)
  }

  @Test func `a gateway without the option has no console, and the console's own server has nothing else`()
    async throws
  {
    let plain = try await GatewayWorld()
    for path in ["/console", "/console/app.js", "/console/session", "/console/api/status"] {
      #expect(await plain.respond(.get, path, headers: [consoleCookie("con_operator")]).status == 404, "\(path)")
    }
    var own = try await consoleWorld().gateway
    own.isConsoleOnly = true
    for path in [["openapi.json"], ["admin", "1", "status"], [""], ["signin"]] {
      #expect(await own.respond(to: .get(path, headers: [("authorization", "Bearer operator")])).status == 404)
    }
    #expect(await own.respond(to: .get(["console", "app.js"])).status == 200)
  }
}
