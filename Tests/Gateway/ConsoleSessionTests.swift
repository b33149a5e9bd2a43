import HTTPServer
import JSON
import Records
import ServiceBus
import Synchronization
import Testing

@testable import Gateway

struct ConsoleSessionTests {
  private func open(
    _ world: GatewayWorld, _ body: String, headers: [(String, String)] = [("content-type", "application/json")]
  ) async -> HTTPResponse {
    await world.respond(.post, "/console/session", headers: headers, body: body)
  }

  @Test func `operators sign in with the token, developers with a name, and the cookie is for the console alone`()
    async throws
  {
    let world = try await consoleWorld()
    for (body, role, name, containers) in [
      (#"{"operatorToken":"operator"}"#, "operator", "operator", [String]()),
      (#"{"name":" carol ","password":"right"}"#, "developer", "developer", [GatewayWorld.container]),
    ] {
      let response = await open(world, body)
      #expect(response.status == 200)
      let session = try response.json
      #expect(session["role"]?.string == role && session["name"]?.string == name)
      #expect(session["containers"]?.elements.compactMap(\.string) == containers)
      #expect(session["expires"]?.int64 == 1_700_028_800_000)
      #expect(session["csrf"]?.string?.count == 64)
      #expect(
        response.header("Set-Cookie")
          == "aquifer-console=con_\(name); Path=/console; Max-Age=28800; HttpOnly; SameSite=Strict")
      #expect(response.header("Cache-Control") == "no-store" && !response.text.contains("con_"))
    }
  }

  @Test func `over https the cookie is never sent in the clear`() async throws {
    let response = await open(try await consoleWorld(at: "https://example.org"), #"{"operatorToken":"operator"}"#)
    #expect(response.header("Set-Cookie")?.hasSuffix("; HttpOnly; SameSite=Strict; Secure") == true)
  }

  @Test func `wrong credentials, a missing role and too many attempts are told apart, and set no cookie`()
    async throws
  {
    let world = try await consoleWorld()
    for (body, status, code) in [
      (#"{"operatorToken":"guess"}"#, 401, "AUTHENTICATION_FAILED"),
      (#"{"name":"carol","password":"wrong"}"#, 401, "AUTHENTICATION_FAILED"),
      (#"{"name":"alice","password":"right"}"#, 403, "ACCESS_DENIED"),
      (#"{"name":"carol","password":"often"}"#, 429, "THROTTLED"),
      (#"{"name":"carol"}"#, 400, "BAD_REQUEST"), ("[]", 400, "BAD_REQUEST"), ("", 400, "BAD_REQUEST"),
    ] {
      let response = await open(world, body)
      #expect(try response.status == status && response.code == code, "\(body)")
      #expect(response.header("Set-Cookie") == nil)
    }
  }

  @Test func `no other consolePage signs a browser in, and no form can`() async throws {
    let world = try await consoleWorld()
    let json = ("content-type", "application/json")
    for headers in [
      [("content-type", "text/plain")], [], [json, ("origin", "https://evil.example")],
      [json, ("sec-fetch-site", "cross-site")], [json, ("sec-fetch-site", "same-site")],
    ] {
      let response = await open(world, #"{"operatorToken":"operator"}"#, headers: headers)
      #expect(response.status == 403 && response.header("Set-Cookie") == nil)
    }
    let own = [json, ("origin", "http://gateway"), ("sec-fetch-site", "same-origin")]
    #expect(await open(world, #"{"operatorToken":"operator"}"#, headers: own).status == 200)
  }

  @Test func `a sign-in ends the session that the browser had, and keeps nothing of its identifier`() async throws {
    let world = try await consoleWorld()
    let response = await open(
      world, #"{"operatorToken":"operator"}"#,
      headers: [("content-type", "application/json"), consoleCookie("con_planted")])
    #expect(response.header("Set-Cookie")?.hasPrefix("aquifer-console=con_operator;") == true)
    #expect(world.record.withLock(\.revoked) == ["con_planted"])
  }

  @Test func `a sign-out ends the session on the server`() async throws {
    let world = try await consoleWorld()
    let value = try await world.value("con_operator")
    let refused = await world.respond(.delete, "/console/session", headers: [consoleCookie("con_operator")])
    #expect(refused.status == 403)
    let response = await world.respond(
      .delete, "/console/session", headers: [consoleCookie("con_operator"), ("x-csrf-token", value)])
    #expect(response.status == 200)
    #expect(response.header("Set-Cookie")?.hasPrefix("aquifer-console=; Path=/console; Max-Age=0;") == true)
    #expect(await world.respond(.get, "/console/session", headers: [consoleCookie("con_operator")]).status == 401)
    #expect(await world.respond(.get, "/console/api/status", headers: [consoleCookie("con_operator")]).status == 401)
    for method in [HTTPMethod.get, .delete] { #expect(await world.respond(method, "/console/session").status == 401) }
  }
}
