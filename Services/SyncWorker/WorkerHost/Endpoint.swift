// Lists the calls of the object plane in one table, one row for each call.

import ObjectPlane
import Records
import ServiceBus
import SharedStores
import ZoneActions
import ZoneCommit

/// A call under `stores/{id}`.
struct Endpoint: Sendable {
  /// - Parameter startNext: to be called once the request has its place in the shard's writer queue.
  typealias Answering = @Sendable (_ call: StoreCall, _ startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer

  let method: String
  /// The path after the store's identifier; nil matches any one segment, which the call reads itself.
  private let pattern: [String?]
  let answer: Answering

  private init(_ method: String, _ pattern: String, _ answer: @escaping Answering) {
    self.method = method
    self.pattern = pattern.split(separator: "/").map { $0.first == "{" ? nil : String($0) }
    self.answer = answer
  }

  private static let all: [Endpoint] = [
    Endpoint("PUT", "") { (call, startNext) async throws(RecordError) in try await call.setUp(startNext: startNext) },
    Endpoint("DELETE", "") { (call, startNext) async throws(RecordError) in try await call.forget(startNext: startNext) },
    Endpoint("POST", "reset") { (call, startNext) async throws(RecordError) in try await call.reset(startNext: startNext) },
    Endpoint("POST", "transactions") { (call, startNext) async throws(RecordError) in try await call.saveTransactions(startNext: startNext) },
    Endpoint("GET", "history") { (call, _) async throws(RecordError) in try await call.fetchHistory() },
    Endpoint("DELETE", "history") { (call, startNext) async throws(RecordError) in try await call.purgeHistory(startNext: startNext) },
    Endpoint("GET", "consumers") { (call, _) async throws(RecordError) in try await call.fetchConsumers() },
    Endpoint("PUT", "consumers/{name}") { (call, startNext) async throws(RecordError) in
      try await call.registerConsumer(call.request.path[3], startNext: startNext)
    },
    Endpoint("DELETE", "consumers/{name}") { (call, startNext) async throws(RecordError) in
      try await call.removeConsumer(call.request.path[3], startNext: startNext)
    },
    Endpoint("GET", "audit") { (call, _) async throws(RecordError) in try await call.audit() },
    Endpoint("GET", "changes") { (call, _) async throws(RecordError) in try await call.fetchChanges() },
    Endpoint("GET", "events") { (call, _) async throws(RecordError) in try await call.fetchEvents() },
    Endpoint("GET", "status") { (call, _) async throws(RecordError) in try await call.status() },
    Endpoint("GET", "objects/{objectID}") { (call, _) async throws(RecordError) in try await call.object(call.request.path[3]) },
    Endpoint("GET", "objects/{objectID}/explain") { (call, _) async throws(RecordError) in try await call.explain(call.request.path[3]) },
    Endpoint("POST", "records") { (call, _) async throws(RecordError) in try await call.records() },
    Endpoint("POST", "permissions") { (call, _) async throws(RecordError) in try await call.permissions() },
    Endpoint("GET", "quarantine") { (call, _) async throws(RecordError) in try await call.listQuarantine() },
    Endpoint("POST", "quarantine/retry") { (call, startNext) async throws(RecordError) in try await call.retryQuarantine(startNext: startNext) },
    Endpoint("GET", "conflicts") { (call, _) async throws(RecordError) in try await call.listConflicts() },
    Endpoint("POST", "conflicts/{number}/restore") { (call, startNext) async throws(RecordError) in
      try await call.restoreConflict(call.request.path[3], startNext: startNext)
    },
    Endpoint("POST", "conflicts/{number}/resolve") { (call, startNext) async throws(RecordError) in
      try await call.resolveConflict(call.request.path[3], startNext: startNext)
    },
    Endpoint("GET", "shares") { (call, _) async throws(RecordError) in try await call.fetchShares() },
    Endpoint("POST", "shares") { (call, startNext) async throws(RecordError) in try await call.shareObjects(startNext: startNext) },
    Endpoint("POST", "accept") { (call, _) async throws(RecordError) in try await call.refuseAccepting() },
    Endpoint("POST", "move") { (call, startNext) async throws(RecordError) in try await call.move(startNext: startNext) },
    Endpoint("POST", "purge") { (call, startNext) async throws(RecordError) in try await call.purgeZone(startNext: startNext) },
    Endpoint("POST", "zones/{zoneName}/resume") { (call, startNext) async throws(RecordError) in
      try await call.resumeZone(call.request.path[3], startNext: startNext)
    },
  ]

  /// - Throws: `notFound` for a path no row has; `badRequest` with HTTP status 405 for one that takes other methods.
  static func of(_ request: DatabaseRequest) throws(RecordError) -> Endpoint {
    let path = request.path
    guard path.count >= 2, path[0] == "stores", RecordName.problem(path[1], kind: "storeIdentifier") == nil else { throw unknown(path) }
    var takesAnother = false
    for row in all where row.matches(path) {
      if row.method == request.method { return row }
      takesAnother = true
    }
    guard takesAnother else { throw unknown(path) }
    throw RecordError(.badRequest, "\(spelled(path)) does not take \(request.method)", httpStatus: 405)
  }

  private func matches(_ path: [String]) -> Bool {
    guard path.count == pattern.count + 2 else { return false }
    for (index, segment) in pattern.enumerated() {
      if let segment, segment != path[index + 2] { return false }
    }
    return true
  }

  private static func unknown(_ path: [String]) -> RecordError { RecordError(.notFound, "There is no call \(spelled(path))") }

  private static func spelled(_ path: [String]) -> Substring { path.joined(separator: "/").prefix(100) }
}
