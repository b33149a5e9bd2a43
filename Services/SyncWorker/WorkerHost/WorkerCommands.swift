// An operator's commands for the shards that this worker holds.

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit

/// Executes `WorkerCommand`s. Each answer is one JSON object.
struct WorkerCommands: Sendable {
  let stores: [any ShardStore]
  let clock: any WallClock
  /// Called for a store that has changes to export.
  let wake: @Sendable (_ mirrorKey: Int64, _ shard: Int) async -> Void

  func answer(_ command: WorkerCommand) async throws -> [UInt8] {
    switch command.subject {
    case "quarantine/retry": return try await retryQuarantine(QuarantineFilter(command.query))
    default: throw BusError(.notFound, "there is no command \(command.subject.prefix(40))")
    }
  }

  /// Stores that one commit looks at.
  private static let pageCount = 100

  private func retryQuarantine(_ filter: QuarantineFilter) async throws -> [UInt8] {
    var count = 0
    let at = clock.now
    for store in stores {
      var last: Int64 = 0
      while true {
        let after = last
        let (retried, end) = try await store.enqueue { transaction -> ([(key: Int64, count: Int)], Int64?) in
          let keys = try transaction.mirrorsWithQuarantine(afterKey: after, limit: Self.pageCount)
          var retried: [(key: Int64, count: Int)] = []
          for key in keys where try filter.matches(key, in: transaction) {
            retried.append((key, try transaction.retryQuarantined(.all, of: key, at: at)))
          }
          return (retried, keys.count == Self.pageCount ? keys.last : nil)
        }.value
        for (key, retriedCount) in retried {
          count += retriedCount
          await wake(key, store.shard)
        }
        guard let end else { break }
        last = end
      }
    }
    var output = JSONWriter()
    output.beginObject()
    output.member("retried", count)
    output.endObject()
    return output.bytes
  }
}

/// The stores that an operator asks about; all of them if the query has no restriction.
private struct QuarantineFilter: Sendable {
  let container: String?
  let environment: String?
  let user: String?

  init(_ query: [String: String]) {
    container = query["container"]
    environment = query["environment"]
    user = query["user"]
  }

  func matches(_ mirrorKey: Int64, in snapshot: any ShardSnapshot) throws -> Bool {
    guard let mirror = try snapshot.mirror(key: mirrorKey),
      let database = try snapshot.database(key: mirror.databaseKey)
    else { return false }
    return container ?? database.id.container.rawValue == database.id.container.rawValue
      && environment ?? database.id.environment.rawValue == database.id.environment.rawValue
      && user ?? mirror.userRecordName == mirror.userRecordName
  }
}
