import Dispatch
import Foundation
import Records
import SQLite
import Synchronization
import Testing

@testable import RecordStore

/// Guarantees of the SQLite store only: limits, checkpoints, its file.
struct SQLiteStoreTests {
  /// Blocks a thread of the store until the test opens it.
  struct Latch: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    func wait() { semaphore.wait() }
    func open() { semaphore.signal() }
  }

  @Test func `more bodies than the queue holds are refused at once, and the others are not harmed`() async throws {
    var options = SQLiteRecordStore.Options()
    options.queueLimit = 4
    try await withShard(.sqlite, options: options) { shard in
      let place = try await Place(in: shard)
      let gate = await Gate(.sqlite, in: shard)
      let pending = (0..<6).map { number in shard.enqueue { try $0.save(Sample.note("\(number)"), in: place).sequence }
      }
      #expect(shard.statistic("queue_length") == 4)
      for commit in pending.suffix(2) {
        await #expect(throws: StoreError.overloaded(shard: 0)) { try await commit.value }
      }
      try await gate.open()
      for commit in pending.prefix(4) { #expect(try await commit.value > 1) }
      #expect(shard.statistic("overloads_total") == 2)
      _ = try await shard.write { try $0.save(Sample.note("after"), in: place) }
      #expect(try await shard.read { try $0.counts().records } == 5)
    }
  }

  @Test func `how many writes a commit took, how long it and its sync took, and how long the file is can be read`()
    async throws
  {
    try await withShard(.sqlite) { shard in
      let place = try await Place(in: shard)
      func count(_ name: String) -> (values: UInt64, sum: Double) {
        let distribution = shard.distributions.first { $0.name == name }
        return (distribution?.counts.reduce(0, +) ?? 0, distribution?.sum ?? 0)
      }
      let before = (count("commit_bodies"), count("sync_duration_seconds"))
      let gate = await Gate(.sqlite, in: shard)
      let pending = (0..<7).map { number in shard.enqueue { try $0.save(Sample.note("\(number)"), in: place).sequence }
      }
      try await gate.open()
      for commit in pending { _ = try await commit.value }
      let bodies = count("commit_bodies")
      #expect(bodies.sum - before.0.sum >= 7)
      #expect(bodies.sum - before.0.sum > Double(bodies.values - before.0.values), "what waits is committed together")
      #expect(bodies.values == UInt64(shard.statistic("commits_total")))
      for name in ["commit_duration_seconds", "sync_duration_seconds"] { #expect(count(name).values == bodies.values) }
      #expect(count("sync_duration_seconds").sum > before.1.sum, "every commit is synced")
      #expect(count("sync_duration_seconds").sum < count("commit_duration_seconds").sum)
      #expect(shard.statistic("database_bytes") >= 4096)
    }
  }

  @Test(
    arguments: [
      ("1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF\n2: POSIX  ADVISORY  WRITE 5 08:01:131 0 EOF\n", 4711),
      ("1: POSIX  ADVISORY  WRITE 4711 08:01:131 0 EOF\n", nil),
      ("1: FLOCK  ADVISORY  WRITE 4711 08:01:1310 0 EOF\n", nil),
      ("1: -> FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF\n", nil),
      ("1: FLOCK  ADVISORY  WRITE 0 08:01:131 0 EOF\n", nil), ("1: FLOCK  ADVISORY  WRITE 4711 08:02:131 0 EOF\n", nil),
      ("", nil),
    ] as [(String, Int32?)])
  func `the holder of a lock is found among the kernel's locks`(locks: String, pid: Int32?) {
    #expect(ShardLock.holder(ofFile: ShardLock.name(device: 0x801, inode: 131), in: locks) == pid)
  }

  @Test func `operators see by name what each thread of a store is for`() async throws {
    try await withShard(.sqlite) { shard in
      _ = try await shard.read { try $0.counts() }
      var missing: Set = ["shard 0", "reads", "long reads", "whole reads", "writeback"]
      // Threads get their names when they begin.
      for _ in 0..<500 where !missing.isEmpty {
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task") {
          // Dropped because a thread may end during the look.
          guard let name = try? String(contentsOfFile: "/proc/self/task/\(thread)/comm", encoding: .utf8) else {
            continue
          }
          missing.remove(name.trimmingCharacters(in: .newlines))
        }
        try await Task.sleep(for: .milliseconds(10))
      }
      #expect(missing == [])
    }
  }

  @Test func `another process that has a shard is named`() async throws {
    let folder = try TemporaryFolder()
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: folder.path), shardCount: 1)
    #expect(store.holder(ofShard: 0) == nil)
    let path = folder.path + "/shard-0.lock"
    let flock = Process()
    flock.executableURL = URL(filePath: "/usr/bin/flock")
    // It reads input that never comes, so it holds the lock until the test closes the pipe.
    let input = Pipe()
    flock.arguments = ["--no-fork", path, "cat"]
    flock.standardInput = input
    try flock.run()
    defer {
      kill(flock.processIdentifier, SIGKILL)
      flock.waitUntilExit()
    }
    while store.holder(ofShard: 0) == nil, flock.isRunning { try await Task.sleep(for: .milliseconds(5)) }
    #expect(store.holder(ofShard: 0) == "process \(flock.processIdentifier)")
  }

  @Test func `more reads than may wait are refused at once`() async throws {
    var options = SQLiteRecordStore.Options()
    options.readerThreadCount = 1
    options.readLimit = 1
    try await withShard(.sqlite, options: options) { (shard) async throws in
      let latch = Latch()
      let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
      async let blocked = shard.read { _ in
        arrived.finish()
        latch.wait()
        return 1
      }
      for await _ in arrivals {}
      // Only one may wait: of two, one is refused.
      let outcomes = await withTaskGroup(of: Bool.self) { group in
        for _ in 0..<2 {
          group.addTask {
            do {
              return try await shard.read { _ in true }
            } catch {
              #expect(error as? StoreError == .overloaded(shard: 0))
              latch.open()
              return false
            }
          }
        }
        return await group.reduce(into: []) { $0.append($1) }
      }
      #expect(outcomes.sorted { !$0 && $1 } == [false, true])
      let value = try await blocked
      #expect(value == 1)
    }
  }

  /// A read that looks at the database until the test lets it end.
  private func endlessRead(_ shard: any ShardStore, _ zone: Int64, runs: Counter, until mayEnd: Flag) async throws
    -> Int
  {
    try await shard.read { snapshot in
      runs.increment()
      while !mayEnd.isRaised { _ = try snapshot.records(ofType: "Note", in: zone, afterName: nil, limit: 100) }
      return runs.count
    }
  }

  private final class Flag: Sendable {
    private let raised = Atomic(false)
    var isRaised: Bool { raised.load(ordering: .acquiring) }
    func raise() { raised.store(true, ordering: .releasing) }
  }

  private final class Counter: Sendable {
    private let value = Atomic(0)
    var count: Int { value.load(ordering: .relaxed) }
    func increment() { value.add(1, ordering: .relaxed) }
  }

  @Test func `a long read is begun anew where it holds up no others`() async throws {
    var options = SQLiteRecordStore.Options()
    options.readerThreadCount = 1
    options.longReaderThreadCount = 1
    options.briefReadTime = .milliseconds(5)
    try await withShard(.sqlite, options: options) { shard in
      let place = try await Place(in: shard)
      for number in 0..<100 { _ = try await shard.write { try $0.save(Sample.note("\(number)"), in: place) } }
      let (runs, mayEnd) = (Counter(), Flag())
      async let long = endlessRead(shard, place.zone, runs: runs, until: mayEnd)
      // There is one thread for brief reads. It answers this one because the long read has moved to another thread.
      while runs.count < 2 { #expect(try await shard.read { try $0.counts().records } == 100) }
      mayEnd.raise()
      let count = try await long
      #expect(count == 2)
      #expect(shard.statistic("reads_long_total") >= 1)
      #expect(shard.statistic("reads_given_up_total") == 0)
    }
  }

  @Test func `a read that goes on and on is begun anew when the log has grown too long`() async throws {
    var options = SQLiteRecordStore.Options()
    options.checkpointPages = 40
    options.longLogPages = 40
    // Long enough for a slow machine: the read ends before it would be given up.
    options.readerPatience = .milliseconds(200)
    options.readTime = .seconds(3600)
    try await withShard(.sqlite, options: options) { shard in
      let place = try await Place(in: shard)
      let (runs, mayEnd) = (Counter(), Flag())
      async let long = endlessRead(shard, place.zone, runs: runs, until: mayEnd)
      while runs.count < 1 { try await Task.sleep(for: .milliseconds(1)) }
      var number = 0
      while runs.count < 2 {
        number += 1
        _ = try await shard.write { [number] in
          try $0.save(Sample.note("\(number % 10)", title: String(repeating: "x", count: 100_000)), in: place)
        }
      }
      mayEnd.raise()
      let count = try await long
      #expect(count >= 2)
      #expect(shard.statistic("reads_given_up_total") == 0)
      // No other read needed its thread, so it does not count as a long read.
      #expect(shard.statistic("reads_long_total") == 0)
    }
  }

  @Test func `a read without end is given up, by its time or when the shard closes`() async throws {
    var options = SQLiteRecordStore.Options()
    options.briefReadTime = .milliseconds(5)
    options.readTime = .milliseconds(300)
    try await withShard(.sqlite, options: options) { shard in
      let place = try await Place(in: shard)
      for number in 0..<100 { _ = try await shard.write { try $0.save(Sample.note("\(number)"), in: place) } }
      await #expect(throws: StoreError.tooSlow(shard: 0)) {
        try await endlessRead(shard, place.zone, runs: Counter(), until: Flag())
      }
      #expect(shard.statistic("reads_given_up_total") == 1)
      #expect(try await shard.read { try $0.counts().records } == 100)
    }
    options.readTime = .seconds(3600)
    let world = try World(.sqlite, options: options)
    let shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    for number in 0..<100 { _ = try await shard.write { try $0.save(Sample.note("\(number)"), in: place) } }
    let runs = Counter()
    let endless = Task { try await endlessRead(shard, place.zone, runs: runs, until: Flag()) }
    while runs.count < 1 { try await Task.sleep(for: .milliseconds(1)) }
    await shard.close()
    await #expect(throws: StoreError.closed(shard: 0)) { try await endless.value }
  }

  @Test func `the writer checkpoints between groups, and the log does not grow without end`() async throws {
    var options = SQLiteRecordStore.Options()
    options.checkpointPages = 50
    let world = try World(.sqlite, options: options)
    let shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    for number in 0..<400 {
      _ = try await shard.write {
        try $0.save(Sample.note("\(number % 20)", title: String(repeating: "x", count: 3000)), in: place)
      }
    }
    #expect(shard.statistic("checkpoints_total") >= 5)
    #expect(shard.statistic("checkpoints_exclusive_total") == 0)
    #expect(shard.statistic("wal_bytes") < 150 * 4120)
    #expect(shard.statistic("commits_total") == 401)
    #expect(shard.statistic("bodies_total") == 401)
    #expect(shard.statistic("records_written_total") == 400)
    #expect(shard.statistic("commit_seconds_total") > 0)
    await shard.close()
    let size = try FileManager.default.attributesOfItem(atPath: world.path + "/shard-0.sqlite-wal")[.size] as? Int
    #expect(size == 0)
  }

  @Test func `a long read holds up no save, and when it has ended the log begins anew`() async throws {
    var options = SQLiteRecordStore.Options()
    // Reads are asked to wait at four times this number, which is more than the creation of the tables leaves in the
    // log.
    options.checkpointPages = 40
    options.longLogPages = 40
    try await withShard(.sqlite, options: options) { shard in
      let place = try await Place(in: shard)
      let latch = Latch()
      let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
      async let long = shard.read { snapshot in
        let before = try snapshot.counts().records
        arrived.finish()
        latch.wait()
        return (before, try snapshot.counts().records)
      }
      for await _ in arrivals {}
      // Without the checkpoints during the creation of the tables.
      let before = shard.statistic("checkpoints_exclusive_total")
      var number = 0
      // More than half of the 40 pages after which a checkpoint is due.
      func save() async throws {
        number += 1
        _ = try await shard.write { [number] in
          try $0.save(Sample.note("\(number)", title: String(repeating: "x", count: 100_000)), in: place)
        }
      }
      while shard.statistic("wal_bytes") < 300 * 4120 { try await save() }
      #expect(try await shard.read { try $0.counts().records } == number)
      #expect(shard.statistic("checkpoints_exclusive_total") == before)
      latch.open()
      #expect(try await long == (0, 0))
      // The reader's transaction ends a moment after its answer.
      let savedMeanwhile = number
      while shard.statistic("checkpoints_exclusive_total") == before, number < savedMeanwhile + 100 { try await save() }
      #expect(shard.statistic("checkpoints_exclusive_total") == before + 1)
      #expect(shard.statistic("wal_bytes") < 200 * 4120)
      #expect(try await shard.read { try $0.counts().records } == number)
    }
  }

  @Test func `reads that overlap without end are held up for a moment, so that the log begins anew`() async throws {
    var options = SQLiteRecordStore.Options()
    options.checkpointPages = 20
    options.longLogPages = 20
    // Long enough for a slow machine: each read ends by itself.
    options.readerPatience = .seconds(60)
    try await withShard(.sqlite, options: options) { shard in
      let place = try await Place(in: shard)
      try await withThrowingTaskGroup { group in
        for reader in 0..<3 {
          group.addTask {
            var counts: [Int] = []
            while !Task.isCancelled {
              counts.append(
                try await shard.read { snapshot in
                  usleep(3000 + UInt32(reader) * 1000)
                  return try snapshot.counts().records
                })
            }
            #expect(counts == counts.sorted())
          }
        }
        // Without the checkpoints during the creation of the tables.
        let before = shard.statistic("checkpoints_exclusive_total")
        var number = 0
        while shard.statistic("checkpoints_exclusive_total") < before + 2 {
          number += 1
          _ = try await shard.write { [number] in
            try $0.save(Sample.note("\(number)", title: String(repeating: "x", count: 100_000)), in: place)
          }
          #expect(shard.statistic("wal_bytes") < 300 * 4120)
        }
        group.cancelAll()
        try await group.waitForAll()
        #expect(try await shard.read { try $0.counts().records } == number)
      }
    }
  }

  @Test func `rows of a deleted zone are removed a slice at a time, also by the next owner`() async throws {
    var options = SQLiteRecordStore.Options()
    options.sweepLimit = 7
    let world = try World(.sqlite, options: options)
    var shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    try await shard.write { transaction in
      for number in 0..<100 {
        try transaction.save(
          Sample.note(Sample.uuid(number)), in: place, references: [OutgoingReference(field: "CD_a", target: "b")])
      }
    }
    try await shard.write { try $0.deleteZone(place.zone) }
    await shard.close()
    func rows() throws -> [Int64] {
      let connection = try Connection(exclusive: world.path + "/shard-0.sqlite", mode: .readOnly)
      defer { connection.close() }
      return try ["record", "reference", "doomed"].map { table in
        try #require(try connection.statement(SQL(table, "SELECT count(*) FROM \(table)")).first { $0.int64(0) })
      }
    }
    shard = try await world.store.open(shard: 0)
    while try rows() != [0, 0, 0] { await Task.yield() }
    let store = try #require(shard as? SQLiteShardStore)
    #expect(try await store.verify() == VerificationReport())
    await shard.close()
  }

  @Test func `letting go of a shard closes it, after what was queued`() async throws {
    let world = try World(.sqlite)
    var shard: (any ShardStore)? = try await world.store.open(shard: 0)
    let pending = shard?.enqueue { try $0.makeDatabase(Sample.database("ada")).key }
    shard = nil
    let next = try await world.store.open(shard: 0)
    #expect(try await pending?.value == 1)
    #expect(try await next.read { try $0.database(Sample.database("ada"))?.key } == 1)
    await next.close()
  }
}
