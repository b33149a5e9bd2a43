import CLinux
import Foundation
import InMemoryRecordStore
@testable import RecordStore
import Records
import SQLite
import Synchronization
import Testing

struct WriterConformanceTests {
  struct Stop: Error, Equatable {
    var number = 0
  }

  @Test(arguments: StoreKind.allCases) func `a body that throws leaves nothing of anything behind`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
      _ = try await shard.write { transaction in
        try transaction.save(Sample.note("kept"), in: place, references: [OutgoingReference(field: "x", target: "y")])
      }
      func state() async throws -> [String] {
        try await shard.read { snapshot in
          [
            "\(try snapshot.counts())", "\(try snapshot.changes(in: place.zone, after: 0, limit: 99))",
            "\(try snapshot.zones(in: place.database, after: 0, limit: 99))",
            "\(String(describing: try snapshot.database(key: place.database)))",
            "\(try snapshot.references(to: "y", in: place.zone))", "\(try snapshot.mirrors(afterKey: 0, limit: 99))",
            "\(try snapshot.transactions(of: mirror.key, after: 0, limit: 99))",
            "\(try snapshot.events(of: mirror.key, after: 0, kind: nil, limit: 99))",
            "\(String(describing: try snapshot.outcome(of: "key")))",
            "\(String(describing: try snapshot.database(Sample.database("new"))))",
          ]
        }
      }
      let before = try await state()
      for writesFirst in [false, true] {
        let gate = await Gate(kind, in: shard)
        // Once alone in its transaction, and once after another body that has written.
        let neighbour = writesFirst ? shard.enqueue { try $0.makeDatabase(Sample.database("neighbour")) } : nil
        let failing = shard.enqueue { transaction in
          let other = try transaction.makeDatabase(Sample.database("new"))
          let zone = try transaction.makeZone(named: "new", in: other.key)
          try transaction.save(Sample.note("new", type: "CD_New"), in: Place(database: other.key, zone: zone.key))
          try transaction.save(
            Sample.note("kept", title: "changed"), in: place, references: [OutgoingReference(field: "z", target: "y")])
          try transaction.save(Sample.note("more"), in: place)
          try transaction.append(HistoryConformanceTests.transaction(1), to: mirror.key)
          _ = try transaction.put(StoredEvent(identifier: "1", kind: .setup, startedAt: 1), of: mirror.key)
          try transaction.putOutcome([1], of: "key", at: 1)
          #expect(try transaction.mirrorsAwaitingExport(afterKey: 0, limit: 9) == [mirror.key])
          try transaction.deleteZone(place.zone)
          #expect(try transaction.counts().records == 1)
          throw Stop()
        }
        try await gate.open()
        await #expect(throws: Stop.self) { try await failing.value }
        if let neighbour {
          let kept = try await neighbour.value
          #expect(try await shard.read { try $0.database(Sample.database("neighbour")) } == kept)
        } else {
          #expect(try await state() == before)
        }
      }
      // Numbers taken by the failed bodies are given out again.
      #expect(try await shard.write { try $0.nextSequence(in: place.database) } == 3)
      try await shard.write { _ = try $0.save(Sample.note("new", type: "CD_New"), in: place) }
      #expect(try await shard.read { try $0.record(named: "new", in: place.zone)?.record.recordType } == "CD_New")
      #expect(
        try await shard.read { try $0.record(named: "kept", in: place.zone)?.record.fields.string("CD_title") }
          == "a title")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `bodies run in the order they were queued, and neighbours don't notice one that throws`(_ kind: StoreKind)
    async throws
  {
    var options = SQLiteRecordStore.Options()
    // All join the body of the gate.
    options.joinedRecordLimit = 1000
    try await withShard(kind, options: options) { shard in
      let place = try await Place(in: shard)
      let gate = await Gate(kind, in: shard)
      let pending = (0..<100).map { number in
        shard.enqueue { transaction in
          let stored = try transaction.save(Sample.note("\(number)"), in: place)
          if number % 7 == 3 { throw Stop(number: number) }
          return stored.sequence
        }
      }
      try await gate.open()
      var expected: Int64 = 1
      for (number, commit) in pending.enumerated() {
        if number % 7 == 3 {
          await #expect(throws: Stop(number: number)) { try await commit.value }
        } else {
          expected += 1
          #expect(try await commit.value == expected)
        }
      }
      let names = try await shard.read { try $0.changes(in: place.zone, after: 0, limit: 200).map(\.record.recordName) }
      #expect(names == (0..<100).filter { $0 % 7 != 3 }.map(String.init))
      if kind == .sqlite { #expect(shard.statistic("group_bodies_max") >= 100) }
      #expect(try await shard.read { try $0.zone(key: place.zone)?.sequence } == expected)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a body sees what earlier bodies of its group wrote`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let gate = await Gate(kind, in: shard)
      let first = shard.enqueue {
        try $0.save(Sample.note("1"), in: place, references: [OutgoingReference(field: "a", target: "b")])
      }
      let second = shard.enqueue { transaction in
        try (
          transaction.record(named: "1", in: place.zone), transaction.changes(in: place.zone, after: 0, limit: 9),
          transaction.references(to: "b", in: place.zone),
          transaction.zone(named: "notes", in: place.database)?.sequence
        )
      }
      try await gate.open()
      let stored = try await first.value
      let seen = try await second.value
      #expect(seen.0 == stored)
      #expect(seen.1 == [stored])
      #expect(seen.2.map(\.source) == ["1"])
      #expect(seen.3 == stored.sequence)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a read holds every commit acknowledged before it, and one state throughout`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          for number in 0..<200 {
            let stored = try await shard.write { try $0.save(Sample.note("\(number % 5)"), in: place) }
            let seen = try await shard.read { try $0.zone(key: place.zone)?.sequence }
            #expect(seen == stored.sequence)
          }
        }
        for _ in 0..<3 {
          group.addTask {
            for _ in 0..<100 {
              try await shard.read { (snapshot) throws in
                let zone = try snapshot.zone(key: place.zone)
                let changes = try snapshot.changes(in: place.zone, after: 0, limit: 99)
                #expect(changes.last?.sequence ?? 1 == zone?.sequence)
                #expect(try snapshot.counts().records == changes.count)
              }
            }
          }
        }
        try await group.waitForAll()
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `an error of a read's body reaches its caller`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { (shard) async throws in
      await #expect(throws: Stop(number: 3)) { _ = try await shard.read { _ -> Int in throw Stop(number: 3) } }
      #expect(try await shard.read { try $0.counts().records } == 0)
    }
  }

  @Test(arguments: StoreKind.allCases) func `everything is there after closing and opening again, at the next epoch`(
    _ kind: StoreKind
  ) async throws {
    let world = try World(kind)
    var shard = try await world.store.open(shard: 1)
    #expect(shard.shard == 1)
    #expect(shard.epoch == 1)
    let place = try await Place(in: shard)
    let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
    let stored = try await shard.write { transaction in
      try transaction.append(HistoryConformanceTests.transaction(1), to: mirror.key)
      try transaction.putOutcome([1], of: "key", at: 5)
      _ = try transaction.put(StoredEvent(identifier: "1", kind: .setup, startedAt: 1), of: mirror.key)
      return try transaction.save(Sample.note("1"), in: place, references: [OutgoingReference(field: "a", target: "b")])
    }
    await shard.close()
    await #expect(throws: StoreError.closed(shard: 1)) { try await shard.write { _ in } }
    await #expect(throws: StoreError.closed(shard: 1)) { try await shard.read { _ in } }
    await shard.close()

    shard = try await world.store.open(shard: 1)
    #expect(shard.epoch == 2)
    try await shard.read { (snapshot) throws in
      #expect(try snapshot.changes(in: place.zone, after: 0, limit: 9) == [stored])
      #expect(try snapshot.references(to: "b", in: place.zone).count == 1)
      #expect(try snapshot.transactions(of: mirror.key, after: 0, limit: 9) == [HistoryConformanceTests.transaction(1)])
      #expect(try snapshot.outcome(of: "key") == [1])
      #expect(try snapshot.counts() == ShardCounts(databases: 1, zones: 1, records: 1, mirrors: 1))
    }
    // Counters continue.
    let next = try await shard.write { transaction in
      (
        try transaction.nextSequence(in: place.database), try transaction.makeDatabase(Sample.database("eve")).key,
        try transaction.put(StoredEvent(identifier: "2", kind: .setup, startedAt: 1), of: mirror.key)
      )
    }
    #expect(next.0 == stored.sequence + 1)
    #expect(next.1 == mirror.key + 1)
    #expect(next.2 == 2)
    await shard.close()
  }

  @Test(arguments: StoreKind.allCases)
  func `a shard is opened by one at a time; who waits gets it next, or gives up when cancelled`(_ kind: StoreKind)
    async throws
  {
    let world = try World(kind)
    let first = try await world.store.open(shard: 0)
    let other = try await world.store.open(shard: 1)
    await other.close()
    let impatient = Task { try await world.store.open(shard: 0) }
    impatient.cancel()
    await #expect(throws: CancellationError.self) { _ = try await impatient.value }
    let patient = Task { try await world.store.open(shard: 0) }
    let place = try await Place(in: first)
    let last = first.enqueue { try $0.save(Sample.note("last"), in: place) }
    await first.close()
    let lastStored = try await last.value
    let second = try await patient.value
    #expect(second.epoch == first.epoch + 1)
    #expect(try await second.read { try $0.record(named: "last", in: place.zone) } == lastStored)
    await second.close()
    await #expect(throws: StoreError.self) { _ = try await world.store.open(shard: 2) }
    await #expect(throws: StoreError.self) { _ = try await world.store.open(shard: -1) }
  }

  @Test(arguments: StoreKind.allCases) func `an owner whose shard was taken over commits nothing more`(
    _ kind: StoreKind
  ) async throws {
    let world = try World(kind)
    let old = try await world.store.open(shard: 0)
    let place = try await Place(in: old)
    let stored = try await old.write { try $0.save(Sample.note("1"), in: place) }
    let gate = await Gate(kind, in: old)
    let late = (0..<3).map { number in old.enqueue { try $0.save(Sample.note("late \(number)"), in: place) } }
    // The gate's group began before the takeover and holds the file's write lock; the bodies behind it are in the same
    // group.
    try await gate.open()
    for commit in late { _ = try await commit.value }
    switch world.store {
    case let store as InMemoryRecordStore: _ = store.takeOver(shard: 0)
    case is PostgreSQLRecordStore:
      var configuration = try #require(world.postgreSQL)
      configuration.releaseLimit = .zero
      _ = try PostgreSQLTenure.takeOver(configuration, shard: 0, shardCount: 2, knownEpoch: 0)
    default:
      let connection = try Connection(exclusive: world.path + "/shard-0.sqlite", mode: .readWrite)
      try connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'epoch'")
      connection.close()
    }
    for number in 0..<3 {
      await #expect(throws: StoreError.fenced(shard: 0, epoch: 2)) {
        try await old.write { _ = try $0.save(Sample.note("fenced \(number)"), in: place) }
      }
    }
    #expect(try await old.read { try $0.changes(in: place.zone, after: stored.sequence, limit: 9) }.count == 3)
    await old.close()
  }

  @Test(arguments: StoreKind.allCases) func `many writers at once lose nothing and repeat no sequence`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let sequences = try await withThrowingTaskGroup(of: [Int64].self) { group in
        for writer in 0..<16 {
          group.addTask {
            var sequences: [Int64] = []
            for number in 0..<25 {
              sequences.append(
                try await shard.write {
                  try $0.save(Sample.note(Sample.uuid(writer * 100 + number)), in: place).sequence
                })
            }
            return sequences
          }
        }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      #expect(sequences.sorted() == Array(2...401))
      #expect(
        try await shard.read { try $0.changes(in: place.zone, after: 0, limit: 500).map(\.sequence) } == Array(2...401))
    }
  }

  @Test(arguments: [StoreKind.sqlite, .postgreSQL])
  func `bodies that come while a group runs join it once across a network, and wait for the next on a file`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let before = shard.statistic("commits_total")
      let late = Mutex<(any CommitOutcome<Void>)?>(nil)
      let gate = await Gate(kind, in: shard)
      let joining = shard.enqueue { _ in late.withLock { $0 = shard.enqueue { _ in } } }
      try await gate.open()
      try await joining.value
      try await late.withLock { $0 }?.value
      // The gate with the body behind it, or each of them alone; and the late one.
      #expect(shard.statistic("commits_total") == before + (kind == .postgreSQL ? 2 : 3))
    }
  }

  @Test func `a group that has written much is joined by none`() async throws {
    var options = SQLiteRecordStore.Options()
    options.joinedRecordLimit = 3
    try await withShard(.postgreSQL, options: options) { shard in
      let place = try await Place(in: shard)
      for count in 1...4 {
        let before = shard.statistic("commits_total")
        let late = Mutex<(any CommitOutcome<Void>)?>(nil)
        let large = shard.enqueue { transaction in
          for number in 0..<count { _ = try transaction.save(Sample.note("\(count)-\(number)"), in: place) }
          late.withLock { $0 = shard.enqueue { _ in } }
        }
        try await large.value
        try await late.withLock { $0 }?.value
        #expect(shard.statistic("commits_total") == before + (count < options.joinedRecordLimit ? 1 : 2))
      }
    }
  }

  @Test(arguments: [StoreKind.sqlite, .postgreSQL]) func `two bodies queued together share a commit, and fail alone`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      func queue(_ number: Int, failing: Int?) -> (PendingCommit<Int>, PendingCommit<Int>) {
        func body(_ part: Int) -> AnnouncedBody<Int> {
          AnnouncedBody(expecting: { [] }) { transaction in
            _ = try transaction.makeDatabase(Sample.database("\(number)-\(part)"))
            if failing == part { throw Stop(number: number) }
            return part
          }
        }
        return shard.turns(of: "ada").enqueue(body(0), followedBy: body(1))
      }
      // The writer sleeps when each pair arrives: it must not take the first body before the second is there.
      for number in 0..<200 {
        let before = shard.statistic("commits_total")
        let failing = number % 3 < 2 ? number % 3 : nil
        let (first, second) = queue(number, failing: failing)
        for (part, commit) in [first, second].enumerated() {
          let result: Result<Int, any Error>
          do { result = .success(try await commit.value) } catch { result = .failure(error) }
          switch result {
          case .success(let value): #expect(value == part && part != failing)
          case .failure(let error): #expect(error as? Stop == Stop(number: number) && part == failing)
          }
        }
        #expect(shard.statistic("commits_total") == before + 1)
      }
    }
  }
}
