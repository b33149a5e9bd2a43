// Remembers, lists and retries records that imports left out, so that none is forgotten or blocks others (R10, T-M21).

import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

extension StoredUnimported {
  /// - Parameter earlier: the row of the same change of the record.
  init(
    _ problem: MirroringProblem, _ place: RecordPlace, _ sequence: Int64, of mirror: StoredMirror,
    after earlier: StoredUnimported?, at now: Int64
  ) {
    let attempts = (earlier?.attempts ?? 0) + 1
    self.init(
      mirror: mirror.key, zone: place.zone, name: place.name, entity: problem.entity, code: problem.code.rawValue,
      reason: problem.reason, sequence: sequence,
      firstAt: earlier?.firstAt ?? now, lastAt: now, attempts: attempts,
      dueAt: problem.retryDelay(afterAttempts: attempts).map { now + $0 } ?? StoredQuarantine.never)
  }
}

extension MirroringProblem {
  /// Milliseconds until a record is read again; nil for one that does not fit the model: the feed delivers its next
  /// state, and a model change sends it again.
  fileprivate func retryDelay(afterAttempts count: Int) -> Int64? {
    switch cause {
    case .damaged, .asset: cause.delay(afterAttempts: count)
    default: code == .internalError ? QuarantineCause.damaged.delay(afterAttempts: count) : nil
    }
  }
}

extension StoreCall {
  /// Records read again in one call.
  private static let unimportedRetryLimit = 100

  /// The result of reading a left-out record again.
  private enum Retry: Sendable {
    /// It is readable: written again unchanged, it goes into the feed for every store.
    case readable(RecordPlace, sequence: Int64)
    case stillUnreadable(StoredUnimported)
    /// It is gone or has changed since, and the feed has that change.
    case outdated(RecordPlace)
  }

  /// Reads again the left-out records that are due.
  func retryUnimported(of mirror: StoredMirror, with reader: ImportReader, _ schema: EnvironmentSchema)
    async throws(RecordError)
  {
    let at = now
    let retries = try await read { snapshot -> [Retry] in
      let retries = try snapshot.unimported(of: mirror.key, dueBy: at, limit: Self.unimportedRetryLimit).map { row in
        try self.retry(row, of: mirror, reader, at: at, in: snapshot)
      }
      try reader.inliner.contents?.complete()
      return retries
    }
    if retries.isEmpty { return }
    let terms = CommitTerms(
      .quarantineRetry, Stamp(timestamp: at, userRecordName: mirror.userRecordName), schema, shard: store.shard, context
    )
    let effects = try await value(
      of: store.enqueue { transaction -> ZoneEffects in
        guard try transaction.mirror(key: mirror.key) != nil,
          let database = try transaction.database(key: mirror.databaseKey)
        else { return ZoneEffects() }
        let commit = try terms.begin(in: database, transaction)
        for retry in retries {
          switch retry {
          case .readable(let place, let sequence):
            try transaction.removeUnimported(place.name, in: place.zone, of: mirror.key)
            guard let zone = try transaction.zone(key: place.zone), !zone.isDeleted,
              let row = try transaction.record(named: place.name, in: zone.key), row.sequence == sequence
            else { continue }
            let writer = commit.serversWriter(to: zone)
            _ =
              row.isDeleted
              ? try writer.delete(row, modified: row.record.modified) : try writer.save(row.record, replacing: row)
          case .stillUnreadable(let row): try transaction.putUnimported(row)
          case .outdated(let place): try transaction.removeUnimported(place.name, in: place.zone, of: mirror.key)
          }
        }
        return try commit.finish()
      })
    effects.publish(by: context)
  }

  private func retry(
    _ row: StoredUnimported, of mirror: StoredMirror, _ reader: ImportReader, at now: Int64,
    in snapshot: any ShardSnapshot
  ) throws -> Retry {
    let place = RecordPlace(zone: row.zone, name: row.name)
    guard let zone = try snapshot.zone(key: row.zone), !zone.isDeleted else { return .outdated(place) }
    let problem: MirroringProblem
    do {
      guard let stored = try snapshot.record(named: row.name, in: zone.key), stored.sequence == row.sequence else {
        return .outdated(place)
      }
      switch try reader.outcome(of: stored, in: ZoneSource(zone, in: snapshot)) {
      case .change where !mirror.isGuest && reader.permissions?.mayWrite(stored.record) ?? true:
        return .readable(place, sequence: row.sequence)
      // The caller may not write it again; it comes with its next change.
      case .change, .nothing: return .outdated(place)
      case .problem(let found): problem = found
      }
    } catch StoreError.corrupt {
      // Dropped because the row says so already.
      problem = .damaged(row.name, row.entity)
    }
    return .stillUnreadable(StoredUnimported(problem, place, row.sequence, of: mirror, after: row, at: now))
  }

  // MARK: Calls

  /// `GET quarantine?direction=import`
  func listUnimported(after: Int64, limit: Int) async throws(RecordError) -> PlaneAnswer {
    var (rows, names) = try await read { snapshot -> ([StoredUnimported], [Int64: String]) in
      let rows = try snapshot.unimported(of: mirror(in: snapshot).key, afterKey: after, limit: limit + 1)
      var names: [Int64: String] = [:]
      for row in rows where names[row.zone] == nil { names[row.zone] = try snapshot.zone(key: row.zone)?.zoneName }
      return (rows, names)
    }
    let moreComing = rows.count > limit
    if moreComing { rows.removeLast() }
    let owner = request.database.owner
    let objects = rows.map { row in
      QuarantinedObject(
        problem: MirroringProblem(
          recordName: row.name, entity: row.entity, code: ServerErrorCode(rawValue: row.code) ?? .internalError,
          reason: row.reason,
          cause: row.dueAt == StoredQuarantine.never ? .other : .damaged), firstAt: row.firstAt, lastAt: row.lastAt,
        attempts: row.attempts,
        dueAt: row.dueAt == StoredQuarantine.never ? nil : row.dueAt,
        zoneID: names[row.zone].map { Zone.ID(zoneName: $0, ownerName: owner) })
    }
    return try answer(objects, last: rows.last?.key ?? after, moreComing: moreComing)
  }
}
