// The audiences of changes in shared zones, also after failed reads.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import Testing
@testable import ZoneCommit

@Suite struct `Audiences of shared zones' changes` {
  /// Waits, a while, until something holds.
  private func holds(_ condition: () -> Bool) async throws -> Bool {
    for _ in 0..<2000 {
      if condition() { return true }
      try await Task.sleep(for: .milliseconds(1))
    }
    return false
  }

  @Test(arguments: 1...4, [StoreError.overloaded(shard: 0), .tooSlow(shard: 0), .io("the disk failed")])
  func `a read that fails is repeated, and nobody is forgotten`(failing: Int, failure: StoreError) async throws {
    try await SharedWorld.with { world in
      try await world.makeZone("Trip", of: "_alice", photo: "P")
      try await world.share("Trip", of: "_alice", .readWrite)
      let (audiences, changes) = (ShareAudiences(.silent), PublishedChanges())
      let publisher = AudiencePublisher(audiences: audiences, changes: changes)
      let store = MeddlingStore(try world.store(of: "_alice"), behindRead: failing) { throw failure }
      let work = Task { await audiences.run(on: store) }
      func isHeard(by users: [String]) -> Bool {
        publisher.publish(
          ZoneChange(
            database: SharedWorld.database("_alice"), zoneName: "Trip", sequence: 1, syncToken: "t", originStore: nil,
            audience: ["_alice"]))
        return Set(changes.take().flatMap(\.audience)) == Set(["_alice"] + users)
      }
      #expect(try await holds { isHeard(by: ["_bob"]) })
      // Every change reads its audience anew: the next change reaches a new participant, even after a failed read.
      try await world.share("Trip", of: "_alice", with: "_carol", .readOnly)
      #expect(try await holds { isHeard(by: ["_bob", "_carol"]) })
      try await world.share("Trip", of: "_alice", with: "_bob", nil)
      #expect(try await holds { isHeard(by: ["_carol"]) })
      #expect(
        try await holds {
          _ = isHeard(by: []); return store.readCount > failing
        })
      #expect(try await holds { isHeard(by: ["_carol"]) })
      work.cancel()
      await work.value
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `a participant who comes while the last one's end is read again hears of changes`() async throws {
    try await SharedWorld.with { world in
      try await world.makeZone("Trip", of: "_alice", photo: "P")
      try await world.share("Trip", of: "_alice", .readWrite)
      let (audiences, changes, database) = (ShareAudiences(.silent), PublishedChanges(), SharedWorld.database("_alice"))
      let publisher = AudiencePublisher(audiences: audiences, changes: changes)
      let (comings, coming) = AsyncStream.makeStream(of: Void.self)
      let base = try world.store(of: "_alice")
      // The first read finds Bob, and the second nobody.
      let second = MeddlingStore(base, behindRead: 2) {
        try await world.share("Trip", of: "_alice", with: "_carol", .readOnly)
        audiences.add(["_carol"], toZone: "Trip", of: database, shard: base.shard)
        coming.finish()
      }
      let store = MeddlingStore(second, behindRead: 1) {
        try await world.share("Trip", of: "_alice", with: "_bob", nil)
      }
      let work = Task { await audiences.run(on: store) }
      func audience() -> Set<String> {
        publisher.publish(
          ZoneChange(
            database: database, zoneName: "Trip", sequence: 1, syncToken: "t", originStore: nil, audience: ["_alice"]))
        return Set(changes.take().flatMap(\.audience))
      }
      #expect(try await holds { audience() == ["_alice", "_bob"] })
      for await _ in comings {}
      #expect(try await holds { audience() == ["_alice", "_carol"] })
      work.cancel()
      await work.value
    }
  }
}
