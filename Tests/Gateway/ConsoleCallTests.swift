import HTTPServer
import JSON
import Records
import ServiceBus
import Synchronization
import Testing

@testable import Gateway

struct ConsoleCallTests {
  @Test func `a call of the console is the operator's call, with the person behind it`() async throws {
    let world = try await consoleWorld()
    let response = try await world.console(.post, "containers", "con_developer", body: #"{"container":"a"}"#)
    #expect(response.status == 201 && response.text == "made")
    #expect(response.header("Access-Control-Allow-Origin") == nil && response.header("X-Frame-Options") == "DENY")
    let (request, body) = try #require(world.record.withLock(\.operatorRequests).first)
    #expect(request.path == ["admin", "1", "containers"] && request.method == "POST")
    #expect(request.member == StaffMember(name: "developer", containers: [GatewayWorld.container]))
    #expect(String(decoding: body, as: UTF8.self) == #"{"container":"a"}"#)
    let token = await world.respond(.get, "/admin/1/status", headers: [("authorization", "Bearer operator")])
    #expect(token.status == 201 && world.record.withLock(\.operatorRequests).last?.request.member == .tokenHolder)
  }

  @Test func `no browser and no proxy keeps what a call of the console answers, or refuses`() async throws {
    let world = try await consoleWorld()
    let records = "as/_alice/database/1/\(GatewayWorld.container)/development/private/records/query"
    let ended = [consoleCookie("con_ended")]
    for response in [
      try await world.console(.get, "status", "con_operator"), try await world.console(.post, records, "con_operator"),
      try await world.console(.get, "live", "con_operator"),
      await world.respond(.get, "/console/api/status", headers: ended),
      await world.respond(.get, "/console/session", headers: ended),
    ] {
      #expect(response.headers.filter { $0.name == "Cache-Control" }.map(\.value) == ["no-store"])
    }
  }

  @Test func `a change without the session's own value, or from another consolePage, changes nothing`() async throws {
    let world = try await consoleWorld()
    let (own, foreign) = (try await world.value("con_operator"), try await world.value("con_developer"))
    #expect(own != foreign)
    for method in [HTTPMethod.post, .put, .delete] {
      for headers in [
        [], [("x-csrf-token", "")], [("x-csrf-token", foreign)], [("x-csrf-token", String(own.dropLast()))],
        [("x-csrf-token", own), ("origin", "https://evil.example")],
        [("x-csrf-token", own), ("sec-fetch-site", "cross-site")],
      ] {
        let response = await world.respond(
          method, "/console/api/containers/a", headers: [consoleCookie("con_operator")] + headers, body: "{}")
        #expect(try response.status == 403 && response.code == "ACCESS_DENIED")
      }
    }
    #expect(world.record.withLock(\.operatorRequests).isEmpty && world.record.withLock(\.acts).isEmpty)
  }

  @Test func `the console takes no other credentials than its cookie, and no other path takes the cookie`()
    async throws
  {
    let world = try await consoleWorld()
    for headers in [
      [("authorization", "Bearer operator")], [("authorization", "Bearer con_operator")], [consoleCookie("operator_")],
      [consoleCookie("operator")], [consoleCookie("")], [],
    ] {
      let response = await world.respond(.get, "/console/api/status", headers: headers)
      #expect(try response.status == 401 && response.code == "AUTHENTICATION_FAILED", "\(headers)")
    }
    #expect(
      await world.respond(.get, "/console/api/status", query: [("ckWebAuthToken", "con_operator")]).status == 401)
    #expect(await world.respond(.get, "/console/api/status", headers: [consoleCookie("alice")]).status == 403)
    #expect(await world.respond(.get, "/admin/1/status", headers: [consoleCookie("con_operator")]).status == 401)
    #expect(
      await world.respond(
        .post, GatewayWorld.records + "/records/query", headers: [consoleCookie("con_operator")], body: "{}"
      ).status == 401)
    #expect(world.requests.isEmpty && world.record.withLock(\.operatorRequests).isEmpty)
  }

  @Test func `a session counts as its cookie alone: whoever has its value can't leave out the rule against forgery`()
    async throws
  {
    let world = try await consoleWorld()
    let zone = "zone/\(GatewayWorld.container)/development/_alice/Trips"
    for token in ["con_operator", "con_developer"] {
      for (method, path) in [
        (HTTPMethod.get, "status"), (.get, "live"), (.post, "containers"), (.get, "\(zone)/export"),
        (.post, "\(zone)/end"),
      ] {
        let response = await world.respond(
          method, "/admin/1/\(path)", headers: [("authorization", "Bearer \(token)")], body: "{}")
        #expect(try response.status == 401 && response.code == "AUTHENTICATION_FAILED", "\(method) \(path)")
        #expect(!response.text.contains("con_"))
      }
    }
    #expect(world.requests.isEmpty && world.record.withLock(\.operatorRequests).isEmpty)
    #expect(world.record.withLock(\.acts).isEmpty)
  }

  /// Calls that workers answer; the share service judges the others.
  private static let dataCalls: [(HTTPMethod, String, isChange: Bool)] = {
    let place = "\(GatewayWorld.container)/development"
    let records = "as/_alice/database/1/\(place)/private"
    let store = "as/_alice/mirror/1/\(place)/private/stores/S"
    let zone = "zone/\(place)/_alice/Trips"
    return [
      (.post, "\(records)/records/query", false), (.post, "\(records)/records/lookup", false),
      (.post, "\(records)/changes/zone", false), (.post, "\(records)/zones/list", false),
      (.post, "\(records)/records/modify", true), (.post, "\(records)/zones/modify", true),
      (.get, "\(store)/status", false), (.get, "\(store)/events", false), (.get, "\(store)/quarantine", false),
      (.get, "\(store)/objects/O/explain", false), (.post, "\(store)/quarantine/retry", true),
      (.post, "\(store)/conflicts/3/resolve", true), (.get, "\(zone)/export", false), (.get, "\(zone)/audit", false),
      (.post, "\(zone)/import", true), (.post, "\(zone)/restore", true), (.post, "\(zone)/end", true),
      (.post, "\(zone)/unshare", true),
    ]
  }()

  @Test(arguments: dataCalls)
  func `strangers, users and other containers' developers get none of a user's data`(
    method: HTTPMethod, path: String, isChange: Bool
  ) async throws {
    let world = try await consoleWorld()
    for (headers, status) in [
      ([], 401), ([consoleCookie("alice")], 401), ([consoleCookie("con_ended")], 401),
    ] as [([(String, String)], Int)] {
      #expect(await world.respond(method, "/console/api/\(path)", headers: headers, body: "{}").status >= status)
    }
    let other = try await world.console(method, path, "con_other")
    #expect(try other.status == 403 && other.code == "ACCESS_DENIED")
    for token in ["alice", "ses_alice"] {
      let bearer = await world.respond(
        method, "/admin/1/\(path)", headers: [("authorization", "Bearer \(token)")], body: "{}")
      #expect(bearer.status == 403)
    }
    #expect(world.requests.isEmpty && world.record.withLock(\.acts).isEmpty)
    for (token, name) in [("con_developer", "developer"), ("con_operator", "operator")] {
      #expect(try await world.console(method, path, token).status == 200)
      let request = try #require(world.requests.last?.request)
      #expect(request.caller.member?.name == name && request.database.container.rawValue == GatewayWorld.container)
      #expect(request.database.owner == "_alice")
    }
    let acts = world.record.withLock(\.acts)
    #expect(acts.map(\.member.name) == (isChange ? ["developer", "operator"] : []))
    #expect(acts.allSatisfy { $0.path == "/admin/1/\(path)" && $0.container?.rawValue == GatewayWorld.container })
    #expect(world.record.withLock(\.actStatuses) == (isChange ? [200, 200] : []))
  }

  @Test func `a call on a user's data acts with the user's roles, and reads the whole public database`() async throws {
    let world = try await consoleWorld()
    let path = "as/_alice/database/1/\(GatewayWorld.container)/production"
    #expect(try await world.console(.post, "\(path)/public/records/query", "con_operator").status == 200)
    let caller = try #require(world.requests.last?.request.caller)
    #expect(caller.userRecordName == "_alice" && caller.isOperator && caller.roles == ["editors"])
    #expect(try await world.console(.post, "\(path)/private/records/query", "con_operator").status == 200)
    #expect(world.requests.last?.request.caller.isOperator == false)
    #expect(try await world.console(.post, "\(path)/shared/records/query", "con_operator").status == 400)
    let absent = path.replacing("_alice", with: "_nobody")
    #expect(try await world.console(.post, "\(absent)/private/records/modify", "con_operator").status == 404)
    #expect(world.requests.count == 2)
  }

  @Test func `what is not for operators has no path`() async throws {
    let world = try await consoleWorld()
    let store = "as/_alice/mirror/1/\(GatewayWorld.container)/development/private/stores/S"
    for (method, path) in [
      (HTTPMethod.post, "\(store)/transactions"), (.put, store), (.delete, store), (.post, "\(store)/reset"),
      (.post, "\(store)/accept"),
    ] {
      let response = try await world.console(method, path, "con_operator")
      // The path is one of the share service's then, which knows no such noun.
      #expect(world.requests.isEmpty && response.status != 200)
    }
  }
}
