// Subscriptions as values (docs/protocol/record-plane.md#subscriptions): read, stored, and shown.

public import JSON
public import Records

/// A user's request to be notified of changes.
public struct Subscription: Hashable, Sendable {
  /// A change of a record. The raw value is the word in `firesOn`.
  public enum Event: String, Hashable, Sendable, CaseIterable {
    case create, update, delete

    /// `fo` of a notification.
    public var wireNumber: Int {
      switch self {
      case .create: 1
      case .update: 2
      case .delete: 3
      }
    }
  }

  /// The scope of a subscription. Zones of other owners can be watched only in the shared database.
  public enum Subject: Hashable, Sendable {
    /// Every change in the database, including zones that are created and deleted.
    case database
    /// Every change in a zone.
    case zone(ZoneReference)
    /// Records that match, in one zone or (nil) in the whole database.
    case query(RecordQuery, json: [UInt8], in: ZoneReference?, on: Set<Event>)
  }

  public let subscriptionID: String
  public let subject: Subject
  /// The subscription is deleted after its first notification.
  public let firesOnce: Bool
  public let notificationInfo: NotificationInfo?

  /// The zone that the subscription is bound to; it ends with the zone.
  public var zone: ZoneReference? {
    switch subject {
    case .database: nil
    case .zone(let zone): zone
    case .query(_, _, let zone, _): zone
    }
  }

  /// Reads a subscription dictionary.
  /// - Parameters:
  ///   - owner: the database's owner; references of a query without an owner mean theirs.
  ///   - makeIdentifier: called if the dictionary has no identifier.
  public init(_ json: JSONValue, owner: String, schema: SchemaIndex, makeIdentifier: () -> String) throws(RecordError) {
    subscriptionID = try Self.identifier(of: json) ?? makeIdentifier()
    let type = try json.requiredString("subscriptionType")
    let zone = try json.member("zoneID").map { value throws(RecordError) in try ZoneReference(value) }
    switch type.lowercased() {
    case "database": subject = .database
    case "zone":
      guard let zone else {
        throw RecordError(.badRequest, "zoneID is missing: a zone subscription must name its zone")
      }
      subject = .zone(zone)
    case "query":
      // Like records/query: without a zone the default zone counts, unless `zoneWide` selects all.
      let isZoneWide = try json.optionalBool("zoneWide") ?? false && zone == nil
      subject = try Self.query(json, owner: owner, zone: isZoneWide ? nil : zone ?? .defaultZone, schema)
    default:
      throw RecordError(.badRequest, "subscriptionType must be zone, query or database, not '\(type.prefix(40))'")
    }
    firesOnce = try json.optionalBool("firesOnce") ?? false
    notificationInfo = try json.optionalObject("notificationInfo").map { value throws(RecordError) in
      do throws(RecordError) {
        return try NotificationInfo(value)
      } catch {
        throw error.within("notificationInfo")
      }
    }
  }

  /// The dictionary's `subscriptionID`; nil if it has none.
  /// - Throws: `BAD_REQUEST` for an invalid identifier.
  public static func identifier(of json: JSONValue) throws(RecordError) -> String? {
    guard let text = try json.optionalString("subscriptionID") else { return nil }
    guard (1...Limit.nameByteCount).contains(text.utf8.count), text.utf8.allSatisfy({ (0x20...0x7e).contains($0) })
    else {
      throw RecordError(.badRequest, "subscriptionID has 1 to \(Limit.nameByteCount) printable ASCII characters")
    }
    return text
  }

  private static func query(_ json: JSONValue, owner: String, zone: ZoneReference?, _ schema: SchemaIndex)
    throws(RecordError) -> Subject
  {
    let dictionary = try json.requiredObject("query")
    let id = Zone.ID(zoneName: zone?.zoneName ?? ReservedName.defaultZone, ownerName: zone?.ownerRecordName ?? owner)
    let query: RecordQuery
    do {
      query = try QueryReader(zone: id, schema: schema).read(dictionary)
    } catch {
      throw error.within("query")
    }
    if let filter = query.filters.first(where: { !$0.comparator.isSubscribable }) {
      throw RecordError(.badRequest, "query: subscriptions don't take the comparator \(filter.comparator.rawValue)")
    }
    guard let words = try json.optionalStrings("firesOn"), !words.isEmpty else {
      throw RecordError(
        .badRequest, "firesOn is missing: a query subscription must name create, update or delete, or several of them")
    }
    var events: Set<Event> = []
    for word in words {
      guard let event = Event(rawValue: word.lowercased()) else {
        throw RecordError(.badRequest, "firesOn has '\(word.prefix(40))': it takes create, update, delete")
      }
      events.insert(event)
    }
    var writer = JSONWriter()
    writer.value(dictionary)
    // An order has no meaning for a single record.
    return .query(
      RecordQuery(recordType: query.recordType, filters: query.filters), json: writer.bytes, in: zone, on: events)
  }
}

extension RecordQuery.Comparator {
  /// True if the comparator judges a single record cheaply: a shard's writer does so for every saved record. Only
  /// `records/query` supports distances and words.
  var isSubscribable: Bool {
    switch self {
    case .near, .containsAllTokens, .containsAnyTokens: false
    default: true
    }
  }
}

/// The visible content of a notification.
public struct NotificationInfo: Hashable, Sendable {
  public var alertBody: String?
  public var alertLocalizationKey: String?
  /// Names of fields, whose values become the text's arguments.
  public var alertLocalizationArgs: [String]
  public var alertActionLocalizationKey: String?
  public var alertLaunchImage: String?
  public var soundName: String?
  public var category: String?
  public var shouldBadge: Bool
  public var shouldSendContentAvailable: Bool
  /// Names of fields that the notification carries.
  public var additionalFields: [String]

  /// The number of names in one list at most.
  public static let fieldLimit = 32

  public init(_ json: JSONValue) throws(RecordError) {
    alertBody = try json.optionalString("alertBody")
    alertLocalizationKey = try json.optionalString("alertLocalizationKey")
    alertLocalizationArgs = try Self.fieldNames(json, "alertLocalizationArgs")
    alertActionLocalizationKey = try json.optionalString("alertActionLocalizationKey")
    alertLaunchImage = try json.optionalString("alertLaunchImage")
    soundName = try json.optionalString("soundName")
    category = try json.optionalString("category")
    shouldBadge = try json.optionalBool("shouldBadge") ?? false
    shouldSendContentAvailable = try json.optionalBool("shouldSendContentAvailable") ?? false
    additionalFields = try Self.fieldNames(json, "additionalFields")
  }

  private static func fieldNames(_ json: JSONValue, _ key: String) throws(RecordError) -> [String] {
    let names = try json.optionalStrings(key) ?? []
    guard names.count <= fieldLimit else {
      throw RecordError(.badRequest, "\(key) has \(names.count) items, the limit is \(fieldLimit)")
    }
    return names
  }
}
