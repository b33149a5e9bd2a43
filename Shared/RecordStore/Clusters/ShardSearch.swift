// Decides from the state of a shard in each cluster where it is.

/// What the clusters have of one shard.
struct ShardSearch {
  enum Finding: Hashable, Sendable {
    case nowhere
    case present(String)
    /// A move to the cluster, or a division, ended before its last step.
    case arrived(String, move: Int64)
  }

  private let shard: Int
  private var present: [String] = []
  private var marked: [(cluster: String, epoch: Int64, move: Int64, standing: ShardStanding)] = []
  private var problem: (any Error)?

  init(shard: Int) { self.shard = shard }

  mutating func note(_ standing: ShardStanding?, in cluster: String) {
    guard let standing else { return }
    if let move = standing.move {
      marked.append((cluster, standing.epoch, move, standing))
    } else {
      present.append(cluster)
    }
  }

  /// Notes a cluster that can't be asked.
  mutating func note(_ error: any Error) { problem = error }

  /// One cluster that has the shard is enough, because a shard that leaves gets its move's number in the same commit.
  /// - Parameters:
  ///   - askingAll: whether each cluster must have been asked: the caller makes a shard that is nowhere, or several
  ///     clusters may have the shard, and an old copy could be taken for it.
  ///   - arrival: the number of the division that the shard comes by, if it was carried out.
  /// - Throws: `StoreError.foreign` when several clusters have it, or one has a copy without the last changes of its
  ///   source; the error of a cluster that could have it.
  func finding(askingAll: Bool, arrival: Int64? = nil) throws -> Finding {
    if present.count > 1 {
      throw StoreError.inSeveral(shard, present)
    }
    if askingAll, let problem { throw problem }
    if let cluster = present.first { return .present(cluster) }
    // Copies of moves that were given up have no counterpart.
    let arrived = marked.filter { copy in
      marked.contains { $0.cluster != copy.cluster && $0.move == copy.move && $0.epoch < copy.epoch }
    }
    if let last = arrived.max(by: { $0.epoch < $1.epoch }) { return .arrived(last.cluster, move: last.move) }
    if let copy = marked.first(where: { $0.standing.isUnopened && $0.move == arrival }) {
      if copy.standing.lacksRest { throw StoreError.lacksRest(shard, in: copy.cluster) }
      return .arrived(copy.cluster, move: copy.move)
    }
    if let problem { throw problem }
    return .nowhere
  }
}

extension StoreError {
  static func lacksRest(_ shard: Int, in cluster: String) -> StoreError {
    .foreign(
      """
      the cluster \(cluster) has shard \(shard) as it was before the end of its division: bring the cluster back to a \
      later state
      """)
  }

  static func inSeveral(_ shard: Int, _ clusters: [String]) -> StoreError {
    .foreign(
      "shard \(shard) is in several clusters, \(clusters.sorted().joined(separator: ", ")): remove what is not in use")
  }
}
