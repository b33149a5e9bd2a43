import Dispatch
import Glibc
import Records
import Synchronization
import Testing

@testable import RecordStore

/// Fair turns: a crowd of one user does not hold up others at a shard's writer or reading threads. Counted, not timed.
@Suite(.aheadOfOtherTests, .timeLimit(.minutes(2))) struct TurnTests {
  /// The names of bodies and reads, in the order in which they ran.
  private final class Order: Sendable {
    private let names = Mutex<[String]>([])
    func note(_ name: String) { names.withLock { $0.append(name) } }
    var all: [String] { names.withLock { $0 } }
    /// The number of those that ran before the first of that name.
    func count(before name: String) -> Int? { all.firstIndex(of: name) }
  }

  @Test func `a save waits for one of a thousand that another user queued before it, and each user's keep their order`()
    async throws
  {
    try await withShard(.sqlite) { shard in
      let order = Order()
      let gate = await Gate(.sqlite, in: shard)
      let (flood, quiet) = (shard.turns(of: "flood"), shard.turns(of: "quiet"))
      var pending = (0..<1000).map { number in flood.enqueue { _ in order.note("flood \(number)") } }
      pending.append(quiet.enqueue { _ in order.note("quiet") })
      try await gate.open()
      for commit in pending { try await commit.value }
      #expect(order.count(before: "quiet") == 1)
      #expect(order.all.filter { $0 != "quiet" } == (0..<1000).map { "flood \($0)" })
    }
  }

  @Test func `a save that comes while a crowd of large ones is being written waits for the group under way only`()
    async throws
  {
    var options = SQLiteRecordStore.Options()
    options.groupRecordLimit = 10
    try await withShard(.sqlite, options: options) { shard in
      let place = try await Place(in: shard)
      let order = Order()
      let gate = await Gate(.sqlite, in: shard)
      let (flood, quiet) = (shard.turns(of: "flood"), shard.turns(of: "quiet"))
      let late = Mutex<(any CommitOutcome<Void>)?>(nil)
      let pending = (0..<300).map { number in
        flood.enqueue { transaction in
          order.note("flood")
          // Queued while the writer is busy and all of the flood waits.
          if number == 0 { late.withLock { $0 = quiet.enqueue { _ in order.note("quiet") } } }
          _ = try transaction.save(Sample.note("\(number)"), in: place)
        }
      }
      try await gate.open()
      for commit in pending { try await commit.value }
      try await late.withLock { $0 }?.value
      #expect(try #require(order.count(before: "quiet")) <= options.groupRecordLimit + 1)
      #expect(order.all.count == 301)
    }
  }

  @Test func `a user with the most waiting saves is refused, and nobody else is`() async throws {
    var options = SQLiteRecordStore.Options()
    options.partyQueueLimit = 3
    try await withShard(.sqlite, options: options) { shard in
      let gate = await Gate(.sqlite, in: shard)
      let flood = (0..<5).map { _ in shard.turns(of: "flood").enqueue { _ in } }
      let quiet = (0..<3).map { _ in shard.turns(of: "quiet").enqueue { _ in } }
      let server = (0..<5).map { _ in shard.enqueue { _ in } }
      for commit in flood.suffix(2) {
        await #expect(throws: StoreError.overloaded(shard: 0)) { try await commit.value }
      }
      #expect(shard.statistic("overloads_total") == 2)
      try await gate.open()
      for commit in flood.prefix(3) + quiet + server { try await commit.value }
    }
  }

  @Test func `a body that must be alone in its group is, with others before and behind it`() async throws {
    try await withShard(.sqlite) { shard in
      let before = shard.statistic("commits_total")
      let gate = await Gate(.sqlite, in: shard)
      let pending = [
        shard.turns(of: "a").enqueue { _ in 0 }, shard.collectAssets(orphanedBefore: 0, limit: 1),
        shard.turns(of: "b").enqueue { _ in 0 },
      ]
      try await gate.open()
      for commit in pending { _ = try await commit.value }
      // One commit for the gate, then one each.
      #expect(shard.statistic("commits_total") - before == 4)
    }
  }

  /// Holds threads of the store until it is opened for all.
  private final class Barrier: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    func wait() {
      semaphore.wait()
      semaphore.signal()
    }
    func open() { semaphore.signal() }
  }

  @Test func `a read waits for one of many that another user asked before it`() async throws {
    var options = SQLiteRecordStore.Options()
    options.readerThreadCount = 1
    // Long enough for a slow machine: no read is given up.
    options.readTime = .seconds(3600)
    try await withShard(.sqlite, options: options) { shard in
      let sqlite = try #require(shard as? SQLiteShardStore)
      let (barrier, order) = (Barrier(), Order())
      let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
      await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          try await shard.turns(of: "flood").read { _ in
            arrived.finish()
            barrier.wait()
          }
        }
        for await _ in arrivals {}
        for number in 1...20 {
          group.addTask { try await shard.turns(of: "flood").read { _ in order.note("flood") } }
          while sqlite.core.readers.waitingCount < number { await Task.yield() }
        }
        group.addTask { try await shard.turns(of: "quiet").read { _ in order.note("quiet") } }
        while sqlite.core.readers.waitingCount < 21 { await Task.yield() }
        barrier.open()
      }
      #expect(order.count(before: "quiet") == 1)
      #expect(order.all.count == 21)
    }
  }

  @Test(arguments: [(4, 2), (3, 1), (1, 1)])
  func `one user's reads take at most half of the threads, and others' reads begin at once`(
    threads: Int, most: Int
  ) async throws {
    var options = SQLiteRecordStore.Options()
    options.readerThreadCount = threads
    // Long enough for a slow machine: no read is given up or begins again.
    options.readTime = .seconds(3600)
    options.briefReadTime = .seconds(3600)
    try await withShard(.sqlite, options: options) { shard in
      let sqlite = try #require(shard as? SQLiteShardStore)
      let (barrier, began) = (Barrier(), Order())
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<8 {
          group.addTask {
            try await shard.turns(of: "flood").read { _ in
              began.note("flood")
              barrier.wait()
            }
          }
        }
        while began.all.count < most || sqlite.core.readers.waitingCount < 8 - most { await Task.yield() }
        if threads > most {
          // They are answered while the first reads of the flood still hold their threads.
          for _ in 0..<3 { try await shard.turns(of: "quiet").read { _ in began.note("quiet") } }
          #expect(began.all == Array(repeating: "flood", count: most) + ["quiet", "quiet", "quiet"])
        }
        barrier.open()
        try await group.waitForAll()
      }
      #expect(began.all.filter { $0 == "flood" }.count == 8)
    }
  }

  @Test func `threads for reads give way to the writer's`() async throws {
    try await withShard(.sqlite) { shard in
      let sqlite = try #require(shard as? SQLiteShardStore)
      @Sendable func niceness() -> Int32 { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }
      let writer = try await shard.write { _ in niceness() }
      #expect(try await shard.read { _ in niceness() } > writer)
      #expect(try await sqlite.read(within: .seconds(3600), isLong: true, of: "a") { _ in niceness() } > writer)
    }
  }

  @Test func `one user's long reads leave a thread to another's, and the server's own may have both`() async throws {
    try await withShard(.sqlite) { shard in
      let sqlite = try #require(shard as? SQLiteShardStore)
      func long(_ party: String, _ body: @escaping @Sendable () -> Void) async throws {
        try await sqlite.read(within: .seconds(3600), isLong: true, of: party) { _ in body() }
      }
      let (barrier, began) = (Barrier(), Order())
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<8 {
          group.addTask {
            try await long("flood") {
              began.note("flood")
              barrier.wait()
            }
          }
        }
        while began.all.isEmpty { await Task.yield() }
        // It is answered while the first read of the flood still holds its thread.
        for _ in 0..<3 { try await long("quiet") { began.note("quiet") } }
        #expect(began.all == ["flood", "quiet", "quiet", "quiet"])
        barrier.open()
        try await group.waitForAll()
      }
      #expect(began.all.count == 11)
      let (second, both) = (Barrier(), Order())
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<2 {
          group.addTask {
            try await long("") {
              both.note("server")
              second.wait()
            }
          }
        }
        while both.all.count < 2 { await Task.yield() }
        second.open()
        try await group.waitForAll()
      }
    }
  }
}
