import MessagePack
import Records
import Testing

/// The shards of databases, compared with a naive account of the divisions.
struct ShardLayoutTests {
  /// Every database with its shard, which each split changes for itself.
  private struct NaiveLayout {
    var shards: [DatabaseID: Int] = [:]
    /// The numbers by which databases are divided, which each division uses up a bit of.
    private var rests: [DatabaseID: UInt64] = [:]
    private var count: Int

    init(_ databases: [DatabaseID], count: Int) {
      self.count = count
      for database in databases {
        shards[database] = Int(database.placeHash % UInt64(count))
        rests[database] = database.placeHash / UInt64(count)
      }
    }

    mutating func split(_ shard: Int) {
      for (database, present) in shards where present == shard {
        let rest = rests[database] ?? 0
        if rest % 2 == 1 { shards[database] = count }
        rests[database] = rest / 2
      }
      count += 1
    }
  }

  private static func databases(_ count: Int) throws -> [DatabaseID] {
    let container = try #require(ContainerID(rawValue: "iCloud.org.example.photos"))
    return (0..<count).map { DatabaseID(container: container, environment: .production, owner: "_user\($0)") }
  }

  @Test(arguments: 0..<40)
  func `after any splits each database is in one shard, whose part says so, and others did not move`(seed: Int) throws {
    var state = UInt64(seed) &* 0x9e37_79b9_7f4a_7c15 | 1
    func random(_ count: Int) -> Int {
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      return Int(state % UInt64(count))
    }
    let databases = try Self.databases(300)
    let created = 1 + random(9)
    var naive = NaiveLayout(databases, count: created)
    var layout = try #require(ShardLayout(createdCount: created))
    for _ in 0..<random(30) {
      let (shard, before) = (random(layout.count), layout)
      naive.split(shard)
      layout = try #require(layout.splitting(shard))
      #expect(layout.count == before.count + 1)
      for database in databases where before.shard(of: database) != layout.shard(of: database) {
        #expect(before.shard(of: database) == shard && layout.shard(of: database) == before.count)
      }
    }
    for database in databases {
      let shard = layout.shard(of: database)
      #expect(shard == naive.shards[database])
      let holders = (0..<layout.count).filter { layout.part(of: $0)?.contains(database) == true }
      #expect(holders == [shard])
      #expect(layout.heirs(of: Int(database.placeHash % UInt64(created))).contains(shard))
    }
    #expect(layout.part(of: layout.count) == nil && layout.part(of: -1) == nil)
    #expect(layout.heirs(of: layout.count) == [])
  }

  @Test func `a shard that was never divided has no part of its own, and its heir is itself`() throws {
    let layout = try #require(ShardLayout(createdCount: 4, splits: [3, 4, 3]))
    #expect((0..<7).map { layout.dividedPart(of: $0)?.modulus } == [nil, nil, nil, 16, 16, 16, 16])
    #expect((0..<7).map { layout.part(of: $0)?.remainder } == [0, 1, 2, 3, 7, 15, 11])
    #expect(layout.heirs(of: 3) == [3, 4, 5, 6])
    #expect(layout.heirs(of: 4) == [4, 5])
    #expect(layout.heirs(of: 2) == [2])
  }

  @Test func `a split gives half of the databases to the new shard`() throws {
    var layout = try #require(ShardLayout(createdCount: 4))
    for shard in 0..<4 { layout = try #require(layout.splitting(shard)) }
    var counts = [Int](repeating: 0, count: 8)
    for database in try Self.databases(8000) { counts[layout.shard(of: database)] += 1 }
    #expect(counts.allSatisfy { (850...1150).contains($0) }, "\(counts)")
  }

  @Test func `splits of shards that there were not yet, and more shards than there may be, are refused`() throws {
    for splits in [[4], [-1], [0, 6], [5, 0]] { #expect(ShardLayout(createdCount: 4, splits: splits) == nil) }
    #expect(ShardLayout(createdCount: 0) == nil && ShardLayout(createdCount: -3) == nil)
    let full = try #require(ShardLayout(createdCount: ShardLayout.countLimit))
    #expect(full.splitting(0) == nil)
    // The part of a shard that is divided again and again ends.
    var layout = try #require(ShardLayout(createdCount: 4))
    while let next = layout.splitting(0) { layout = next }
    #expect(layout.splits.count == 60)
    for database in try Self.databases(50) { #expect((0..<layout.count).contains(layout.shard(of: database))) }
  }

  @Test func `a part is read as it was written, and one that can't be is refused`() throws {
    let part = try #require(ShardPart(modulus: 8, remainder: 7))
    let bytes = try MessagePackEncoder().encode(part)
    #expect(try MessagePackDecoder().decode(ShardPart.self, from: bytes) == part)
    for (modulus, remainder) in [(0, 0), (-1, 0), (4, 4), (4, -1)] as [(Int64, Int64)] {
      #expect(ShardPart(modulus: modulus, remainder: remainder) == nil)
      let wrong = try MessagePackEncoder().encode(["modulus": modulus, "remainder": remainder])
      #expect(throws: (any Error).self) { try MessagePackDecoder().decode(ShardPart.self, from: wrong) }
    }
  }
}
