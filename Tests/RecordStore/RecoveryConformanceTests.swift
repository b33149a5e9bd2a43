// The state of imports and recoveries: stored, replaced, and deleted with their store.

import Foundation
import Records
import SQLite
import Testing

@testable import RecordStore

@Suite struct RecoveryConformanceTests {
  private static func state(_ number: Int64) -> StoredSyncState {
    var state = StoredSyncState()
    state.sinceSequence = number
    state.firstImportAt = number % 2 == 0 ? nil : number
    state.openResetCount = Int(number)
    state.resetReason = 3
    state.resetSequence = number + 1
    state.modelEpoch = number + 2
    state.previousModelHash = number == 1 ? "hash" : nil
    state.previousConfiguration = number == 1 ? "Cloud" : nil
    state.leaseUntil = number + 3
    state.zonePolicies = number == 1 ? [.purged: 2, .encryptedDataReset: 1] : [:]
    return state
  }

  private static func unimported(_ mirror: Int64, _ name: String, zone: Int64 = 5, due: Int64 = 9, attempts: Int = 1)
    -> StoredUnimported
  {
    StoredUnimported(
      mirror: mirror, zone: zone, name: name, entity: "Note", code: "INTERNAL_ERROR", reason: "r", sequence: 4,
      firstAt: 1, lastAt: 2, attempts: attempts,
      dueAt: due)
  }

  @Test(arguments: StoreKind.allCases)
  func `holds of ended zones in which no object was placed are found by their decisions, in the order of the ends`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard, zone: "a")
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
      let zones = ["a": place.zone, "b": try await Place(in: shard, zone: "b").zone]
      try await shard.write { transaction in
        for (name, end) in [("a", 9), ("b", 8), ("c", 7)] {
          try transaction.put(
            StoredZoneHold(zoneName: name, end: .deleted, endSequence: Int64(end), heldAt: 1, decision: 2), of: mirror)
        }
      }
      func found(
        through sequence: Int64, limit: Int = 9, _ decisions: [ZoneEnd: Int] = [.deleted: 2, .purged: 1],
        besides zoneName: String? = nil
      ) async throws -> [String] {
        try await shard.read { snapshot in
          try snapshot.emptyZoneHolds(
            of: mirror, through: sequence, decidedAs: decisions, besides: zoneName, limit: limit
          ).map(\.zoneName)
        }
      }
      #expect(try await found(through: 9) == ["b", "a"], "no zone has the third name")
      #expect(try await found(through: 8) == ["b"])
      #expect(try await found(through: 9, limit: 1) == ["b"])
      #expect(try await found(through: 9, [.deleted: 1, .purged: 2]) == [])
      #expect(try await found(through: 9, [:]) == [])
      #expect(try await found(through: 9, limit: 1, besides: "b") == ["a"], "none that stays hides others")
      for (end, decision) in [(ZoneEnd.deleted, 1), (.purged, 2), (.encryptedDataReset, 2)] {
        let hold = StoredZoneHold(zoneName: "b", end: end, endSequence: 8, heldAt: 1, decision: decision)
        try await shard.write { try $0.put(hold, of: mirror) }
        #expect(try await found(through: 9, limit: 1) == ["a"], "none that stays hides others")
        #expect(try await found(through: 9, limit: 1, [end: decision]) == ["b"])
      }
      try await shard.write {
        let hold = StoredZoneHold(zoneName: "b", end: .deleted, endSequence: 8, heldAt: 1, decision: 2)
        try $0.put(hold, of: mirror)
      }
      try await shard.write { try $0.place("object", in: #require(zones["b"])) }
      #expect(try await found(through: 9) == ["a"])
      try await shard.write {
        try $0.put(StoredZoneHold(zoneName: "a", end: .deleted, endSequence: 9, heldAt: 1), of: mirror)
      }
      #expect(try await found(through: 9) == [])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a store's state, its zones on hold and what its imports left out are kept until it is forgotten`(
    _ kind: StoreKind
  )
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
      #expect(try await shard.read { try $0.syncState(of: mirror) } == StoredSyncState())
      for number: Int64 in [1, 2] {
        try await shard.write { try $0.put(Self.state(number), of: mirror) }
        #expect(try await shard.read { try $0.syncState(of: mirror) } == Self.state(number))
      }
      let hold = StoredZoneHold(zoneName: "b", end: .purged, endSequence: 7, heldAt: 8)
      let other = StoredZoneHold(zoneName: "a", end: .deleted, endSequence: 1, heldAt: 2, decision: 1)
      try await shard.write { transaction in
        try transaction.put(hold, of: mirror)
        try transaction.put(other, of: mirror)
      }
      #expect(try await shard.read { try $0.zoneHolds(of: mirror) } == [other, hold])
      let decided = StoredZoneHold(zoneName: "b", end: .purged, endSequence: 7, heldAt: 8, decision: 3)
      try await shard.write { transaction in
        try transaction.put(decided, of: mirror)
        try transaction.deleteZoneHold(of: "a", mirror)
        try transaction.deleteZoneHold(of: "none", mirror)
      }
      #expect(try await shard.read { try $0.zoneHolds(of: mirror) } == [decided])
      try await shard.write { transaction in
        try transaction.putUnimported(Self.unimported(mirror, "x", due: 9))
        try transaction.putUnimported(Self.unimported(mirror, "y", due: 3))
        try transaction.putUnimported(Self.unimported(mirror, "x", zone: 6, due: 3))
        try transaction.putUnimported(Self.unimported(mirror, "x", due: 5, attempts: 2))
      }
      try await shard.read { (snapshot) throws in
        #expect(
          try snapshot.unimported(of: mirror, afterKey: 0, limit: 9).map { "\($0.name)\($0.zone) \($0.attempts)" } == [
            "x5 2", "y5 1", "x6 1",
          ])
        #expect(try snapshot.unimported(of: mirror, dueBy: 4, limit: 9).map { "\($0.name)\($0.zone)" } == ["y5", "x6"])
        #expect(try snapshot.unimported(of: mirror, dueBy: 9, limit: 1).map(\.name) == ["y"])
      }
      try await shard.write { try $0.removeUnimported("x", in: 6, of: mirror) }
      #expect(try await shard.read { try $0.unimported(of: mirror, afterKey: 1, limit: 9).map(\.name) } == ["y"])
      for body: @Sendable (any ShardTransaction) throws -> Void in [
        { try $0.put(Self.state(1), of: 99) }, { try $0.put(decided, of: 99) },
        { try $0.putUnimported(Self.unimported(99, "x")) }, { _ = try $0.resetMirror(99) },
      ] {
        await #expect(throws: ContradictingWrite.self) { try await shard.write(body) }
      }
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
      try await shard.write { try $0.deleteMirror(mirror) }
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.syncState(of: mirror) == StoredSyncState())
        #expect(
          try snapshot.zoneHolds(of: mirror).isEmpty && snapshot.unimported(of: mirror, afterKey: 0, limit: 9).isEmpty)
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a store that begins anew keeps its key and what it has told, and none of its history`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      var mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
      mirror.importedSequence = 5
      mirror.lease = 2
      let changed = mirror
      try await shard.write { transaction in
        try transaction.update(changed)
        for number: Int64 in 1...3 {
          try transaction.append(HistoryConformanceTests.transaction(number), to: changed.key)
        }
        try transaction.put(StoredConsumer(name: "widget", transactionNumber: 1, seenAt: 1), of: changed.key)
        _ = try transaction.put(
          StoredEvent(identifier: "e", kind: .setup, startedAt: 1, endedAt: 2, succeeded: true), of: changed.key)
        try transaction.put(Self.state(1), of: changed.key)
      }
      #expect(try await shard.read { try $0.mirror(key: changed.key)?.importedSequence } == 5)
      let fresh = try await shard.write { try $0.resetMirror(changed.key) }
      try await shard.read { (snapshot) throws in
        let row = try #require(try snapshot.mirror(key: changed.key))
        #expect(row == fresh && row.incarnation != changed.incarnation && row.importedSequence == 0 && row.lease == 2)
        #expect([row.lastTransactionNumber, row.exportedTransactionNumber, row.purgedTransactionNumber] == [3, 3, 3])
        #expect(try snapshot.mirror(changed.identifier, in: place.database) == fresh)
        #expect(
          try snapshot.transactions(of: row.key, after: 0, limit: 9).isEmpty && snapshot.consumers(of: row.key).isEmpty)
        #expect(try snapshot.events(of: row.key, after: 0, kind: nil, limit: 9).map(\.identifier) == ["e"])
        #expect(try snapshot.syncState(of: row.key) == Self.state(1))
      }
      try await shard.write { try $0.append(HistoryConformanceTests.transaction(4), to: changed.key) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a zone remembers why one of its name ended last, also when it was made again`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let made = try await shard.write { transaction in
        #expect(try transaction.zone(key: place.zone)?.endSequence == 0)
        try transaction.deleteZone(place.zone, as: .purged)
        let ended = try #require(try transaction.zone(key: place.zone))
        #expect(ended.end == .purged && ended.endSequence == ended.sequence && ended.isDeleted)
        return try transaction.makeZone(named: ended.zoneName, in: place.database)
      }
      #expect(made.end == .purged && made.endSequence == made.sequence - 1)
      _ = try await shard.write {
        try $0.save(Sample.note("a", title: "t"), in: Place(database: place.database, zone: made.key))
      }
      #expect(try await shard.read { try $0.zone(key: made.key)?.endSequence } == made.endSequence)
      try await shard.write { try $0.deleteZone(made.key, as: .encryptedDataReset) }
      #expect(try await shard.read { try $0.zone(key: made.key)?.end } == .encryptedDataReset)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `marks of changes and the first changes of zones are those of the records`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      var places: [Place] = []
      for name in ["a", "b", "empty", "ended"] { places.append(try await Place(in: shard, zone: name)) }
      let stranger = try await Place(in: shard, owner: "bob")
      for number in 0..<12 {
        let place = [places[0], places[1], places[3], stranger][number % 4]
        let name = number < 8 ? "\(number)" : "\(number - 8)"
        try await shard.write {
          _ = try $0.save(Sample.note(name), in: place, origin: Int64(number % 3), others: Int64(number))
        }
      }
      let ended = places[3]
      try await shard.write { try $0.deleteZone(ended.zone) }
      try await shard.read { [places] (snapshot) throws -> Void in
        for after in 0...20 as ClosedRange<Int64> {
          var firsts: [Int64: Int64] = [:]
          for place in places {
            let changes = try snapshot.changes(in: place.zone, after: after, limit: 99)
            firsts[place.zone] = changes.first?.sequence
            let marks = try snapshot.changeMarks(in: place.zone, after: after, limit: 99)
            #expect(marks.map(\.sequence) == changes.map(\.sequence))
            #expect(marks.map(\.origin) == changes.map(\.origin))
            #expect(marks.map(\.sequenceOfOthers) == changes.map(\.sequenceOfOthers))
            #expect(try snapshot.changeMarks(in: place.zone, after: after, limit: 1) == Array(marks.prefix(1)))
          }
          #expect(try snapshot.firstChanges(in: places[0].database, after: after) == firsts)
        }
        #expect(try snapshot.firstChanges(in: places[0].database, after: 0).count == 2)
      }
    }
  }

  @Test func `changes are read past rows that are damaged, which are named`() async throws {
    let folder = try TemporaryFolder()
    let shard = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder.path), shardCount: 1).open(shard: 0)
    let place = try await Place(in: shard)
    for name in ["a", "b", "c"] { _ = try await shard.write { try $0.save(Sample.note(name, title: name), in: place) } }
    await shard.close()
    try StoredFormatTests.execute("UPDATE record SET sum = sum + 1 WHERE name = 'b'", in: folder)
    let again = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder.path), shardCount: 1).open(shard: 0)
    let changes = try await again.read { try $0.readableChanges(in: place.zone, after: 0, limit: 9, byteLimit: .max) }
    #expect(
      changes.records.map(\.record.recordName) == ["a", "c"] && changes.damaged.map(\.recordName) == ["b"]
        && changes.rowCount == 3)
    await #expect(throws: StoreError.self) {
      try await again.read { try $0.changes(in: place.zone, after: 0, limit: 9) }
    }
    await again.close()
  }

  @Test func `a file of the format before takes stores' states when it is opened, and its zones never ended`()
    async throws
  {
    let folder = try TemporaryFolder()
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = FormatChangeStep.all.filter { $0.format < FormatChange.recovery.rawValue }
    let connection = try earlier.takeOver().connection
    try connection.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (1, 'iCloud.org.example', 'development', '_a', 1, 9);
      INSERT INTO zone(id, database, name, incarnation, seq, deleted, live) VALUES (3, 1, 'z', 6, 9, 1, 0);
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, created, last, exported, purged)
        VALUES (2, 1, 'phone', 1, '_a', 'private', 'm', 0, 0, 0, 0);
      INSERT OR REPLACE INTO meta(key, value) VALUES ('lastKey', 3);
      """)
    connection.close()
    let shard = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder.path), shardCount: 1).open(shard: 0)
    #expect(try await shard.read { try $0.syncState(of: 2) } == StoredSyncState())
    #expect(try await shard.read { try $0.mirror(key: 2)?.importedSequence } == 0)
    #expect(try await shard.read { try $0.zone(key: 3)?.endSequence } == 0)
    try await shard.write { try $0.put(Self.state(1), of: 2) }
    #expect(try await shard.read { try $0.syncState(of: 2) } == Self.state(1))
    #expect(try await #require(shard as? SQLiteShardStore).verify().problems == [])
    await shard.close()
  }
}
