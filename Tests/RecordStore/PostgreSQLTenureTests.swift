import CuttingProxy
import Foundation
import PostgreSQL
import PrivateCluster
import Testing

@testable import RecordStore

/// The hold of a shard in PostgreSQL: epochs, commits whose answers are lost, refused shards.
@Suite struct PostgreSQLTenureTests {
  private struct World {
    let cluster: PrivateCluster
    var configuration: PostgreSQLConfiguration

    init() throws {
      cluster = try PrivateCluster.shared.get()
      configuration = PostgreSQLConfiguration(address: cluster.address)
      configuration.releaseLimit = .zero
      configuration.allowsAsynchronous = true
      configuration.schemaPrefix = "tenure_\(Self.number.next())_"
    }

    private static let number = Counter(0)

    func take(_ shard: Int = 0, of count: Int = 2, knownEpoch: Int64 = 0, address: String? = nil) throws
      -> PostgreSQLTenure
    {
      var configuration = configuration
      if let address { configuration.address = address }
      return try PostgreSQLTenure.takeOver(configuration, shard: shard, shardCount: count, knownEpoch: knownEpoch)
    }

    /// Gives the shard another format.
    /// - Returns: the former one.
    func exchange(format: Int) throws -> Int64? {
      let rows = try Session(configuration.session(ofShard: 0)).rows(
        Command(
          "format", "UPDATE tenure t SET format = $1 FROM tenure before RETURNING before.format"),
        [.integer(Int64(format))])
      return try rows.first?.integer(0)
    }

    /// The numbers that were stored, by a session of its own.
    func numbers() throws -> [Int64] {
      let rows = try Session(configuration.session(ofShard: 0)).rows(
        Command("numbers", "SELECT id FROM symbol ORDER BY id"))
      return try rows.map { try $0.integer(0) }
    }
  }

  private static let insert = Command(
    "insert", "INSERT INTO symbol(id, text) OVERRIDING SYSTEM VALUE VALUES ($1, $1::bigint::text)")

  private static func write(_ number: Int64, _ tenure: PostgreSQLTenure) throws {
    try tenure.begin()
    do {
      try tenure.session.queue(insert, [.integer(number)])
      try tenure.commitAskingOnce()
    } catch {
      tenure.session.rollback()
      throw error
    }
  }

  @Test func `each owner has the next epoch, and fences the one before`() throws {
    let world = try World()
    let first = try world.take()
    try Self.write(1, first)
    let second = try world.take(knownEpoch: first.epoch)
    #expect(first.epoch == 1 && second.epoch == 2)
    #expect(throws: StoreError.fenced(shard: 0, epoch: 2)) { try Self.write(2, first) }
    try Self.write(3, second)
    #expect(throws: StoreError.fenced(shard: 0, epoch: 2)) { try first.begin() }
    #expect(try world.numbers() == [1, 3])
  }

  @Test func `a shard of another number, an older copy and a missing one are refused and unchanged`() throws {
    let world = try World()
    #expect(throws: StoreError.self) { try world.take(knownEpoch: 5) }
    #expect(try world.take().epoch == 1)
    #expect(throws: StoreError.self) { try world.take(of: 3) }
    #expect(throws: StoreError.self) { try world.take(knownEpoch: 2) }
    #expect(try world.take(knownEpoch: 1).epoch == 2)
  }

  @Test func `a shard of an earlier format is brought up to date, and one of a later format is refused`() throws {
    let world = try World()
    let known = try #require(PostgreSQLFormatChange.allCases.last?.rawValue)
    try Self.write(1, world.take())
    #expect(try world.exchange(format: 1) == Int64(known))
    #expect(try world.take(knownEpoch: 1).epoch == 2)
    #expect(try world.exchange(format: 99) == Int64(known))
    #expect(throws: StoreError.newerFormat(found: 99, known: known)) { try world.take(knownEpoch: 2) }
    #expect(try world.numbers() == [1])
  }

  @Test func `a shard from before the index of live zones has it when it is opened`() throws {
    let world = try World()
    _ = try world.take()
    let session = try Session(world.configuration.session(ofShard: 0))
    _ = try session.rows(Command("before", "DROP INDEX zone_live"))
    _ = try world.exchange(format: PostgreSQLFormatChange.liveZones.rawValue - 1)
    #expect(try world.take(knownEpoch: 1).epoch == 2)
    let found = try session.rows(Command("index", "SELECT 'zone_live'::regclass::text"))
    #expect(try found.first?.text(0) == "zone_live")
  }

  @Test func `a server whose commits wait for no standby is refused, unless that is allowed`() throws {
    var world = try World()
    world.configuration.allowsAsynchronous = false
    #expect {
      try world.take()
    } throws: { error in
      guard case StoreError.unreachable(let reason) = error else { return false }
      return reason.contains("--allow-asynchronous")
    }
    world.configuration.allowsAsynchronous = true
    #expect(try world.take().epoch == 1, "the refusal made nothing")
    for (setting, isEnough) in [
      ("on", true), ("remote_apply", true), ("remote_write", false), ("local", false), ("off", false),
    ] {
      var configuration = world.configuration.session(ofShard: 0)
      configuration.address += " options='-c synchronous_commit=\(setting)'"
      #expect(try Session(configuration).waitsForStandby() == isEnough, "\(setting)")
    }
  }

  @Test func `a server that is away is told from a shard that fails`() throws {
    var world = try World()
    world.configuration.address = "host=127.0.0.1 port=1 user=aquifer dbname=postgres"
    #expect {
      try world.take()
    } throws: { if case StoreError.unreachable(let reason) = $0 { reason.contains("shard 0") } else { false } }
  }

  @Test func `a session that was lost between two groups costs nothing`() throws {
    let world = try World()
    let tenure = try world.take()
    try Self.write(1, tenure)
    tenure.session.close()
    try Self.write(2, tenure)
    #expect(try world.numbers() == [1, 2])
  }

  /// Cuts the conversation of a group after so many bytes of either direction. The writer's word must be true.
  @Test(.serialized, arguments: [true, false])
  func `wherever a group's conversation is cut, the writer knows whether it is stored`(isRequest: Bool) async throws {
    // The sessions block: hundreds of them must not hold up other tests.
    try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread { continuation.resume(with: Result { try Self.cutEverywhere(isRequest: isRequest) }) }
    }
  }

  private static func cutEverywhere(isRequest: Bool) throws {
    let world = try World()
    let proxy = try CuttingProxy(to: "127.0.0.1:\(world.cluster.port)")
    defer { proxy.close() }
    let tenure = try world.take(address: PrivateCluster.networkAddress(port: proxy.port) + " sslmode=disable")
    try write(-1, tenure)
    var (place, isWhole, settled) = (0, false, 0)
    while !isWhole {
      let number = Int64(place)
      proxy.setWithinConnections(
        .init(requestByteCount: isRequest ? place : nil, answerByteCount: isRequest ? nil : place))
      var isStored: Bool
      do {
        try write(number, tenure)
        (isStored, isWhole) = (true, true)
      } catch let error as PostgreSQLError {
        proxy.set(.init())
        isStored = false
        // The proxy cuts the question as well. Once it does not, the answer is certain.
        if error.kind == .unknownOutcome {
          isStored = try tenure.settle()
          settled += isStored ? 1 : 0
        } else {
          // Waits for what is under way.
          try tenure.begin()
          tenure.session.rollback()
        }
      }
      #expect(try world.numbers().contains(number) == isStored, "cut at \(place)")
      place += 5
    }
    #expect(isRequest || settled > 0)
  }
}
