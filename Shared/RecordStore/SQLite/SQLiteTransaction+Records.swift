// Writes of records and of the references between them.

import Crypto
import Records
import SQLite

extension SQLiteTransaction {
  func recordNotingSeen(named recordName: String, in zone: Int64) throws -> StoredRecord? {
    if try isDoomed(zone) { return nil }
    let select = try boundRecord(recordName, in: zone)
    let name = WriterCache.Name(parent: zone, name: recordName)
    let stored = try select.first { row in
      let stored = try record(row, named: recordName, zone: zone)
      seen[name] = SeenRecord(
        rowID: row.int64(0), sequence: row.int64(1), type: row.int64(2), isDeleted: row.bool(3),
        references: row.blob(7),
        use: RecordUse(stored, encodedByteCount: row.withBytes(8) { KeyRing.contentByteCount(of: $0) }))
      return stored
    }
    if stored == nil { seen.updateValue(nil, forKey: name) }
    return stored
  }

  func put(_ stored: StoredRecord, in zone: Int64, references: [OutgoingReference], isNew: Bool) throws {
    try write {
      guard var row = try zoneRow(key: zone), !row.zone.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      guard let database = try database(key: row.zone.databaseKey), stored.sequence > 0,
        stored.sequence <= database.sequence
      else {
        throw ContradictingWrite("sequence \(stored.sequence) was not given out")
      }
      let name = WriterCache.Name(parent: zone, name: stored.record.recordName)
      let earlier = try seenRecord(name)
      if isNew && earlier != nil { throw ContradictingWrite("a record said to be new exists in zone \(zone)") }
      let entries = try (stored.isDeleted ? references.filter(\.isOfTombstones) : references).map(entry)
      let references = try StoredReferences.encode(entries)
      let known = indexes.byDatabase[row.zone.databaseKey]
      let predecessor = known == nil ? nil : try indexedPredecessor(earlier, named: name.name, in: zone)
      let assets = stored.isDeleted ? [] : stored.record.assets
      let isArchived = try replace(earlier, by: stored, in: &row)
      // The archived copy now holds the uses of the earlier state.
      let released = isArchived ? [] : earlier?.use.assets ?? []
      if assets != released { try use(assets, insteadOf: released) }
      let isFresh = spendSequence(stored.sequence, of: row.zone.databaseKey)
      let written = try storeRow(
        stored, zone: zone, references: references, assets: assets, replacing: earlier, isFresh: isFresh)
      if let known {
        try updateEntries(
          of: known, from: predecessor, to: stored.isDeleted ? nil : stored.record, named: name.name,
          rowID: written.rowID, zone: zone)
      }
      if references != earlier?.references ?? [] {
        try replaceReferences(earlier?.references ?? [], by: references, of: written.rowID, in: zone)
      }
      if let shortGUID = stored.record.shortGUID { try index(shortGUID, stored, at: written.rowID, in: zone) }
      seen[name] = written
      if let earlier, !earlier.isDeleted { row.liveCount -= 1 }
      if !stored.isDeleted { row.liveCount += 1 }
      let growth = written.use.byteCount - (earlier?.use.byteCount ?? 0)
      row.byteCount += growth
      setByteCount(of: database, to: database.byteCount + growth)
      row.zone = row.zone.advanced(to: stored.sequence)
      setZone(row)
      if database.placementState != .untracked, earlier?.type != written.type,
        row.zone.places(recordType: stored.record.recordType)
      {
        try notePlacement(of: name.name, in: row.zone)
      }
    }
  }

  /// Archives the replaced state if the store keeps past states. A state that held for no sequence is not kept.
  /// - Returns: true when a copy exists now.
  private func replace(_ earlier: SeenRecord?, by stored: StoredRecord, in row: inout ZoneRow) throws -> Bool {
    guard let earlier else { return false }
    if keepsPastStates, earlier.sequence < stored.sequence {
      try archive(rowID: earlier.rowID, until: stored.sequence)
      return true
    }
    row.horizon = max(row.horizon, stored.sequence, earlier.sequence)
    return false
  }

  private func entry(_ reference: OutgoingReference) throws -> StoredReferences.Entry {
    if reference.action != .none { counters.bindsReferences = 1 }
    return StoredReferences.Entry(
      field: ReferenceKey(symbol: try symbol(reference.field), action: reference.action).rawValue,
      target: reference.target)
  }

  /// Indexes a record's short GUID, which stays the same as long as the record lives.
  private func index(_ shortGUID: String, _ stored: StoredRecord, at rowID: Int64, in zone: Int64) throws {
    let statement = try writing(stored.isDeleted ? StoredRecordQuery.deleteShortGUID : .insertShortGUID)
    try statement.bind(1, shortGUID)
    if !stored.isDeleted { try statement.bind(2, zone) }
    try statement.bind(stored.isDeleted ? 2 : 3, rowID)
    try statement.run()
  }

  private func seenRecord(_ name: WriterCache.Name) throws -> SeenRecord? {
    if let known = seen[name] { return known }
    _ = try recordNotingSeen(named: name.name, in: name.parent)
    return seen[name] ?? nil
  }

  private func storeRow(
    _ stored: StoredRecord, zone: Int64, references: [UInt8], assets: [Asset], replacing earlier: SeenRecord?,
    isFresh: Bool
  ) throws -> SeenRecord {
    let record = stored.record
    let (content, isEncrypted) = record.encodedNotingEncryption()
    let data = isEncrypted ? try seal(content, for: .record) : content
    let header = RecordRowHeader(
      zone: zone, sequence: stored.sequence, type: try symbol(record.recordType), isDeleted: stored.isDeleted,
      origin: stored.origin,
      sequenceOfOthers: stored.sequenceOfOthers)
    let sum = data.withUnsafeBytes { header.checksum(name: record.recordName, references: references, data: $0) }
    let query = earlier.map { $0.type == header.type ? StoredRecordQuery.update : .updateWithType } ?? .insert
    let statement = try writing(query)
    var index: Int32 = 1
    if let earlier {
      try statement.bind(1, earlier.rowID)
    } else {
      try statement.bind(1, zone)
      try statement.bind(2, recordName: record.recordName)
      index = 2
    }
    try statement.bind(index + 1, header.sequence)
    try statement.bind(index + 2, header.type)
    try statement.bind(index + 3, header.isDeleted)
    try statement.bind(index + 4, header.origin)
    try statement.bind(index + 5, header.sequenceOfOthers)
    try statement.bind(index + 6, sum)
    try statement.bind(index + 7, references.isEmpty ? nil : references)
    try statement.bind(index + 8, data)
    try forgetFetchedRecord(record.recordName, in: zone)
    if let shortGUID = record.shortGUID { try forgetFetchedShortGUID(shortGUID) }
    let rowID: Int64?
    if let earlier {
      rowID = try statement.runUnlessTaken(isKnownFree: isFresh) ? earlier.rowID : nil
    } else {
      let key = try session.nextRecordKey()
      if let key { try statement.bind(11, key) }
      rowID = try statement.runUnlessTaken(key: key, isKnownFree: isFresh)
    }
    guard let rowID else {
      throw ContradictingWrite("sequence \(stored.sequence) is another record's in zone \(zone)")
    }
    countWrite(records: 1, bytes: data.count)
    return SeenRecord(
      rowID: rowID, sequence: header.sequence, type: header.type,
      isDeleted: header.isDeleted, references: references,
      use: RecordUse(assets, encodedByteCount: stored.isDeleted ? 0 : content.count))
  }

  /// Changes the index of references from the row's earlier references to its later ones.
  private func replaceReferences(_ earlier: [UInt8], by later: [UInt8], of source: Int64, in zone: Int64) throws {
    guard let earlier = StoredReferences.decode(earlier), let later = StoredReferences.decode(later) else {
      throw StoreError.corrupt("shard \(shard): references of a record in zone \(zone) are damaged")
    }
    for entry in earlier where !later.contains(entry) { try changeReference(.delete, entry, source, zone) }
    for entry in later where !earlier.contains(entry) { try changeReference(.insert, entry, source, zone) }
  }

  private func changeReference(_ query: ReferenceQuery, _ entry: StoredReferences.Entry, _ source: Int64, _ zone: Int64)
    throws
  {
    let statement = try writing(query)
    try statement.bind(1, zone)
    try statement.bind(2, recordName: entry.target)
    try statement.bind(3, entry.field)
    try statement.bind(4, source)
    try statement.run()
  }

  /// The number of a symbol. A symbol without a number gets one.
  func symbol(_ text: String) throws -> Int64 {
    if let number = try symbolNumber(text) { return number }
    let insert = try writing(ShardQuery.makeSymbol)
    try insert.bind(1, text)
    let number = try insert.runForKey()
    cache.symbols.set(number, for: text)
    return number
  }
}
