import Indexing
import RecordStore
import Records
import Testing

struct RecordConformanceTests {
  @Test(arguments: StoreKind.allCases) func `a record comes back as it was stored, origin and others included`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      var record = Sample.note(Sample.uuid(1))
      record.fields["CD_bytes"] = Field(.bytes(Array(repeating: 7, count: 20_000)), isEncrypted: true)
      record.fields["CD_list"] = Field(.list(element: .int64, []))
      record.parent = "root"
      record.shortGUID = "0abc"
      let stored = try await shard.write { [record] in try $0.save(record, in: place, origin: 17, others: 1) }
      #expect(stored.sequence == 2)
      for name in [Sample.uuid(1)] {
        #expect(try await shard.read { try $0.record(named: name, in: place.zone) } == stored)
        #expect(try await shard.write { try $0.record(named: name, in: place.zone) } == stored)
      }
      #expect(try await shard.read { try $0.record(named: "none", in: place.zone) } == nil)
      #expect(try await shard.read { try $0.record(named: Sample.uuid(1), in: 99) } == nil)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a tombstone keeps type, stamps and what its writer left, and points to its parent`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      try await shard.write { _ = try $0.save(Sample.note("1", type: "CD_Tag"), in: place) }
      try await shard.write { transaction in
        var stored = try #require(try transaction.record(named: "1", in: place.zone))
        stored.isDeleted = true
        stored.sequence = try transaction.nextSequence(in: place.database)
        stored.record.fields = ["CD_entityName": .string("Tag")]
        // A tombstone's references are dropped, whatever the caller passes. The parent is kept, so that records below
        // the tombstone are still found below its parent.
        let references = [
          OutgoingReference(field: "CD_a", target: "b"),
          OutgoingReference(field: ReservedName.parentReference, target: "p"),
        ]
        try transaction.put(stored, in: place.zone, references: references, isNew: false)
      }
      let tombstone = try #require(try await shard.read { try $0.record(named: "1", in: place.zone) })
      #expect(tombstone.isDeleted)
      #expect(tombstone.record.fields == ["CD_entityName": .string("Tag")])
      #expect(tombstone.record.recordType == "CD_Tag")
      #expect(tombstone.record.created == Sample.note("1").created)
      #expect(try await shard.read { try $0.references(to: "b", in: place.zone) } == [])
      #expect(try await shard.read { try $0.references(to: "p", in: place.zone).map(\.source) } == ["1"])
      #expect(try await shard.read { try $0.records(ofType: "CD_Tag", in: place.zone, afterName: nil, limit: 9) } == [])
      #expect(try await shard.read { try $0.changes(in: place.zone, after: 0, limit: 9) } == [tombstone])
    }
  }

  @Test(arguments: StoreKind.allCases) func `rows of changes hold what the records hold, and can be shortened`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let saved = try await shard.write { transaction in
        var saved: [StoredRecord] = []
        for name in [Sample.uuid(1), "é", Sample.uuid(2), "long-" + String(repeating: "n", count: 90), "5"] {
          var record = Sample.note(name)
          if name == "é" { record.fields["CD_bytes"] = Field(.bytes([1, 2, 3]), isEncrypted: true) }
          if name == "5" { record.shortGUID = "0abc" }
          saved.append(try transaction.save(record, in: place, origin: 17, others: 1))
        }
        return saved
      }
      let rows = try await shard.read { snapshot in
        var rows = RecordRows(of: place.zone)
        try snapshot.readChanges(after: 0, limit: 2, into: &rows)
        try snapshot.readChanges(after: rows[1].sequence, limit: 9, into: &rows)
        return rows
      }
      #expect(try rows.records() == saved)
      #expect(rows.indices.map { rows.recordName(at: $0) } == saved.map(\.record.recordName))
      #expect(try rows.recordsWithShares() == [saved[4]])
      let named = try await shard.read { snapshot in
        var rows = RecordRows(of: place.zone)
        for stored in saved.reversed() {
          let (isRead, isMade) = (
            try snapshot.readRecord(named: stored.record.recordName, into: &rows),
            try snapshot.readRecord(named: "none", into: &rows)
          )
          #expect(isRead && !isMade)
        }
        return rows
      }
      #expect(try named.records() == saved.reversed())
      let backwards = try await shard.read { snapshot in
        var rows = RecordRows(of: place.zone)
        try snapshot.readChangesBackwards(after: saved[0].sequence, before: saved[4].sequence, limit: 9, into: &rows)
        return rows
      }
      #expect(try backwards.records() == saved[1...3].reversed())
      for end in 0...5 {
        var shortened = rows
        shortened.removeAll(from: end)
        #expect(try shortened.records() == Array(saved[..<end]))
        shortened.append(saved[0])
        #expect(try shortened.record(at: end) == saved[0])
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `changes page by sequence, each record once with its latest state`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      try await shard.write { transaction in
        for number in 0..<10 { try transaction.save(Sample.note(Sample.uuid(number)), in: place) }
        try transaction.save(Sample.note(Sample.uuid(3), title: "changed"), in: place)
        try transaction.delete(Sample.uuid(5), in: place)
      }
      var names: [String] = []
      var sequence: Int64 = 0
      var pages = 0
      while true {
        let page = try await shard.read { [sequence] in try $0.changes(in: place.zone, after: sequence, limit: 4) }
        guard let last = page.last else { break }
        #expect(page.map(\.sequence) == page.map(\.sequence).sorted())
        names += page.map(\.record.recordName)
        sequence = last.sequence
        pages += 1
      }
      #expect(pages == 3)
      #expect(names == [0, 1, 2, 4, 6, 7, 8, 9, 3, 5].map(Sample.uuid))
      let last = try await shard.read { [sequence] in try $0.changes(in: place.zone, after: sequence - 2, limit: 9) }
      #expect(last.map(\.isDeleted) == [false, true])
      #expect(last.first?.record.fields.string("CD_title") == "changed")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `records of a type come in the order of their names, whatever form these are kept in`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let names = [
        "0", "6F0C2E61", "6F0C2E61-4B7D-4C5E-8E1B-00000000000", Sample.uuid(0), Sample.uuid(0) + "0", Sample.uuid(9),
        Sample.uuid(10),
        Sample.uuid(11).lowercased(), "6F0C2E61-4B7D-4C5E-8E1B-00000000000G", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        "zebra", "00000000-0000-0000-0000-000000000000",
        "", "-", "é", "A",
      ]
      try await shard.write { transaction in
        for name in names { try transaction.save(Sample.note(name), in: place) }
        try transaction.save(Sample.note("other", type: "CD_Tag"), in: place)
        try transaction.save(Sample.note("gone"), in: place)
        try transaction.delete("gone", in: place)
      }
      let sorted = names.sorted { RecordNameOrder.precedes($0, $1) }
      for limit in [1, 3, 100] {
        var found: [String] = []
        while true {
          let page = try await shard.read { [last = found.last] in
            try $0.records(ofType: "CD_Note", in: place.zone, afterName: last, limit: limit)
          }
          if page.isEmpty { break }
          found += page.map(\.record.recordName)
        }
        #expect(found == sorted, "in pages of \(limit)")
      }
      for after in ["5", "6F0C2E61-4", "6F0C2E61-4B7D-4C5E-8E1B-00000000000A ", "G", "~", Sample.uuid(5)] {
        let expected = sorted.filter { RecordNameOrder.precedes(after, $0) }
        let found = try await shard.read {
          try $0.records(ofType: "CD_Note", in: place.zone, afterName: after, limit: 100)
        }
        #expect(found.map(\.record.recordName) == expected, "after \(after)")
      }
      #expect(
        try await shard.read { try $0.records(ofType: "CD_Tag", in: place.zone, afterName: nil, limit: 9) }.map(
          \.record.recordName) == ["other"])
      #expect(
        try await shard.read { try $0.records(ofType: "CD_None", in: place.zone, afterName: nil, limit: 9) } == [])
    }
  }

  @Test(arguments: StoreKind.allCases) func `a write that contradicts what is stored is refused and leaves nothing`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let stored = try await shard.write { try $0.save(Sample.note("1"), in: place) }
      func refused(_ body: @escaping @Sendable (any ShardTransaction) throws -> Void) async {
        await #expect(throws: ContradictingWrite.self) {
          try await shard.write { transaction in
            try transaction.save(Sample.note("innocent"), in: place)
            try body(transaction)
          }
        }
      }
      await refused { transaction in
        var new = stored
        new.sequence = try transaction.nextSequence(in: place.database)
        try transaction.put(new, in: place.zone, references: [], isNew: true)
      }
      await refused { transaction in
        try transaction.put(
          StoredRecord(
            record: Sample.note("2"), isDeleted: false, sequence: stored.sequence, origin: 0, sequenceOfOthers: 0),
          in: place.zone, references: [],
          isNew: true)
      }
      for sequence: Int64 in [0, -1, 99] {
        await refused { transaction in
          try transaction.put(
            StoredRecord(
              record: Sample.note("2"), isDeleted: false, sequence: sequence, origin: 0, sequenceOfOthers: 0),
            in: place.zone, references: [],
            isNew: true)
        }
      }
      await refused { _ = try $0.save(Sample.note("2"), in: Place(database: place.database, zone: 99)) }
      #expect(try await shard.read { try $0.changes(in: place.zone, after: 0, limit: 9) } == [stored])
      #expect(try await shard.read { try $0.database(key: place.database)?.sequence } == stored.sequence)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a body that goes on past a refused write fails all the same`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { transaction in
          try transaction.save(Sample.note("1"), in: place)
          do { try transaction.deleteZone(99) } catch {}
          try transaction.save(Sample.note("2"), in: place)
        }
      }
      #expect(try await shard.read { try $0.counts().records } == 0)
    }
  }
}
