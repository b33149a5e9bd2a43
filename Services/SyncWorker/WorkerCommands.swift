// What an operator has this worker do on the shards it holds.

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit

/// Carries out `WorkerCommand`s; each is answered with one JSON object.
struct WorkerCommands: Sendable {
  let stores: [any ShardStore]
  let clock: any WallClock
  /// Told that a store has something to export.
  let wake: @Sendable (_ mirrorKey: Int64, _ shard: Int) async -> Void

  func answer(_ command: WorkerCommand) async throws -> [UInt8] {
    switch command.subject {
    case "quarantine/retry": return try await retryQuarantine(QuarantineFilter(command.query))
    default: throw BusError(.notFound, "there is no command \(command.subject.prefix(40))")
    }
  }

  /// Stores looked at in one commit.
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

/// Which stores an operator means; without any restriction: all.
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
    guard let mirror = try snapshot.mirror(key: mirrorKey), let database = try snapshot.database(key: mirror.databaseKey) else { return false }
    return container ?? database.id.container.rawValue == database.id.container.rawValue
      && environment ?? database.id.environment.rawValue == database.id.environment.rawValue && user ?? mirror.userRecordName == mirror.userRecordName
  }
}
