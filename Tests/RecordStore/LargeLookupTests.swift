// Announced look-ups of large records: an answer is bounded, and what it leaves out costs few round trips more.

import PostgreSQL
import Records
import Sharing
import Testing

@testable import RecordStore

struct LargeLookupTests {
  private static let id = Sample.database("ada")

  private static func lookups(_ names: [String]) -> [ExpectedLookup] {
    names.map { .record($0, zone: "notes", database: id) }
  }

  /// A zone with records of a size.
  private static func place(with names: [String], ofByteCount byteCount: Int, in shard: any ShardStore) async throws
    -> Place
  {
    let place = try await Place(in: shard)
    for name in names {
      try await shard.write { _ = try $0.save(sample(name, byteCount), in: place) }
    }
    try await learn(names, in: place, shard)
    return place
  }

  /// The first body that reads a record learns the names of its fields, which is a look-up of its own.
  private static func learn(_ names: [String], in place: Place, _ shard: any ShardStore) async throws {
    try await shard.write { for name in names.prefix(1) { _ = try $0.record(named: name, in: place.zone) } }
  }

  private static func sample(_ name: String, _ byteCount: Int = 1) -> Record {
    Sample.note(name, title: String(repeating: "x", count: byteCount))
  }

  /// The bytes of the answers that the writer holds.
  private static func heldByteCount(_ transaction: any ShardTransaction) -> Int {
    (transaction as? SQLiteTransaction)?.session.fetched?.byteCount ?? -1
  }

  /// The look-ups of bodies that nobody had announced. A group is counted before the next one begins.
  private static func missCount(of shard: any ShardStore) async throws -> Double {
    try await shard.write { _ in }
    return shard.statistic("unexpected_lookups_total")
  }

  @Test func `records that many bodies announce are sent once for all of them`() async throws {
    try await withShard(.postgreSQL) { shard in
      let names = (0..<20).map { "\($0)" }
      let place = try await Self.place(with: names, ofByteCount: 100_000, in: shard)
      let gate = await Gate(.postgreSQL, in: shard)
      let before = shard.statistic("unexpected_lookups_total")
      let pending = (0..<8).map { _ in
        shard.enqueue(expecting: { Self.lookups(names) }) { transaction in
          let found = try names.filter { try transaction.record(named: $0, in: place.zone) != nil }
          return (found, Self.heldByteCount(transaction))
        }
      }
      try await gate.open()
      for commit in pending {
        let (found, byteCount) = try await commit.value
        #expect(found == names)
        #expect(byteCount > 0 && byteCount < 4_000_000, "\(byteCount)")
      }
      #expect(try await Self.missCount(of: shard) == before)
    }
  }

  @Test func `large records are sent in parts, in any order, and missing ones stay missing`() async throws {
    try await withShard(.postgreSQL) { shard in
      let names = (0..<30).map { "\($0)" }
      let place = try await Self.place(with: names, ofByteCount: 1_000_000, in: shard)
      for order in [names, names.reversed()] {
        let gate = await Gate(.postgreSQL, in: shard)
        let before = shard.statistic("unexpected_lookups_total")
        let announced = names.flatMap { [$0, "none \($0)"] }
        let commit = shard.enqueue(expecting: { Self.lookups(announced) }) { transaction in
          var counts: [Int] = []
          for name in order {
            let record = try transaction.record(named: name, in: place.zone)?.record
            #expect(record?.recordName == name && record?.fields.string("CD_title")?.utf8.count == 1_000_000)
            #expect(try transaction.record(named: "none \(name)", in: place.zone) == nil)
            counts.append(Self.heldByteCount(transaction))
          }
          return counts
        }
        try await gate.open()
        let counts = try await commit.value
        // An answer has four megabytes and a record, and those of earlier ones make room at sixteen.
        #expect(counts.allSatisfy { (1..<24_000_000).contains($0) }, "\(counts)")
        let missCount = try await Self.missCount(of: shard) - before
        if order == names {
          #expect(counts[0] < 7_000_000 && missCount == 0, "\(counts)")
        } else {
          // The first ones made room before they were read: five records, and four names without one between them.
          #expect(missCount == 9)
        }
      }
    }
  }

  @Test func `more look-ups than go out together are all answered`() async throws {
    try await withShard(.postgreSQL) { shard in
      let names = (0..<2500).map { "\($0)" }
      let place = try await Place(in: shard)
      try await shard.write { transaction in
        for name in names { _ = try transaction.save(Self.sample(name), in: place) }
      }
      try await Self.learn(names, in: place, shard)
      let gate = await Gate(.postgreSQL, in: shard)
      let before = shard.statistic("unexpected_lookups_total")
      let commit = shard.enqueue(expecting: { Self.lookups(names) }) { transaction in
        try names.filter { try transaction.record(named: $0, in: place.zone)?.record.recordName != $0 }
      }
      try await gate.open()
      #expect(try await commit.value == [])
      #expect(try await Self.missCount(of: shard) == before)
    }
  }

  @Test func `look-ups of every kind are sent once, however many bodies announce them`() async throws {
    try await withShard(.postgreSQL) { shard in
      let place = try await Place(in: shard)
      try await shard.write { transaction in
        try transaction.put(SharingConformanceTests.share("S", root: "r"), in: place.zone)
        try transaction.put(SharingConformanceTests.member("bob", share: "S", since: 2), of: place.database)
      }
      let lookups: [ExpectedLookup] = [
        .liveZoneCount(Self.id), .members("bob", zone: "notes", database: Self.id),
        .share("S", zone: "notes", database: Self.id), .shareOfRoot("r", zone: "notes", database: Self.id),
        .shortGUID("0r"), .zone("none", database: Self.id), .outcome("r"),
      ]
      var byteCounts: [Int] = []
      for bodyCount in [1, 40] {
        let gate = await Gate(.postgreSQL, in: shard)
        let pending = (0..<bodyCount).map { _ in
          shard.enqueue(expecting: { lookups + lookups }) { Self.heldByteCount($0) }
        }
        try await gate.open()
        for commit in pending { byteCounts.append(try await commit.value) }
      }
      #expect(byteCounts[0] > 0 && Set(byteCounts).count == 1, "\(byteCounts)")
    }
  }

  private static func shared(_ name: String, _ byteCount: Int) -> Record {
    var record = sample(name, byteCount)
    record.shortGUID = "0\(name)"
    return record
  }

  @Test func `a large record whose short GUID many bodies announce is sent once for all of them`() async throws {
    try await withShard(.postgreSQL) { shard in
      let place = try await Place(in: shard)
      try await shard.write { _ = try $0.save(Self.shared("a", 1_000_000), in: place) }
      try await Self.learn(["a"], in: place, shard)
      let before = shard.statistic("unexpected_lookups_total")
      let gate = await Gate(.postgreSQL, in: shard)
      let pending = (0..<8).map { _ in
        shard.enqueue(expecting: { [.shortGUID("0a"), .shortGUID("0a")] }) { transaction in
          let found = try transaction.record(withShortGUID: "0a")?.record.record.recordName
          return (found, Self.heldByteCount(transaction))
        }
      }
      try await gate.open()
      for commit in pending {
        let (found, byteCount) = try await commit.value
        #expect(found == "a" && byteCount > 1_000_000 && byteCount < 2_000_000, "\(byteCount)")
      }
      #expect(shard.statistic("unexpected_lookups_total") == before)
    }
  }

  @Test func `large records are sent in parts for their short GUIDs, and what else is known stays known`() async throws
  {
    try await withShard(.postgreSQL) { shard in
      let names = (0..<30).map { "\($0)" }
      let place = try await Self.place(with: names.map { "small \($0)" }, ofByteCount: 1, in: shard)
      for name in names { try await shard.write { _ = try $0.save(Self.shared(name, 1_000_000), in: place) } }
      try await Self.learn(names, in: place, shard)
      let before = shard.statistic("unexpected_lookups_total")
      let gate = await Gate(.postgreSQL, in: shard)
      let announced = names.flatMap { [ExpectedLookup.shortGUID("0\($0)"), .shortGUID("0none \($0)")] }
      let small = Self.lookups(names.map { "small \($0)" })
      let commit = shard.enqueue(expecting: { announced + small }) { transaction in
        var counts: [Int] = []
        for name in names {
          let record = try transaction.record(withShortGUID: "0\(name)")?.record.record
          #expect(record?.recordName == name && record?.fields.string("CD_title")?.utf8.count == 1_000_000)
          #expect(try transaction.record(withShortGUID: "0none \(name)") == nil)
          #expect(try transaction.record(named: "small \(name)", in: place.zone) != nil)
          counts.append(Self.heldByteCount(transaction))
        }
        return counts
      }
      try await gate.open()
      let counts = try await commit.value
      #expect(counts[0] < 7_000_000 && counts.allSatisfy { (1..<24_000_000).contains($0) }, "\(counts)")
      #expect(shard.statistic("unexpected_lookups_total") == before)
    }
  }

  @Test(arguments: StoreKind.queued)
  func `shares that are announced together are found by name and by root, also ended and large ones`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      // Half a megabyte for each share.
      let people = (0..<500).map { number in
        Participant(
          participantID: "P\(number + 1)",
          identity: UserIdentity(userRecordName: "\(number) " + String(repeating: "x", count: 1000)),
          role: .privateUser, permission: .readWrite, acceptance: .accepted, dateAdded: 1)
      }
      for number in 0..<15 {
        var share = SharingConformanceTests.share("S\(number)", root: "r\(number)", people)
        if number % 3 == 0 { share.state = nil }
        try await shard.write { [share] in try $0.put(share, in: place.zone) }
      }
      let names = (0..<15).flatMap { ["\($0)", "none \($0)"] }
      let lookups = names.flatMap {
        [
          ExpectedLookup.share("S\($0)", zone: "notes", database: Self.id),
          .shareOfRoot("r\($0)", zone: "notes", database: Self.id),
        ]
      }
      let before = shard.statistic("unexpected_lookups_total")
      let gate = await Gate(kind, in: shard)
      let commit = shard.enqueue(expecting: { lookups }) { transaction in
        try names.map { name in
          let share = try transaction.share(named: "S\(name)", in: place.zone)
          let active = try transaction.share(ofRoot: "r\(name)", in: place.zone)
          return "\(share?.name ?? "none") \(share?.state?.participants.count ?? 0) \(active?.name ?? "none")"
        }
      }
      try await gate.open()
      let expected = (0..<15).flatMap { number in
        [number % 3 == 0 ? "S\(number) 0 none" : "S\(number) 501 S\(number)", "none 0 none"]
      }
      #expect(try await commit.value == expected)
      #expect(shard.statistic("unexpected_lookups_total") == before)
    }
  }

  private struct Refusal: Error {}

  @Test(arguments: [true, false])
  func `what a body fetched behind its own writes goes with them`(_ hasSavepoint: Bool) async throws {
    try await withShard(.postgreSQL) { shard in
      let place = try await Self.place(with: ["a", "b"], ofByteCount: 1, in: shard)
      let gate = await Gate(.postgreSQL, in: shard)
      if hasSavepoint { _ = shard.enqueue { _ = try $0.save(Self.sample("first"), in: place) } }
      let undone = shard.enqueue(expecting: { Self.lookups(["a"]) }) { transaction in
        _ = try transaction.save(Self.sample("a", 2), in: place)
        _ = try transaction.save(Self.sample("new"), in: place)
        try transaction.expect(Self.lookups(["a", "b", "new"]))
        #expect(try transaction.record(named: "a", in: place.zone)?.record == Self.sample("a", 2))
        throw Refusal()
      }
      let next = shard.enqueue(expecting: { Self.lookups(["a", "b", "new"]) }) { transaction in
        try ["a", "b", "new"].map { try transaction.record(named: $0, in: place.zone)?.record }
      }
      try await gate.open()
      await #expect(throws: Refusal.self) { try await undone.value }
      #expect(try await next.value == [Self.sample("a"), Self.sample("b"), nil])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a name's presence is known without its record, in every state and behind every write`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Self.place(with: ["alive", "buried"], ofByteCount: 100_000, in: shard)
      try await shard.write { _ = try $0.delete("buried", in: place) }
      let names = ["alive", "buried", "unused"]
      let expected: [RecordPresence] = [.alive, .tombstone, .unused]
      #expect(
        try await shard.read { snapshot in try names.map { try snapshot.presence(of: $0, in: place.zone) } } == expected
      )
      // Announced as records, as presences, by the body itself, and not at all.
      let presences = names.map { ExpectedLookup.presence($0, zone: "notes", database: Self.id) }
      for (announced, asked) in [(Self.lookups(names), []), (presences, []), ([], presences), ([], [])] {
        let (seen, sizes) = try await shard.enqueue(expecting: { announced }) { transaction in
          try transaction.expect(asked)
          return (
            try names.map { try transaction.presence(of: $0, in: place.zone) },
            try names.map { try transaction.recordByteCount(of: $0, in: place.zone) }
          )
        }.value
        #expect(seen == expected)
        #expect((100_000...110_000).contains(sizes[0]) && sizes[1] < 1000 && sizes[2] == 0, "\(sizes)")
      }
      let changed = try await shard.enqueue(expecting: { presences }) { transaction in
        _ = try transaction.delete("alive", in: place)
        _ = try transaction.save(Self.sample("unused"), in: place)
        return try names.map { try transaction.presence(of: $0, in: place.zone) }
      }.value
      #expect(changed == [.tombstone, .tombstone, .alive])
      try await shard.write { try $0.deleteZone(place.zone) }
      #expect(try await shard.read { try $0.presence(of: "unused", in: place.zone) } == .unused)
    }
  }

  @Test func `presences that a body asks for cost one round trip, and none where the records are at hand`() async throws
  {
    try await withShard(.postgreSQL) { shard in
      let names = (0..<50).map { "\($0)" }
      let place = try await Self.place(with: names, ofByteCount: 10, in: shard)
      let before = try await Self.missCount(of: shard)
      for announced in [Self.lookups(names), []] {
        let count = try await shard.enqueue(expecting: { announced }) { transaction -> Int in
          guard case .postgreSQL(let session)? = (transaction as? SQLiteTransaction)?.session.connection else {
            return -1
          }
          let waits = session.waitCount
          try transaction.expect(names.map { .presence($0, zone: "notes", database: Self.id) })
          for name in names {
            #expect(try transaction.presence(of: name, in: place.zone) == .alive)
            #expect(try transaction.recordByteCount(of: name, in: place.zone) > 10)
          }
          return session.waitCount - waits
        }.value
        #expect(count == (announced.isEmpty ? 1 : 0))
      }
      #expect(try await Self.missCount(of: shard) == before)
    }
  }
}
