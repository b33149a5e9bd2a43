// A store's events as they happen: a body that is pulled piece by piece, from the worker that holds the store.

import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit

extension Gateway {
  /// Whether a request for events wants them as they come.
  static func wantsStream(_ request: HTTPRequest) -> Bool {
    (request.header("accept") ?? "").split(separator: ",").contains { type in
      type.prefix { $0 != ";" }.trimmingSpaces().lowercased() == "text/event-stream"
    }
  }

  /// `GET stores/{id}/events` with `Accept: text/event-stream`. Begins after `Last-Event-ID`, else after `after`, else with the oldest event
  /// that is kept.
  /// - Throws: what the first page is refused with.
  func eventStream(_ request: DatabaseRequest, _ exchange: Exchange, recheck: @escaping StoreEvents.Recheck) async throws(RecordError) -> HTTPResponse {
    guard request.query["resultType"] == nil, request.query["wait"] == nil else {
      throw RecordError(.badRequest, "A stream takes neither resultType nor wait")
    }
    let after = exchange.request.header("last-event-id") ?? request.query["after"]
    let events = StoreEvents(request, forwarding: forwarding, place: exchange.place, recheck: recheck)
    let first = try await forwarding.forward(events.request(after: after), body: [])
    guard (200..<300).contains(first.reply.status) else {
      return HTTPResponse(status: first.reply.status, headers: [("Content-Type", first.reply.contentType ?? ErrorAnswer.jsonHeader.value)], body: .bytes(first.body))
    }
    guard await !state.waiters.isFull else { throw RecordError(.throttled, "Too many requests wait for changes", retryAfter: 5) }
    await events.begin(with: first.body)
    return HTTPResponse(
      status: 200, headers: [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no")],
      body: .stream(AsyncStream(unfolding: { await events.next() }, onCancel: { Task { await events.end() } })))
  }
}

/// One stream. Its task sleeps among the long polls, is woken by what workers tell of the store, and looks at each heartbeat besides.
actor StoreEvents {
  /// Asks again whether the stream's credentials hold; throws when they don't.
  typealias Recheck = @Sendable () async throws(RecordError) -> Void

  /// What a stream has that has nothing to tell.
  static let heartbeat = Duration.seconds(15)

  private let original: DatabaseRequest
  private let forwarding: Forwarding
  private let recheck: Recheck
  /// Among the requests that are held, as long as the stream is.
  private var place: RequestPlaces.Place?
  private var text = EventStreamText()
  /// What was read and not sent yet.
  private var waiting: [UInt8] = []
  private var moreComing = false
  private var registration: ChangeWaiters.Registration?
  private var hasEnded = false

  init(_ request: DatabaseRequest, forwarding: Forwarding, place: RequestPlaces.Place?, recheck: @escaping Recheck) {
    self.place = place
    original = request
    self.forwarding = forwarding
    self.recheck = recheck
  }

  /// The request for what comes after an event; the worker tells of the store for a while because of `wait`.
  nonisolated func request(after: String?) -> DatabaseRequest {
    var query = original.query
    query["after"] = after
    query["wait"] = "60"
    return DatabaseRequest(
      plane: original.plane, method: original.method, path: original.path, query: query, database: original.database, scope: original.scope,
      caller: original.caller, requestID: original.requestID, baseURL: original.baseURL)
  }

  func begin(with page: [UInt8]) {
    waiting = EventStreamText.greeting + (take(page) ?? [])
  }

  /// The next piece; nil at the end.
  func next() async -> [UInt8]? {
    if hasEnded { return nil }
    if !waiting.isEmpty {
      defer { waiting = [] }
      return waiting
    }
    do throws(RecordError) {
      // What happened before it is registered is in the page that is read now.
      if registration == nil {
        registration = await forwarding.waiters.register(for: .store(original.database, original.path[1]))
        guard registration != nil else { return await finished() }
      } else if !moreComing, let registration {
        _ = await forwarding.waiters.wait(registration, within: Self.heartbeat)
      }
      if hasEnded || Task.isCancelled { return await finished() }
      if await forwarding.waiters.isClosed { return await finished() }
      try await recheck()
      let answer = try await forwarding.forward(request(after: text.last), body: [])
      guard answer.reply.status == 200, let piece = take(answer.body) else { return await finished() }
      return piece.isEmpty ? EventStreamText.heartbeat : piece
    } catch {
      // The worker or the directory is away: the stream lives on and looks again.
      if error.code == .tryAgainLater { return EventStreamText.heartbeat }
      return await finished()
    }
  }

  /// The client is gone, or the stream has come to its end.
  func end() async {
    hasEnded = true
    place = nil
    guard let registration else { return }
    self.registration = nil
    await forwarding.waiters.leave(registration)
  }

  private func finished() async -> [UInt8]? {
    await end()
    return nil
  }

  /// nil for what is no page of events.
  private func take(_ page: [UInt8]) -> [UInt8]? {
    // Dropped because the worker's answers are JSON; one that is not ends the stream.
    guard let page = try? JSONValue(parsing: page), page["events"]?.kind == .array else { return nil }
    moreComing = page["moreComing"]?.bool == true
    return text.pieces(of: page)
  }
}

/// Pages of events as the text of a stream: each event's start and its end, which have one identifier (V1).
struct EventStreamText {
  static let greeting = Array(": connected\n\n".utf8)
  static let heartbeat = Array(": \n\n".utf8)

  /// The number of the last event that was written: what `Last-Event-ID` will say.
  private(set) var last: String?
  /// Events whose start was written and whose end was not, the oldest first. An older one than these is started again with its end.
  private var begun: [String] = []
  private static let begunLimit = 100

  mutating func pieces(of page: JSONValue) -> [UInt8] {
    let events = page["events"]?.elements ?? []
    var bytes: [UInt8] = []
    for (index, event) in events.enumerated() {
      let identifier = event["identifier"]?.string ?? ""
      let wasBegun = begun.contains(identifier)
      let hasEnded = event["endDate"]?.isNull == false
      if hasEnded, !wasBegun { append(Self.start(of: event), id: nil, to: &bytes) }
      begun.removeAll { $0 == identifier }
      if !hasEnded { begun = begun.suffix(Self.begunLimit - 1) + [identifier] }
      append(Self.text(event), id: index == events.count - 1 ? page["lastEvent"]?.string : nil, to: &bytes)
    }
    last = page["lastEvent"]?.string ?? last
    return bytes
  }

  private func append(_ data: [UInt8], id: String?, to bytes: inout [UInt8]) {
    if let id { bytes += "id: \(id)\n".utf8 }
    bytes += "data: ".utf8
    bytes += data
    bytes += "\n\n".utf8
  }

  private static func text(_ event: JSONValue) -> [UInt8] {
    var writer = JSONWriter()
    writer.value(event)
    return writer.bytes
  }

  /// The event as it was posted when it began.
  private static func start(of event: JSONValue) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    for (name, value) in event.members {
      writer.key(name)
      switch name {
      case "endDate", "error": writer.null()
      case "succeeded": writer.bool(false)
      case "counts":
        writer.beginObject()
        for (name, _) in value.members { writer.member(name, 0) }
        writer.endObject()
      default: writer.value(value)
      }
    }
    writer.endObject()
    return writer.bytes
  }
}

extension Substring {
  fileprivate func trimmingSpaces() -> Substring {
    let front = drop { $0 == " " || $0 == "\t" }
    guard let end = front.lastIndex(where: { $0 != " " && $0 != "\t" }) else { return front }
    return front[...end]
  }
}
