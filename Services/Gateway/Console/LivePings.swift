// `/admin/1/pings/live`: the pings for a user's devices as they are sent, without a way from a page to the notifier.

import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus

extension Gateway {
  /// `GET /admin/1/pings/live?container=&environment=&user=&zone=`: an event `ping` for each one, beginning with the
  /// latest few.
  func livePings(_ exchange: IncomingRequest, _ caller: Caller) async throws(RecordError) -> HTTPResponse {
    var query = Self.query(of: exchange.request)
    query["limit"] = String(PingFeed.firstLimit)
    let feed = PingFeed(share: share, query: query)
    if let refusal = try await feed.begin(as: caller.member) { return refusal }
    return try stream(exchange, of: caller, each: PingFeed.interval) { caller async throws(RecordError) in
      try await feed.next(as: caller.member)
    }
  }
}

/// One client's pings. It asks the share service, which asks the notifiers.
private actor PingFeed {
  static let interval = Duration.milliseconds(500)
  /// Pings that a stream begins with.
  static let firstLimit = 20
  /// Pings in one piece; a burst beyond them is cut at its beginning.
  private static let limit = 200
  private static let deadline = Duration.seconds(3)

  private let share: ShareCalls
  private var query: [String: String]
  private var waiting: [UInt8] = []

  init(share: ShareCalls, query: [String: String]) {
    self.share = share
    self.query = query
  }

  /// Asks for the first pings.
  /// - Returns: the share service's refusal; nil if there is none.
  func begin(as member: StaffMember?) async throws(RecordError) -> HTTPResponse? {
    let answer = try await ask(as: member)
    guard answer.reply.status == 200 else { return HTTPResponse(answer) }
    waiting = EventStreamText.greeting + take(answer.body)
    query["limit"] = String(Self.limit)
    return nil
  }

  /// nil: no new ping.
  /// - Throws: `accessDenied` when the pings are no longer the member's to see.
  func next(as member: StaffMember?) async throws(RecordError) -> [UInt8]? {
    if !waiting.isEmpty {
      defer { waiting = [] }
      return waiting
    }
    // Dropped because the stream goes on, and the next question asks for what this one missed.
    guard let answer = try? await ask(as: member) else { return nil }
    guard answer.reply.status == 200 else {
      guard [403, 404].contains(answer.reply.status) else { return nil }
      throw RecordError(.accessDenied, "You may no longer see these pings")
    }
    let events = take(answer.body)
    return events.isEmpty ? nil : events
  }

  private func ask(as member: StaffMember?) async throws(RecordError) -> Answer<OperatorRequest.Reply> {
    let question = OperatorRequest(method: "GET", path: ["admin", "1", "pings"], query: query, member: member)
    return try await share.call(question, body: [], within: Self.deadline)
  }

  private func take(_ body: [UInt8]) -> [UInt8] {
    // Dropped because the share service's answers are JSON.
    guard let list = try? JSONValue(parsing: body) else { return [] }
    if let after = list["after"]?.string, !after.isEmpty { query["after"] = after }
    return list["pings"]?.elements.flatMap { ping in
      var writer = JSONWriter()
      writer.value(ping)
      return EventStreamText.event("ping", writer.bytes)
    } ?? []
  }
}
