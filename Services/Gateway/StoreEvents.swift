// A store's events as a stream: a body that is pulled piece by piece from the worker that holds the store.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit

extension Gateway {
  /// True when a request for events accepts `text/event-stream`.
  static func wantsStream(_ request: HTTPRequest) -> Bool {
    (request.header("accept") ?? "").split(separator: ",").contains { type in
      type.prefix { $0 != ";" }.trimmingSpaces().lowercased() == EventStreamText.contentType
    }
  }

  /// `GET stores/{id}/events` with `Accept: text/event-stream`. Begins after the event in `Last-Event-ID`, else after
  /// `after`, else with the oldest event kept.
  /// - Throws: the refusal of the first page.
  func eventStream(
    _ request: DatabaseRequest, ofStore store: String, _ exchange: IncomingRequest,
    recheck: @escaping StoreEvents.Recheck
  ) async throws(RecordError) -> HTTPResponse {
    guard request.query["resultType"] == nil, request.query["wait"] == nil else {
      throw RecordError(.badRequest, "An event stream takes neither resultType nor wait")
    }
    let after = exchange.request.header("last-event-id") ?? request.query["after"]
    let events = StoreEvents(request, ofStore: store, forwarding: forwarding, place: exchange.place, recheck: recheck)
    let first = try await forwarding.forward(events.request(after: after), body: [])
    guard (200..<300).contains(first.reply.status) else {
      return HTTPResponse(
        status: first.reply.status,
        headers: [("Content-Type", first.reply.contentType ?? ErrorAnswer.jsonHeader.value)], body: .bytes(first.body))
    }
    guard await !state.waiters.isFull else {
      throw RecordError(.throttled, "Too many requests wait for changes", retryAfter: 5)
    }
    try await events.begin(with: first)
    return HTTPResponse(
      status: 200,
      headers: [
        ("Content-Type", EventStreamText.contentType), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"),
      ],
      body: .stream(AsyncStream(unfolding: { await events.next() }, onCancel: { Task { await events.end() } })))
  }
}

/// One stream. Its task sleeps among the long polls; workers' pushes wake it, and it looks again at each heartbeat.
actor StoreEvents {
  /// Checks again that the stream's credentials hold; throws when they don't.
  typealias Recheck = @Sendable () async throws(RecordError) -> Void

  /// Interval of the comment lines that an idle stream sends.
  static let heartbeat = Duration.seconds(15)

  private let original: DatabaseRequest
  private let store: String
  private let forwarding: Forwarding
  private let recheck: Recheck
  /// The stream's place among the held requests.
  private var place: RequestPlaces.Place?
  private var text = EventStreamText()
  /// Bytes read but not sent yet.
  private var waiting: [UInt8] = []
  private var moreComing = false
  private var registration: ChangeWaiters.Registration?
  private var hasEnded = false

  init(
    _ request: DatabaseRequest, ofStore store: String, forwarding: Forwarding, place: RequestPlaces.Place?,
    recheck: @escaping Recheck
  ) {
    self.store = store
    self.place = place
    original = request
    self.forwarding = forwarding
    self.recheck = recheck
  }

  /// The request for events after another one. With `wait` the worker pushes the store's changes for a while.
  nonisolated func request(after: String?) -> DatabaseRequest {
    var query = original.query
    query["after"] = after
    query["wait"] = "60"
    return original.asking(query).inParts
  }

  /// - Throws: when the answer is no page of events.
  func begin(with answer: Answer<DatabaseRequest.Reply>) throws(RecordError) {
    waiting = EventStreamText.greeting + (try take(answer))
  }

  /// The next piece; nil at the end.
  func next() async -> [UInt8]? {
    if hasEnded { return nil }
    if !waiting.isEmpty {
      defer { waiting = [] }
      return waiting
    }
    do throws(RecordError) {
      // Registered before the page is read, so that every earlier event is in the page.
      if registration == nil {
        registration = await forwarding.waiters.register(for: .store(original.database, store))
        guard registration != nil else { return await finished() }
      } else if !moreComing, let registration {
        _ = await forwarding.waiters.wait(registration, within: Self.heartbeat)
      }
      if hasEnded || Task.isCancelled { return await finished() }
      if await forwarding.waiters.isClosed { return await finished() }
      try await recheck()
      let answer = try await forwarding.forward(request(after: text.last), body: [])
      guard answer.reply.status == 200 else { return await finished() }
      let piece = try take(answer)
      return piece.isEmpty ? EventStreamText.heartbeat : piece
    } catch {
      // The worker or the directory is away: the stream goes on and looks again later.
      if error.code == .tryAgainLater { return EventStreamText.heartbeat }
      return await finished()
    }
  }

  /// Ends the stream: the client is gone, or the stream is over.
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

  private func take(_ answer: Answer<DatabaseRequest.Reply>) throws(RecordError) -> [UInt8] {
    let page = try StoreEventPage(answer.body, contentType: answer.reply.contentType)
    moreComing = page.moreComing
    return text.pieces(of: page)
  }
}

/// Pages of events as the text of a stream: each event's start and its end, which have one identifier (V1).
struct EventStreamText {
  static let contentType = "text/event-stream"
  static let greeting = Array(": connected\n\n".utf8)
  static let heartbeat = Array(": \n\n".utf8)

  /// A named event with one line of data.
  static func event(_ name: String, _ data: [UInt8]) -> [UInt8] {
    Array("event: \(name)\ndata: ".utf8) + data + Array("\n\n".utf8)
  }

  /// The number of the last event written, which a client repeats as `Last-Event-ID`.
  private(set) var last: String?
  /// Events whose start was written but not their end, oldest first. When an event beyond the limit ends, its start is
  /// written again.
  private var begun: [String] = []
  private static let begunLimit = 100

  mutating func pieces(of page: StoreEventPage) -> [UInt8] {
    var bytes: [UInt8] = []
    for (index, event) in page.events.enumerated() {
      let wasBegun = begun.contains(event.identifier)
      if event.ended != nil, !wasBegun { append(event.begun, id: nil, to: &bytes) }
      begun.removeAll { $0 == event.identifier }
      if event.ended == nil { begun = begun.suffix(Self.begunLimit - 1) + [event.identifier] }
      append(event.ended ?? event.begun, id: index == page.events.count - 1 ? page.lastEvent : nil, to: &bytes)
    }
    last = page.lastEvent
    return bytes
  }

  private func append(_ data: [UInt8], id: String?, to bytes: inout [UInt8]) {
    if let id { bytes += "id: \(id)\n".utf8 }
    bytes += "data: ".utf8
    bytes += data
    bytes += "\n\n".utf8
  }
}

extension HTTPResponse {
  var isEventStream: Bool {
    headers.contains { $0.name == "Content-Type" && $0.value == EventStreamText.contentType }
  }
}

extension Substring {
  func trimmingSpaces() -> Substring {
    let front = drop { $0 == " " || $0 == "\t" }
    guard let end = front.lastIndex(where: { $0 != " " && $0 != "\t" }) else { return front }
    return front[...end]
  }
}
