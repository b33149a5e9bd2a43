// Plans which shards should move so that clusters have like parts of the bytes and of the load.

/// The shards of an installation with their weights, without directory, bus or clock.
struct ShardBalance {
  struct Shard: Hashable, Sendable {
    let number: Int
    /// The place in `clusters` where the shard is, or will be after the move that is under way.
    var cluster: Int
    let byteCount: Int64
    /// Saves and reads a second, in reads.
    let load: Double
    /// Whether it must stay, because it moves already or its cluster is away.
    var isFixed = false
  }

  /// What a shard weighs.
  struct Figures: Hashable, Sendable {
    let byteCount: Int64
    /// As that of `Shard`.
    let load: Double
  }

  struct Move: Hashable, Sendable {
    let shard: Int
    /// Places in `clusters`.
    let from, to: Int
    let byteCount: Int64
  }

  /// Clusters differ less than this, in parts of an even share: nothing moves for that.
  static let slack = 0.1
  /// The least evenness that a moved byte must bring, both in parts of an even share. A shard that would be copied for
  /// less stays.
  static let leastGain = 0.1
  /// Load of an installation below this for each cluster counts in proportion only, because it says little.
  static let leastLoad = 100.0
  /// A save costs about as much as this many reads: it has round trips of its own, and waits for a standby.
  static let readsPerSave = 4.0

  /// Ascending by number.
  let shards: [Shard]
  /// The number of clusters.
  let clusterCount: Int
  /// Whether a worker reaches both clusters, so that shards can move between them.
  var isReached: (_ from: Int, _ to: Int) -> Bool = { _, _ in true }

  /// The moves, ascending by shard. None when the clusters are even, or no move makes them more even.
  ///
  /// Each step moves one shard, or exchanges two, between a fuller cluster and an emptier one, and leaves both emptier
  /// than the fuller one was. So no cluster becomes fuller than the fullest one before, and a plan for the result of a
  /// plan is empty.
  func plan() -> [Move] {
    var state = State(shards, clusterCount)
    // Each step takes a shard to another place or back, and rarely any shard twice.
    for _ in 0..<max(4 * shards.count, 1) {
      guard let step = state.step(isReached) else { break }
      state.take(step)
    }
    return zip(shards, state.shards).compactMap { before, after in
      before.cluster == after.cluster
        ? nil
        : Move(shard: before.number, from: before.cluster, to: after.cluster, byteCount: before.byteCount)
    }
  }

  /// How full each cluster is: the larger one of its parts of all bytes and of all load, in even shares. 1 for all is
  /// the best that there is.
  static func fullness(of shards: [Shard], clusterCount: Int) -> [Double] { State(shards, clusterCount).fullness }
}

/// The shards during the planning.
private struct State {
  private struct Weight {
    var bytes = 0.0
    var load = 0.0
    /// In even shares.
    var fullness: Double { max(bytes, load) }

    static func + (one: Weight, other: Weight) -> Weight {
      Weight(bytes: one.bytes + other.bytes, load: one.load + other.load)
    }

    static func - (one: Weight, other: Weight) -> Weight {
      Weight(bytes: one.bytes - other.bytes, load: one.load - other.load)
    }
  }

  struct Step {
    /// Places in `shards`; the second one moves the other way.
    let shard: Int
    let back: Int?
    let from, to: Int
    let gain, cost: Double

    /// Evenness for what is copied; among likes the step that brings more.
    var worth: Double { gain / (max(cost, 0) + 0.02) }
  }

  private(set) var shards: [ShardBalance.Shard]
  private let homes: [Int]
  private let weights: [Weight]
  private var clusters: [Weight]

  init(_ shards: [ShardBalance.Shard], _ clusterCount: Int) {
    self.shards = shards
    homes = shards.map(\.cluster)
    let count = Double(clusterCount)
    let bytes = shards.reduce(0) { $0 + Double($1.byteCount) } / count
    let load = max(shards.reduce(0) { $0 + $1.load } / count, ShardBalance.leastLoad)
    weights = shards.map { Weight(bytes: bytes > 0 ? Double($0.byteCount) / bytes : 0, load: $0.load / load) }
    clusters = Array(repeating: Weight(), count: clusterCount)
    for (shard, weight) in zip(shards, weights) { clusters[shard.cluster] = clusters[shard.cluster] + weight }
  }

  var fullness: [Double] { clusters.map(\.fullness) }

  /// The best step from the fullest cluster that has one.
  func step(_ isReached: (Int, Int) -> Bool) -> Step? {
    let order = clusters.indices.sorted { (clusters[$1].fullness, $0) < (clusters[$0].fullness, $1) }
    for from in order {
      var best: Step?
      for to in order.reversed() where clusters[from].fullness - clusters[to].fullness > ShardBalance.slack {
        guard isReached(from, to) else { continue }
        for step in steps(from, to) where step.worth > best?.worth ?? 0 { best = step }
      }
      if let best { return best }
    }
    return nil
  }

  private func steps(_ from: Int, _ to: Int) -> [Step] {
    let movable = shards.indices.filter { !shards[$0].isFixed }
    let back = movable.filter { shards[$0].cluster == to }
    return movable.filter { shards[$0].cluster == from }.flatMap { shard in
      ([nil] + back.map { $0 }).compactMap { step(shard, back: $0, from, to) }
    }
  }

  private func step(_ shard: Int, back: Int?, _ from: Int, _ to: Int) -> Step? {
    let change = back.map { weights[shard] - weights[$0] } ?? weights[shard]
    let after = max((clusters[from] - change).fullness, (clusters[to] + change).fullness)
    let gain = clusters[from].fullness - after
    let cost = self.cost(shard, to: to) + (back.map { self.cost($0, to: from) } ?? 0)
    guard gain > 1e-6, gain >= ShardBalance.leastGain * cost else { return nil }
    return Step(shard: shard, back: back, from: from, to: to, gain: gain, cost: cost)
  }

  /// What more is copied if the shard goes there, in even shares of bytes; less than 0 if it goes home.
  private func cost(_ shard: Int, to cluster: Int) -> Double {
    let bytes = weights[shard].bytes
    return (homes[shard] == cluster ? 0 : bytes) - (homes[shard] == shards[shard].cluster ? 0 : bytes)
  }

  mutating func take(_ step: Step) {
    go(step.shard, to: step.to)
    if let back = step.back { go(back, to: step.from) }
  }

  private mutating func go(_ shard: Int, to cluster: Int) {
    clusters[shards[shard].cluster] = clusters[shards[shard].cluster] - weights[shard]
    clusters[cluster] = clusters[cluster] + weights[shard]
    shards[shard].cluster = cluster
  }
}
