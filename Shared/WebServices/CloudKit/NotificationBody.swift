// The notifications of subscriptions, as devices get them (docs/protocol/record-plane.md#web-courier).

import JSON
public import Records

/// What a subscription tells of, with what is taken along.
public struct NotificationContent: Hashable, Sendable {
  /// A record that a query subscription fired for.
  public struct RecordEvent: Hashable, Sendable {
    public let recordName: String
    public let event: Subscription.Event
    /// The record's fields that the subscription asks for, as they are after the change, or were before the deletion.
    public let fields: Fields

    /// - Parameter record: after the change, or before the deletion. Encrypted fields stay here.
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
    /// With the zone that changed, which Apple's form does not name; clients that don't know it pass over it.
    case database(Zone.ID)
  }

  public let container: ContainerID
  public let scope: DatabaseScope
  public let subscriptionID: String
  public let info: NotificationInfo?
  public let change: Change
  /// The zone's, an addition to Apple's form: a device that has this token already need not ask.
  public var syncToken: String?

  public init(container: ContainerID, scope: DatabaseScope, subscriptionID: String, info: NotificationInfo?, change: Change) {
    self.container = container
    self.scope = scope
    self.subscriptionID = subscriptionID
    self.info = info
    self.change = change
  }

  /// What the values of a record's fields may take in one notification; a field that does not fit any more is left out.
  public static let fieldByteLimit = 4096

  /// The JSON body.
  /// - Parameter notificationID: a fresh UUID.
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
    // One that shows nothing would be none at all otherwise: it wakes the app.
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

  /// One text for each argument, so that each keeps its place; empty where there is no record, or it has no such field.
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
    alertBody != nil || alertLocalizationKey != nil || alertActionLocalizationKey != nil || alertLaunchImage != nil || !alertLocalizationArgs.isEmpty
  }

  /// Whether there is nothing that a person would notice.
  var isSilent: Bool { !hasAlert && !shouldBadge && soundName == nil }
}

extension NotificationContent.RecordEvent {
  /// `{field: value}`, without types.
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
  /// The bare value: numbers, texts, milliseconds, base64; the name of a reference's record; two degrees.
  /// - Returns: false for what has no such form: assets, and numbers JSON does not have. Nothing complete is written then.
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

  /// As an argument of a text.
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
