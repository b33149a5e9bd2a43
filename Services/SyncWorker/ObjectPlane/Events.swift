// Answers a client's request for its store's events (V1).

import RecordStore
package import Records
import ServiceBus
import WebServices
package import ZoneCommit

extension StoreCall {
  package func fetchEvents() async throws(RecordError) -> PlaneAnswer {
    let counts = try countsEvents()
    let limit = try integer("limit", default: Self.eventLimit, maximum: Self.eventLimit)
    let waits = try integer("wait", default: 0, minimum: 0, maximum: 60) > 0
    let filter = EventFilter(kind: try eventKind(), startedAfter: try date("afterDate"))
    let after = try await eventNumber()
    let page = try await read { snapshot -> EventPage in
      let mirror = try mirror(in: snapshot)
      // Watch before the look, so that no later event is missed.
      if waits { watch(mirror) }
      return try EventPage(
        of: mirror.key, after: after, filter, limit: counts ? .max : limit, keepsEvents: !counts, in: snapshot)
    }
    let mayWait = waits && page.count == 0
    if counts { return PlaneAnswer(mayWait: mayWait, body: StoreAnswer.eventCount(page.count, last: page.last)) }
    let events = page.events.map(event)
    if request.takesParts {
      let parts = events.map { event in
        StoreEventPage.Event(
          identifier: event.identifier, begun: event.begun.json, ended: event.endDate == nil ? nil : event.json)
      }
      return try PlaneAnswer(
        forProcess: StoreEventPage(parts, lastEvent: String(page.last), moreComing: page.moreComing), mayWait: mayWait)
    }
    return PlaneAnswer(
      mayWait: mayWait, body: StoreAnswer.events(events, last: page.last, moreComing: page.moreComing))
  }

  private static let eventLimit = 200

  private func eventKind() throws(RecordError) -> StoredEvent.Kind? {
    guard let name = request.query["type"] else { return nil }
    guard let kind = StoredEvent.Kind(wireName: name) else {
      throw RecordError(.badRequest, "type must be setup, import or export")
    }
    return kind
  }

  /// True if the request wants the number of events instead of the events, Core Data's two result types.
  private func countsEvents() throws(RecordError) -> Bool {
    switch request.query["resultType"] {
    case nil, "events": return false
    case "count": return true
    default: throw RecordError(.badRequest, "resultType must be events or count")
    }
  }

  private func date(_ name: String) throws(RecordError) -> Int64? {
    guard let text = request.query[name], !text.isEmpty else { return nil }
    guard let date = MirrorDate.milliseconds(text) else {
      throw RecordError(.badRequest, "\(name) must be a date such as 2026-11-20T07:33:24.123Z")
    }
    return date
  }

  /// Reads `after`: the `lastEvent` of an answer, or an event's identifier.
  private func eventNumber() async throws(RecordError) -> Int64 {
    guard let text = request.query["after"], !text.isEmpty else { return 0 }
    if let number = Int64(text), number >= 0 { return number }
    return try await read { snapshot in
      let mirror = try mirror(in: snapshot)
      var last: Int64 = 0
      while true {
        let rows = try snapshot.events(of: mirror.key, after: last, kind: nil, limit: EventPage.chunk)
        if let found = rows.first(where: { $0.identifier == text }) { return found.number }
        guard let end = rows.last else {
          throw RecordError(
            .badRequest, "after is neither an event of this store nor the lastEvent of an earlier answer")
        }
        last = end.number
      }
    }
  }
}

/// The events that a request wants.
struct EventFilter: Hashable, Sendable {
  /// nil: every kind.
  let kind: StoredEvent.Kind?
  /// Milliseconds since 1970; nil for any time.
  let startedAfter: Int64?
}

/// Events of a store in the order of their last change.
struct EventPage: Sendable {
  /// Empty when only the number was wanted.
  private(set) var events: [StoredEvent] = []
  private(set) var count = 0
  /// The number of the last event that was read.
  private(set) var last: Int64
  private(set) var moreComing = false

  /// Rows read at once.
  static let chunk = 100

  /// - Parameter limit: of events, at least 1; the bytes of an answer bound their errors.
  init(
    of mirror: Int64, after number: Int64, _ filter: EventFilter, limit: Int, keepsEvents: Bool,
    in snapshot: any ShardSnapshot
  ) throws {
    last = number
    var byteCount = 0
    while true {
      let rows = try snapshot.events(of: mirror, after: last, kind: filter.kind, limit: Self.chunk)
      for row in rows {
        if filter.startedAfter.map({ row.startedAt > $0 }) ?? true {
          byteCount += keepsEvents ? row.errorJSON?.count ?? 0 : 0
          guard count < limit, count == 0 || byteCount <= StoreCall.pageByteCount else {
            moreComing = true
            return
          }
          if keepsEvents { events.append(row) }
          count += 1
        }
        last = row.number
      }
      if rows.count < Self.chunk { return }
    }
  }
}
