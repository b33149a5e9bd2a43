import Foundation
import Records
import SQLite
import Synchronization
import Testing

@testable import RecordStore

/// Copies and checks of a whole shard finish under any load, and take no thread from users.
struct WholeReadTests {
  private final class Progress: Sendable {
    private let state = Mutex((runs: 0, mayEnd: false, isOver: false))
    var runs: Int { state.withLock(\.runs) }
    var mayEnd: Bool { state.withLock(\.mayEnd) }
    var isOver: Bool { state.withLock(\.isOver) }
    func begin() { state.withLock { $0.runs += 1 } }
    func end() { state.withLock { $0.mayEnd = true } }
    func finish() { state.withLock { $0.isOver = true } }
  }

  /// Reads until the test lets it end, or until it is cut short. Returns the number of records.
  private static func read(_ shard: any ShardStore, _ progress: Progress) async throws -> Int {
    defer { progress.finish() }
    let shard = try #require(shard as? SQLiteShardStore)
    return try await shard.readWhole { snapshot, _ in
      let count = try snapshot.counts().records
      progress.begin()
      while !progress.mayEnd, !snapshot.session.watch.isOver { usleep(500) }
      return count
    }
  }

  private static func begun(_ progress: Progress, _ count: Int) async throws {
    while progress.runs < count { try await Task.sleep(for: .milliseconds(1)) }
  }

  private static func options() -> SQLiteRecordStore.Options {
    var options = SQLiteRecordStore.Options()
    options.checkpointPages = 40
    options.longLogPages = 40
    // Long enough for a slow machine: a read that is cut short has ended by then.
    options.readerPatience = .milliseconds(200)
    return options
  }

  /// Writes about 250 pages.
  private static func save(_ shard: any ShardStore, _ place: Place) async throws {
    _ = try await shard.write {
      try $0.save(Sample.note("one", title: String(repeating: "x", count: 1_000_000)), in: place)
    }
  }

  @Test(.aheadOfOtherTests, .timeLimit(.minutes(2)))
  func `a read of the whole shard that was cut short twice comes to its end, however much is written`() async throws {
    try await withShard(.sqlite, options: Self.options()) { shard in
      let place = try await Place(in: shard)
      let progress = Progress()
      let reading = Task { try await Self.read(shard, progress) }
      try await Self.begun(progress, 1)
      // Twice the size at which other reads are cut short: only a whole read survives this.
      while !progress.isOver, shard.statistic("wal_bytes") < 32 * 40 * 4120 { try await Self.save(shard, place) }
      progress.end()
      #expect(try await reading.value == 1)
      // The log is restarted.
      let before = shard.statistic("wal_bytes")
      for _ in 0..<1000 where shard.statistic("wal_bytes") >= before { try await Self.save(shard, place) }
      #expect(shard.statistic("wal_bytes") < before)
    }
  }

  @Test(.aheadOfOtherTests, .timeLimit(.minutes(2)))
  func `a log that grows and grows ends such a read at last, and says why`() async throws {
    try await withShard(.sqlite, options: Self.options()) { shard in
      let place = try await Place(in: shard)
      let progress = Progress()
      let reading = Task { try await Self.read(shard, progress) }
      try await Self.begun(progress, 1)
      var highest = 0.0
      while !progress.isOver {
        highest = max(highest, shard.statistic("wal_bytes"))
        try await Self.save(shard, place)
      }
      await #expect(throws: StoreError.tooSlow(shard: 0)) { try await reading.value }
      // The size of the log before the save that ended the read, or two saves later: a checkpoint takes three.
      #expect(highest >= (64 * 40 - 300) * 4120 && highest < 90 * 40 * 4120)
    }
  }

  @Test func `long reads have their threads while a shard is copied and checked, and brief ones theirs`() async throws {
    var options = SQLiteRecordStore.Options()
    options.readerThreadCount = 1
    options.longReaderThreadCount = 1
    try await withShard(.sqlite, options: options) { shard in
      let store = try #require(shard as? SQLiteShardStore)
      let progress = Progress()
      async let first = Self.read(shard, progress)
      async let second = Self.read(shard, progress)
      try await Self.begun(progress, 2)
      #expect(try await store.read(within: .seconds(600), isLong: true) { try $0.counts().records } == 0)
      #expect(try await shard.read { try $0.counts().records } == 0)
      progress.end()
      let counts = try await [first, second]
      #expect(counts == [0, 0])
    }
  }

  @Test func `a read of the whole shard may pause for long, and the server does not end its session`() async throws {
    let world = try World(.postgreSQL)
    let shard = try #require(try await world.store.open(shard: 0) as? SQLiteShardStore)
    let limit = try await shard.readWhole { snapshot, _ in
      try snapshot.session.statement(
        SQL("limit", "SELECT current_setting('idle_in_transaction_session_timeout')")
      ).first { $0.text(0) }
    }
    #expect(limit == "2h")
    await shard.close()
  }

  @Test func `a read of the whole shard ends with whoever wanted it, and with the shard`() async throws {
    let world = try World(.sqlite)
    let shard = try await world.store.open(shard: 0)
    let progress = Progress()
    let unwanted = Task { try await Self.read(shard, progress) }
    try await Self.begun(progress, 1)
    unwanted.cancel()
    await #expect(throws: CancellationError.self) { try await unwanted.value }
    let closed = Task { try await Self.read(shard, progress) }
    try await Self.begun(progress, 2)
    await shard.close()
    await #expect(throws: StoreError.closed(shard: 0)) { try await closed.value }
  }
}
