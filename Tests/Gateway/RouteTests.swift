import HTTPServer
import Testing

@testable import Gateway

private let table = RouteTable()

private func outcome(_ method: HTTPMethod, _ path: String) -> RouteTable.Outcome {
  table.outcome(of: method, path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init))
}

@Test(arguments: [
  (HTTPMethod.post, "/database/1/iCloud.a/development/private/records/modify", Route.Target.recordPlane, ["records", "modify"]),
  (.post, "/database/1/iCloud.a/production/public/records/query", .recordPlane, ["records", "query"]),
  (.get, "/database/1/iCloud.a/development/private/zones/list", .recordPlane, ["zones", "list"]),
  (.post, "/database/1/iCloud.a/development/private/zones/list", .recordPlane, ["zones", "list"]),
  (.post, "/database/1/iCloud.a/development/shared/changes/zone", .recordPlane, ["changes", "zone"]),
  (.get, "/database/1/iCloud.a/development/public/users/caller", .userCaller, ["users", "caller"]),
  (.get, "/database/1/iCloud.a/development/public/users/current", .userCurrent, ["users", "current"]),
  (.post, "/database/1/iCloud.a/development/public/users/discover", .userDiscovery, ["users", "discover"]),
  (.post, "/device/1/iCloud.a/development/tokens/create", .createPushToken, ["device", "1", "iCloud.a", "development", "tokens", "create"]),
  (.post, "/database/1/iCloud.a/development/tokens/register", .registerPushToken, ["database", "1", "iCloud.a", "development", "tokens", "register"]),
  (.post, "/database/1/iCloud.a/development/public/tokens/create", .createPushToken, ["tokens", "create"]),
  (.put, "/mirror/1/iCloud.a/development/private/stores/S", .objectPlane, ["stores", "S"]),
  (.delete, "/mirror/1/iCloud.a/development/private/stores/S", .objectPlane, ["stores", "S"]),
  (.post, "/mirror/1/iCloud.a/development/private/stores/S/transactions", .objectPlane, ["stores", "S", "transactions"]),
  (.put, "/mirror/1/iCloud.a/development/private/stores/S/consumers/C", .objectPlane, ["stores", "S", "consumers", "C"]),
  (.get, "/mirror/1/iCloud.a/development/private/stores/S/changes", .objectPlane, ["stores", "S", "changes"]),
  (.get, "/mirror/1/iCloud.a/development/private/stores/S/objects/O", .objectPlane, ["stores", "S", "objects", "O"]),
  (.get, "/mirror/1/iCloud.a/development/private/stores/S/quarantine", .objectPlane, ["stores", "S", "quarantine"]),
  (.post, "/mirror/1/iCloud.a/development/private/stores/S/quarantine/retry", .objectPlane, ["stores", "S", "quarantine", "retry"]),
  (.get, "/mirror/1/iCloud.a/development/private/stores/S/objects/O/explain", .objectPlane, ["stores", "S", "objects", "O", "explain"]),
  (.put, "/mirror/1/iCloud.a/development/model", .operatorCall, ["mirror", "1", "iCloud.a", "development", "model"]),
  (.put, "/mirror/1/iCloud.a/production/rules", .operatorCall, ["mirror", "1", "iCloud.a", "production", "rules"]),
  (.post, "/mirror/1/iCloud.a/development/schema/promote", .operatorCall, ["mirror", "1", "iCloud.a", "development", "schema", "promote"]),
  (.get, "/mirror/1/iCloud.a/development/private/zones/Z/export", .objectPlane, ["zones", "Z", "export"]),
  (.post, "/mirror/1/iCloud.a/development/private/zones/Z/restore", .objectPlane, ["zones", "Z", "restore"]),
  (.post, "/admin/1/zone/iCloud.a/development/_o/Z/import", .operatorZone, ["admin", "1", "zone", "iCloud.a", "development", "_o", "Z", "import"]),
  (.post, "/admin/1/zone/iCloud.a/development/_o/Z/end", .operatorZone, ["admin", "1", "zone", "iCloud.a", "development", "_o", "Z", "end"]),
  (.post, "/mirror/1/iCloud.a/development/private/stores/S/zones/Z/resume", .objectPlane, ["stores", "S", "zones", "Z", "resume"]),
  (.get, "/admin/1/zones", .operatorCall, ["admin", "1", "zones"]),
  (.delete, "/admin/1/containers/iCloud.a", .operatorCall, ["admin", "1", "containers", "iCloud.a"]),
  (.get, "/assets/1/ab/12/cd", .asset, ["assets", "1", "ab", "12", "cd"]),
])
func `a path leads to its row and keeps what follows the database`(method: HTTPMethod, path: String, target: Route.Target, tail: [String]) throws {
  guard case .match(let match) = outcome(method, path) else {
    Issue.record("\(path) matches nothing")
    return
  }
  #expect(match.route.target == target)
  #expect(match.path == tail)
  if target != .operatorCall || match.route.pattern.hasPrefix("/mirror") { #expect(target == .asset || match.container == "iCloud.a") }
}

@Test(arguments: [
  "/", "/database", "/database/1/iCloud.a/development/private", "/database/2/iCloud.a/development/private/records/query",
  "/database/1/iCloud.a/development/private/records/query/", "/database/1/iCloud.a/development/private/records/zip/other", "/admin/1", "/admin/1/",
  "/mirror/1/c/e/d/stores/",
  "/mirror/1/c/e/d/stores//changes", "/records/query", "/assets/1",
])
func `an unknown path matches nothing`(path: String) {
  for method in [HTTPMethod.get, .post, .put, .delete] {
    guard case .unknown = outcome(method, path) else {
      Issue.record("\(method) \(path) matches")
      return
    }
  }
}

@Test(arguments: [
  (HTTPMethod.get, "/database/1/iCloud.a/development/private/records/modify", [HTTPMethod.post]),
  (.delete, "/database/1/iCloud.a/development/private/zones/list", [.get, .post]), (.get, "/mirror/1/c/e/d/stores/S", [.put, .delete]),
  (.post, "/mirror/1/c/e/model", [.put]), (.patch, "/admin/1/users", [.get, .post, .put, .delete]),
])
func `a wrong method names those that work`(method: HTTPMethod, path: String, allowed: [HTTPMethod]) {
  guard case .wrongMethod(let route) = outcome(method, path) else {
    Issue.record("\(method) \(path) is not a wrong method")
    return
  }
  #expect(route.methods == allowed)
}

@Test func `no two rows are spelled alike`() {
  let patterns = RouteTable.routes.map(\.pattern)
  #expect(Set(patterns).count == patterns.count)
}
