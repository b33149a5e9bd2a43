// A zone in memory behind real HTTP, with faults that the workloads must notice.

import HTTPServer
import JSON
import Synchronization

/// Answers records/modify, records/lookup, changes/zone and two ways to listen, for one zone and every user.
final class NaiveServer: HTTPHandler {
  enum Fault: Equatable {
    case none
    /// The record with that number (of creation) is in no page.
    case losesRecord(Int)
    /// The page that begins with that record is left out.
    case skipsPage(Int)
    /// Every page has its first record twice.
    case repeatsRecords
    /// A stale change tag is accepted.
    case everybodyWins
    /// No update is accepted.
    case nobodyWins
    /// The first listener never gets a ping.
    case leavesOneOut
    /// Listeners get the previous save's ping once more before each ping.
    case echoes
    /// A change can be pulled only after the next save.
    case lagsBehind
    /// Every fourth pull is deferred by a second.
    case throttles
  }

  private struct Record {
    let name: String
    var tag = 1
    var title = ""
  }

  private struct State {
    var records: [Record] = []
    var listeners: [Int: AsyncStream<[UInt8]>.Continuation] = [:]
    var listenerCount = 0
    /// Of couriers, by name.
    var mailboxes: [String: AsyncStream<[UInt8]>] = [:]
    var pullCount = 0
  }

  let fault: Fault
  private let state = Mutex(State())

  init(_ fault: Fault = .none) { self.fault = fault }

  /// Adds records as if they had been saved earlier.
  func add(_ names: [String]) { state.withLock { $0.records += names.map { Record(name: $0) } } }

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    switch request.pathSegments.last {
    case "modify": modify(request.body)
    case "lookup": answer("records", state.withLock { $0.records.map(item) })
    case "zone": changes(request.body)
    case "courier": await poll(request.query("device") ?? "")
    case "pings":
      HTTPResponse(status: 200, headers: [("Content-Type", "text/event-stream")], body: .stream(listen(": hello\n\n")))
    default: HTTPResponse(status: 404)
    }
  }

  func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }

  private func answer(_ key: String, _ items: [String]) -> HTTPResponse {
    HTTPResponse(status: 200, body: .bytes(Array(#"{"\#(key)":[\#(items.joined(separator: ","))]}"#.utf8)))
  }

  private func item(_ record: Record) -> String {
    #"""
    {"recordName":"\#(record.name)","recordChangeTag":"\#(record.tag)","deleted":false,\#
    "fields":{"CD_title":{"value":"\#(record.title)"}}}
    """#
  }

  private func modify(_ body: [UInt8]) -> HTTPResponse {
    let operations = (try? JSONValue(parsing: body))?["operations"]?.elements ?? []
    let (items, listeners, count) = state.withLock { state -> ([String], [AsyncStream<[UInt8]>.Continuation], Int) in
      let items = operations.map { operation -> String in
        let name = operation["record"]?["recordName"]?.string ?? ""
        guard let index = state.records.firstIndex(where: { $0.name == name }) else {
          state.records.append(Record(name: name))
          return item(state.records[state.records.count - 1])
        }
        let isStale = operation["record"]?["recordChangeTag"]?.string != String(state.records[index].tag)
        if fault == .nobodyWins || (isStale && fault != .everybodyWins) {
          return #"{"recordName":"\#(name)","serverErrorCode":"CONFLICT"}"#
        }
        state.records[index].tag += 1
        state.records[index].title = operation["record"]?["fields"]?["CD_title"]?["value"]?.string ?? ""
        return item(state.records[index])
      }
      let listeners = state.listeners.filter { fault != .leavesOneOut || $0.key > 1 }.sorted { $0.key < $1.key }.map(
        \.value)
      return (items, listeners, state.records.count)
    }
    for listener in listeners {
      if fault == .echoes { listener.yield(Self.ping(count - 1)) }
      listener.yield(Self.ping(count))
    }
    return answer("records", items)
  }

  private static func ping(_ token: Int) -> [UInt8] { Array("data: {\"zid\":\"Z\",\"tok\":\"\(token)\"}\n\n".utf8) }

  /// Tokens are numbers of records.
  private func changes(_ body: [UInt8]) -> HTTPResponse {
    let pullCount = state.withLock { state in
      state.pullCount += 1
      return state.pullCount
    }
    if fault == .throttles, pullCount % 4 == 0 { return HTTPResponse(status: 429, headers: [("Retry-After", "1")]) }
    let zone = (try? JSONValue(parsing: body))?["zones"]?.elements.first
    let limit = zone?["resultsLimit"]?.int64.map { Int($0) } ?? 200
    let start = zone?["syncToken"]?.string.flatMap { Int($0) } ?? 0
    let records = state.withLock { Array($0.records.dropLast(fault == .lagsBehind && $0.records.count > 1 ? 1 : 0)) }
    let end = min(start + limit, records.count)
    var page = Array(
      records[min(start, end)..<end].enumerated().filter { fault != .losesRecord(start + $0.offset) }.map(\.element))
    if fault == .skipsPage(start) { page = [] }
    if fault == .repeatsRecords, let first = page.first { page.append(first) }
    return answer(
      "zones",
      [
        #"""
        {"zoneID":{},"syncToken":"\#(end)","moreComing":\#(end < records.count),\#
        "records":[\#(page.map(item).joined(separator: ","))]}
        """#
      ])
  }

  private func listen(_ greeting: String?) -> AsyncStream<[UInt8]> {
    let (stream, continuation) = AsyncStream<[UInt8]>.makeStream()
    if let greeting { continuation.yield(Array(greeting.utf8)) }
    let number = state.withLock { state in
      state.listenerCount += 1
      state.listeners[state.listenerCount] = continuation
      return state.listenerCount
    }
    continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.listeners[number] = nil } }
    return stream
  }

  /// Keeps pings that come between two polls.
  private func poll(_ name: String) async -> HTTPResponse {
    let known = state.withLock { $0.mailboxes[name] }
    let mailbox = known ?? listen(nil)
    if known == nil { state.withLock { $0.mailboxes[name] = mailbox } }
    for await ping in mailbox { return HTTPResponse(status: 200, body: .bytes(ping)) }
    return HTTPResponse(status: 200)
  }
}
