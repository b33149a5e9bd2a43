// Large stores: fills them by direct writes, then measures the costs that depend on their size.

import Indexing
import RecordStore
import Records

/// One data set, in a folder that a worker could serve. Existing data are kept, so that a larger set starts from a
/// smaller one.
struct Growth: Sendable {
  enum Kind: String {
    /// Records of 1 KB in 16 zones, with an index; zones of one record each; stores of one transaction each;
    /// transactions of 1 KB in one store.
    case records, zones, stores, history
  }

  let directory: String
  let kind: Kind
  let count: Int
  let seconds: Double
  let shardCount: Int

  /// Fills the store, closes it, opens it again and measures.
  func run() async throws {
    let clock = ContinuousClock()
    var start = clock.now
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: directory), shardCount: shardCount)
    var shards = try await open(store)
    let filled = try await fill(shards)
    for shard in shards { await shard.close() }
    let fillTime = start.duration(to: clock.now).seconds

    let readBefore = Self.readByteCount()
    start = clock.now
    shards = try await open(store)
    var figures = Figures()
    figures.add("count", Double(count))
    figures.add("filledPerSecond", filled > 0 ? Double(filled) / fillTime : 0)
    figures.add("fillSeconds", filled > 0 ? fillTime : 0)
    figures.add("openMilliseconds", start.duration(to: clock.now).seconds * 1000)
    figures.add("openReadBytes", Double(Self.readByteCount() - readBefore))
    let resident = Self.residentByteCount()
    try await measure(shards, &figures)
    figures.add("residentBytes", Double(Self.residentByteCount()))
    figures.add("residentGrowthBytes", Double(Self.residentByteCount() - resident))
    figures.add(
      "fileBytes", shards.reduce(0) { $0 + ($1.statistics.first { $0.name == "database_bytes" }?.value ?? 0) })
    print(figures.json(kind: kind.rawValue))
    for shard in shards { await shard.close() }
  }

  private func open(_ store: SQLiteRecordStore) async throws -> [any ShardStore] {
    var shards: [any ShardStore] = []
    for shard in 0..<shardCount { shards.append(try await store.open(shard: shard)) }
    return shards
  }

  private func fill(_ shards: [any ShardStore]) async throws -> Int {
    switch kind {
    case .records: try await fillRecords(shards)
    case .zones: try await fillZones(shards)
    case .stores: try await fillStores(shards)
    case .history: try await fillHistory(shards[0])
    }
  }

  private func measure(_ shards: [any ShardStore], _ figures: inout Figures) async throws {
    switch kind {
    case .records: try await measureRecords(shards, &figures)
    case .zones: try await measureZones(shards, &figures)
    case .stores: try await measureStores(shards, &figures)
    case .history: try await measureHistory(shards[0], &figures)
    }
  }

  // MARK: Contents

  static func database(_ number: Int) throws -> DatabaseID {
    guard let container = ContainerID(rawValue: "iCloud.org.example.growth") else {
      throw StoreError.io("no container")
    }
    return DatabaseID(container: container, environment: .production, owner: "_growth\(number)")
  }

  static func makeMirror(_ name: String, in database: Int64, _ transaction: any ShardTransaction) throws -> StoredMirror
  {
    try transaction.makeMirror(
      name, in: database, userRecordName: "_growth", scope: .private, modelHash: "", configuration: nil,
      deviceName: nil, createdAt: 0)
  }

  /// Appends a transaction of 1 KB with an identifier of its own.
  static func append(to mirror: Int64, _ transaction: any ShardTransaction) throws {
    guard let row = try transaction.mirror(key: mirror) else { throw StoreError.io("no mirror \(mirror)") }
    let number = row.lastTransactionNumber + 1
    let id = Bench.name(0, Int(number))
    try transaction.append(
      StoredTransaction(
        number: number, transactionID: id, author: "app", appendedAt: number,
        payload: Array(repeating: 7, count: 1000)),
      to: mirror)
  }

  // MARK: Measuring

  /// Runs `step` in `loops` closed loops until the time is up.
  /// - Parameter step: gets the loop and the round, and returns the number of its writes.
  /// - Returns: writes a second, and processor time for each in microseconds.
  func rate(
    _ loops: Int, _ step: @escaping @Sendable (_ loop: Int, _ round: Int) async throws -> Int
  ) async throws -> (perSecond: Double, cost: Double) {
    let clock = ContinuousClock()
    let (start, cpu) = (clock.now, Bench.processorSeconds())
    let end = start.advanced(by: .seconds(seconds))
    let written = try await withThrowingTaskGroup(of: Int.self) { group in
      for loop in 0..<loops {
        group.addTask {
          var (written, round) = (0, 0)
          while clock.now < end {
            written += try await step(loop, round)
            round += 1
          }
          return written
        }
      }
      return try await group.reduce(0, +)
    }
    return (
      Double(written) / start.duration(to: clock.now).seconds,
      (Bench.processorSeconds() - cpu) / Double(max(written, 1)) * 1e6
    )
  }

  /// The median of `rounds` durations in milliseconds.
  func median(of rounds: Int, _ body: (_ round: Int) async throws -> Void) async throws -> Double {
    let clock = ContinuousClock()
    var times: [Double] = []
    for round in 0..<rounds {
      let start = clock.now
      try await body(round)
      times.append(start.duration(to: clock.now).seconds * 1000)
    }
    return times.sorted()[rounds / 2]
  }

  struct Figures {
    private var members: [(String, Double)] = []

    mutating func add(_ name: String, _ value: Double) { members.append((name, (value * 1000).rounded() / 1000)) }

    func json(kind: String) -> String {
      "{\"kind\":\"\(kind)\"," + members.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
    }
  }
}

extension Duration {
  fileprivate var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
