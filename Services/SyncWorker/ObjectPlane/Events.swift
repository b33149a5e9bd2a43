// A store's events as its clients ask for them (semantics section 11).

import RecordStore
import Records
import ServiceBus
import WebServices

extension StoreCall {
  func fetchEvents() async throws(RecordError) -> PlaneAnswer {
    let after = try await eventNumber()
    let limit = try integer("limit", default: Self.eventLimit, maximum: Self.eventLimit)
    var kind: StoredEvent.Kind?
    if let name = request.query["type"] {
      guard let known = StoredEvent.Kind(wireName: name) else { throw RecordError(.badRequest, "type must be setup, import or export") }
      kind = known
    }
    let wanted = kind
    var events = try await read { snapshot in
      try snapshot.events(of: try mirror(in: snapshot).key, after: after, kind: wanted, limit: limit + 1)
    }
    let moreComing = events.count > limit
    if moreComing { events.removeLast() }
    return PlaneAnswer(body: StoreAnswer.events(events.map(event), last: events.last?.number ?? after, moreComing: moreComing))
  }

  private static let eventLimit = 200

  /// `after`: what an answer called `lastEvent`, or an event's identifier.
  private func eventNumber() async throws(RecordError) -> Int64 {
    guard let text = request.query["after"], !text.isEmpty else { return 0 }
    if let number = Int64(text), number >= 0 { return number }
    return try await read { snapshot in
      let mirror = try mirror(in: snapshot)
      var last: Int64 = 0
      while true {
        let page = try snapshot.events(of: mirror.key, after: last, kind: nil, limit: Self.eventLimit)
        if let found = page.first(where: { $0.identifier == text }) { return found.number }
        guard let end = page.last else { throw RecordError(.badRequest, "after is neither an event of this store nor the lastEvent of an earlier answer") }
        last = end.number
      }
    }
  }
}
