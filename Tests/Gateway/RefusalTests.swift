// Tests of requests that the gateway refuses.

import HTTPServer
import InMemoryServiceBus
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Gateway

/// A request that is refused, with the expected answer.
struct Refused: CustomTestStringConvertible {
  let name: String
  var method = HTTPMethod.post
  var path = "\(GatewayWorld.records)/records/query"
  var query: [(String, String)] = [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", "alice")]
  var headers: [(String, String)] = []
  let status: Int
  let code: String

  var testDescription: String { name }

  static func bearer(_ token: String) -> [(String, String)] { [("authorization", "Bearer \(token)")] }

  static let all = [
    Refused(name: "no credentials", query: [], status: 401, code: "AUTHENTICATION_FAILED"),
    Refused(
      name: "a web token without API token", query: [("ckWebAuthToken", "alice")], status: 401,
      code: "AUTHENTICATION_FAILED"),
    Refused(
      name: "an unknown API token", query: [("ckAPIToken", "c"), ("ckWebAuthToken", "alice")], status: 401,
      code: "AUTHENTICATION_FAILED"),
    Refused(
      name: "an unknown web token", query: [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", "mallory")],
      status: 401, code: "AUTHENTICATION_FAILED"),
    Refused(
      name: "an unknown bearer token", query: [], headers: bearer("mallory"), status: 401, code: "AUTHENTICATION_FAILED"
    ),
    Refused(
      name: "a private database without a user", query: [("ckAPIToken", GatewayWorld.apiToken)], status: 421,
      code: "AUTHENTICATION_REQUIRED"),
    Refused(
      name: "users/caller without a user", method: .get,
      path: "/database/1/\(GatewayWorld.container)/development/public/users/caller",
      query: [("ckAPIToken", GatewayWorld.apiToken)], status: 421, code: "AUTHENTICATION_REQUIRED"),
    Refused(
      name: "a store without a user", method: .get, path: "\(GatewayWorld.stores)/S/changes",
      query: [("ckAPIToken", GatewayWorld.apiToken)], status: 421,
      code: "AUTHENTICATION_REQUIRED"),
    Refused(
      name: "an unknown container", path: "/database/1/iCloud.other/development/private/records/query", status: 404,
      code: "NOT_FOUND"),
    Refused(
      name: "a container that can't be", path: "/database/1/a b/development/private/records/query", status: 400,
      code: "BAD_REQUEST"),
    Refused(
      name: "an unknown environment", path: "/database/1/\(GatewayWorld.container)/staging/private/records/query",
      status: 400, code: "BAD_REQUEST"),
    Refused(
      name: "an unknown database", path: "/database/1/\(GatewayWorld.container)/development/secret/records/query",
      status: 400, code: "BAD_REQUEST"),
    Refused(
      name: "an unknown endpoint", path: "\(GatewayWorld.records)/records/frobnicate", status: 404, code: "NOT_FOUND"),
    Refused(name: "a wrong method", method: .put, status: 405, code: "BAD_REQUEST"),
    Refused(
      name: "an operator's call without token", method: .get, path: "/admin/1/users", query: [], status: 401,
      code: "AUTHENTICATION_FAILED"),
    Refused(
      name: "an operator's call with a wrong token", method: .get, path: "/admin/1/users", query: [],
      headers: bearer("mallory"), status: 401,
      code: "AUTHENTICATION_FAILED"),
    Refused(
      name: "an operator's call by a user", method: .get, path: "/admin/1/users", query: [], headers: bearer("alice"),
      status: 403, code: "ACCESS_DENIED"),
    Refused(
      name: "an operator's token in the query", method: .get, path: "/admin/1/users",
      query: [("ckWebAuthToken", "operator")], status: 401, code: "AUTHENTICATION_FAILED"),
    Refused(
      name: "a foreign page", query: [("ckAPIToken", GatewayWorld.restrictedToken), ("ckWebAuthToken", "alice")],
      headers: [("origin", "https://evil.example")],
      status: 403, code: "ACCESS_DENIED"),
    Refused(
      name: "a wait that is no number", method: .get, path: "\(GatewayWorld.stores)/S/changes",
      query: [("wait", "soon")], headers: bearer("alice"), status: 400,
      code: "BAD_REQUEST"),
    Refused(
      name: "a wait into the past", method: .get, path: "\(GatewayWorld.stores)/S/changes", query: [("wait", "-1")],
      headers: bearer("alice"), status: 400,
      code: "BAD_REQUEST"),
    Refused(
      name: "an asset address that was altered", method: .get, path: "/assets/1/00/1/00", query: [], status: 403,
      code: "ACCESS_DENIED"),
  ]
}

struct RefusalTests {
  @Test(arguments: Refused.all) func `a refused request gets its error dictionary and reaches nobody`(
    _ refused: Refused
  ) async throws {
    let world = try await GatewayWorld()
    let response = await world.respond(refused.method, refused.path, query: refused.query, headers: refused.headers)
    #expect(response.status == refused.status)
    #expect(try response.code == refused.code)
    #expect(try response.json["uuid"]?.string == response.header("X-Apple-Request-UUID"))
    #expect(try response.json["uuid"]?.string?.count == 36)
    #expect(try response.json["reason"]?.string?.isEmpty == false)
    #expect(response.header("Content-Type") == "application/json")
    #expect(response.header("Access-Control-Allow-Origin") == (refused.name == "a foreign page" ? nil : "*"))
    if refused.status == 421 {
      #expect(try response.json["redirectURL"]?.string?.hasPrefix("http://gateway/signin?state=") == true)
    }
    if refused.status == 405 { #expect(response.header("Allow") == "POST") }
    let isMirror = refused.path.hasPrefix("/mirror") || refused.path.hasPrefix("/admin")
    #expect(try (response.json["ckErrorCode"] != nil) == isMirror)
    #expect(world.requests.isEmpty)
    #expect(world.record.withLock(\.operatorRequests).isEmpty)
  }

  @Test(arguments: [
    (400, "BAD_REQUEST"), (411, "BAD_REQUEST"), (413, "BAD_REQUEST"), (414, "BAD_REQUEST"),
    (429, "THROTTLED"), (431, "BAD_REQUEST"), (500, "INTERNAL_ERROR"), (503, "TRY_AGAIN_LATER"),
  ])
  func `the server's own refusals have the same form`(status: Int, code: String) async throws {
    let world = try await GatewayWorld()
    let response = world.gateway.refusal(status: status, reason: "why")
    #expect(response.status == status)
    #expect(try response.code == code)
    #expect(response.header("Access-Control-Allow-Origin") == "*")
    let counts = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(counts.contains(#"aquifer_http_requests_total{route="refused",code="\#(status)"} 1"#))
  }

  @Test func `requests are counted by route and status`() async throws {
    let world = try await GatewayWorld()
    _ = await world.alice(.get, "\(GatewayWorld.records)/zones/list")
    _ = await world.alice(.get, "/nowhere/else")
    _ = await world.alice(.get, "\(GatewayWorld.records)/records/query")
    let counts = String(decoding: await world.metrics.text(), as: UTF8.self)
    for (route, code) in [
      ("/database/1/{container}/{environment}/{database}/zones/list", 200), ("unknown", 404),
      ("/database/1/{container}/{environment}/{database}/records/query", 405),
    ] {
      #expect(counts.contains(#"aquifer_http_requests_total{route="\#(route)",code="\#(code)"} 1"#))
      #expect(counts.contains(#"aquifer_http_request_duration_seconds_count{route="\#(route)",code="\#(code)"} 1"#))
    }
  }
}
