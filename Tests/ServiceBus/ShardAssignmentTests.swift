// The assignment of shards to workers as tables: arriving and leaving workers, and the shards that move.

import ServiceBus
import Testing

private func peer(
  _ name: String, _ role: Role = .worker, ready: Bool = true, incarnation: UInt64 = 1, format: Int? = nil
) -> Peer {
  Peer(
    name: name, role: role, incarnation: incarnation, endpoint: "memory://" + name, isReady: ready, shardFormat: format)
}

/// Decisions whose maps are stored at once.
private struct Decider {
  var assignment: ShardAssignment
  var graceIsOver = true

  init(shardCount: Int = 64, persisted: ClusterMap? = nil, graceIsOver: Bool = true) {
    assignment = ShardAssignment(shardCount: shardCount, persisted: persisted)
    self.graceIsOver = graceIsOver
  }

  @discardableResult
  mutating func see(_ peers: Peer...) -> ClusterMap? {
    let next = assignment.next(peers: peers + [peer("share", .share)], graceIsOver: graceIsOver)
    if let next { assignment.commit(next) }
    return next
  }

  var holders: [String?] { assignment.map.holders }
}

/// The shards that a worker holds.
private func shards(of name: String, in holders: [String?]) -> [Int] { holders.indices.filter { holders[$0] == name } }

@Suite struct ShardAssignmentTests {
  @Test func `without workers no shard has a holder`() {
    var decider = Decider(shardCount: 3)
    decider.see(peer("gateway-1", .gateway), peer("worker-1", ready: false))
    #expect(decider.holders == [nil, nil, nil])
    #expect(decider.assignment.map.members.map(\.name) == ["gateway-1", "share", "worker-1"])
  }

  @Test func `one worker holds everything, and all gone leaves nothing held`() {
    var decider = Decider()
    decider.see(peer("worker-1"))
    #expect(decider.holders == Array(repeating: "worker-1", count: 64))
    decider.see()
    #expect(decider.holders == Array(repeating: nil, count: 64))
  }

  @Test func `a version follows only when something changed`() {
    var decider = Decider()
    #expect(decider.see(peer("worker-1"))?.version == 1)
    #expect(decider.see(peer("worker-1")) == nil)
    #expect(decider.see(peer("worker-1"), peer("gateway-1", .gateway))?.version == 2)
    #expect(decider.see(peer("gateway-1", .gateway), peer("worker-1")) == nil)
  }

  @Test func `a join takes shards only for the joiner and a leave gives up only the leaver's`() {
    for total in 1...12 {
      var decider = Decider(shardCount: 256)
      var present: [Peer] = []
      for number in 1...total {
        let before = decider.holders
        present.append(peer("worker-\(number)"))
        if let next = decider.assignment.next(peers: present, graceIsOver: true) { decider.assignment.commit(next) }
        for (old, new) in zip(before, decider.holders) where old != new { #expect(new == "worker-\(number)") }
        #expect(!shards(of: "worker-\(number)", in: decider.holders).isEmpty)
      }
      for number in 1...total {
        let before = decider.holders
        present.removeFirst()
        if let next = decider.assignment.next(peers: present, graceIsOver: true) { decider.assignment.commit(next) }
        for (old, new) in zip(before, decider.holders) where old != new { #expect(old == "worker-\(number)") }
        #expect(shards(of: "worker-\(number)", in: decider.holders).isEmpty)
      }
    }
  }

  @Test func `shards spread over workers without leaving one idle or one with most`() {
    var decider = Decider(shardCount: 64)
    decider.see(peer("worker-1"), peer("worker-2"), peer("worker-3"), peer("worker-4"))
    for number in 1...4 { #expect((6...30).contains(shards(of: "worker-\(number)", in: decider.holders).count)) }
  }

  @Test func `a shard's holder does not depend on the order of arrival`() {
    var one = Decider()
    one.see(peer("worker-1"))
    one.see(peer("worker-1"), peer("worker-2"), peer("worker-3"))
    var other = Decider()
    other.see(peer("worker-3"), peer("worker-2"))
    other.see(peer("worker-3"), peer("worker-1"), peer("worker-2"))
    #expect(one.holders == other.holders)
  }

  @Test func `a worker that flaps moves only its own shards and gets them back`() {
    var decider = Decider()
    decider.see(peer("worker-1"), peer("worker-2"), peer("worker-3"))
    let steady = decider.holders
    var version = decider.assignment.map.version
    for incarnation in 2...6 {
      decider.see(peer("worker-1"), peer("worker-3"))
      for (old, new) in zip(steady, decider.holders) where old != new { #expect(old == "worker-2") }
      decider.see(peer("worker-1"), peer("worker-2", incarnation: UInt64(incarnation)), peer("worker-3"))
      #expect(decider.holders == steady)
      #expect(decider.assignment.map.version == version + 2)
      version += 2
    }
  }

  @Test func `a worker that drains gives its shards up before it leaves`() {
    var decider = Decider()
    decider.see(peer("worker-1"), peer("worker-2"))
    decider.see(peer("worker-1", ready: false), peer("worker-2"))
    #expect(shards(of: "worker-1", in: decider.holders).isEmpty)
    #expect(decider.assignment.map.members.contains { $0.name == "worker-1" })
  }

  @Test func `no older worker gets the shard of a newer one, which waits for one that knows it`() {
    var decider = Decider()
    decider.see(peer("worker-1"), peer("worker-2"), peer("worker-3"))
    let steady = decider.holders
    // Replaced: its shards go to the others without a change of format, and come back.
    decider.see(peer("worker-2"), peer("worker-3"))
    #expect(!decider.holders.contains(nil))
    decider.see(peer("worker-1", incarnation: 2, format: 21), peer("worker-2"), peer("worker-3"))
    #expect(decider.holders == steady)
    // Gone again: its shards have its newer format, so no older worker may hold them.
    decider.see(peer("worker-2"), peer("worker-3"))
    for (old, new) in zip(steady, decider.holders) { #expect(new == (old == "worker-1" ? nil : old)) }
    // Also after a restart of the share service.
    decider = Decider(persisted: decider.assignment.map)
    decider.see(peer("worker-2"), peer("worker-3", format: 20))
    for (old, new) in zip(steady, decider.holders) { #expect(new == (old == "worker-1" ? nil : old)) }
    // Workers of the same or a newer format may hold them, and keep their own shards.
    decider.see(peer("worker-2"), peer("worker-3", incarnation: 2, format: 21))
    for (old, new) in zip(steady, decider.holders) { #expect(new == (old == "worker-1" ? "worker-3" : old)) }
    decider.see(peer("worker-2", incarnation: 2, format: 22))
    #expect(
      decider.holders == Array(repeating: "worker-2", count: 64)
        && decider.assignment.map.formats == Array(repeating: 22, count: 64))
    decider.see(peer("worker-3", incarnation: 2, format: 21))
    #expect(decider.holders == Array(repeating: nil, count: 64))
  }

  @Test func `a map of a release that kept no formats has those of the workers that hold shards`() {
    let holders = ["worker-1", "worker-2"] as [String?]
    let persisted = ClusterMap(
      version: 7, members: [peer("share", .share), peer("worker-1"), peer("worker-2")], holders: holders)
    var decider = Decider(shardCount: 2, persisted: persisted)
    decider.see(peer("worker-1", incarnation: 2, format: 21), peer("worker-2"))
    decider.see(peer("worker-2"))
    #expect(zip(holders, decider.holders).allSatisfy { $1 == ($0 == "worker-2" ? "worker-2" : nil) })
  }

  @Test func `after a restart nothing moves and nobody is missing while members come back`() {
    var before = Decider()
    before.see(peer("gateway-1", .gateway), peer("worker-1"), peer("worker-2"))
    let persisted = before.assignment.map
    var after = Decider(persisted: persisted, graceIsOver: false)
    #expect(after.assignment.map == persisted)
    #expect(after.see() == nil)
    #expect(after.see(peer("worker-2")) == nil)
    #expect(after.see(peer("worker-2"), peer("gateway-1", .gateway), peer("worker-1")) == nil)
    after.graceIsOver = true
    #expect(after.see(peer("worker-2"), peer("gateway-1", .gateway), peer("worker-1")) == nil)
    #expect(after.assignment.map == persisted)
  }

  @Test func `a worker that was restarted together with the share service keeps its shards while it starts`() {
    var before = Decider()
    before.see(peer("worker-1"), peer("worker-2"))
    let steady = before.holders
    var after = Decider(persisted: before.assignment.map, graceIsOver: false)
    after.see(peer("worker-1", ready: false, incarnation: 2))
    #expect(after.holders == steady)
    after.see(peer("worker-1", incarnation: 2), peer("worker-2"))
    #expect(after.holders == steady)
    #expect(after.assignment.map.members.first { $0.name == "worker-1" }?.incarnation == 2)
  }

  @Test func `a worker that does not come back in the grace period is gone with its shards`() {
    var before = Decider()
    before.see(peer("worker-1"), peer("worker-2"))
    var after = Decider(persisted: before.assignment.map, graceIsOver: false)
    #expect(after.see(peer("worker-1")) == nil)
    after.graceIsOver = true
    after.see(peer("worker-1"))
    #expect(after.holders == Array(repeating: "worker-1", count: 64))
    #expect(!after.assignment.map.members.contains { $0.name == "worker-2" })
  }

  @Test func `a worker that drains while the share service restarts loses its shards at once`() {
    var before = Decider()
    before.see(peer("worker-1"), peer("worker-2"))
    var after = Decider(persisted: before.assignment.map, graceIsOver: false)
    after.see(peer("worker-1", ready: false))
    #expect(after.holders == Array(repeating: "worker-2", count: 64))
  }

  @Test func `versions go on from the greater of the start version and the persisted one`() {
    let persisted = ClusterMap(version: 7, members: [], holders: [nil])
    #expect(ShardAssignment(shardCount: 1, persisted: persisted, startVersion: 3).map.version == 7)
    #expect(ShardAssignment(shardCount: 1, persisted: persisted, startVersion: 30).map.version == 30)
    #expect(ShardAssignment(shardCount: 1, persisted: nil).map.version == 0)
  }

  @Test func `maps that follow have the least version or a greater one`() {
    let persisted = ClusterMap(version: 7, members: [], holders: [nil])
    for (least, next) in [(Int64(0), Int64(8)), (8, 8), (9, 9), (1000, 1000)] {
      var assignment = ShardAssignment(shardCount: 1, persisted: persisted, leastVersion: least)
      #expect(assignment.map.version == 7)
      #expect(assignment.next(peers: [peer("worker-1")], graceIsOver: true)?.version == next)
    }
  }

  @Test func `a persisted map of another shard count gives members but no holders`() {
    let persisted = ClusterMap(version: 7, members: [peer("worker-1")], holders: ["worker-1"])
    #expect(ShardAssignment(shardCount: 2, persisted: persisted).map.holders == [nil, nil])
  }
}
