// Redirects in a shard's file. The writer remembers the databases that have any, so that other databases need no
// lookup.

import Records
import SQLite

extension SQLiteSnapshot {
  func redirect(of recordName: String, in zone: Int64) throws -> StoredRedirect? {
    if try isDoomed(zone) { return nil }
    let select = try statement(RedirectQuery.ofDuplicate)
    try select.bind(1, zone)
    try select.bind(2, recordName: recordName)
    return try select.first { try redirect($0) }
  }

  func redirects(to recordName: String, in zone: Int64, limit: Int) throws -> [StoredRedirect] {
    guard limit > 0, try !isDoomed(zone) else { return [] }
    let select = try statement(RedirectQuery.toRecord)
    try select.bind(1, zone)
    try select.bind(2, recordName: recordName)
    try select.bind(3, limit)
    return try select.all { try redirect($0) }
  }

  func pendingRedirects(in zone: Int64, afterName recordName: String?, limit: Int) throws -> [StoredRedirect] {
    guard limit > 0, try !isDoomed(zone) else { return [] }
    let select = try statement(RedirectQuery.pending)
    try select.bind(1, zone)
    try select.bind(2, afterRecordName: recordName)
    try select.bind(3, limit)
    return try select.all { try redirect($0) }
  }

  func zonesWithPendingRedirects(in database: Int64?, afterKey key: Int64, limit: Int) throws -> [StoredZone] {
    guard limit > 0 else { return [] }
    try flush()
    return try own(after: key, limit, placeOf: \.key, isOther: { others.contains($0.databaseKey) }) { key in
      let select = try statement(RedirectQuery.zonesWithPending)
      try select.bind(1, key)
      try select.bind(2, database)
      try select.bind(3, limit)
      return try select.all { Self.zoneRow($0).zone }
    }
  }

  private func redirect(_ row: StoreStatement) throws -> StoredRedirect {
    guard let loser = row.recordName(0), let survivor = row.recordName(1) else {
      throw StoreError.corrupt("shard \(shard): a name of a redirect has neither form")
    }
    return StoredRedirect(
      loser: loser, survivor: survivor, since: row.int64(2), rule: row.text(3),
      progress: StoredRedirect.Progress(rawValue: row.int(4)),
      removedAt: row.optionalInt64(5))
  }
}

extension SQLiteTransaction {
  func put(_ redirect: StoredRedirect, in zone: Int64) throws {
    try write {
      guard let row = try self.zone(key: zone), !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      let survivor = try self.redirect(of: redirect.survivor, in: zone)?.survivor ?? redirect.survivor
      if survivor == redirect.loser { throw ContradictingWrite("a record of zone \(zone) would stand for itself") }
      let put = try writing(RedirectQuery.put)
      try put.bind(1, zone)
      try put.bind(2, recordName: redirect.loser)
      try put.bind(3, recordName: survivor)
      try put.bind(4, redirect.since)
      try put.bind(5, redirect.rule)
      try put.bind(6, redirect.progress.rawValue)
      try put.bind(7, redirect.removedAt)
      try put.run()
      let follow = try writing(RedirectQuery.follow)
      try follow.bind(1, zone)
      try follow.bind(2, recordName: redirect.loser)
      try follow.bind(3, recordName: survivor)
      try follow.run()
      redirectedDatabases.insert(row.databaseKey)
    }
  }

  func removeRedirect(of recordName: String, in zone: Int64) throws {
    try write {
      let delete = try writing(RedirectQuery.delete)
      try delete.bind(1, zone)
      try delete.bind(2, recordName: recordName)
      try delete.run()
    }
  }

  func note(_ progress: StoredRedirect.Progress, ofPendingRedirectsBefore time: Int64, in zone: Int64) throws {
    try write {
      let update = try writing(RedirectQuery.noteProgress)
      try update.bind(1, zone)
      try update.bind(2, time)
      try update.bind(3, progress.rawValue)
      try update.run()
    }
  }
}
