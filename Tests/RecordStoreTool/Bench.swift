// Measures records a second and processor time for each: only the second is independent of other work on the machine.

import Glibc
import RecordStore
import Records
import Synchronization

struct Bench: Sendable {
  enum Workload: String {
    /// One new record in a body, and 200.
    case single, batch
    /// One changed record of 10 000 in a body, and 200.
    case update, updateBatch
    /// A body that also stores an outcome; one that appends a history transaction of 1 KB.
    case outcomes, history
    /// Reads 10 000 records in pages of 200.
    case pages
    /// Empty bodies: the cost of the hand-over to the writer.
    case empty
  }

  let directory: String
  let workload: Workload
  let seconds: Double
  let shardCount: Int
  let writerCount: Int

  struct Writer: Sendable {
    let shard: any ShardStore
    let databaseID: DatabaseID
    let database: Int64
    let zone: Int64
    let mirror: Int64
    let number: Int
  }

  func run() async throws {
    var options = SQLiteRecordStore.Options()
    if let pages = getenv("CHECKPOINT_PAGES").flatMap({ Int(String(cString: $0)) }) { options.checkpointPages = pages }
    // The connection string of an empty database has an equals sign; a new folder's path has none.
    let store: any RecordStore
    if directory.contains("=") {
      var configuration = PostgreSQLConfiguration(address: directory, options: options)
      configuration.allowsAsynchronous = true
      store = try PostgreSQLRecordStore(configuration, shardCount: shardCount)
    } else {
      store = try SQLiteRecordStore(SQLiteConfiguration(directory: directory, options: options), shardCount: shardCount)
    }
    var shards: [any ShardStore] = []
    for shard in 0..<shardCount { shards.append(try await store.open(shard: shard)) }
    var writers: [Writer] = []
    for number in 0..<writerCount { writers.append(try await makeWriter(number, in: shards[number % shardCount])) }
    if workload == .pages || workload == .update || workload == .updateBatch { try await fill(writers) }

    let clock = ContinuousClock()
    let (start, cpu) = (clock.now, Self.processorSeconds())
    let deadline = start.advanced(by: .seconds(seconds))
    let counts = try await withThrowingTaskGroup(of: (Int, [Double]).self) { group in
      for writer in writers {
        group.addTask {
          var count = 0
          var latencies: [Double] = []
          var round = 0
          while clock.now < deadline {
            let began = clock.now
            count += try await step(writer, round)
            let taken = began.duration(to: clock.now)
            latencies.append(Double(taken.components.attoseconds) / 1e15 + Double(taken.components.seconds) * 1e3)
            round += 1
          }
          return (count, latencies)
        }
      }
      return try await group.reduce(into: (0, [Double]())) {
        $0.0 += $1.0
        $0.1 += $1.1
      }
    }
    let taken = start.duration(to: clock.now)
    let elapsed = Double(taken.components.seconds) + Double(taken.components.attoseconds) / 1e18
    report(counts.0, counts.1.sorted(), elapsed: elapsed, cpu: Self.processorSeconds() - cpu, shards)
    for shard in shards { await shard.close() }
  }

  private func report(_ count: Int, _ latencies: [Double], elapsed: Double, cpu: Double, _ shards: [any ShardStore]) {
    func sum(_ name: String) -> Double {
      shards.reduce(0) { $0 + ($1.statistics.first { $0.name == name }?.value ?? 0) }
    }
    func rounded(_ value: Double, _ scale: Double = 10) -> Double { (value * scale).rounded() / scale }
    print(
      """
      \(workload.rawValue): \(Int(Double(count) / elapsed)) records/s, \(rounded(cpu / Double(max(count, 1)) * 1e6)) \
      us of processor each,
      """,
      """
      \(rounded(cpu / elapsed, 100)) cores; p50 \
      \(rounded(latencies.isEmpty ? 0 : latencies[latencies.count / 2], 1000)) ms,
      """,
      "p99 \(rounded(latencies.isEmpty ? 0 : latencies[latencies.count * 99 / 100], 1000)) ms")
    print(
      """
        commits \(Int(sum("commits_total"))), bodies a commit \
      \(rounded(sum("bodies_total") / max(sum("commits_total"), 1))), unexpected look-ups \
      \(Int(sum("unexpected_lookups_total"))),
      """,
      "bodies \(rounded(sum("body_seconds_total"), 100)) s, commit \(rounded(sum("commit_seconds_total"), 100)) s,",
      """
      checkpoints \(Int(sum("checkpoints_total"))) in \(rounded(sum("checkpoint_seconds_total"), 100)) s \
      (\(Int(sum("checkpoint_pages_total"))) pages)
      """
    )
  }

  private func makeWriter(_ number: Int, in shard: any ShardStore) async throws -> Writer {
    try await shard.enqueue { transaction in
      guard let container = ContainerID(rawValue: "iCloud.org.example.bench") else {
        throw StoreError.io("no container")
      }
      let id = DatabaseID(container: container, environment: .production, owner: "_user\(number)")
      let database = try transaction.makeDatabase(id)
      let zone = try transaction.makeZone(named: Self.zoneName, in: database.key)
      let mirror = try transaction.makeMirror(
        "store", in: database.key, userRecordName: "_user\(number)", scope: .private, modelHash: "", configuration: nil,
        deviceName: nil, createdAt: 0)
      return Writer(
        shard: shard, databaseID: id, database: database.key, zone: zone.key, mirror: mirror.key, number: number)
    }.value
  }

  private static let recordsPerWriter = 10_000

  private func fill(_ writers: [Writer]) async throws {
    for writer in writers {
      for round in 0..<Self.recordsPerWriter / 200 { _ = try await save(200, round, writer, isNew: true) }
    }
  }

  private func step(_ writer: Writer, _ round: Int) async throws -> Int {
    switch workload {
    case .single: return try await save(1, round, writer, isNew: true)
    case .batch: return try await save(200, round, writer, isNew: true)
    case .update: return try await save(1, round &* 7919 % Self.recordsPerWriter, writer, isNew: false)
    case .updateBatch: return try await save(200, round &* 7 % 50, writer, isNew: false)
    case .pages:
      var (count, sequence) = (0, Int64(0))
      while true {
        let page = try await writer.shard.read { [sequence] in
          try $0.changes(in: writer.zone, after: sequence, limit: 200)
        }
        guard let last = page.last else { return count }
        count += page.count
        sequence = last.sequence
      }
    case .empty:
      try await writer.shard.enqueue { _ in }.value
      return 1
    case .outcomes:
      let key = Self.name(writer.number, round)
      try await writer.shard.enqueue(expecting: { [.outcome(key)] }) { transaction in
        guard try transaction.outcome(of: key) == nil else { return }
        try transaction.putOutcome(Array(repeating: 1, count: 80), of: key, at: 1_700_000_000_000 + Int64(round))
      }.value
      return 1
    case .history:
      let id = Self.name(writer.number, round)
      try await writer.shard.enqueue(expecting: { [.transaction(id, mirror: writer.mirror)] }) { transaction in
        guard try transaction.transactionNumber(of: id, in: writer.mirror) == nil else { return }
        try transaction.append(
          StoredTransaction(
            number: Int64(round + 1), transactionID: id, author: "app", appendedAt: Int64(round),
            payload: Array(repeating: 7, count: 1000)),
          to: writer.mirror)
      }.value
      return 1
    }
  }

  private func save(_ count: Int, _ round: Int, _ writer: Writer, isNew: Bool) async throws -> Int {
    let records = (0..<count).map { Self.record(Self.name(writer.number, round * count + $0), rating: round) }
    let lookups = { @Sendable in
      records.map { ExpectedLookup.record($0.recordName, zone: Self.zoneName, database: writer.databaseID) }
    }
    try await writer.shard.enqueue(expecting: lookups) { transaction in
      for record in records {
        let existing = try transaction.record(named: record.recordName, in: writer.zone)
        let stored = StoredRecord(
          record: record, isDeleted: false, sequence: try transaction.nextSequence(in: writer.database), origin: 0,
          sequenceOfOthers: existing?.sequence ?? 0)
        try transaction.put(
          stored, in: writer.zone, references: [OutgoingReference(field: "CD_folder", target: Self.folder)],
          isNew: existing == nil)
      }
    }.value
    return count
  }

  private static let zoneName = "com.apple.coredata.cloudkit.zone"
  static let folder = "0B0C2E61-4B7D-4C5E-8E1B-6F0C2E614B7D"
  private static let body = String((0..<800).map { Character(UnicodeScalar(UInt8(33 + $0 * 31 % 90))) })

  /// A UUID that looks random, so that names have no order.
  static func name(_ writer: Int, _ number: Int) -> String {
    var high = UInt64(writer) << 32 | UInt64(number)
    high = (high ^ high >> 31) &* 0x7fb5_d329_728e_a185
    high = (high ^ high >> 27) &* 0x81da_def4_bc2d_d44d
    let low = (high ^ high >> 33) &* 0x9fb2_1c65_1e98_df25
    var text: [UInt8] = []
    for index in 0..<32 {
      if index == 8 || index == 12 || index == 16 || index == 20 { text.append(UInt8(ascii: "-")) }
      let value = index < 16 ? high : low
      text.append(digits[Int(value >> UInt64(60 - 4 * (index % 16)) & 15)])
    }
    return String(decoding: text, as: UTF8.self)
  }

  private static let digits = Array("0123456789ABCDEF".utf8)

  static func record(_ name: String, rating: Int) -> Record {
    let stamp = Stamp(
      timestamp: 1_700_000_000_000 + Int64(rating), userRecordName: "_0b0c2e614b7d4c5e8e1b6f0c2e614b7d",
      deviceID: "phone")
    return Record(
      recordName: name, recordType: "CD_Note",
      fields: [
        "CD_body": .string(body), "CD_createdAt": .timestamp(Int64(rating)), "CD_entityName": .string("Note"),
        "CD_folder": .string(folder),
        "CD_moveReceipt": .bytes([1, 2, 3, 4, 5, 6, 7, 8]), "CD_rating": .int64(Int64(rating)),
        "CD_title": .string("a title"),
      ], created: stamp, modified: stamp)
  }

  static func processorSeconds() -> Double {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + Double(
      usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
  }
}
