import JSON
import RecordStore
import Records
import Sanitizers
import Testing

private typealias World = RecordPlaneWorld

/// Hierarchies that move, are shared, left and deleted, and participants who look now and then.
struct ShareFeedOracleTests {
  private static let users = ["bob", "carol"]
  private static let names = (0..<10).map { "n\($0)" }

  @Test(arguments: Sanitizer.few(6, of: 1...24 as ClosedRange<UInt64>))
  func `a reader of the feed of hierarchies ends with the records that they may see, and hears of each departure once`(
    seed: UInt64
  ) async throws {
    let world = try await RecordPlaneWorld.inMemory(seed: seed)
    let random = SeededRandom(seed: seed &* 77)
    func pick(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
    try await world.makeZone()
    var model = HierarchyModel()
    var readers = Self.users.map { FeedReader(world, "_\($0)") }
    var log: [String] = []
    for _ in 0..<150 {
      let name = Self.names[pick(Self.names.count)]
      let user = Self.users[pick(Self.users.count)]
      let shared = model.shares.keys.sorted()
      switch pick(14) {
      case 0..<6:
        let parent = pick(4) == 0 ? nil : Self.names[pick(Self.names.count)]
        log.append("save \(name) below \(parent ?? "nothing")")
        let saved = try await world.modify([World.note(name, "forceReplace", parent: parent, title: "\(pick(100))")])
        if saved.records.first?.code == nil {
          model.alive.insert(name)
          model.parents[name] = parent
        }
      case 6:
        log.append("delete \(name)")
        _ = try await world.modify([World.deletion(name)])
        model.alive.remove(name)
        model.shares[name] = nil
      case 7:
        guard model.alive.contains(name), model.shares[name] == nil else { continue }
        let invited = Self.users.filter { _ in pick(2) == 0 }
        log.append("share \(name) with \(invited)")
        try await world.shareHierarchy(name, with: invited)
        model.shares[name] = Set(invited)
      case 8:
        guard !shared.isEmpty, case let root = shared[pick(shared.count)] else { continue }
        log.append("\(user) joins \(root)")
        if model.shares[root]?.contains(user) == true { continue }
        let share = try await world.currentShare("S-\(root)")
        let list =
          share.participants.compactMap { $0["participantId"]?.string }.map { #"{"participantId":"\#($0)"}"# } + [
            World.participant(user)
          ]
        let changed = try await world.modify([
          World.share("update", name: "S-\(root)", tag: share.tag, #""participants":[\#(list.joined(separator: ","))]"#)
        ])
        try #require(changed.records.first?.code == nil, "\(changed.text)")
        try #require(try await world.accept(share.shortGUID, by: "_\(user)").code == nil)
        model.shares[root]?.insert(user)
      case 9:
        guard !shared.isEmpty, case let root = shared[pick(shared.count)] else { continue }
        switch pick(3) {
        case 0:
          log.append("only \(user) keeps \(root)")
          try await world.keep([user], in: root)
          model.shares[root]?.formIntersection([user])
        case 1:
          log.append("\(user) leaves \(root)")
          guard model.shares[root]?.contains(user) == true else { continue }
          _ = try await world.modify([World.deletion("S-\(root)")], by: "_\(user)")
          model.shares[root]?.remove(user)
        default:
          log.append("\(root) is shared no more")
          _ = try await world.modify([World.deletion("S-\(root)")])
          model.shares[root] = nil
        }
      default:
        let index = pick(readers.count)
        let (limit, pages, isReversed) = (
          pick(3) == 0 ? nil : 1 + pick(4), pick(2) == 0 ? 1 + pick(3) : 1000, pick(5) == 0
        )
        log.append("\(readers[index].user) polls \(pages) pages of \(limit ?? 0), reversed: \(isReversed)")
        try await readers[index].poll(limit: limit, pages: pages, isReversed: isReversed)
        if pages == 1000, !isReversed { Self.check(readers[index], model, log) }
      }
      model.note(Self.users)
    }
    for index in readers.indices {
      try await readers[index].poll()
      Self.check(readers[index], model, log)
      try await readers[index].poll()
      #expect(readers[index].told == [])
    }
  }

  private static func check(_ reader: FeedReader, _ model: HierarchyModel, _ log: [String]) {
    let user = String(reader.user.dropFirst())
    #expect(reader.held == model.visible(to: user), "\(user): \(log.suffix(40))")
    for (name, count) in reader.deletions {
      #expect(count <= model.departures[user]?[name] ?? 0, "\(user) was told of \(name)'s deletion: \(log.suffix(40))")
    }
  }
}
