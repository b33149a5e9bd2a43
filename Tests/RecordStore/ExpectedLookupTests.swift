import PostgreSQL
import Records
import Sharing
import Testing

@testable import RecordStore

/// Announced look-ups: fetched together where they cost a round trip, counted where nobody announced them.
struct ExpectedLookupTests {
  private static let id = Sample.database("ada")

  /// Saves records and an outcome, as requests do.
  private static func save(_ names: [String], _ key: String, in place: Place, _ transaction: any ShardTransaction)
    throws
  {
    guard try transaction.outcome(of: key) == nil else { return }
    for name in names { try transaction.save(Sample.note(name), in: place) }
    try transaction.putOutcome([1], of: key, at: 1000)
  }

  private static func lookups(_ names: [String], _ key: String) -> [ExpectedLookup] {
    [.outcome(key)] + names.map { .record($0, zone: "notes", database: id) }
  }

  @Test func `bodies that announce their look-ups cost none of their own, and others are counted`() async throws {
    try await withShard(.postgreSQL) { shard in
      let place = try await Place(in: shard)
      // The first body learns symbols and gets keys for records.
      try await shard.write { try Self.save(["first"], "r0", in: place, $0) }
      let before = shard.statistic("unexpected_lookups_total")
      let gate = await Gate(.postgreSQL, in: shard)
      let pending = (1...100).map { number in
        let names = ["\(number)", Sample.uuid(number)]
        return shard.enqueue(expecting: { Self.lookups(names, "r\(number)") }) {
          try Self.save(names, "r\(number)", in: place, $0)
        }
      }
      try await gate.open()
      for commit in pending { try await commit.value }
      #expect(shard.statistic("unexpected_lookups_total") == before)
      #expect(try await shard.read { try $0.counts().records } == 201)
      try await shard.write { try Self.save(["last"], "r101", in: place, $0) }
      #expect(shard.statistic("unexpected_lookups_total") == before + 3, "the outcome twice, and the record")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `each body gets the rows that it announced, among those of others and missing ones`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let names = (0..<90).map { $0 % 3 == 0 ? Sample.uuid($0) : "\($0)" }
      let saved = names.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
      try await shard.write { try Self.save(saved, "r0", in: place, $0) }
      let gate = await Gate(kind, in: shard)
      let pending = names.indices.map { index in
        // Neighbours announce records of each other.
        let own = [names[index], names[(index + 7) % names.count], "none \(index)"]
        return shard.enqueue(expecting: { Self.lookups(own, index % 5 == 0 ? "r0" : "r\(index)") }) { transaction in
          let found = try own.map { try transaction.record(named: $0, in: place.zone)?.record.recordName }
          let isAnswered = try transaction.outcome(of: index % 5 == 0 ? "r0" : "r\(index)") == [1]
          return (found, isAnswered)
        }
      }
      try await gate.open()
      for (index, commit) in pending.enumerated() {
        let (found, isAnswered) = try await commit.value
        let expected = [names[index], names[(index + 7) % names.count]].map { saved.contains($0) ? $0 : nil }
        #expect(found == expected + [nil] && isAnswered == (index % 5 == 0))
      }
    }
  }

  @Test func `transactions that are announced are appended without a look-up of their own`() async throws {
    try await withShard(.postgreSQL) { shard in
      let place = try await Place(in: shard)
      let mirror = try await shard.write {
        try $0.makeMirror(
          "store", in: place.database, userRecordName: "ada", scope: .private, modelHash: "", configuration: nil,
          deviceName: nil, createdAt: 0
        ).key
      }
      let before = shard.statistic("unexpected_lookups_total")
      for number in 1...3 {
        let id = Sample.uuid(number)
        try await shard.enqueue(expecting: { [.transaction(id, mirror: mirror)] }) { transaction in
          #expect(try transaction.transactionNumber(of: id, in: mirror) == nil)
          try transaction.append(
            HistoryConformanceTests.transaction(Int64(number), id: id, payload: [1]), to: mirror)
          #expect(try transaction.transactionNumber(of: id, in: mirror) == Int64(number), "it sees its own write")
        }.value
      }
      // Each body looked its own transaction up behind the write.
      #expect(shard.statistic("unexpected_lookups_total") == before + 3)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a body sees what the bodies before it in the group wrote, though both announced it`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let gate = await Gate(kind, in: shard)
      let lookups = { @Sendable in Self.lookups(["a"], "r") }
      let first = shard.enqueue(expecting: lookups) { try Self.save(["a"], "r", in: place, $0) }
      let second = shard.enqueue(expecting: lookups) { transaction -> [Bool] in
        let found = try [transaction.record(named: "a", in: place.zone) != nil, transaction.outcome(of: "r") != nil]
        try transaction.delete("a", in: place)
        return found
      }
      let third = shard.enqueue(expecting: lookups) { try $0.record(named: "a", in: place.zone)?.isDeleted }
      try await gate.open()
      try await first.value
      #expect(try await second.value == [true, true])
      #expect(try await third.value == true)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `zones, shares and accesses are as the bodies before have left them, though all announced them`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      // A database with shares.
      try await shard.write { try $0.put(SharingConformanceTests.share("first"), in: place.zone) }
      let lookups: [ExpectedLookup] = [
        .zone("new", database: Self.id), .liveZoneCount(Self.id), .share("S", zone: "notes", database: Self.id),
        .shareOfRoot("r", zone: "notes", database: Self.id), .members("bob", zone: "notes", database: Self.id),
        .shortGUID("0short"), .zone("none", database: Sample.database("none")),
        .liveZoneCount(Sample.database("none")), .members("bob", zone: "notes", database: Sample.database("none")),
        .share("S", zone: "none", database: Self.id),
      ]
      var root = Sample.note("r")
      root.shortGUID = "0short"
      let (record, member) = (root, SharingConformanceTests.member("bob", share: "S", since: 2))
      let steps: [@Sendable (any ShardTransaction) throws -> Void] = [
        { _ = try $0.makeZone(named: "new", in: place.database) },
        { try $0.put(SharingConformanceTests.share("S", root: "r"), in: place.zone) },
        { try $0.put(member, of: place.database) },
        { try $0.save(record, in: place) },
        { try $0.save(record, in: place) },
        { transaction in
          let zone = try transaction.zone(named: "new", in: place.database)
          if let zone { try transaction.deleteZone(zone.key) }
        },
        { _ = try $0.makeZone(named: "new", in: place.database) },
      ]
      let gate = await Gate(kind, in: shard)
      let pending = steps.map { step in
        shard.enqueue(expecting: { lookups }) { transaction in
          let before = try Self.sight(of: place, transaction)
          try step(transaction)
          return (before: before, after: try Self.sight(of: place, transaction))
        }
      }
      try await gate.open()
      var last = ["nil", "1", "nil", "nil", "0", "nil"]
      for (number, commit) in pending.enumerated() {
        let seen = try await commit.value
        #expect(seen.before == last && seen.after != seen.before, "\(number)")
        last = seen.after
      }
      #expect(Array(last[0...4]) == ["false", "2", "S", "S", "1"])
    }
  }

  @Test func `accesses that a body expects cost one round trip, though it writes them one after the other`()
    async throws
  {
    try await withShard(.postgreSQL) { shard in
      let place = try await Place(in: shard)
      let users = (0..<9).map { "user \($0)" }
      try await shard.write { transaction in
        try transaction.put(SharingConformanceTests.share("S"), in: place.zone)
        for user in users.prefix(6) {
          try transaction.put(SharingConformanceTests.member(user, share: "S", since: 2), of: place.database)
        }
      }
      let before = shard.statistic("unexpected_lookups_total")
      let waitCount = try await shard.write { transaction in
        guard case .postgreSQL(let session)? = (transaction as? SQLiteTransaction)?.session.connection else {
          return -1
        }
        let waits = session.waitCount
        try transaction.expect(users.map { .members($0, zone: "notes", database: Self.id) })
        for (number, user) in users.enumerated() {
          let earlier = try transaction.members(user, inZone: "notes", of: place.database)
          #expect(earlier.map(\.until) == (number < 6 ? [nil] : []))
          let ended = SharingConformanceTests.member(user, share: "S", since: 2, until: 3)
          try transaction.put(ended, of: place.database)
        }
        let count = session.waitCount - waits
        for user in users {
          #expect(try transaction.members(user, inZone: "notes", of: place.database).map(\.until) == [3])
        }
        return count
      }
      #expect(waitCount == 1)
      // Each access was looked up once more behind its write.
      #expect(shard.statistic("unexpected_lookups_total") == before + Double(users.count))
    }
  }

  /// What a body sees of the place.
  private static func sight(of place: Place, _ transaction: any ShardTransaction) throws -> [String] {
    [
      try transaction.zone(named: "new", in: place.database).map { "\($0.isDeleted)" } ?? "nil",
      "\(try transaction.liveZoneCount(in: place.database))",
      try transaction.share(named: "S", in: place.zone)?.name ?? "nil",
      try transaction.share(ofRoot: "r", in: place.zone)?.name ?? "nil",
      "\(try transaction.members("bob", inZone: "notes", of: place.database).count)",
      try transaction.record(withShortGUID: "0short").map { "\($0.record.sequence)" } ?? "nil",
    ]
  }

  @Test(arguments: StoreKind.queued)
  func `an announcement that the server can't take harms no body`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let gate = await Gate(kind, in: shard)
      let wrong = shard.enqueue(expecting: { [.record("a", zone: "no\0tes", database: Self.id)] }) {
        try Self.save(["a"], "r1", in: place, $0)
      }
      let other = shard.enqueue { try Self.save(["b"], "r2", in: place, $0) }
      try await gate.open()
      try await wrong.value
      try await other.value
      #expect(try await shard.read { try $0.counts().records } == 2)
    }
  }

  /// The names that a read of changes gets, which has announced something before.
  private static func names(_ lookups: [ExpectedLookup], limit: Int, in shard: any ShardStore) async throws
    -> [String]
  {
    try await shard.read { snapshot in
      try snapshot.expect(lookups)
      guard let database = try snapshot.database(id),
        let zone = try snapshot.zone(named: "notes", in: database.key), !zone.isDeleted
      else { return [] }
      return try snapshot.changes(in: zone.key, after: 0, limit: limit).map(\.record.recordName)
    }
  }

  private static func changes(_ zone: String = "notes", of owner: String = "ada", limit: Int = 2) -> ExpectedLookup {
    .changes(zone: zone, database: Sample.database(owner), after: 0, limit: limit)
  }

  @Test(arguments: StoreKind.allCases)
  func `a read sees the present state, whatever it has announced`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let right = [Self.changes(), .record("1", zone: "notes", database: Self.id)]
      #expect(try await Self.names(right, limit: 2, in: shard) == [])
      var place = try await Place(in: shard)
      for life in 0..<3 {
        for number in 0..<4 {
          let name = "\(life).\(number)"
          try await shard.write { [place] in _ = try $0.save(Sample.note(name), in: place) }
          let expected = (0...number).map { "\(life).\($0)" }
          for lookups in [
            right, [], [Self.changes(limit: 1)], [Self.changes("none")], [Self.changes(of: "bob")],
            [Self.changes("no\0tes")], right + right,
          ] {
            #expect(try await Self.names(lookups, limit: 2, in: shard) == Array(expected.prefix(2)))
          }
        }
        // The zone of the next life has another key.
        try await shard.write { [place] in try $0.deleteZone(place.zone) }
        #expect(try await Self.names(right, limit: 2, in: shard) == [])
        place = Place(
          database: place.database,
          zone: try await shard.write { [place] in try $0.makeZone(named: "notes", in: place.database).key })
      }
    }
  }

  @Test func `a read that has announced its look-ups waits once for all of them`() async throws {
    var options = StoreOptions()
    // So that all reads have one session.
    options.readerThreadCount = 1
    try await withShard(.postgreSQL, options: options) { shard in
      let place = try await Place(in: shard)
      try await shard.write { try Self.save(["a", "b", "c"], "r", in: place, $0) }
      #expect(try await Self.names([Self.changes()], limit: 2, in: shard) == ["a", "b"])
      let before = try await shard.readerWaitCount()
      #expect(try await Self.names([Self.changes()], limit: 2, in: shard) == ["a", "b"])
      #expect(try await shard.readerWaitCount() == before + 2, "one is that of the count before")
      #expect(try await Self.names([], limit: 2, in: shard) == ["a", "b"])
      #expect(try await shard.readerWaitCount() == before + 7)
      // What a read has announced and not looked up is no matter of the next one's.
      try await shard.read { try $0.expect([Self.changes()]) }
      #expect(try await Self.names([], limit: 3, in: shard) == ["a", "b", "c"])
    }
  }

  @Test func `databases and zones that memory lacks are fetched, and may be missing`() async throws {
    let world = try World(.postgreSQL)
    var shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    try await shard.write { try Self.save(["a"], "r0", in: place, $0) }
    await shard.close()
    shard = try await world.store.open(shard: 0)
    let lookups: [ExpectedLookup] = [
      .record("a", zone: "notes", database: Self.id), .record("b", zone: "notes", database: Self.id),
      .record("a", zone: "none", database: Self.id), .record("a", zone: "notes", database: Sample.database("bob")),
    ]
    let found = try await shard.enqueue(expecting: { lookups }) { transaction -> [Bool] in
      let database = try transaction.database(Self.id)?.key ?? 0
      let zone = try transaction.zone(named: "notes", in: database)?.key ?? 0
      return try [
        transaction.record(named: "a", in: zone) != nil, transaction.record(named: "b", in: zone) != nil,
        transaction.zone(named: "none", in: database) != nil, transaction.database(Sample.database("bob")) != nil,
      ]
    }.value
    #expect(found == [true, false, false, false])
    // The texts of the record's symbols are read one by one.
    #expect(shard.statistic("unexpected_lookups_total") <= 2)
    await shard.close()
  }
}

extension ShardStore {
  /// How often the idle session for reads on PostgreSQL has waited for its server. The count itself waits once more.
  fileprivate func readerWaitCount() async throws -> Int {
    try await read { snapshot in
      guard case .postgreSQL(let session) = (snapshot as? SQLiteSnapshot)?.session.connection else { return 0 }
      return session.waitCount
    }
  }
}
