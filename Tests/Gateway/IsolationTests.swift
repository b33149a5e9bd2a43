import HTTPServer
import Records
import ServiceBus
import Synchronization
import Testing

@testable import Gateway

/// Every route for the staff, with every caller: the table of routes makes the cases, so a new route is a case at once.
struct StaffIsolationTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let route: Route
    let method: HTTPMethod

    var testDescription: String { "\(method.rawValue) \(route.pattern)" }

    /// The pattern with values for its names.
    var path: String {
      let values = [
        "{container}": GatewayWorld.container, "{environment}": "development", "{database}": "private",
        "{user}": "_alice", "{owner}": "_alice", "{…}": "status",
      ]
      return route.pattern.split(separator: "/").map { values[String($0)] ?? ($0.first == "{" ? "x" : String($0)) }
        .joined(separator: "/")
    }

    var namesContainer: Bool { route.pattern.contains("{container}") }

    /// The path behind the prefix that the console replaces; nil for a route that the console does not have.
    var consolePath: String? { path.hasPrefix("admin/1/") ? String(path.dropFirst("admin/1/".count)) : nil }
  }

  static let cases = RouteTable.routes.filter { $0.target.need(in: .private) == .operatorToken }.flatMap { route in
    route.methods.map { Case(route: route, method: $0) }
  }

  @Test func `the cases are all routes of the operator API`() {
    let patterns = Set(Self.cases.map(\.route.pattern))
    for route in RouteTable.routes where route.pattern.hasPrefix("/admin/") {
      #expect(patterns.contains(route.pattern), "\(route.pattern) takes callers who are no staff")
    }
    #expect(Self.cases.count > 40)
  }

  @Test(arguments: cases)
  func `strangers, ended sessions and users get nothing, and change nothing`(_ row: Case) async throws {
    let world = try await consoleWorld()
    let bearers = ["nobody", "alice", "ses_alice"]
    for headers in [[]] + bearers.map({ [("authorization", "Bearer \($0)")] }) {
      let response = await world.respond(row.method, "/\(row.path)", headers: headers, body: "{}")
      #expect([401, 403].contains(response.status), "\(headers): \(response.status)")
    }
    if let path = row.consolePath {
      for token in ["", "nobody", "alice", "ses_alice", "con_ended"] {
        let response = await world.respond(
          row.method, "/console/api/\(path)", headers: [consoleCookie(token), ("x-csrf-token", "x")], body: "{}")
        #expect([401, 403].contains(response.status), "\(token): \(response.status)")
      }
    }
    let record = world.record.withLock { ($0.operatorRequests.count, $0.acts.count) }
    #expect(record == (0, 0) && world.requests.isEmpty)
  }

  @Test(arguments: cases.filter { $0.consolePath != nil })
  func `a developer of another container is refused, or judged by the share service`(_ row: Case) async throws {
    let world = try await consoleWorld()
    let path = try #require(row.consolePath)
    let response = try await world.console(row.method, path, "con_other")
    // Only the share service knows the container of its own calls.
    let asked = world.record.withLock(\.operatorRequests)
    #expect(response.status == 403 || asked.count == 1, "\(response.status)")
    #expect(!row.namesContainer || response.status == 403)
    for (request, _) in asked {
      #expect(request.member?.name == "other" && request.member?.containers?.contains(GatewayWorld.container) == false)
    }
    #expect(world.requests.isEmpty && world.record.withLock(\.acts).isEmpty)
  }

  @Test(arguments: cases.filter { $0.consolePath != nil && $0.method != .get })
  func `a change without the session's value changes nothing, not even for an operator`(_ row: Case) async throws {
    let world = try await consoleWorld()
    let path = try #require(row.consolePath)
    let response = await world.respond(
      row.method, "/console/api/\(path)", headers: [consoleCookie("con_operator")], body: "{}")
    #expect(response.status == 403)
    let record = world.record.withLock { ($0.operatorRequests.count, $0.acts.count) }
    #expect(record == (0, 0) && world.requests.isEmpty)
  }
}
