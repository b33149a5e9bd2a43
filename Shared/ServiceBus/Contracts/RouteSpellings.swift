// The calls of each kind, spelled as method and path, and the search for one.

/// The calls of the record plane (docs/protocol/record-plane.md).
public enum RecordRoute: String, SpelledRoute {
  case modifyRecords = "POST records/modify"
  case lookUpRecords = "POST records/lookup"
  case queryRecords = "POST records/query"
  case fetchRecordChanges = "POST records/changes"
  case fetchDatabaseChanges = "POST changes/database"
  case fetchZoneChanges = "POST changes/zone"
  /// As CloudKit's reference documents it; POST is the clients' form, with another answer.
  case listZonesAsDocumented = "GET zones/list"
  case listZones = "POST zones/list"
  case lookUpZones = "POST zones/lookup"
  case modifyZones = "POST zones/modify"
  case fetchChangedZones = "POST zones/changes"
  case listSubscriptionsAsDocumented = "GET subscriptions/list"
  case listSubscriptions = "POST subscriptions/list"
  case lookUpSubscriptions = "POST subscriptions/lookup"
  case modifySubscriptions = "POST subscriptions/modify"
  case rereferenceAssets = "POST assets/rereference"
  // Only CloudKit JS knows these; it expects BAD_REQUEST from a server without them.
  case prepareZip = "POST records/zip/prepare"
  case startCopy = "POST records/copy/start"
  case checkCopy = "POST records/copy/status"

  static let spellings = Spellings<RecordRoute>()

  /// True if the call only reads, whatever its method.
  public var isRead: Bool {
    switch self {
    case .modifyRecords, .modifyZones, .modifySubscriptions, .rereferenceAssets: false
    default: true
    }
  }

  /// True if operators and developers make the call on a user's data.
  public var isForStaff: Bool {
    switch self {
    case .modifySubscriptions, .rereferenceAssets, .prepareZip, .startCopy, .checkCopy: false
    default: true
    }
  }
}

/// The calls on a mirrored store, behind `stores/{id}` (docs/protocol/mirror-api.md#stores).
public enum StoreRoute: String, SpelledRoute {
  case saveTransactions = "POST transactions"
  case fetchChanges = "GET changes"
  case setUp = "PUT"
  case forget = "DELETE"
  case fetchHistory = "GET history"
  case purgeHistory = "DELETE history"
  case fetchConsumers = "GET consumers"
  case registerConsumer = "PUT consumers/{name}"
  case removeConsumer = "DELETE consumers/{name}"
  case audit = "GET audit"
  case fetchEvents = "GET events"
  case status = "GET status"
  case fetchObject = "GET objects/{objectID}"
  case explainObject = "GET objects/{objectID}/explain"
  case fetchRecords = "POST records"
  case checkPermissions = "POST permissions"
  case listQuarantine = "GET quarantine"
  case retryQuarantine = "POST quarantine/retry"
  case listConflicts = "GET conflicts"
  case restoreConflict = "POST conflicts/{number}/restore"
  case resolveConflict = "POST conflicts/{number}/resolve"
  case fetchShares = "GET shares"
  case shareObjects = "POST shares"
  case acceptShares = "POST accept"
  case moveObjects = "POST move"
  case purgeZone = "POST purge"
  case resumeZone = "POST zones/{zone}/resume"
  case reset = "POST reset"

  static let spellings = Spellings<StoreRoute>()

  /// True if the call only reads, whatever its method.
  public var isRead: Bool { method == "GET" || self == .fetchRecords || self == .checkPermissions }

  /// True if operators and developers make the call on a user's store: to look, to retry, and to settle conflicts.
  public var isForStaff: Bool {
    switch self {
    case .status, .fetchEvents, .fetchHistory, .fetchConsumers, .audit, .fetchObject, .explainObject, .fetchRecords,
      .checkPermissions, .listQuarantine, .retryQuarantine, .listConflicts, .restoreConflict, .resolveConflict,
      .fetchShares:
      true
    default: false
    }
  }

  /// True if the call may move or copy all objects of a store.
  public var mayMoveObjects: Bool { self == .shareObjects || self == .moveObjects || self == .purgeZone }
}

/// The calls of a shared store's home on its guest in an owner's database, behind `stores/{id}`.
public enum GuestRoute: String, SpelledRoute {
  case locateObjects = "GET locate"
  case listZones = "GET zones"
  case listHeld = "GET held"
  case acknowledgeHeld = "POST held/acknowledge"
  case restore = "POST restore"
  case forward = "POST forward"

  static let spellings = Spellings<GuestRoute>()
}

/// The calls on a whole zone, behind `zones/{zone}` (docs/protocol/mirror-api.md#whole-zones).
public enum ZoneRoute: String, SpelledRoute {
  case export = "GET export"
  case audit = "GET audit"
  case importLines = "POST import"
  case restore = "POST restore"
  case findAssets = "POST assets"
  case listConflicts = "GET conflicts"
  case settleConflict = "POST conflicts"
  /// For operators alone.
  case end = "POST end"

  static let spellings = Spellings<ZoneRoute>()
}

/// A kind of calls whose raw values are `METHOD path`; a segment in braces stands for any one.
public protocol SpelledRoute: RawRepresentable<String>, CaseIterable, Hashable, Sendable {}

extension SpelledRoute {
  /// GET, POST, PUT or DELETE.
  public var method: String { String(rawValue.prefix { $0 != " " }) }

  /// The path, with names of identifiers in braces.
  public var pattern: String { String(rawValue.drop { $0 != " " }.dropFirst()) }
}

extension SpelledRoute {
  /// The case's place in the declaration: an enum without payloads is this one byte. Hashing its text would cost more
  /// than the rest of a look-up.
  fileprivate var ordinal: Int { withUnsafeBytes(of: self) { Int($0[0]) } }
}

/// The calls of a kind, taken apart once.
struct Spellings<Route: SpelledRoute>: Sendable {
  private struct Row: Sendable {
    let route: Route
    let method: String
    let pattern: String
    let segments: [String]
    /// The place of the segment that is an identifier.
    let itemIndex: Int?

    func matches(_ path: ArraySlice<String>) -> Bool {
      guard segments.count == path.count else { return false }
      for index in segments.indices where index != itemIndex && segments[index] != path[path.startIndex + index] {
        return false
      }
      return true
    }
  }

  /// By the cases' ordinals. The most frequent calls come first, because each request is compared with one after the
  /// other; hashing a word would cost more.
  private let rows: [Row]

  init() {
    rows = Route.allCases.map { route in
      let segments = route.pattern.split(separator: "/").map(String.init)
      return Row(
        route: route, method: route.method, pattern: route.pattern, segments: segments,
        itemIndex: segments.firstIndex { $0.first == "{" })
    }
    for (index, row) in rows.enumerated() {
      precondition(row.route.ordinal == index, "\(row.route) is not at its place")
    }
  }

  func row(_ method: String, _ path: ArraySlice<String>) -> (route: Route, item: String)? {
    for row in rows where row.method == method && row.matches(path) {
      return (row.route, row.itemIndex.map { path[path.startIndex + $0] } ?? "")
    }
    return nil
  }

  func method(of route: Route) -> String { rows[route.ordinal].method }
  func pattern(of route: Route) -> String { rows[route.ordinal].pattern }

  func path(of route: Route, item: String = "") -> [String] {
    let row = rows[route.ordinal]
    guard let place = row.itemIndex else { return row.segments }
    var path = row.segments
    path[place] = item
    return path
  }

  func label(of route: Route, under place: String) -> String {
    ([place] + rows[route.ordinal].segments.map { $0.first == "{" ? "*" : $0 }).joined(separator: "/")
  }
}
