// Plans of moves: compared with all assignments of few shards, and bounds for many.

import Testing

@testable import ShareService

private typealias Shard = ShardBalance.Shard

/// Numbers that are the same in each run.
private struct Numbers {
  private var state: UInt64
  init(seed: UInt64) { state = seed }

  mutating func below(_ limit: Int) -> Int {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Int(truncatingIfNeeded: (state >> 33) % UInt64(limit))
  }
}

/// A few shards that are badly spread.
private struct Installation {
  let clusterCount: Int
  var shards: [Shard]

  init(seed: UInt64) {
    var numbers = Numbers(seed: seed)
    clusterCount = 2 + numbers.below(2)
    let isAllInOne = numbers.below(3) == 0
    let (largest, busiest) = ([10, 1000][numbers.below(2)], [60, 400][numbers.below(2)])
    shards = []
    for number in 0..<(2 + numbers.below(4)) {
      shards.append(
        Shard(
          number: number, cluster: isAllInOne ? 0 : numbers.below(clusterCount),
          byteCount: Int64(1 + numbers.below(largest)) * 1_000_000, load: Double(numbers.below(busiest))))
    }
  }

  var plan: [ShardBalance.Move] { ShardBalance(shards: shards, clusterCount: clusterCount).plan() }

  func fullest(_ shards: [Shard]) -> Double {
    ShardBalance.fullness(of: shards, clusterCount: clusterCount).max() ?? 0
  }

  /// The fullest cluster and the copied bytes of every assignment.
  var assignments: [(fullest: Double, copied: Int64)] {
    let count = shards.reduce(1) { count, _ in count * clusterCount }
    return (0..<count).map { code in
      var (code, assigned) = (code, shards)
      for shard in shards.indices {
        assigned[shard].cluster = code % clusterCount
        code /= clusterCount
      }
      return (fullest(assigned), zip(shards, assigned).reduce(0) { $0 + ($1.0 == $1.1 ? 0 : $1.0.byteCount) })
    }
  }
}

private func applied(_ moves: [ShardBalance.Move], to shards: [Shard]) -> [Shard] {
  var shards = shards
  for move in moves {
    #expect(shards[move.shard].cluster == move.from && move.from != move.to && !shards[move.shard].isFixed)
    shards[move.shard].cluster = move.to
  }
  return shards
}

private func copied(_ moves: [ShardBalance.Move]) -> Int64 { moves.reduce(0) { $0 + $1.byteCount } }

struct ShardBalanceTests {
  @Test func `plans are nearly as even as the best assignment of few shards, and copy hardly more than it takes`() {
    var (evenness, planned, needed) = (0.0, Int64(0), Int64(0))
    let seeds: ClosedRange<UInt64> = 1...60
    for seed in seeds {
      let world = Installation(seed: seed)
      let after = world.fullest(applied(world.plan, to: world.shards))
      let assignments = world.assignments
      // Clusters that differ less than the slack stay as they are.
      let best = max(assignments.map(\.fullest).min() ?? 0, 1 + ShardBalance.slack)
      #expect(after <= best * 1.3, "seed \(seed)")
      evenness += after / best / Double(seeds.count)
      planned += copied(world.plan)
      needed += assignments.filter { $0.fullest <= after + 1e-9 }.map(\.copied).min() ?? 0
    }
    #expect(evenness < 1.02)
    #expect(Double(planned) < Double(needed) * 1.1)
  }

  @Test func `no cluster becomes fuller than the fullest was, and a plan for the result is empty`() {
    for seed: UInt64 in 1...200 {
      var world = Installation(seed: seed)
      let after = applied(world.plan, to: world.shards)
      #expect(world.fullest(after) <= world.fullest(world.shards) + 1e-9, "seed \(seed)")
      world.shards = after
      #expect(world.plan == [], "seed \(seed)")
    }
  }

  @Test func `64 shards of two clusters give a new one its part, and no shard moves between the two`() {
    var numbers = Numbers(seed: 3)
    let shards = (0..<64).map { number in
      Shard(
        number: number, cluster: number % 2, byteCount: Int64(900 + numbers.below(200)) * 1_000_000,
        load: Double(50 + numbers.below(20)))
    }
    let plan = ShardBalance(shards: shards, clusterCount: 3).plan()
    #expect(plan.allSatisfy { $0.to == 2 } && (18...22).contains(plan.count))
    let after = applied(plan, to: shards)
    #expect(ShardBalance.fullness(of: after, clusterCount: 3).allSatisfy { abs($0 - 1) < ShardBalance.slack })
    #expect(ShardBalance(shards: after, clusterCount: 3).plan() == [])
  }

  @Test func `a hot shard shares its cluster with few others, and the smaller one of like loads is copied`() {
    func shards(_ loads: [Double], _ bytes: [Int64]) -> [Shard] {
      zip(loads, bytes).enumerated().map { Shard(number: $0, cluster: 0, byteCount: $1.1, load: $1.0) }
    }
    let hot = shards([900, 300, 300, 300], [40, 40, 40, 40])
    let after = applied(ShardBalance(shards: hot, clusterCount: 2).plan(), to: hot)
    #expect(after.count { $0.cluster == after[0].cluster } == 2)
    let busy = ShardBalance(shards: shards([500, 500], [1000, 10]), clusterCount: 2).plan()
    #expect(busy.map(\.shard) == [1])
  }

  @Test func `what moves already, or can't be reached, stays; a quiet installation moves by bytes only`() {
    func shard(_ number: Int, _ load: Double = 0, isFixed: Bool = false) -> Shard {
      Shard(number: number, cluster: 0, byteCount: 100, load: load, isFixed: isFixed)
    }
    let fixed = (0..<4).map { shard($0, isFixed: $0 != 2) }
    #expect(ShardBalance(shards: fixed, clusterCount: 2).plan().map(\.shard) == [2])
    let free = (0..<4).map { shard($0) }
    #expect(ShardBalance(shards: free, clusterCount: 2) { _, _ in false }.plan() == [])
    #expect(ShardBalance(shards: free, clusterCount: 3) { _, to in to == 2 }.plan().allSatisfy { $0.to == 2 })
    // All load is in one cluster, and it is next to nothing.
    var quiet = (0..<4).map { shard($0, $0 < 2 ? 0.4 : 0) }
    for place in 2..<4 { quiet[place].cluster = 1 }
    #expect(ShardBalance(shards: quiet, clusterCount: 2).plan() == [])
    #expect(ShardBalance(shards: [], clusterCount: 0).plan() == [])
  }
}
