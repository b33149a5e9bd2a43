// The gateway's routes in one table: pattern, methods, and the service that answers.

package import HTTPServer
package import ServiceBus
import WebServices

/// One row of the table.
package struct Route: Sendable {
  enum Target: Hashable, Sendable {
    /// Answered by the worker that holds the database's shard.
    case record(RecordRoute), store(StoreRoute), zone(ZoneRoute)
    /// Answered by the workers whose shards the request's short GUIDs name.
    case resolveShares, acceptShares, declineShares, requestShareAccess
    /// Answered by the share service, for operators.
    case operatorCall
    /// A zone of any user's database, for operators.
    case operatorZone(ZoneRoute)
    /// Ends a share for an operator.
    case operatorUnshare
    /// A call of either plane on a user's data, for operators.
    case operatorRecord(RecordRoute), operatorStore(StoreRoute)
    /// The processes' figures as a stream, for operators.
    case live
    /// The pings for a user's devices as a stream, for operators and developers.
    case livePings
    /// A session of the console.
    case consoleSession
    /// Users, answered from the directory.
    case userCaller, userCurrent, userDiscovery, userLookup
    case createPushToken, registerPushToken, unregisterPushToken, pushKey
    /// Addresses for uploads, uploaded content, and files of the assets folder.
    case assetTokens, assetUpload, asset
    case signIn, sharePage
    /// The page behind a mail's link to get no more.
    case stopMail
    /// The account page, and the way from it to a provider of identities.
    case account, beginLink
    /// The codes of a device, its token, and the page on which a person signs it in.
    case beginDevice, deviceToken, verifyDevice
    /// The way to a provider of identities and back, and the exchange of its tokens.
    case beginIdentity, finishIdentity, exchangeIdentity, providerIcon
    /// A provider's word that somebody has signed out there.
    case endIdentitySessions
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

extension Route {
  /// A call that a worker answers.
  fileprivate init(_ call: some SpelledRoute, under path: String, _ target: Target) {
    self.init(
      [HTTPMethod(rawValue: call.method)].compactMap(\.self), call.pattern.isEmpty ? path : "\(path)/\(call.pattern)",
      target)
  }
}

/// A request's path as the table reads it.
package struct RouteMatch: Sendable {
  let route: Route
  /// As the client spelled them; nil where the pattern has none.
  let container: String?
  let environment: String?
  let database: String?
  /// The segments at the pattern's other names in braces, in their order.
  package let names: [String]

  /// The call that the request means; nil for a route that no worker answers as it is.
  package var databaseRoute: DatabaseRoute? {
    switch route.target {
    case .record(let call): .record(call)
    case .store(let call): .store(call, of: names[0], item: names.count > 1 ? names[1] : "")
    case .zone(let call): .zone(call, of: names[0])
    case .operatorZone(let call): .zone(call, of: names[1])
    case .operatorRecord(let call): .record(call)
    case .operatorStore(let call): .store(call, of: names[1], item: names.count > 2 ? names[2] : "")
    default: nil
    }
  }
}

/// A path that takes other methods.
package struct WrongMethod: Sendable {
  let pattern: String
  let allowed: [HTTPMethod]
}

package struct RouteTable: Sendable {
  package enum Outcome: Sendable {
    case match(RouteMatch)
    case wrongMethod(WrongMethod)
    case unknown
  }

  private let rows: [String: [Route]]

  package init(_ routes: [Route] = RouteTable.routes) {
    rows = Dictionary(grouping: routes) { $0.pattern.split(separator: "/").first.map(String.init) ?? "" }
  }

  package func outcome(of method: HTTPMethod, _ path: [String]) -> Outcome {
    guard let candidates = rows[path.first ?? ""] else { return .unknown }
    var (pattern, allowed): (String?, [HTTPMethod]) = (nil, [])
    for route in candidates where pattern == nil || pattern == route.pattern {
      guard let match = Self.match(path, with: route) else { continue }
      if route.methods.contains(method) { return .match(match) }
      pattern = route.pattern
      allowed += route.methods
    }
    return pattern.map { .wrongMethod(WrongMethod(pattern: $0, allowed: allowed)) } ?? .unknown
  }

  private static func match(_ path: [String], with route: Route) -> RouteMatch? {
    let isOpen = route.segments.last == .rest
    guard isOpen ? path.count >= route.segments.count : path.count == route.segments.count else { return nil }
    var container: String?
    var environment: String?
    var database: String?
    var names: [String] = []
    for (index, segment) in route.segments.enumerated() {
      switch segment {
      case .literal(let text): if path[index] != text { return nil }
      case .container: container = path[index]
      case .environment: environment = path[index]
      case .database: database = path[index]
      case .anything:
        if path[index].isEmpty { return nil }
        names.append(path[index])
      case .rest: if path[index].isEmpty { return nil }
      }
    }
    return RouteMatch(route: route, container: container, environment: environment, database: database, names: names)
  }
}

extension RouteTable {
  private static let database = "/database/1/{container}/{environment}/{database}"
  private static let mirror = "/mirror/1/{container}/{environment}"
  private static let store = "\(mirror)/{database}/stores/{id}"
  private static let zone = "\(mirror)/{database}/zones/{zone}"
  private static let operatorZone = "/admin/1/zone/{container}/{environment}/{owner}/{zone}"
  /// In front of a call of either plane, for a user's data.
  private static let user = "/admin/1/as/{user}"

  /// Operators' calls on zones stand before their other calls, which match any path.
  package static let routes: [Route] =
    RecordRoute.allCases.map { Route($0, under: database, .record($0)) }
    + StoreRoute.allCases.map { Route($0, under: store, .store($0)) }
    + ZoneRoute.allCases.filter { $0 != .end }.map { Route($0, under: zone, .zone($0)) }
    + ZoneRoute.allCases.map { Route($0, under: operatorZone, .operatorZone($0)) }
    + RecordRoute.allCases.filter(\.isForStaff).map { Route($0, under: user + database, .operatorRecord($0)) }
    + StoreRoute.allCases.filter(\.isForStaff).map { Route($0, under: user + store, .operatorStore($0)) } + shareRoutes
    + userRoutes
    + pushTokenRoutes + operatorRoutes + [
      Route([.post], "\(database)/assets/upload", .assetTokens),
      Route([.post], "/assets/1/upload/{token}", .assetUpload),
      Route([.get], "/assets/1/{…}", .asset),
      Route([.get], "/", .welcome),
      Route([.get], "/openapi.json", .openAPI),
      Route([.get, .post], "/signin", .signIn),
      Route([.get, .post], "/account", .account),
      Route([.get], "/account/link/{provider}", .beginLink),
      Route([.get, .post], "/account/device", .verifyDevice),
      Route([.get], "/signin/with/{provider}", .beginIdentity),
      Route([.get, .post], "/signin/return/{provider}", .finishIdentity),
      Route([.get], "/signin/icon/{provider}", .providerIcon),
      Route([.post], "/signin/logout/{provider}", .endIdentitySessions),
      Route([.post], "/identity/1/{container}/{environment}/exchange", .exchangeIdentity),
      Route([.post], "/identity/1/{container}/{environment}/device", .beginDevice),
      Route([.post], "/identity/1/{container}/{environment}/token", .deviceToken),
      Route([.get, .post, .delete], "/console/session", .consoleSession),
      Route([.get, .post], "/share/{shortGUID}", .sharePage),
      Route([.get, .post], "\(MailStop.path)/{text}", .stopMail),
    ]

  private static let shareRoutes: [Route] = [
    Route([.post], "\(database)/records/resolve", .resolveShares),
    Route([.post], "\(database)/records/accept", .acceptShares),
    Route([.post], "\(database)/records/decline", .declineShares),
    Route([.post], "\(database)/records/requestAccess", .requestShareAccess),
  ]

  private static let userRoutes: [Route] = [
    Route([.get, .post], "\(database)/users/caller", .userCaller),
    Route([.get, .post], "\(database)/users/current", .userCurrent),
    Route([.get, .post], "\(database)/users/discover", .userDiscovery),
    Route([.post], "\(database)/users/lookup/email", .userLookup),
    Route([.post], "\(database)/users/lookup/id", .userLookup),
    Route([.get, .post], "\(database)/users/lookup/contacts", .userLookup),
  ]

  /// Three spellings: CloudKit JS's, the reference's, and one that hand-written clients derive.
  private static let pushTokenRoutes: [Route] =
    ["/device/1/{container}/{environment}", "/database/1/{container}/{environment}", database].flatMap {
      [
        Route([.post], "\($0)/tokens/create", .createPushToken),
        Route([.post], "\($0)/tokens/register", .registerPushToken),
      ]
    } + [
      Route([.post], "/device/1/{container}/{environment}/tokens/unregister", .unregisterPushToken),
      Route([.get], "/device/1/{container}/{environment}/tokens/key", .pushKey),
    ]

  private static let operatorRoutes: [Route] = [
    Route([.post], "\(operatorZone)/unshare", .operatorUnshare),
    Route([.get], "/admin/1/live", .live),
    Route([.get], "/admin/1/pings/live", .livePings),
    Route([.put], "\(mirror)/model", .operatorCall),
    Route([.get, .put], "\(mirror)/schema", .operatorCall),
    Route([.post], "\(mirror)/schema/promote", .operatorCall),
    Route([.post], "\(mirror)/schema/reset", .operatorCall),
    Route([.get, .put], "\(mirror)/rules", .operatorCall),
    Route([.get, .post, .put, .delete], "/admin/1/{…}", .operatorCall),
  ]
}
