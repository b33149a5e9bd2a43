// The oracle's writes: changes of plain dictionaries and lists.

import Indexing
import RecordStore
import Records

extension InMemoryTransaction: ShardTransaction {
  func makeDatabase(_ id: DatabaseID) throws -> StoredDatabase {
    try write {
      if let database = try database(id) { return database }
      let database = StoredDatabase(key: nextKey(), id: id, incarnation: makeIncarnation(), sequence: 0)
      rows.databases[database.key] = database
      return database
    }
  }

  func renew(_ database: Int64, generation: Int64) throws {
    try write {
      guard rows.databases[database] != nil else { throw ContradictingWrite("no database \(database)") }
      rows.databases[database]?.incarnation = makeIncarnation()
      rows.databases[database]?.generation = generation
      rows.databases[database]?.placementState = .untracked
      rows.placements[database] = nil
    }
  }

  func nextSequence(in database: Int64) throws -> Int64 {
    try write {
      guard let row = rows.databases[database] else { throw ContradictingWrite("no database \(database)") }
      var next = row
      next.sequence += 1
      rows.databases[database] = next
      return row.sequence + 1
    }
  }

  func makeZone(named zoneName: String, in database: Int64) throws -> StoredZone {
    try write {
      let earlier = try zone(named: zoneName, in: database)
      if let earlier {
        if !earlier.isDeleted { return earlier }
        rows.zones[earlier.key] = nil
      }
      let zone = StoredZone(
        key: nextKey(), databaseKey: database, zoneName: zoneName, incarnation: makeIncarnation(),
        sequence: try nextSequence(in: database), isDeleted: false,
        end: earlier?.end ?? .deleted, endSequence: earlier?.endSequence ?? 0)
      rows.zones[zone.key] = zone
      rows.horizons[zone.key] = zone.sequence
      if let earlier { movePlacements(from: earlier.key, to: zone.key, in: database) }
      return zone
    }
  }

  func deleteZone(_ zone: Int64, as end: ZoneEnd) throws {
    try write {
      guard let row = rows.zones[zone] else { throw ContradictingWrite("no zone \(zone)") }
      if row.isDeleted { return }
      let byteCount = byteCount(ofZone: zone)
      rows.byteCounts[zone] = nil
      rows.records[zone] = nil
      rows.names[zone] = nil
      rows.past.removeAll { $0.zone == zone }
      rows.horizons[zone] = nil
      rows.redirects[zone] = nil
      let ended = row.ended(as: end, at: try nextSequence(in: row.databaseKey))
      rows.zones[zone] = ended
      try endMembers(of: ended)
      grow(row.databaseKey, by: -byteCount)
      try countAssets()
    }
  }

  private func grow(_ database: Int64, by count: Int64) {
    rows.databases[database]?.byteCount += count
  }

  func put(_ record: StoredRecord, in zone: Int64, references: [OutgoingReference], isNew: Bool) throws {
    try write {
      guard let row = rows.zones[zone], !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      guard let database = rows.databases[row.databaseKey], (1...max(database.sequence, 1)).contains(record.sequence),
        database.sequence > 0
      else {
        throw ContradictingWrite("sequence \(record.sequence) was not given out")
      }
      let name = record.record.recordName
      guard rows.names[zone]?[record.sequence] ?? name == name else {
        throw ContradictingWrite("sequence \(record.sequence) is another record's")
      }
      if isNew && rows.records[zone]?[name] != nil {
        throw ContradictingWrite("a record said to be new exists in zone \(zone)")
      }
      let earlier = rows.records[zone]?[name]
      if let earlier { rows.names[zone]?[earlier.stored.sequence] = nil }
      if let replaced = earlier?.stored {
        if keepsPastStates, replaced.sequence < record.sequence {
          rows.past.append(
            InMemoryRows.PastRow(
              zone: zone, state: PastState(stored: replaced, until: record.sequence, replacedAt: now())))
        } else {
          rows.horizons[zone] = max(rows.horizons[zone] ?? 0, record.sequence, replaced.sequence)
        }
      }
      rows.names[zone, default: [:]][record.sequence] = name
      let kept = record.isDeleted ? references.filter(\.isOfTombstones) : references
      rows.records[zone, default: [:]][name] = InMemoryRows.RecordRow(stored: record, references: Set(kept))
      rows.zones[zone] = row.advanced(to: record.sequence)
      let byteCount = record.isDeleted ? 0 : record.record.countedByteCount
      if database.placementState != .untracked, earlier?.stored.record.recordType != record.record.recordType,
        row.places(recordType: record.record.recordType)
      {
        notePlacement(of: name, in: row)
      }
      grow(row.databaseKey, by: byteCount - (rows.byteCounts[zone]?[name] ?? 0))
      rows.byteCounts[zone, default: [:]][name] = byteCount
      if earlier.map({ !$0.stored.record.assets.isEmpty }) ?? false || !record.record.assets.isEmpty {
        try countAssets()
      }
    }
  }

  func putSubscription(
    _ identifier: String, of userRecordName: String, scope: DatabaseScope, payload: [UInt8], in database: Int64
  ) throws -> StoredSubscription {
    try write {
      guard rows.databases[database] != nil else { throw ContradictingWrite("no database \(database)") }
      let earlier = try subscription(identifier, of: userRecordName, scope: scope, in: database)
      rows.subscriptions.removeAll { $0.key == earlier?.key }
      let stored = StoredSubscription(
        key: nextKey(), databaseKey: database, userRecordName: userRecordName, scope: scope, identifier: identifier,
        payload: payload)
      rows.subscriptions.append(stored)
      renewEdition(of: database)
      return stored
    }
  }

  func deleteSubscription(_ key: Int64, in database: Int64) throws {
    try write {
      guard rows.subscriptions.contains(where: { $0.key == key && $0.databaseKey == database }) else { return }
      rows.subscriptions.removeAll { $0.key == key }
      renewEdition(of: database)
    }
  }

  private func renewEdition(of database: Int64) {
    rows.databases[database]?.subscriptionEdition = makeIncarnation()
  }
  func makeIndex(_ index: FieldIndex, in database: Int64) throws -> StoredIndex {
    try write {
      guard rows.databases[database] != nil else { throw ContradictingWrite("no database \(database)") }
      if let known = rows.indexes.values.first(where: { $0.databaseKey == database && $0.index == index }) {
        return known
      }
      let made = StoredIndex(key: nextKey(), databaseKey: database, index: index, isReady: true)
      rows.indexes[made.key] = made
      return made
    }
  }

  func dropIndex(_ index: Int64) throws { try write { rows.indexes[index] = nil } }

  func makeMirror(
    _ identifier: String, in database: Int64, userRecordName: String, scope: DatabaseScope, modelHash: String,
    configuration: String?,
    deviceName: String?, createdAt: Int64
  ) throws -> StoredMirror {
    try write {
      guard rows.databases[database] != nil else { throw ContradictingWrite("no database \(database)") }
      guard try mirror(identifier, in: database) == nil else {
        throw ContradictingWrite("a mirror of database \(database) has this identifier")
      }
      let former = takeFormerMirror(identifier, of: userRecordName, in: database)
      let (key, last) = (nextKey(), former?.lastTransactionNumber ?? 0)
      let mirror = StoredMirror(
        key: key, identifier: identifier, databaseKey: database, incarnation: makeIncarnation(),
        userRecordName: userRecordName, scope: scope,
        modelHash: modelHash, configuration: configuration, deviceName: deviceName, createdAt: createdAt,
        lastTransactionNumber: last,
        exportedTransactionNumber: last, purgedTransactionNumber: last, lineage: former?.lineage ?? key,
        forgottenTransactionNumber: former?.forgottenTransactionNumber ?? 0, forgottenAt: former?.forgottenAt ?? 0)
      rows.mirrors[mirror.key] = mirror
      trackPlacements(of: database)
      return mirror
    }
  }

  func update(_ mirror: StoredMirror) throws {
    try write {
      guard let row = rows.mirrors[mirror.key] else { throw ContradictingWrite("no mirror \(mirror.key)") }
      rows.mirrors[mirror.key] = row.updated(to: mirror)
    }
  }

  func deleteMirror(_ mirror: Int64) throws {
    try write {
      guard let row = rows.mirrors[mirror] else { throw ContradictingWrite("no mirror \(mirror)") }
      noteFormerMirror(settleTransactions(of: row, through: row.lastTransactionNumber).row)
      rows.mirrors[mirror] = nil
      rows.consumers[mirror] = nil
      rows.quarantine.removeAll { $0.object.mirror == mirror }
      deleteRecovery(of: mirror)
      try countAssets()
      rows.events.removeAll { $0.mirror == mirror }
    }
  }

  func append(_ transaction: StoredTransaction, assets: [Asset], to mirror: Int64) throws {
    try write {
      guard var row = rows.mirrors[mirror] else { throw ContradictingWrite("no mirror \(mirror)") }
      guard transaction.number == row.lastTransactionNumber + 1 else {
        throw ContradictingWrite(
          "transaction \(transaction.number) after \(row.lastTransactionNumber) of mirror \(mirror)")
      }
      guard try transactionNumber(of: transaction.transactionID, in: mirror) == nil else {
        throw ContradictingWrite("a transaction of mirror \(mirror) has this id")
      }
      rows.history[mirror, default: []].append(transaction)
      row.lastTransactionNumber = transaction.number
      rows.mirrors[mirror] = row
      if assets.isEmpty { return }
      rows.historyAssets[InMemoryRows.HistoryPlace(mirror: mirror, number: transaction.number)] = Set(assets)
      try countAssets()
    }
  }

  func purgeTransactions(of mirror: Int64, through number: Int64) throws -> Int {
    try write {
      guard let row = rows.mirrors[mirror] else { throw ContradictingWrite("no mirror \(mirror)") }
      let (count, purged) = settleTransactions(of: row, through: number)
      try countAssets()
      rows.mirrors[mirror] = purged
      return count
    }
  }

  func put(_ consumer: StoredConsumer, of mirror: Int64) throws {
    try write {
      guard rows.mirrors[mirror] != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      rows.consumers[mirror, default: [:]][consumer.name] = consumer
    }
  }

  func deleteConsumer(named name: String, of mirror: Int64) throws { try write { rows.consumers[mirror]?[name] = nil } }

  func put(_ event: StoredEvent, of mirror: Int64) throws -> Int64 {
    try write {
      guard let database = rows.mirrors[mirror]?.databaseKey else { throw ContradictingWrite("no mirror \(mirror)") }
      var order: Int64?
      if event.number != 0 {
        guard let index = rows.events.firstIndex(where: { $0.mirror == mirror && $0.event.number == event.number })
        else {
          throw ContradictingWrite("no event \(event.number) of mirror \(mirror)")
        }
        order = rows.events.remove(at: index).order
      } else {
        rows.lastEventOrder += 1
      }
      rows.databases[database]?.lastEventNumber += 1
      var event = event
      event.number = rows.databases[database]?.lastEventNumber ?? 0
      rows.events.append(InMemoryRows.EventRow(mirror: mirror, event: event, order: order ?? rows.lastEventOrder))
      if event.number % StoredEvent.pruningInterval == 0 { pruneEvents(of: mirror) }
      return event.number
    }
  }

  func abandonedEvents(limit: Int) throws -> [(mirror: Int64, event: StoredEvent)] {
    rows.events.filter { $0.event.endedAt == nil && $0.order <= rows.inheritedEventOrder }.sorted {
      $0.order < $1.order
    }.first(limit)
      .map { ($0.mirror, $0.event) }
  }

  private func pruneEvents(of mirror: Int64) {
    let events = rows.events.filter { $0.mirror == mirror }.map(\.event)
    var kept = Set(events.suffix(StoredEvent.keptCount).map(\.number))
    for kind in [StoredEvent.Kind.setup, .import, .export] {
      kept.formUnion(events.last { $0.kind == kind }.map { [$0.number] } ?? [])
    }
    rows.events.removeAll { $0.mirror == mirror && !kept.contains($0.event.number) }
  }

  func putOutcome(_ payload: [UInt8], of idempotencyKey: String, at: Int64) throws {
    try write {
      guard rows.outcomes[idempotencyKey] == nil else {
        throw ContradictingWrite("this idempotency key has an outcome")
      }
      rows.lastOutcomeNumber += 1
      rows.outcomes[idempotencyKey] = InMemoryRows.OutcomeRow(payload: payload, at: at, number: rows.lastOutcomeNumber)
    }
  }

  func forgetOutcomes(before cutoff: Int64, limit: Int) throws -> Int {
    try write {
      let old = rows.outcomes.filter { $0.value.at < cutoff }
        .sorted { ($0.value.at, $0.value.number) < ($1.value.at, $1.value.number) }.first(limit)
      for (key, _) in old { rows.outcomes[key] = nil }
      return old.count
    }
  }

  /// Runs a write and keeps the first refusal, so that the body cannot go on after it.
  func write<Value>(_ body: () throws -> Value) throws -> Value {
    if let refusal { throw refusal }
    do {
      return try body()
    } catch {
      refusal = error
      throw error
    }
  }

  func nextKey() -> Int64 {
    rows.lastKey += 1
    return rows.lastKey
  }
}
