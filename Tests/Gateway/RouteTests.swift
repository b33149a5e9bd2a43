import HTTPServer
import ServiceBus
import Testing

@testable import Gateway

private let table = RouteTable()

private func outcome(_ method: HTTPMethod, _ path: String) -> RouteTable.Outcome {
  table.outcome(of: method, path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init))
}

@Test(arguments: [
  (HTTPMethod.post, "/database/1/iCloud.a/development/private/records/modify", DatabaseRoute.record(.modifyRecords)),
  (.post, "/database/1/iCloud.a/production/public/records/query", .record(.queryRecords)),
  (.get, "/database/1/iCloud.a/development/private/zones/list", .record(.listZonesAsDocumented)),
  (.post, "/database/1/iCloud.a/development/private/zones/list", .record(.listZones)),
  (.post, "/database/1/iCloud.a/development/shared/changes/zone", .record(.fetchZoneChanges)),
  (.put, "/mirror/1/iCloud.a/development/private/stores/S", .store(.setUp, of: "S")),
  (.delete, "/mirror/1/iCloud.a/development/private/stores/S", .store(.forget, of: "S")),
  (.post, "/mirror/1/iCloud.a/development/private/stores/S/transactions", .store(.saveTransactions, of: "S")),
  (.put, "/mirror/1/iCloud.a/development/private/stores/S/consumers/C", .store(.registerConsumer, of: "S", item: "C")),
  (.get, "/mirror/1/iCloud.a/development/private/stores/S/changes", .store(.fetchChanges, of: "S")),
  (.get, "/mirror/1/iCloud.a/development/private/stores/S/objects/O", .store(.fetchObject, of: "S", item: "O")),
  (.get, "/mirror/1/iCloud.a/development/private/stores/S/quarantine", .store(.listQuarantine, of: "S")),
  (.post, "/mirror/1/iCloud.a/development/private/stores/S/quarantine/retry", .store(.retryQuarantine, of: "S")),
  (
    .get, "/mirror/1/iCloud.a/development/private/stores/S/objects/O/explain",
    .store(.explainObject, of: "S", item: "O")
  ),
  (.post, "/mirror/1/iCloud.a/development/private/stores/S/zones/Z/resume", .store(.resumeZone, of: "S", item: "Z")),
  (.get, "/mirror/1/iCloud.a/development/private/zones/Z/export", .zone(.export, of: "Z")),
  (.post, "/mirror/1/iCloud.a/development/private/zones/Z/restore", .zone(.restore, of: "Z")),
  (.post, "/admin/1/zone/iCloud.a/development/_o/Z/import", .zone(.importLines, of: "Z")),
  (.post, "/admin/1/zone/iCloud.a/development/_o/Z/end", .zone(.end, of: "Z")),
])
func `a path of the planes is read as the call that it means`(method: HTTPMethod, path: String, route: DatabaseRoute)
  throws
{
  guard case .match(let match) = outcome(method, path) else {
    Issue.record("\(path) matches nothing")
    return
  }
  #expect(match.databaseRoute == route)
  #expect(match.container == "iCloud.a")
}

@Test func `the gateway and the messages between processes read every call alike`() {
  func place(_ plane: DatabaseRequest.Plane) -> String {
    "/\(plane == .record ? "database" : "mirror")/1/iCloud.a/development/private/"
  }
  let calls: [DatabaseRoute] =
    RecordRoute.allCases.map { .record($0) }
    + StoreRoute.allCases.map { .store($0, of: "S", item: $0.pattern.contains("{") ? "I" : "") }
    + ZoneRoute.allCases.filter { $0 != .end }.map { .zone($0, of: "Z") }
  for call in calls {
    guard let method = HTTPMethod(rawValue: call.method),
      case .match(let match) = outcome(method, place(call.plane) + call.path.joined(separator: "/"))
    else {
      Issue.record("\(call) matches nothing")
      continue
    }
    #expect(match.databaseRoute == call)
  }
}

@Test func `no path leads to what only operators and other processes may ask`() {
  for path in [
    "zones/Z/end", "stores/S/locate", "stores/S/held", "stores/S/forward", "stores/S/restore",
    "stores/S/held/acknowledge", "stores/S/zones",
  ] {
    for method in [HTTPMethod.get, .post] {
      guard case .unknown = outcome(method, "/mirror/1/iCloud.a/development/private/\(path)") else {
        Issue.record("\(method) \(path) matches")
        continue
      }
    }
  }
}

@Test(arguments: [
  (HTTPMethod.get, "/database/1/iCloud.a/development/public/users/caller", Route.Target.userCaller, [String]()),
  (.get, "/database/1/iCloud.a/development/public/users/current", .userCurrent, []),
  (.post, "/database/1/iCloud.a/development/public/users/discover", .userDiscovery, []),
  (.post, "/device/1/iCloud.a/development/tokens/create", .createPushToken, []),
  (.post, "/database/1/iCloud.a/development/tokens/register", .registerPushToken, []),
  (.post, "/database/1/iCloud.a/development/public/tokens/create", .createPushToken, []),
  (.put, "/mirror/1/iCloud.a/development/model", .operatorCall, []),
  (.put, "/mirror/1/iCloud.a/production/rules", .operatorCall, []),
  (.post, "/mirror/1/iCloud.a/development/schema/promote", .operatorCall, []),
  (.post, "/admin/1/zone/iCloud.a/development/_o/Z/end", .operatorZone(.end), ["_o", "Z"]),
  (.post, "/admin/1/zone/iCloud.a/development/_o/Z/unshare", .operatorUnshare, ["_o", "Z"]),
  (.get, "/admin/1/zones", .operatorCall, []),
  (.delete, "/admin/1/containers/iCloud.a", .operatorCall, []),
  (.get, "/assets/1/ab/12/cd", .asset, []),
])
func `a path leads to its row and keeps its names`(
  method: HTTPMethod, path: String, target: Route.Target, names: [String]
) throws {
  guard case .match(let match) = outcome(method, path) else {
    Issue.record("\(path) matches nothing")
    return
  }
  #expect(match.route.target == target)
  #expect(match.names == names)
  if target != .operatorCall || match.route.pattern.hasPrefix("/mirror") {
    #expect(target == .asset || match.container == "iCloud.a")
  }
}

@Test(arguments: [
  "/", "/database", "/database/1/iCloud.a/development/private",
  "/database/2/iCloud.a/development/private/records/query",
  "/database/1/iCloud.a/development/private/records/query/",
  "/database/1/iCloud.a/development/private/records/zip/other", "/admin/1", "/admin/1/",
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
  (.delete, "/database/1/iCloud.a/development/private/zones/list", [.get, .post]),
  (.get, "/mirror/1/c/e/d/stores/S", [.put, .delete]),
  (.post, "/mirror/1/c/e/model", [.put]), (.patch, "/admin/1/users", [.get, .post, .put, .delete]),
])
func `a wrong method names those that work`(method: HTTPMethod, path: String, allowed: [HTTPMethod]) {
  guard case .wrongMethod(let found) = outcome(method, path) else {
    Issue.record("\(method) \(path) is not a wrong method")
    return
  }
  #expect(found.allowed == allowed)
}

@Test func `no two rows are spelled alike`() {
  let patterns = RouteTable.routes.flatMap { route in route.methods.map { "\($0) \(route.pattern)" } }
  #expect(Set(patterns).count == patterns.count)
}
