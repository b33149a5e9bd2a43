import Assets
import Crypto
import Foundation
import InMemoryRecordStore
import PostgreSQL
import Records
import SQLite
import Synchronization
import Testing

@testable import RecordStore

/// Moves of shards between files and PostgreSQL: nothing is lost or changed, and a shard never has two owners.
struct MigrationTests {
  @Test(arguments: [1, 2] as [UInt64])
  func `a store that moves to PostgreSQL and back stays the same as one that stays`(_ seed: UInt64) async throws {
    var generator = SeededGenerator(seed: seed)
    let places = try Places()
    let (incarnations, oracleIncarnations) = (Counter(1000), Counter(1000))
    let oracle = try await InMemoryRecordStore(
      shardCount: 2, makeIncarnation: { oracleIncarnations.next() }, now: { 1000 }, keepsPastStates: true
    ).open(shard: 0)
    var step: Int64 = 0
    for isInDatabase in [false, true, false, true] {
      if step > 0 {
        #expect(try await places.migration(toDatabase: isInDatabase).run().moved == 1)
        #expect(try await places.migration(toDatabase: isInDatabase).run() == StoreMigration.Tally(present: 1))
      }
      let store = try places.store(isInDatabase: isInDatabase) { incarnations.next() }
      let shard = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
      #expect(try await Self.state(of: shard) == Self.state(of: oracle))
      for _ in 0..<100 {
        step += 1
        let script = Script(using: &generator, at: step)
        var outcomes: [String] = []
        for shard in [oracle, shard] as [any ShardStore] {
          outcomes.append("\(await Result { try await shard.write { try script.run(in: $0) } })")
        }
        try #require(outcomes[0] == outcomes[1], "seed \(seed), step \(step), \(script.steps)")
      }
      for shard in [oracle, shard] as [any ShardStore] { try await shard.settleIndexes() }
      #expect(try await Self.state(of: shard) == Self.state(of: oracle))
      #expect(try await shard.verify().problems == [])
      await shard.close()
    }
    await oracle.close()
  }

  @Test func `rows of every table with extreme values go to PostgreSQL and come back`() async throws {
    let places = try Places()
    await (try await places.store(isInDatabase: false).open(shard: 0)).close()
    let path = places.files.path(ofShard: 0)
    let file = try Connection(path: path, mode: .readWrite)
    // Rows of the others begin background work, which changes them before they are copied.
    let others = ["doomed", "fieldindex", "sealing_key", "unplaced"]
    for table in try StoredTable.all() where !others.contains(table.name) {
      let nullable = try file.statement(SQL("nullable", "SELECT name FROM pragma_table_info(?1) WHERE \"notnull\" = 0"))
        .binding(table.name).all { $0.text(0).lowercased() }
      for number in 0..<4 {
        let values = table.columns.enumerated().map { place, column in
          let isNull = number == 3 && nullable.contains(column.name) && !table.key.contains(column.name)
          return isNull ? "NULL" : Self.extreme(column, number, place)
        }
        try file.execute("INSERT INTO \(table.name) VALUES (\(values.joined(separator: ", ")))")
      }
    }
    let before = try Self.rows(of: file)
    file.close()
    #expect(try await places.migration(toDatabase: true).run().rows == before.count)
    #expect(try await places.migration(toDatabase: false).run().rows == before.count)
    let back = try Connection(path: path, mode: .readOnly)
    #expect(try Self.rows(of: back) == before)
    back.close()
  }

  /// A literal that is unique in its column.
  private static func extreme(_ column: (name: String, kind: StoredTable.Kind), _ number: Int, _ place: Int) -> String {
    switch (column.kind, number) {
    case (.integer, _) where ["id", "state", "placed"].contains(column.name): "\(number + 1)"
    case (.integer, 0): "\(Int64.min + Int64(place))"
    case (.integer, 1): "\(Int64.max - Int64(place))"
    case (.integer, _): "\(number - 2)"
    case (.text, 0), (.recordName, 0): "''"
    case (.text, _): "'\u{e9}\u{1f600}''\(number)'"
    case (.recordName, 1): "x'\(Hex.encode([UInt8](repeating: 0xab, count: 16)))'"
    case (.recordName, _): "'\u{ffff}name \(number)'"
    case (.bytes, 0): "x''"
    case (.bytes, _): "x'00ff0\(number)'"
    }
  }

  /// All rows as SQLite quotes them, each after the name of its table.
  private static func rows(of file: Connection) throws -> [String] {
    try StoredTable.all().flatMap { table in
      let columns = table.columns.map { "quote(\"\($0.name)\")" }.joined(separator: " || ',' || ")
      return try file.statement(SQL(table.name, "SELECT \(columns) FROM \(table.name) ORDER BY 1")).all {
        table.name + " " + $0.text(0)
      }
    }
  }

  @Test func `a single shard that a database has lost comes from restored files, and the others stay`() async throws {
    let places = try Places()
    for isInDatabase in [true, false] {
      for shard in 0..<2 {
        await (try await places.store(isInDatabase: isInDatabase).open(shard: shard)).close()
      }
    }
    let lost = places.database.schema(ofShard: 1)
    let session = try Session(places.database.session(ofShard: 1))
    try session.transaction { _ = try session.rows(Command("drop", "DROP SCHEMA \(lost) CASCADE")) }
    session.close()
    let migration = places.migration(toDatabase: true)
    await #expect(throws: StoreError.self) { try await migration.run() }
    await #expect(throws: StoreError.self) { try await migration.run(only: 0) }
    await #expect(throws: StoreError.self) { try await migration.run(only: 7) }
    #expect(try await migration.run(only: 1, isTrial: true) == StoreMigration.Tally(moved: 1))
    #expect(try await migration.run(only: 1).moved == 1)
    #expect(try await migration.run(only: 1) == StoreMigration.Tally(present: 1))
    await (try await places.store(isInDatabase: true).open(shard: 1, knownEpoch: 1)).close()
    // The other one is not touched.
    await (try await places.store(isInDatabase: false).open(shard: 0)).close()
  }

  @Test func `both engines have the same tables with the same columns`() async throws {
    let places = try Places()
    await (try await places.store(isInDatabase: true).open(shard: 0)).close()
    let rows = try Session(places.database.session(ofShard: 0)).rows(
      Command(
        "columns",
        """
        SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns \
        WHERE table_schema = $1
        """), [.text(places.database.schema(ofShard: 0))])
    let found = try Set(rows.map { "\(try $0.text(0)).\(try $0.text(1)) \(try $0.text(2))" })
    let expected = try StoredTable.all().flatMap { table in
      table.columns.map { column in
        let type =
          switch column.kind {
          case .integer: "bigint"
          case .text: "text"
          case .bytes, .recordName: "bytea"
          }
        return "\(table.name).\(column.name) \(type)"
      }
    }
    let own = found.filter { $0.hasPrefix("tenure.") || $0.hasPrefix("meta.") }
    #expect(found.subtracting(own) == Set(expected))
    #expect(try StoredTable.all().allSatisfy { !$0.key.isEmpty })
  }

  @Test(arguments: [false, true])
  func `a run that ended after the copy leaves the shard where it is, and the next run moves it`(toDatabase: Bool)
    async throws
  {
    let places = try Places()
    let place = try await places.save("first", inDatabase: !toDatabase)
    let migration = places.migration(toDatabase: toDatabase)
    let arriving = ShardStanding(shardCount: 2, epoch: 9, installation: nil, move: 4711)
    try migration.target.receive(MovingShard(shard: 0, standing: arriving, counters: [], lastConflict: 0)) { _ in }
    await #expect(throws: StoreError.self) { try await places.store(isInDatabase: toDatabase).open(shard: 0) }
    try await places.save("second", in: place, inDatabase: !toDatabase)
    #expect(try await migration.run().moved == 1)
    #expect(try await places.names(in: place, inDatabase: toDatabase) == ["first", "second"])
  }

  @Test(arguments: [false, true], [false, true])
  func `a run that ended before its last step is ended by the next one, whichever way that goes`(
    toDatabase: Bool, goesBack: Bool
  ) async throws {
    let places = try Places()
    let place = try await places.save("first", inDatabase: !toDatabase)
    try await places.leaveBetween(toDatabase: toDatabase)
    for isInDatabase in [false, true] {
      await #expect(throws: StoreError.self) { try await places.store(isInDatabase: isInDatabase).open(shard: 0) }
    }
    #expect(try await places.migration(toDatabase: toDatabase != goesBack).run(isTrial: true).moved == 1)
    _ = try await places.migration(toDatabase: toDatabase != goesBack).run()
    let isInDatabase = toDatabase != goesBack
    #expect(try await places.names(in: place, inDatabase: isInDatabase) == ["first"])
    await #expect(throws: StoreError.self) { try await places.store(isInDatabase: !isInDatabase).open(shard: 0) }
  }

  @Test(arguments: [false, true])
  func `a shard moves while it serves: reads are answered meanwhile, and its owner opens it at the target`(
    toDatabase: Bool
  ) async throws {
    let places = try Places()
    let place = try await places.save("first", inDatabase: !toDatabase)
    let (news, told) = AsyncStream.makeStream(of: String.self)
    let store = try places.moving(toDatabase: toDatabase) { told.yield($0) }
    let shard = try await store.open(shard: 0)
    let epoch = shard.epoch
    var failures = shard.failures.makeAsyncIterator()
    let line = try #require(await news.first { _ in true })
    try #require(line.hasPrefix("shard 0 has moved"), "\(line)")
    #expect(try await shard.read { try $0.counts().records } == 1)
    await #expect(throws: StoreError.fenced(shard: 0, epoch: epoch + 1)) { try await shard.write { _ in } }
    #expect(await failures.next() == .fenced(shard: 0, epoch: epoch + 1))
    await shard.close()
    let moved = try await store.open(shard: 0, knownEpoch: epoch)
    #expect(moved.epoch > epoch + 1)
    _ = try await moved.write { try $0.save(Sample.note("second"), in: place) }
    await moved.close()
    #expect(try await places.names(in: place, inDatabase: toDatabase) == ["first", "second"])
  }

  @Test(arguments: [false, true])
  func `the last step of a shard's move is taken when a worker opens the shard`(toDatabase: Bool) async throws {
    let places = try Places()
    let place = try await places.save("first", inDatabase: !toDatabase)
    try await places.leaveBetween(toDatabase: toDatabase)
    let store = try places.moving(toDatabase: toDatabase) { _ in }
    await (try await store.open(shard: 0, knownEpoch: 3)).close()
    #expect(try await places.names(in: place, inDatabase: toDatabase) == ["first"])
  }

  @Test(arguments: [false, true])
  func `a shard that a worker holds does not move, and the message says who holds it`(toDatabase: Bool) async throws {
    var places = try Places()
    places.database.releaseLimit = .milliseconds(50)
    let place = try await places.save("first", inDatabase: !toDatabase)
    let held = try await places.store(isInDatabase: !toDatabase).open(shard: 0)
    let failure = await #expect(throws: StoreError.self) {
      try await places.migration(toDatabase: toDatabase).run()
    }
    #expect("\(try #require(failure))".contains("is held by"))
    await held.close()
    #expect(try await places.names(in: place, inDatabase: !toDatabase) == ["first"])
  }

  @Test func `a shard arrives in files while another one does`() throws {
    let places = try Places()
    func moving(_ shard: Int) -> MovingShard {
      let standing = ShardStanding(shardCount: 2, epoch: 1, installation: nil, move: 4711)
      return MovingShard(shard: shard, standing: standing, counters: [], lastConflict: 0)
    }
    let leftover = places.files.directory + "/arriving"
    try FileManager.default.createDirectory(atPath: leftover, withIntermediateDirectories: true)
    try places.files.receive(moving(0)) { _ in
      try places.files.receive(moving(1)) { _ in }
    }
    #expect(try places.files.shards() == [0, 1])
    for shard in [0, 1] { #expect(try places.files.standing(ofShard: shard)?.move == 4711) }
    let names = try FileManager.default.contentsOfDirectory(atPath: places.files.directory)
    #expect(!names.contains { $0.hasPrefix("arriving") }, "\(names)")
  }

  @Test func `an opening that ends a move waits for its places on a thread of its own`() async throws {
    let places = try Places()
    let place = try await places.save("first", inDatabase: true)
    try await places.leaveBetween(toDatabase: false)
    let calls = Mutex<[String]>([])
    let note: @Sendable (String) -> Void = { name in
      let isTask = withUnsafeCurrentTask { $0 != nil }
      calls.withLock { $0.append(name + (isTask ? " in a task" : "")) }
    }
    let (source, target) = (
      NotedPlace(place: places.database, note: note), NotedPlace(place: places.files, note: note)
    )
    let store = try MovingRecordStore(from: source, to: target, shardCount: 2) { _ in }
    await (try await store.open(shard: 0, knownEpoch: 3)).close()
    #expect(calls.withLock(\.self) == ["standing", "standing", "admit"])
    #expect(try await places.names(in: place, inDatabase: false) == ["first"])
    calls.withLock { $0 = [] }
    let back = StoreMigration(from: target, to: source)
    let shard = try #require(try await places.store(isInDatabase: false).open(shard: 0) as? SQLiteShardStore)
    _ = try await back.copy(shard, shardCount: 2, installation: nil)
    #expect(calls.withLock(\.self) == ["admit"])
    await shard.close()
  }

  @Test func `nothing moves over a shard that is in use, from an empty place, or to another than last time`()
    async throws
  {
    let places = try Places()
    _ = try await places.save("first", inDatabase: false)
    _ = try await places.save("other", inDatabase: true)
    await #expect(throws: StoreError.self) { try await places.migration(toDatabase: true).run() }
    await #expect(throws: StoreError.self) { try await places.migration(toDatabase: false).run() }
    let empty = try Places()
    await #expect(throws: StoreError.self) { try await empty.migration(toDatabase: false).run() }
    let elsewhere = try Places()
    #expect(try await StoreMigration(from: .files(places.files), to: .database(elsewhere.database)).run().moved == 1)
    await #expect(throws: StoreError.self) {
      try await StoreMigration(from: .files(places.files), to: .database(empty.database)).run()
    }
  }

  @Test func `shards move from one database to another, by the command and while they serve`() async throws {
    let (first, second, third) = (try Places(), try Places(), try Places())
    let place = try await first.save("first", inDatabase: true)
    let migration = StoreMigration(from: .database(first.database), to: .database(second.database))
    #expect(try await migration.run().moved == 1)
    #expect(try await migration.run() == StoreMigration.Tally(present: 1))
    await #expect(throws: StoreError.self) { try await first.store(isInDatabase: true).open(shard: 0) }
    #expect(try await second.names(in: place, inDatabase: true) == ["first"])

    let (news, told) = AsyncStream.makeStream(of: String.self)
    let store = try MovingRecordStore(
      from: .database(second.database), to: .database(third.database), shardCount: 2
    ) { told.yield($0) }
    let shard = try await store.open(shard: 0)
    let line = try #require(await news.first { _ in true })
    try #require(line.hasPrefix("shard 0 has moved"), "\(line)")
    await shard.close()
    await (try await store.open(shard: 0, knownEpoch: shard.epoch)).close()
    try await third.save("second", in: place, inDatabase: true)
    #expect(try await third.names(in: place, inDatabase: true) == ["first", "second"])
  }

  @Test func `a copy that lost a row is found, and the shard stays where it was`() async throws {
    let places = try Places()
    let place = try await places.save("first", inDatabase: true)
    let migration = StoreMigration(from: places.database as any MigrationPlace, to: LossyPlace(files: places.files))
    let failure = await #expect(throws: StoreError.self) { try await migration.run() }
    #expect("\(try #require(failure))".contains("the table record in"))
    #expect(try await places.names(in: place, inDatabase: true) == ["first"])
  }

  @Test func `a text that PostgreSQL can't store keeps its shard where it is`() async throws {
    let places = try Places()
    let shard = try await places.store(isInDatabase: false).open(shard: 0)
    let place = try await Place(in: shard, zone: "a\u{0}b")
    await shard.close()
    let failure = await #expect(throws: StoreError.self) { try await places.migration(toDatabase: true).run() }
    #expect("\(try #require(failure))".contains("zone: a text contains NUL"))
    try await places.save("first", in: place, inDatabase: false)
  }

  private static func state(of shard: any ShardStore) async throws -> [String] {
    try await shard.read { try Script.dump($0, limit: 7) }
  }
}

extension Result where Failure == any Error, Success: Sendable {
  /// The outcome of an asynchronous body.
  init(_ body: () async throws -> Success) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}
