// Subscriptions into JSON, which is stored as it is shown (docs/protocol/record-plane.md#subscriptions).

public import JSON
public import Records

extension Subscription {
  /// The subscription dictionary.
  /// - Parameter owner: the owner of zones for which the client named none.
  public func json(owner: String) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 400)
    writer.beginObject()
    writer.member("subscriptionID", subscriptionID)
    switch subject {
    case .database: writer.member("subscriptionType", "database")
    case .zone(let zone):
      writer.member("subscriptionType", "zone")
      writer.key("zoneID")
      zone.write(to: &writer, defaultOwner: owner)
    case .query(_, let query, let zone, let events):
      writer.member("subscriptionType", "query")
      if let zone {
        writer.key("zoneID")
        zone.write(to: &writer, defaultOwner: owner)
      }
      writer.member("zoneWide", zone == nil)
      writer.key("query")
      writer.raw(query)
      writer.key("firesOn")
      writer.beginArray()
      for event in Event.allCases where events.contains(event) { writer.string(event.rawValue) }
      writer.endArray()
    }
    writer.member("firesOnce", firesOnce)
    if let notificationInfo {
      writer.key("notificationInfo")
      notificationInfo.write(to: &writer)
    }
    writer.endObject()
    return writer.bytes
  }

  /// Writes the answer to a deletion.
  public static func writeDeleted(_ subscriptionID: String, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("subscriptionID", subscriptionID)
    writer.member("deleted", true)
    writer.endObject()
  }

  /// Writes an item that failed.
  public static func writeError(_ error: RecordError, of subscriptionID: String, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("subscriptionID", subscriptionID)
    error.writeMembers(to: &writer)
    writer.endObject()
  }
}

extension NotificationInfo {
  /// Writes the members that the client sent.
  fileprivate func write(to writer: inout JSONWriter) {
    writer.beginObject()
    if let alertBody { writer.member("alertBody", alertBody) }
    if let alertLocalizationKey { writer.member("alertLocalizationKey", alertLocalizationKey) }
    Self.write("alertLocalizationArgs", alertLocalizationArgs, to: &writer)
    if let alertActionLocalizationKey { writer.member("alertActionLocalizationKey", alertActionLocalizationKey) }
    if let alertLaunchImage { writer.member("alertLaunchImage", alertLaunchImage) }
    if let soundName { writer.member("soundName", soundName) }
    if shouldBadge { writer.member("shouldBadge", true) }
    if shouldSendContentAvailable { writer.member("shouldSendContentAvailable", true) }
    Self.write("additionalFields", additionalFields, to: &writer)
    if let category { writer.member("category", category) }
    writer.endObject()
  }

  private static func write(_ key: String, _ names: [String], to writer: inout JSONWriter) {
    guard !names.isEmpty else { return }
    writer.key(key)
    writer.beginArray()
    for name in names { writer.string(name) }
    writer.endArray()
  }
}
