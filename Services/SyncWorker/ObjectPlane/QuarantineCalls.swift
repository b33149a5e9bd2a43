// Lists a store's held-back changes, and retries them when its user asks.

import JSON
import Mirroring
package import RecordStore
package import Records
import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

extension StoreCall {
  package func listQuarantine() async throws(RecordError) -> PlaneAnswer {
    let after = try integer("after", default: 0, minimum: 0, maximum: .max)
    let limit = try integer("limit", default: Self.quarantineLimit, maximum: Self.quarantineLimit)
    switch request.query["direction"] {
    case nil, "export": break
    case "import": return try await listUnimported(after: Int64(after), limit: limit)
    default: throw RecordError(.badRequest, "direction must be export or import")
    }
    var rows = try await read { snapshot in
      try snapshot.quarantined(of: mirror(in: snapshot).key, afterKey: Int64(after), limit: limit + 1)
    }
    let moreComing = rows.count > limit
    if moreComing { rows.removeLast() }
    // The changes that a guest keeps for its home's journal wait for nothing.
    let listed = rows.filter { !KeptChanges.isName($0.name) }
    return try answer(
      listed.map(QuarantinedObject.init), last: rows.last?.key ?? Int64(after), moreComing: moreComing)
  }

  /// - Parameter last: the key of the last object, for the next `after`.
  func answer(_ objects: [QuarantinedObject], last: Int64, moreComing: Bool) throws(RecordError) -> PlaneAnswer {
    var output = ListAnswer("quarantined", of: request, reservingByteCount: 512)
    for object in objects {
      output.add { output in
        output.beginObject()
        object.writeMembers(to: &output)
        output.endObject()
      }
    }
    return try output.finish(moreComing: moreComing) { output in
      output.member("lastQuarantined", String(last))
      output.member("moreComing", moreComing)
    }
  }

  private static let quarantineLimit = 200

  /// Makes held-back changes due and wakes the exporter.
  package func retryQuarantine(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    PlaneAnswer(body: StoreAnswer.retried(try await hastenQuarantine(startNext: startNext)))
  }

  /// - Returns: the number of objects that are due now.
  package func hastenQuarantine(startNext: @Sendable () -> Void) async throws(RecordError) -> Int {
    let names = try RetryQuarantineRequest(body.isEmpty ? nil : JSONValue.request(body)).objectIDs
    let at = now
    let commit = store.enqueue { transaction -> (count: Int, key: Int64) in
      let mirror = try mirror(in: transaction)
      let hastened = try transaction.retryUnimported(names, of: mirror.key, at: at)
      if mirror.quarantinedCount == 0 { return (hastened, mirror.key) }
      return (
        hastened
          + (try transaction.retryQuarantined(names.map(QuarantineSelection.names) ?? .all, of: mirror.key, at: at)),
        mirror.key
      )
    }
    startNext()
    let (count, key) = try await value(of: commit)
    if count > 0 { exports.signal(.backlog(mirrorKey: key), on: store.shard) }
    return count
  }
}

extension QuarantinedObject {
  package init(_ row: StoredQuarantine) {
    self.init(
      problem: MirroringProblem(row), firstAt: row.firstAt, lastAt: row.lastAt, attempts: row.attempts,
      dueAt: row.dueAt == StoredQuarantine.never ? nil : row.dueAt)
  }
}
