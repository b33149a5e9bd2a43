// The objects that exports hold back, in a shard's file. Each mirror counts its own, so that other mirrors need no
// lookup.

import Crypto
import Records
import SQLite

extension SQLiteSnapshot {
  func quarantined(_ name: String, of mirror: Int64) throws -> StoredQuarantine? {
    let select = try statement(QuarantineQuery.byName)
    try select.bind(1, mirror)
    try select.bind(2, recordName: name)
    return try select.first { try quarantined($0) }
  }

  func quarantined(of mirror: Int64, afterKey key: Int64, limit: Int) throws -> [StoredQuarantine] {
    guard limit > 0 else { return [] }
    let select = try statement(QuarantineQuery.after)
    try select.bind(1, mirror)
    try select.bind(2, key)
    try select.bind(3, limit)
    return try select.all { try quarantined($0) }
  }

  func quarantined(of mirror: Int64, dueBy time: Int64, limit: Int) throws -> [StoredQuarantine] {
    guard limit > 0 else { return [] }
    let select = try statement(QuarantineQuery.due)
    try select.bind(1, mirror)
    try select.bind(2, time)
    try select.bind(3, limit)
    return try select.all { try quarantined($0) }
  }

  func quarantinedChanges(_ key: Int64) throws -> [UInt8]? {
    let select = try statement(QuarantineQuery.payload)
    try select.bind(1, key)
    return try select.first { row in
      let payload = row.blob(1)
      guard row.int64(0) == Int64(payload.withUnsafeBytes { Checksum.update(0, $0) }) else {
        throw StoreError.corrupt("shard \(shard): quarantine \(key) is damaged; restore it from a backup")
      }
      return try session.opened(payload, for: .quarantine)
    }
  }

  func mirrorsWithQuarantine(afterKey key: Int64, limit: Int) throws -> [Int64] {
    guard limit > 0 else { return [] }
    try flush()
    return try own(after: key, limit, placeOf: \.self, isOther: { try isOther(mirror: $0) }) { key in
      let select = try statement(QuarantineQuery.mirrors)
      try select.bind(1, key)
      try select.bind(2, limit)
      return try select.all { $0.int64(0) }
    }
  }

  func nextQuarantineDue() throws -> Int64? {
    try statement(QuarantineQuery.nextDue).first { $0.optionalInt64(0) } ?? nil
  }

  private func quarantined(_ row: StoreStatement) throws -> StoredQuarantine {
    guard let name = row.recordName(2) else {
      throw StoreError.corrupt("shard \(shard): the name in quarantine \(row.int64(0)) has neither form")
    }
    return StoredQuarantine(
      key: row.int64(0), mirror: row.int64(1), name: name, entity: row.text(3), cause: row.int(4), code: row.text(5),
      cocoaErrorCode: row.optionalInt64(6).map { Int($0) }, reason: row.text(7), firstAt: row.int64(8),
      lastAt: row.int64(9), attempts: row.int(10),
      dueAt: row.int64(11), schemaVersion: row.int64(12))
  }
}

extension SQLiteTransaction {
  func putQuarantined(_ object: StoredQuarantine, changes: [UInt8], assets: [Asset]) throws {
    try write {
      guard var row = try mirror(key: object.mirror) else { throw ContradictingWrite("no mirror \(object.mirror)") }
      let earlier = try quarantined(object.name, of: object.mirror)
      let key = try earlier?.key ?? lastQuarantine() + 1
      let changes = try sealedIfThereIsAKey(changes, for: .quarantine)
      let put = try writing(earlier == nil ? QuarantineQuery.insert : .update)
      try put.bind(1, key)
      try put.bind(2, object.mirror)
      try put.bind(3, recordName: object.name)
      try put.bind(4, object.entity)
      try put.bind(5, object.cause)
      try put.bind(6, object.code)
      try put.bind(7, object.cocoaErrorCode.map { Int64($0) })
      try put.bind(8, object.reason)
      try put.bind(9, object.firstAt)
      try put.bind(10, object.lastAt)
      try put.bind(11, object.attempts)
      try put.bind(12, object.dueAt)
      try put.bind(13, object.schemaVersion)
      try put.bind(14, Int64(changes.withUnsafeBytes { Checksum.update(0, $0) }))
      try put.bind(15, changes)
      try put.run()
      countWrite(records: 1, bytes: changes.count)
      // Adds uses first, so that an asset of both the old and the new row never looks unused.
      let held = try earlier == nil ? [] : heldAssets(inRow: -key)
      let kept = Set(assets)
      try keep(kept.filter { !held.contains($0.hash) }, forTransaction: -key)
      try letGo(held.subtracting(kept.map(\.hash)), inRow: -key)
      if earlier == nil {
        row.quarantinedCount += 1
        setMirror(row)
      }
    }
  }

  private func lastQuarantine() throws -> Int64 {
    let last: Int64?? = try statement(QuarantineQuery.last).first { $0.optionalInt64(0) }
    return (last ?? nil) ?? 0
  }

  func removeQuarantined(_ name: String, of mirror: Int64) throws {
    try write {
      guard var row = try self.mirror(key: mirror) else { throw ContradictingWrite("no mirror \(mirror)") }
      guard let earlier = try quarantined(name, of: mirror) else { return }
      try letGo(heldAssets(inRow: -earlier.key), inRow: -earlier.key)
      let delete = try writing(QuarantineQuery.delete)
      try delete.bind(1, earlier.key)
      try delete.run()
      row.quarantinedCount -= 1
      setMirror(row)
    }
  }

  func retryQuarantined(_ selection: QuarantineSelection, of mirror: Int64, at time: Int64) throws -> Int {
    try write {
      guard try self.mirror(key: mirror) != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      switch selection {
      case .all: return try retry(.retryAll, mirror, time) { _ in }
      case .cause(let cause): return try retry(.retryCause, mirror, time) { try $0.bind(3, cause) }
      case .otherSchema(let version): return try retry(.retrySchema, mirror, time) { try $0.bind(3, version) }
      case .names(let names):
        return try Set(names).reduce(0) { count, name in
          count + (try retry(.retryName, mirror, time) { try $0.bind(3, recordName: name) })
        }
      }
    }
  }

  private func retry(_ query: QuarantineQuery, _ mirror: Int64, _ time: Int64, _ bind: (StoreStatement) throws -> Void)
    throws -> Int
  {
    let update = try writing(query)
    try update.bind(1, mirror)
    try update.bind(2, time)
    try bind(update)
    return try update.runCounting()
  }

  /// Removes all held back changes of a mirror that is deleted.
  func deleteQuarantine(of mirror: Int64) throws {
    var last: Int64 = 0
    while true {
      let rows = try quarantined(of: mirror, afterKey: last, limit: 100)
      for row in rows { try letGo(heldAssets(inRow: -row.key), inRow: -row.key) }
      guard let end = rows.last else { break }
      last = end.key
    }
    let delete = try writing(QuarantineQuery.deleteAll)
    try delete.bind(1, mirror)
    try delete.run()
  }

  // MARK: Assets, in the table `history_asset` under the negated key of the row

  func heldAssets(inRow row: Int64) throws -> Set<[UInt8]> {
    let select = try statement(AssetQuery.historyAssets)
    try select.bind(1, row - 1)
    try select.bind(2, row)
    return Set(try select.all { $0.blob(0) })
  }

  func letGo(_ hashes: Set<[UInt8]>, inRow row: Int64) throws {
    for hash in hashes.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
      try release(hash)
      let delete = try writing(AssetQuery.deleteHistoryAsset)
      try delete.bind(1, row)
      try delete.bind(2, hash)
      try delete.run()
    }
  }
}
