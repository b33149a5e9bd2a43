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
    #expect(try here.finding(askingAll: false) == .present("main"))
    #expect(try Self.search([:]).finding(askingAll: true) == .nowhere)
    let twice = Self.search(["east": (9, nil), "main": (5, nil)])
    #expect(throws: StoreError.self) { try twice.finding(askingAll: false) }
  }

  @Test(arguments: [("east", "west"), ("west", "east")])
  func `a move that lacks its last step is ended, whatever copies earlier moves have left`(
    target: String, other: String
  ) throws {
    // The same owner's move to another cluster was given up: its copy has the same epoch.
    let left = Self.search(["main": (6, 2), target: (7, 2), other: (7, 1)])
    #expect(try left.finding(askingAll: false) == .arrived(target, move: 2))
    #expect(try Self.search(["main": (6, 2), other: (7, 1)]).finding(askingAll: false) == .nowhere)
  }

  @Test func `a cluster that is away matters only for a shard that is found nowhere else, or is made`() throws {
    #expect(try Self.search(["main": (5, nil)], away: true).finding(askingAll: false) == .present("main"))
    let left = Self.search(["main": (6, 2), "west": (7, 2)], away: true)
    #expect(try left.finding(askingAll: false) == .arrived("west", move: 2))
    #expect(throws: Away.self) { try Self.search(["main": (6, 2)], away: true).finding(askingAll: false) }
    #expect(throws: Away.self) { try Self.search(["main": (5, nil)], away: true).finding(askingAll: true) }
    #expect(throws: Away.self) { try left.finding(askingAll: true) }
  }

  @Test func `the new shard of a division is found by its number, and only where nobody could open it yet`() throws {
    func search(move: Int64?, origin: Int64?, isBeforeRest: Bool = false) -> ShardSearch {
      var search = ShardSearch(shard: 2)
      var standing = ShardStanding(shardCount: 4, epoch: 3, installation: nil, move: move)
      (standing.source, standing.origin, standing.isBeforeRest) = (0, origin, isBeforeRest)
      search.note(standing, in: "west")
      search.note(Away())
      return search
    }
    let arriving = search(move: 7, origin: 7)
    #expect(try arriving.finding(askingAll: false, arrival: 7) == .arrived("west", move: 7))
    #expect(throws: Away.self) { try arriving.finding(askingAll: false, arrival: 8) }
    #expect(throws: Away.self) { try arriving.finding(askingAll: false) }
    #expect(throws: StoreError.lacksRest(2, in: "west")) {
      try search(move: 7, origin: 7, isBeforeRest: true).finding(askingAll: false, arrival: 7)
    }
    // It has moved on.
    #expect(throws: Away.self) { try search(move: 8, origin: 7).finding(askingAll: false, arrival: 8) }
    #expect(try search(move: nil, origin: 7).finding(askingAll: false, arrival: 7) == .present("west"))
  }
}
