import Testing

@testable import RecordStore

/// The cluster of a shard, from what the clusters tell of it.
struct ShardSearchTests {
  private struct Away: Error {}

  private static func search(_ clusters: [String: (epoch: Int64, move: Int64?)], away: Bool = false) -> ShardSearch {
    var search = ShardSearch(shard: 0)
    for (name, state) in clusters.sorted(by: { $0.key < $1.key }) {
      search.note(ShardStanding(shardCount: 2, epoch: state.epoch, installation: nil, move: state.move), in: name)
    }
    search.note(nil, in: "empty")
    if away { search.note(Away()) }
    return search
  }

  @Test func `a shard is where it has no number of a move`() throws {
    let here = Self.search(["east": (9, 1), "main": (5, nil), "west": (7, 2)])
    #expect(try here.finding(mayBeMade: false) == .present("main"))
    #expect(try Self.search([:]).finding(mayBeMade: true) == .nowhere)
    let twice = Self.search(["east": (9, nil), "main": (5, nil)])
    #expect(throws: StoreError.self) { try twice.finding(mayBeMade: false) }
  }

  @Test(arguments: [("east", "west"), ("west", "east")])
  func `a move that lacks its last step is ended, whatever copies earlier moves have left`(
    target: String, other: String
  ) throws {
    // The same owner's move to another cluster was given up: its copy has the same epoch.
    let left = Self.search(["main": (6, 2), target: (7, 2), other: (7, 1)])
    #expect(try left.finding(mayBeMade: false) == .arrived(target, move: 2))
    #expect(try Self.search(["main": (6, 2), other: (7, 1)]).finding(mayBeMade: false) == .nowhere)
  }

  @Test func `a cluster that is away matters only for a shard that is found nowhere else, or is made`() throws {
    #expect(try Self.search(["main": (5, nil)], away: true).finding(mayBeMade: false) == .present("main"))
    let left = Self.search(["main": (6, 2), "west": (7, 2)], away: true)
    #expect(try left.finding(mayBeMade: false) == .arrived("west", move: 2))
    #expect(throws: Away.self) { try Self.search(["main": (6, 2)], away: true).finding(mayBeMade: false) }
    #expect(throws: Away.self) { try Self.search(["main": (5, nil)], away: true).finding(mayBeMade: true) }
  }
}
