// Writes of mirrors, of their history and events, and of outcomes.

import Records
import SQLite

extension SQLiteTransaction: ShardTransaction {
  func makeMirror(
    _ identifier: String, in database: Int64, userRecordName: String, scope: DatabaseScope, modelHash: String,
    configuration: String?,
    deviceName: String?, createdAt: Int64
  ) throws -> StoredMirror {
    try write {
      guard let row = try self.database(key: database) else { throw ContradictingWrite("no database \(database)") }
      guard try mirror(identifier, in: database) == nil else {
        throw ContradictingWrite("a mirror of database \(database) has this identifier")
      }
      guard counters.lastKey < HistoryRowID.lastMirror else {
        throw ContradictingWrite("the shard has given out all keys of mirrors")
      }
      let former = try takeFormerMirror(identifier, of: userRecordName, in: database)
      let (key, last) = (nextKey(), former?.lastTransactionNumber ?? 0)
      let mirror = StoredMirror(
        key: key, identifier: identifier, databaseKey: database, incarnation: nextIncarnation(),
        userRecordName: userRecordName, scope: scope,
        modelHash: modelHash, configuration: configuration, deviceName: deviceName, createdAt: createdAt,
        lastTransactionNumber: last,
        exportedTransactionNumber: last, purgedTransactionNumber: last, lineage: former?.lineage ?? key,
        forgottenTransactionNumber: former?.forgottenTransactionNumber ?? 0, forgottenAt: former?.forgottenAt ?? 0)
      let insert = try writing(MirrorQuery.make)
      try insert.bind(1, mirror.key)
      try insert.bind(2, database)
      try insert.bind(3, identifier)
      try insert.bind(4, Int64(bitPattern: mirror.incarnation))
      try insert.bind(5, userRecordName)
      try insert.bind(6, scope.rawValue)
      try insert.bind(7, modelHash)
      try insert.bind(8, configuration)
      try insert.bind(9, deviceName)
      try insert.bind(10, createdAt)
      try insert.bind(11, last)
      try insert.bind(12, mirror.lineage)
      try insert.bind(13, mirror.forgottenTransactionNumber)
      try insert.bind(14, mirror.forgottenAt)
      try insert.run()
      cache.mirrors.set(CachedRow(row: mirror, isDirty: false), for: mirror.key)
      cache.mirrorKeys.set(mirror.key, for: WriterCache.Name(parent: database, name: identifier))
      if row.placementState == .untracked { try trackPlacements(of: database) }
      return mirror
    }
  }

  func update(_ mirror: StoredMirror) throws {
    try write {
      guard let row = try self.mirror(key: mirror.key) else { throw ContradictingWrite("no mirror \(mirror.key)") }
      setMirror(row.updated(to: mirror))
    }
  }

  func deleteMirror(_ mirror: Int64) throws {
    try write {
      guard let row = try self.mirror(key: mirror) else { throw ContradictingWrite("no mirror \(mirror)") }
      if row.quarantinedCount > 0 { try deleteQuarantine(of: mirror) }
      try noteFormerMirror(settleTransactions(of: row, through: row.lastTransactionNumber).row)
      try removeMirror(row)
    }
  }

  /// Removes a mirror that has no history and no held-back changes.
  func removeMirror(_ row: StoredMirror) throws {
    try deleteRecovery(of: row.key)
    try deleteRows(EventQuery.delete, of: row.key)
    try deleteRows(HistoryQuery.deleteConsumers, of: row.key)
    try deleteRows(MirrorQuery.delete, of: row.key)
    cache.mirrors.set(nil, for: row.key)
    cache.dirtyMirrors.append(row.key)
    cache.mirrorKeys.set(nil, for: WriterCache.Name(parent: row.databaseKey, name: row.identifier))
  }

  /// Runs a statement whose one parameter is a mirror's (or database's) key.
  func deleteRows(_ query: some Query, of mirror: Int64) throws {
    let delete = try writing(query)
    try delete.bind(1, mirror)
    try delete.run()
  }

  func append(_ transaction: StoredTransaction, assets: [Asset], to mirror: Int64) throws {
    try write {
      guard var row = try self.mirror(key: mirror) else { throw ContradictingWrite("no mirror \(mirror)") }
      guard transaction.number == row.lastTransactionNumber + 1, transaction.number <= HistoryRowID.lastNumber else {
        throw ContradictingWrite(
          "transaction \(transaction.number) after \(row.lastTransactionNumber) of mirror \(mirror)")
      }
      guard try settledTransaction(withID: transaction.transactionID, of: mirror) == nil else {
        throw ContradictingWrite("a transaction of mirror \(mirror) has this id")
      }
      // A write that can't fail need not be waited for.
      let isKnownFree =
        try session.queuesWrites && keptTransactionNumber(of: transaction.transactionID, in: mirror) == nil
      try forgetFetchedTransaction(transaction.transactionID, of: mirror)
      let given = transaction
      let transaction = transaction.isEncrypted ? try sealed(transaction) : transaction
      let insert = try writing(HistoryQuery.append)
      try insert.bind(1, HistoryRowID.of(mirror, transaction.number))
      try insert.bind(2, mirror)
      try insert.bind(3, transaction.appendedAt)
      try insert.bind(4, transaction.checksum(mirror: mirror))
      try insert.bind(5, recordName: transaction.transactionID)
      try insert.bind(6, transaction.author)
      try insert.bind(7, transaction.payload)
      guard try insert.runUnlessTaken(isKnownFree: isKnownFree) else {
        throw ContradictingWrite("a transaction of mirror \(mirror) has this id")
      }
      session.fetched?.note(given.isEncrypted ? nil : given, appendedTo: mirror)
      try noteTime(of: mirror, through: transaction.number)
      row.lastTransactionNumber = transaction.number
      setMirror(row)
      countWrite(records: 1, bytes: transaction.payload.count)
      if !assets.isEmpty { try keep(Set(assets), forTransaction: HistoryRowID.of(mirror, transaction.number)) }
    }
  }

  func purgeTransactions(of mirror: Int64, through number: Int64) throws -> Int {
    try write {
      guard let row = try self.mirror(key: mirror) else { throw ContradictingWrite("no mirror \(mirror)") }
      let (count, purged) = try settleTransactions(of: row, through: number)
      setMirror(purged)
      return count
    }
  }

  func setMirror(_ row: StoredMirror) {
    cache.mirrors.set(CachedRow(row: row, isDirty: true), for: row.key)
    cache.dirtyMirrors.append(row.key)
  }

  func storeMirror(_ row: StoredMirror) throws {
    let update = try writing(MirrorQuery.update)
    try update.bind(1, row.key)
    try update.bind(2, row.userRecordName)
    try update.bind(3, row.scope.rawValue)
    try update.bind(4, row.modelHash)
    try update.bind(5, row.configuration)
    try update.bind(6, row.deviceName)
    try update.bind(7, row.createdAt)
    try update.bind(8, row.lastTransactionNumber)
    try update.bind(9, row.exportedTransactionNumber)
    try update.bind(10, row.purgedTransactionNumber)
    try update.bind(11, row.quarantinedCount)
    try update.bind(12, row.exportedStepCount)
    try update.bind(13, row.importedSequence)
    try update.bind(14, row.lease)
    try update.run()
  }

  // MARK: Events

  func put(_ event: StoredEvent, of mirror: Int64) throws -> Int64 {
    try write {
      guard let row = try self.mirror(key: mirror), var database = try self.database(key: row.databaseKey) else {
        throw ContradictingWrite("no mirror \(mirror)")
      }
      database.lastEventNumber += 1
      setDatabase(database)
      let number = database.lastEventNumber
      let statement = try writing(event.number == 0 ? EventQuery.insert : .update)
      try statement.bind(1, event.number == 0 ? number : event.number)
      try statement.bind(2, mirror)
      try statement.bind(3, event.kind.rawValue)
      try statement.bind(4, event.startedAt)
      try statement.bind(5, event.endedAt)
      try statement.bind(6, event.succeeded)
      try statement.bind(7, event.savedCount)
      try statement.bind(8, event.deletedCount)
      try statement.bind(9, event.identifier)
      try statement.bind(10, event.errorJSON)
      // The row's own number, which tells whether the event began before the shard was opened.
      if event.number == 0 { counters.lastEvent += 1 }
      try statement.bind(11, event.number == 0 ? counters.lastEvent : number)
      if event.number == 0 {
        try statement.run()
      } else if try statement.runCounting() != 1 {
        throw ContradictingWrite("no event \(event.number) of mirror \(mirror)")
      }
      if number % StoredEvent.pruningInterval == 0 {
        let prune = try writing(EventQuery.prune)
        try prune.bind(1, mirror)
        try prune.bind(2, StoredEvent.keptCount)
        try prune.run()
      }
      return number
    }
  }

  func abandonedEvents(limit: Int) throws -> [(mirror: Int64, event: StoredEvent)] {
    guard limit > 0 else { return [] }
    let statement = try statement(EventQuery.abandoned)
    try statement.bind(1, inheritedEvent)
    try statement.bind(2, limit)
    return try statement.all { (mirror: $0.int64(9), event: try event($0)) }
  }

  // MARK: Outcomes

  func putOutcome(_ payload: [UInt8], of idempotencyKey: String, at: Int64) throws {
    try write {
      guard OutcomeRowID.times.contains(at) else { throw ContradictingWrite("an outcome's time is out of range") }
      // The insert of an engine that queues its writes tells nothing of a key that is taken.
      if session.queuesWrites { try refuseOutcome(of: idempotencyKey) }
      try forgetFetchedOutcome(idempotencyKey)
      let insert = try writing(OutcomeQuery.insert)
      try insert.bind(2, recordName: idempotencyKey)
      try insert.bind(3, payload)
      outcomeCounter += 1
      try insert.bind(1, OutcomeRowID.of(at, outcomeCounter))
      // Outcomes of this owner differ by the counter.
      let isKnownFree = OutcomeRowID.of(at, 0) > inheritedOutcome
      if try insert.runUnlessTaken(isKnownFree: isKnownFree) { return }
      try refuseOutcome(of: idempotencyKey)
      // The counter restarts with each owner, and an earlier owner has used this number in this millisecond.
      let last = try statement(OutcomeQuery.last)
      try last.bind(1, OutcomeRowID.of(at, 0))
      try last.bind(2, OutcomeRowID.of(at + 1, 0))
      outcomeCounter = try (last.first { $0.int64(0) } ?? 0) + 1
      try insert.bind(1, OutcomeRowID.of(at, outcomeCounter))
      guard try insert.runUnlessTaken() else {
        throw StoreError.corrupt("shard \(shard): the table of outcomes contradicts its index")
      }
    }
  }

  private func refuseOutcome(of idempotencyKey: String) throws {
    guard try outcome(of: idempotencyKey) == nil else {
      throw ContradictingWrite("this idempotency key has an outcome")
    }
  }

  func forgetOutcomes(before cutoff: Int64, limit: Int) throws -> Int {
    try write {
      let cutoff = min(max(cutoff, OutcomeRowID.times.lowerBound), OutcomeRowID.times.upperBound)
      guard limit > 0 else { return 0 }
      let select = try statement(OutcomeQuery.old)
      try select.bind(1, OutcomeRowID.of(cutoff, 0))
      try select.bind(2, limit)
      guard let last = try select.first({ $0.optionalInt64(0) }), let last else { return 0 }
      let delete = try writing(OutcomeQuery.forget)
      try delete.bind(1, last)
      return try delete.runCounting()
    }
  }
}
