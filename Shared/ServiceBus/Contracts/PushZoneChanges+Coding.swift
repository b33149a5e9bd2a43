// Hand-written coding (HandCoding.swift) of the message that follows every save. `Codable` took a sixteenth of a
// worker's instructions for a save, and as much again in the reader.

import MessagePack
import Records

extension PushZoneChanges {
  public func encoded() throws -> [UInt8] {
    var writer = MessagePackWriter(reservingByteCount: 16 + 384 * changes.count)
    writer.mapHeader(1)
    writer.string("changes")
    writer.arrayHeader(changes.count)
    for change in changes { change.encode(to: &writer) }
    return writer.bytes
  }

  public static func decoded(from bytes: [UInt8]) throws -> PushZoneChanges {
    let map = try MessagePackValue(parsing: bytes)
    return PushZoneChanges(
      changes: try map.required("changes") { list in
        guard list.kind == .array else { return nil }
        return try (0..<list.count).map { try ZoneChange(decoding: list[$0]) }
      })
  }
}

extension ZoneChange {
  fileprivate func encode(to writer: inout MessagePackWriter) {
    writer.mapHeader(memberCount)
    writer.string("database")
    database.encode(to: &writer)
    writer.member("zoneName", zoneName)
    writer.string("sequence")
    writer.integer(sequence)
    writer.member("syncToken", syncToken)
    if let originStore { writer.member("originStore", originStore) }
    if let originUser { writer.member("originUser", originUser) }
    writer.string("audience")
    writer.arrayHeader(audience.count)
    for user in audience { writer.string(user) }
    if let hasSubscriptions {
      writer.string("hasSubscriptions")
      writer.bool(hasSubscriptions)
    }
    if let subscribers {
      writer.string("subscribers")
      writer.arrayHeader(subscribers.count)
      for user in subscribers { writer.string(user) }
    }
    if let tellsHomes {
      writer.string("tellsHomes")
      writer.bool(tellsHomes)
    }
    if let traceID { writer.member("traceID", traceID) }
  }

  fileprivate init(decoding map: MessagePackValue) throws {
    let originStore = try map.optional("originStore", \.string)
    let traceID = try map.optional("traceID", \.string)
    // The others are looked up only if members are left: most changes are of databases that nobody shares.
    let isWhole = map.count == 5 + (originStore == nil ? 0 : 1) + (traceID == nil ? 0 : 1)
    self.init(
      database: try map.required("database", DatabaseID.init(decoding:)),
      zoneName: try map.required("zoneName", \.string),
      sequence: try map.required("sequence", \.int64), syncToken: try map.required("syncToken", \.string),
      originStore: originStore, originUser: isWhole ? nil : try map.optional("originUser", \.string),
      audience: try map.required("audience", \.strings),
      hasSubscriptions: isWhole ? false : try map.optional("hasSubscriptions", \.bool) ?? false, traceID: traceID)
    if isWhole { return }
    subscribers = try map.optional("subscribers", \.strings)
    tellsHomes = try map.optional("tellsHomes", \.bool)
  }

  /// The number of members in the encoded map.
  private var memberCount: Int {
    5 + (originStore == nil ? 0 : 1) + (originUser == nil ? 0 : 1) + (hasSubscriptions == nil ? 0 : 1)
      + (subscribers == nil ? 0 : 1) + (tellsHomes == nil ? 0 : 1)
      + (traceID == nil ? 0 : 1)
  }
}
