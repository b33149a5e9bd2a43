// The calls of the two planes in one table: what a method and a path behind `/{database}/` mean.

public import Records

/// A call of a plane. The gateway reads it once; processes hand it on, and nobody reads the path again.
public enum DatabaseRoute: Hashable, Sendable {
  case record(RecordRoute)
  /// A call on a mirrored store. `item` is the consumer, object, conflict or zone that the path names, else empty.
  case store(StoreRoute, of: String, item: String = "")
  /// A call on the guest of a shared store; only the store's home makes it.
  case guest(GuestRoute, of: String)
  case zone(ZoneRoute, of: String)
  /// A call that this release does not know; a newer process may send one.
  case unknown(UnknownRoute)

  /// - Parameter path: the segments behind `/{database}/`, percent-decoded.
  public init(_ plane: DatabaseRequest.Plane, method: String, path: [String]) {
    self = Self.known(plane, method, path) ?? .unknown(UnknownRoute(plane: plane, method: method, path: path))
  }

  private static func known(_ plane: DatabaseRequest.Plane, _ method: String, _ path: [String]) -> DatabaseRoute? {
    if plane == .record { return RecordRoute.spellings.row(method, path[...]).map { .record($0.route) } }
    guard path.count >= 2 else { return nil }
    let (name, rest) = (path[1], path[2...])
    switch path[0] {
    case "stores":
      guard isStore(name) else { return nil }
      if let row = StoreRoute.spellings.row(method, rest) { return .store(row.route, of: name, item: row.item) }
      return GuestRoute.spellings.row(method, rest).map { .guest($0.route, of: name) }
    case "zones":
      guard isZone(name) else { return nil }
      return ZoneRoute.spellings.row(method, rest).map { .zone($0.route, of: name) }
    default: return nil
    }
  }

  /// False for the name of a store or a zone that none can have.
  public var hasPossibleName: Bool {
    switch self {
    case .store(_, let name, _), .guest(_, let name): Self.isStore(name)
    case .zone(_, let name): Self.isZone(name)
    case .record, .unknown: true
    }
  }

  private static func isStore(_ name: String) -> Bool { RecordName.problem(name, kind: "storeIdentifier") == nil }
  private static func isZone(_ name: String) -> Bool {
    name == ReservedName.defaultZone || RecordName.problem(name, kind: "zoneName") == nil
  }

  public var plane: DatabaseRequest.Plane {
    switch self {
    case .record: .record
    case .store, .guest, .zone: .object
    case .unknown(let route): route.plane
    }
  }

  /// GET, POST, PUT or DELETE.
  public var method: String {
    switch self {
    case .record(let route): RecordRoute.spellings.method(of: route)
    case .store(let route, _, _): StoreRoute.spellings.method(of: route)
    case .guest(let route, _): GuestRoute.spellings.method(of: route)
    case .zone(let route, _): ZoneRoute.spellings.method(of: route)
    case .unknown(let route): route.method
    }
  }

  /// The segments behind `/{database}/`.
  public var path: [String] {
    switch self {
    case .record(let route): RecordRoute.spellings.path(of: route)
    case .store(let route, let store, let item): ["stores", store] + StoreRoute.spellings.path(of: route, item: item)
    case .guest(let route, let store): ["stores", store] + GuestRoute.spellings.path(of: route)
    case .zone(let route, let zone): ["zones", zone] + ZoneRoute.spellings.path(of: route)
    case .unknown(let route): route.path
    }
  }

  /// The path without identifiers, a label of metrics: `stores/*/objects/*`.
  public var label: String {
    switch self {
    case .record(let route): RecordRoute.spellings.pattern(of: route)
    case .store(let route, _, _): StoreRoute.spellings.label(of: route, under: "stores/*")
    case .guest(let route, _): GuestRoute.spellings.label(of: route, under: "stores/*")
    case .zone(let route, _): ZoneRoute.spellings.label(of: route, under: "zones/*")
    case .unknown: "*"
    }
  }
}

/// A method and a path that name no call.
public struct UnknownRoute: Hashable, Sendable {
  public let plane: DatabaseRequest.Plane
  public let method: String
  public let path: [String]

  /// NOT_FOUND; BAD_REQUEST with HTTP status 405 for a call that takes other methods.
  public var error: RecordError {
    let spelled = path.joined(separator: "/").prefix(100)
    let isKnown = ["GET", "POST", "PUT", "DELETE"].contains { other in
      if case .unknown = DatabaseRoute(plane, method: other, path: path) { false } else { true }
    }
    guard isKnown else { return RecordError(.notFound, "There is no call \(spelled)") }
    return RecordError(.badRequest, "\(spelled) does not take \(method)", httpStatus: 405)
  }
}
