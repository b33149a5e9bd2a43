// The notifications of subscriptions, as devices get them (docs/protocol/record-plane.md#web-courier).

import JSON
public import Records

/// The event that a subscription reports, with the content that goes along.
public struct NotificationContent: Hashable, Sendable {
  /// A record that a query subscription fired for.
  public struct RecordEvent: Hashable, Sendable {
    public let recordName: String
    public let event: Subscription.Event
    /// The fields that the subscription asks for, as they are after the change or were before the deletion.
    public let fields: Fields

    /// - Parameter record: the record after the change, or before the deletion. Its encrypted fields are left out.
    public init(_ event: Subscription.Event, of record: Record, info: NotificationInfo?) {
      recordName = record.recordName
      self.event = event
      var fields = Fields()
      if let info {
        for name in info.additionalFields + info.alertLocalizationArgs {
          if let field = record.fields[name], !field.isEncrypted { fields[name] = field }
        }
      }
      self.fields = fields
    }
  }

  public enum Change: Hashable, Sendable {
    case query(RecordEvent, in: Zone.ID)
    case zone(Zone.ID)
    /// The zone that changed. Apple's form does not name it, and clients that do not expect it ignore it.
    case database(Zone.ID)
  }

  public let container: ContainerID
  public let scope: DatabaseScope
  public let subscriptionID: String
  public let info: NotificationInfo?
  public let change: Change
  /// The zone's token, an addition to Apple's form: a device that has this token need not fetch.
  public var syncToken: String?

  public init(
    container: ContainerID, scope: DatabaseScope, subscriptionID: String, info: NotificationInfo?, change: Change
  ) {
    self.container = container
    self.scope = scope
    self.subscriptionID = subscriptionID
    self.info = info
    self.change = change
  }

  /// The byte limit for field values in one notification; fields that no longer fit are left out.
  public static let fieldByteLimit = 4096

  /// The JSON body.
  /// - Parameter notificationID: a UUID for this notification.
  public func json(notificationID: String) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 512)
    writer.beginObject()
    writer.key("aps")
    writeAlert(to: &writer)
    writer.key("ck")
    writer.beginObject()
    writer.member("cid", container.rawValue)
    writer.member("nid", notificationID)
    writer.member("ce", 2)
    switch change {
    case .zone(let zone): writeSubject("fet", zone, to: &writer)
    case .database(let zone): writeSubject("met", zone, to: &writer)
    case .query(let record, let zone): writeSubject("qry", zone, record, to: &writer)
    }
    writer.endObject()
    writer.endObject()
    return writer.bytes
  }

  private func writeSubject(_ key: String, _ zone: Zone.ID, _ record: RecordEvent? = nil, to writer: inout JSONWriter) {
    writer.key(key)
    writer.beginObject()
    writer.member("sid", subscriptionID)
    writer.member("zid", zone.zoneName)
    writer.member("zoid", zone.ownerRecordName)
    writer.member("dbs", scope.wireNumber)
    if let syncToken { writer.member("tok", syncToken) }
    if let record {
      writer.member("rid", record.recordName)
      writer.member("fo", record.event.wireNumber)
      if let names = info?.additionalFields, !names.isEmpty {
        writer.key("af")
        record.write(names, to: &writer)
      }
    }
    writer.endObject()
  }

  private func writeAlert(to writer: inout JSONWriter) {
    writer.beginObject()
    // A notification without any effect would be none: it wakes the app instead.
    if info?.shouldSendContentAvailable ?? false || info?.isSilent ?? true { writer.member("content-available", 1) }
    if let info {
      if info.hasAlert {
        writer.key("alert")
        writer.beginObject()
        if let body = info.alertBody { writer.member("body", body) }
        if let key = info.alertLocalizationKey { writer.member("loc-key", key) }
        if !info.alertLocalizationArgs.isEmpty { writeArguments(info.alertLocalizationArgs, to: &writer) }
        if let key = info.alertActionLocalizationKey { writer.member("action-loc-key", key) }
        if let image = info.alertLaunchImage { writer.member("launch-image", image) }
        writer.endObject()
      }
      if info.shouldBadge { writer.member("badge", 1) }
      if let sound = info.soundName { writer.member("sound", sound) }
      if let category = info.category { writer.member("category", category) }
    }
    writer.endObject()
  }

  /// Writes one text per argument, so that each keeps its place; empty if there is no record or no such field.
  private func writeArguments(_ names: [String], to writer: inout JSONWriter) {
    writer.key("loc-args")
    writer.beginArray()
    var left = Self.fieldByteLimit
    for name in names {
      var text = ""
      if case .query(let record, _) = change { text = record.fields[name]?.value.argument ?? "" }
      if text.utf8.count > left { text = "" }
      left -= text.utf8.count
      writer.string(text)
    }
    writer.endArray()
  }
}

extension NotificationInfo {
  var hasAlert: Bool {
    alertBody != nil || alertLocalizationKey != nil || alertActionLocalizationKey != nil || alertLaunchImage != nil
      || !alertLocalizationArgs.isEmpty
  }

  /// True if the notification has nothing that a person would notice.
  var isSilent: Bool { !hasAlert && !shouldBadge && soundName == nil }
}

extension NotificationContent.RecordEvent {
  /// Writes `{field: value}`, without types.
  fileprivate func write(_ names: [String], to writer: inout JSONWriter) {
    writer.beginObject()
    var written: Set<String> = []
    var left = NotificationContent.fieldByteLimit
    for name in names where written.insert(name).inserted {
      guard let value = fields[name]?.value else { continue }
      var single = JSONWriter(reservingByteCount: 64)
      guard value.write(to: &single), single.bytes.count <= left else { continue }
      left -= single.bytes.count
      writer.key(name)
      writer.raw(single.bytes)
    }
    writer.endObject()
  }
}

extension FieldValue {
  /// Writes the bare value: numbers, texts, milliseconds, base64, the name of a reference's record, or latitude and
  /// longitude.
  /// - Returns: false for assets and numbers that JSON lacks; the output is incomplete then.
  fileprivate func write(to writer: inout JSONWriter) -> Bool {
    switch self {
    case .int64(let number), .timestamp(let number): writer.integer(number)
    case .double(let number):
      guard number.isFinite else { return false }
      writer.double(number)
    case .string(let text): writer.string(text)
    case .bytes(let bytes): writer.base64(bytes)
    case .reference(let reference): writer.string(reference.recordName)
    case .location(let location):
      guard location.latitude.isFinite, location.longitude.isFinite else { return false }
      writer.beginObject()
      writer.member("latitude", location.latitude)
      writer.member("longitude", location.longitude)
      writer.endObject()
    case .asset: return false
    case .list(_, let values):
      writer.beginArray()
      for value in values where !value.write(to: &writer) { return false }
      writer.endArray()
    }
    return true
  }

  /// The value as an argument of a localized text.
  fileprivate var argument: String {
    switch self {
    case .int64(let number), .timestamp(let number): String(number)
    case .double(let number): number.description
    case .string(let text): text
    case .reference(let reference): reference.recordName
    case .bytes, .location, .asset: ""
    case .list(_, let values): values.map(\.argument).joined(separator: ", ")
    }
  }
}
