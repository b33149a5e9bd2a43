// The gateway's routes in one table: pattern, methods, and the service that answers.

package import HTTPServer

/// One row of the table.
package struct Route: Sendable {
  enum Target: Hashable, Sendable {
    /// Answered by the worker that holds the database's shard.
    case recordPlane, objectPlane
    /// Answered by the workers whose shards the request's short GUIDs name.
    case resolveShares, acceptShares, declineShares, requestShareAccess
    /// Answered by the share service, for operators.
    case operatorCall
    /// The object plane of any user's database, for operators.
    case operatorZone
    /// Ends a share for an operator.
    case operatorUnshare
    /// Users, answered from the directory.
    case userCaller, userCurrent, userDiscovery, userLookup
    case createPushToken, registerPushToken
    /// Addresses for uploads, uploaded content, and files of the assets folder.
    case assetTokens, assetUpload, asset
    case signIn, sharePage
    /// The gateway's own documents.
    case welcome, openAPI
  }

  /// The path's spelling, also a label of metrics. `{container}`, `{environment}` and `{database}` are captured. Other
  /// names in braces match any segment; `{…}` at the end matches one segment or more.
  let pattern: String
  let methods: [HTTPMethod]
  let target: Target
  fileprivate let segments: [Segment]

  fileprivate enum Segment: Hashable, Sendable {
    case literal(String)
    case container, environment, database, anything, rest
  }

  init(_ methods: [HTTPMethod], _ pattern: String, _ target: Target) {
    self.pattern = pattern
    self.methods = methods
    self.target = target
    segments = pattern.split(separator: "/").map { text in
      switch text {
      case "{container}": .container
      case "{environment}": .environment
      case "{database}": .database
      case "{…}": .rest
      default: text.first == "{" ? .anything : .literal(String(text))
      }
    }
  }
}

/// A request's path as the table reads it.
package struct RouteMatch: Sendable {
  let route: Route
  /// As the client spelled them; nil where the pattern has none.
  let container: String?
  let environment: String?
  let database: String?
  /// The segments behind `{database}/`, or the whole path where the pattern has no database.
  package let path: [String]
}

package struct RouteTable: Sendable {
  package enum Outcome: Sendable {
    case match(RouteMatch)
    case wrongMethod(Route)
    case unknown
  }

  private let rows: [String: [Route]]

  package init(_ routes: [Route] = RouteTable.routes) {
    rows = Dictionary(grouping: routes) { $0.pattern.split(separator: "/").first.map(String.init) ?? "" }
  }

  package func outcome(of method: HTTPMethod, _ path: [String]) -> Outcome {
    guard let candidates = rows[path.first ?? ""] else { return .unknown }
    for route in candidates {
      guard let match = Self.match(path, with: route) else { continue }
      return route.methods.contains(method) ? .match(match) : .wrongMethod(route)
    }
    return .unknown
  }

  private static func match(_ path: [String], with route: Route) -> RouteMatch? {
    let isOpen = route.segments.last == .rest
    guard isOpen ? path.count >= route.segments.count : path.count == route.segments.count else { return nil }
    var container: String?
    var environment: String?
    var database: String?
    var tail = 0
    for (index, segment) in route.segments.enumerated() {
      switch segment {
      case .literal(let text): if path[index] != text { return nil }
      case .container: container = path[index]
      case .environment: environment = path[index]
      case .database:
        database = path[index]
        tail = index + 1
      case .anything, .rest: if path[index].isEmpty { return nil }
      }
    }
    return RouteMatch(route: route, container: container, environment: environment, database: database, path: Array(path[tail...]))
  }
}

extension RouteTable {
  private static let record = "/database/1/{container}/{environment}/{database}"
  private static let object = "/mirror/1/{container}/{environment}/{database}/stores"
  private static let environment = "/mirror/1/{container}/{environment}"
  private static let zone = "/mirror/1/{container}/{environment}/{database}/zones/{zone}"
  private static let operatorZone = "/admin/1/zone/{container}/{environment}/{owner}/{zone}"

  package static let routes: [Route] =
    recordRoutes + userRoutes + pushTokenRoutes + objectRoutes + zoneRoutes(zone, .objectPlane) + zoneRoutes(operatorZone, .operatorZone) + [
      Route([.post], "\(operatorZone)/end", .operatorZone),
      Route([.post], "\(operatorZone)/unshare", .operatorUnshare),
      Route([.put], "\(environment)/model", .operatorCall),
      Route([.get, .put], "\(environment)/schema", .operatorCall),
      Route([.post], "\(environment)/schema/promote", .operatorCall),
      Route([.post], "\(environment)/schema/reset", .operatorCall),
      Route([.get, .put], "\(environment)/rules", .operatorCall),
      Route([.get, .post, .put, .delete], "/admin/1/{…}", .operatorCall),
      Route([.post], "/assets/1/upload/{token}", .assetUpload),
      Route([.get], "/assets/1/{…}", .asset),
      Route([.get], "/", .welcome),
      Route([.get], "/openapi.json", .openAPI),
      Route([.get, .post], "/signin", .signIn),
      Route([.get, .post], "/share/{shortGUID}", .sharePage),
    ]

  /// The calls of docs/protocol/record-plane.md. The worker answers those that it does not offer.
  private static let recordRoutes: [Route] =
    ["records/query", "records/modify", "records/lookup", "records/changes"].map { Route([.post], "\(record)/\($0)", .recordPlane) }
    + [Route([.post], "\(record)/records/resolve", .resolveShares), Route([.post], "\(record)/records/accept", .acceptShares)]
    + [Route([.post], "\(record)/records/decline", .declineShares), Route([.post], "\(record)/records/requestAccess", .requestShareAccess)]
    + ["changes/database", "changes/zone", "zones/lookup", "zones/modify", "zones/changes"].map { Route([.post], "\(record)/\($0)", .recordPlane) }
    + ["subscriptions/lookup", "subscriptions/modify", "assets/rereference"].map { Route([.post], "\(record)/\($0)", .recordPlane) }
    + [Route([.post], "\(record)/assets/upload", .assetTokens)]
    + ["zones/list", "subscriptions/list"].map { Route([.get, .post], "\(record)/\($0)", .recordPlane) }
    // Only CloudKit JS knows these; it expects BAD_REQUEST from a server without them.
    + ["records/zip/prepare", "records/copy/start", "records/copy/status"].map { Route([.post], "\(record)/\($0)", .recordPlane) }

  private static let userRoutes: [Route] = [
    Route([.get, .post], "\(record)/users/caller", .userCaller),
    Route([.get, .post], "\(record)/users/current", .userCurrent),
    Route([.get, .post], "\(record)/users/discover", .userDiscovery),
    Route([.post], "\(record)/users/lookup/email", .userLookup),
    Route([.post], "\(record)/users/lookup/id", .userLookup),
    Route([.get, .post], "\(record)/users/lookup/contacts", .userLookup),
  ]

  /// Three spellings: CloudKit JS's, the reference's, and one that hand-written clients derive.
  private static let pushTokenRoutes: [Route] =
    ["/device/1/{container}/{environment}", "/database/1/{container}/{environment}", record].flatMap {
      [Route([.post], "\($0)/tokens/create", .createPushToken), Route([.post], "\($0)/tokens/register", .registerPushToken)]
    }

  /// Calls for a whole zone, for its owner and for operators. They stand before the operators' other calls, which match
  /// any path.
  private static func zoneRoutes(_ zone: String, _ target: Route.Target) -> [Route] {
    ["export", "audit"].map { Route([.get], "\(zone)/\($0)", target) } + ["import", "restore", "assets"].map { Route([.post], "\(zone)/\($0)", target) }
      + [Route([.get, .post], "\(zone)/conflicts", target)]
  }

  /// The calls of docs/protocol/mirror-api.md#stores.
  private static let objectRoutes: [Route] = [
    Route([.put, .delete], "\(object)/{id}", .objectPlane),
    Route([.post], "\(object)/{id}/transactions", .objectPlane),
    Route([.get, .delete], "\(object)/{id}/history", .objectPlane),
    Route([.get], "\(object)/{id}/audit", .objectPlane),
    Route([.get], "\(object)/{id}/consumers", .objectPlane),
    Route([.put, .delete], "\(object)/{id}/consumers/{name}", .objectPlane),
    Route([.get], "\(object)/{id}/changes", .objectPlane),
    Route([.get], "\(object)/{id}/events", .objectPlane),
    Route([.get], "\(object)/{id}/status", .objectPlane),
    Route([.get], "\(object)/{id}/objects/{objectID}", .objectPlane),
    Route([.get], "\(object)/{id}/objects/{objectID}/explain", .objectPlane),
    Route([.post], "\(object)/{id}/records", .objectPlane),
    Route([.get], "\(object)/{id}/quarantine", .objectPlane),
    Route([.get], "\(object)/{id}/conflicts", .objectPlane),
    Route([.post], "\(object)/{id}/conflicts/{number}/restore", .objectPlane),
    Route([.post], "\(object)/{id}/conflicts/{number}/resolve", .objectPlane),
    Route([.post], "\(object)/{id}/quarantine/retry", .objectPlane),
    Route([.post], "\(object)/{id}/permissions", .objectPlane),
    Route([.get, .post], "\(object)/{id}/shares", .objectPlane),
    Route([.post], "\(object)/{id}/accept", .objectPlane),
    Route([.post], "\(object)/{id}/move", .objectPlane),
    Route([.post], "\(object)/{id}/purge", .objectPlane),
    Route([.post], "\(object)/{id}/zones/{zone}/resume", .objectPlane),
    Route([.post], "\(object)/{id}/reset", .objectPlane),
  ]
}
