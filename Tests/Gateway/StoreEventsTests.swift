import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Gateway

/// A store's events, kept as a worker keeps them.
private final class EventLog: Sendable {
  private let events = Mutex<[(number: Int, json: String)]>([])
  private let lastNumber = Mutex(0)
  let asked = Mutex<[DatabaseRequest]>([])
  let refusal = Mutex<Int?>(nil)

  func put(_ identifier: String, endDate: String? = "2026-11-20T07:33:25.000Z", saved: Int = 0) {
    let end = endDate.map { "\"\($0)\"" } ?? "null"
    events.withLock { events in
      events.removeAll { $0.json.contains("\"identifier\":\"\(identifier)\"") }
      let json =
        #"""
        {"identifier":"\#(identifier)","type":"export","storeIdentifier":"S","startDate":"2026-11-20T07:33:24.000Z",\#
        "endDate":\#(end),"succeeded":\#(endDate != nil),"error":null,"counts":{"saved":\#(saved),"deleted":0}}
        """#
      let number = lastNumber.withLock {
        $0 += 1
        return $0
      }
      events.append((number, json))
    }
  }

  func answer(_ request: DatabaseRequest) -> Answer<DatabaseRequest.Reply> {
    asked.withLock { $0.append(request) }
    if let status = refusal.withLock({ $0 }) {
      return Answer(DatabaseRequest.Reply(status: status), body: Array(#"{"reason":"no"}"#.utf8))
    }
    let after = Int(request.query["after"] ?? "") ?? 0
    let limit = Int(request.query["limit"] ?? "") ?? 200
    let found = events.withLock { $0.filter { $0.number > after } }
    let page = found.prefix(limit)
    let body =
      #"""
      {"events":[\#(page.map(\.json).joined(separator: ","))],"lastEvent":"\#(page.last?.number ?? after)",\#
      "moreComing":\#(found.count > page.count)}
      """#
    return Answer(DatabaseRequest.Reply(status: 200, mayWait: page.isEmpty), body: Array(body.utf8))
  }
}

/// Reads the pieces of a stream.
private struct Listener {
  private var iterator: AsyncStream<[UInt8]>.Iterator
  private(set) var ids: [String] = []

  init?(_ response: HTTPResponse) {
    guard case .stream(let stream) = response.body else { return nil }
    iterator = stream.makeAsyncIterator()
  }

  /// The next piece's events as `identifier` and `+` for a start or `.` for an end; nil at the end.
  mutating func next() async throws -> [String]? {
    guard let piece = await iterator.next(isolation: nil) else { return nil }
    var texts: [String] = []
    for line in String(decoding: piece, as: UTF8.self).split(separator: "\n") {
      if line.hasPrefix("id: ") { ids.append(String(line.dropFirst(4))) }
      guard line.hasPrefix("data: ") else { continue }
      let event = try JSONValue(parsing: Array(line.dropFirst(6).utf8))
      let isStart = event["endDate"]?.isNull == true
      #expect(event["succeeded"]?.bool == !isStart)
      texts.append(
        "\(event["identifier"]?.string ?? "")\(isStart ? "+" : ".")\(event["counts"]?["saved"]?.int64 ?? -1)")
    }
    return texts
  }

  /// The next events, skipping heartbeats.
  mutating func events() async throws -> [String]? {
    while let texts = try await next() {
      if !texts.isEmpty { return texts }
    }
    return nil
  }
}

struct StoreEventsTests {
  private let path = "\(GatewayWorld.stores)/S/events"
  private let accept = [("accept", "text/html, text/event-stream;q=0.9")]
  private var database: DatabaseID {
    get throws {
      DatabaseID(
        container: try #require(ContainerID(rawValue: GatewayWorld.container)), environment: .development,
        owner: "_alice")
    }
  }

  private func world(_ log: EventLog) async throws -> GatewayWorld {
    try await GatewayWorld { _, request, _ in log.answer(request) }
  }

  /// Announces a store's change, like a worker's push.
  private func notice(_ world: GatewayWorld, _ store: String = "S") async throws {
    await world.state.waiters.notice(StoreChange(database: try database, storeIdentifier: store))
  }

  private func waiting(_ world: GatewayWorld) async { while await world.state.waiters.count < 1 { await Task.yield() } }

  @Test
  func `T-V01 every event of a stream comes as its start without an end, and then as its end with the same identifier`()
    async throws
  {
    let log = EventLog()
    log.put("a", saved: 3)
    log.put("b", endDate: nil)
    let world = try await world(log)
    let response = await world.alice(.get, path, headers: accept)
    #expect(
      response.status == 200 && response.header("Content-Type") == "text/event-stream"
        && response.header("Cache-Control") == "no-store")
    var listener = try #require(Listener(response))
    #expect(try await listener.events() == ["a+0", "a.3", "b+0"])
    log.put("b", saved: 5)
    #expect(try await listener.events() == ["b.5"], "whose start was sent is not started again")
    #expect(listener.ids == ["2", "3"])
    log.put("c")
    try await notice(world)
    #expect(try await listener.events() == ["c+0", "c.0"])
  }

  @Test func `a stream goes on after the event its client saw last, page by page`() async throws {
    let log = EventLog()
    for name in ["a", "b", "c", "d"] { log.put(name) }
    let world = try await world(log)
    var listener = try #require(
      Listener(await world.alice(.get, path, query: [("limit", "1")], headers: accept + [("last-event-id", "2")])))
    #expect(try await listener.events() == ["c+0", "c.0"])
    #expect(try await listener.events() == ["d+0", "d.0"])
    #expect(log.asked.withLock { $0.map { $0.query["after"] } } == ["2", "3"])
    var other = try #require(Listener(await world.alice(.get, path, query: [("after", "3")], headers: accept)))
    #expect(try await other.events() == ["d+0", "d.0"])
  }

  /// The next events of a stream that has read all events and waits.
  private func listening(_ world: GatewayWorld, _ log: EventLog) async throws -> Task<[String]?, any Error> {
    let stream = try #require(Listener(await world.alice(.get, path, headers: accept)))
    let task = Task {
      var listener = stream
      return try await listener.events()
    }
    while log.asked.withLock({ $0.count }) < 2 { await Task.yield() }
    return task
  }

  @Test func `another store's news leaves a stream asleep, its own wakes it`() async throws {
    let log = EventLog()
    let world = try await world(log)
    let task = try await listening(world, log)
    await waiting(world)
    try await notice(world, "T")
    log.put("a")
    try await notice(world)
    #expect(try await task.value == ["a+0", "a.0"])
    #expect(log.asked.withLock { $0.count } == 3)
  }

  @Test func `a stream whose credentials are revoked ends without another event`() async throws {
    let log = EventLog()
    let world = try await world(log)
    let task = try await listening(world, log)
    world.record.withLock { _ = $0.revoked.insert("alice") }
    world.state.authenticator.forgetAll()
    log.put("a")
    try await notice(world)
    #expect(try await task.value == nil)
    #expect(await world.state.waiters.count == 0)
  }

  @Test func `a stream ends when its store is gone, when the gateway stops, and when its client hangs up`() async throws
  {
    for end in 0..<3 {
      let log = EventLog()
      let world = try await world(log)
      let task = try await listening(world, log)
      await waiting(world)
      switch end {
      case 0:
        log.refusal.withLock { $0 = 404 }
        try await notice(world)
      case 1: await world.state.waiters.close()
      default: task.cancel()
      }
      #expect(try await task.value == nil)
      while await world.state.waiters.count > 0 { await Task.yield() }
    }
  }

  @Test func `a worker's refusal comes before a stream begins`() async throws {
    let log = EventLog()
    log.refusal.withLock { $0 = 404 }
    let world = try await world(log)
    let response = await world.alice(.get, path, headers: accept)
    #expect(response.status == 404 && response.text == #"{"reason":"no"}"#)
    #expect(await world.alice(.get, path, query: [("wait", "5")], headers: accept).status == 400)
    #expect(await world.alice(.get, path, query: [("resultType", "count")], headers: accept).status == 400)
    log.refusal.withLock { $0 = nil }
    #expect(await world.alice(.get, path, headers: [("accept", "application/json")]).bytes.isEmpty == false)
  }

  @Test func `a long poll for events or for a barrier is woken by its store and by no other`() async throws {
    for call in ["events", "status"] {
      let count = Mutex(0)
      let world = try await GatewayWorld { _, _, _ in
        let number = count.withLock {
          $0 += 1
          return $0
        }
        return Answer(DatabaseRequest.Reply(status: 200, mayWait: number <= 2), body: Array("\(number)".utf8))
      }
      let held = Task { await world.alice(.get, "\(GatewayWorld.stores)/S/\(call)", query: [("wait", "60")]) }
      while world.requests.count < 2 { await Task.yield() }
      await waiting(world)
      try await notice(world, "T")
      try await notice(world)
      #expect(await held.value.text == "3")
    }
  }
}
