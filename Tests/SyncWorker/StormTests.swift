// Storms of refusals by a fault plan: every client retries, nothing is lost, and the number of calls stays bounded.

import FixedClocks
import JSON
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing

/// Refuses commits by a plan that a seed decides, and counts what is asked of it.
private final class Storm: Sendable {
  private struct State {
    var seed: UInt64
    var isBlowing = false
    var attempts = 0
    var refusals = 0
  }

  private let state: Mutex<State>

  init(seed: UInt64) { state = Mutex(State(seed: seed &+ 1)) }

  func blow(_ isBlowing: Bool) { state.withLock { $0.isBlowing = isBlowing } }
  var attempts: Int { state.withLock { $0.attempts } }
  var refusals: Int { state.withLock { $0.refusals } }

  /// Two commits of three are refused.
  func failure() -> StoreError? {
    state.withLock { state in
      guard state.isBlowing else { return nil }
      state.attempts += 1
      state.seed = state.seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      guard state.seed >> 33 % 3 != 0 else { return nil }
      state.refusals += 1
      return .overloaded(shard: 0)
    }
  }
}

@Test(arguments: [1, 2, 3, 4] as [UInt64])
func `T-L04 a storm of refusals ends in convergence, with nothing lost and a bounded rate of requests`(_ seed: UInt64)
  async throws
{
  let storm = Storm(seed: seed)
  try await ObjectPlaneWorld.with(.memory, commitFailure: { _ in storm.failure() }) { world in
    let devices = [try await Device("A", world), try await Device("B", world), try await Device("C", world)]
    try await world.withExports {
      storm.blow(true)
      let began = world.clock.now
      var saves = 0
      var acknowledged: Set<String> = []
      for number in 0..<30 {
        let device = devices[number % devices.count]
        let id = "T\(number)"
        // As a client does: the same save again, when its time has come.
        while !acknowledged.contains(id) {
          saves += 1
          let reply = try await world.save(
            device.store, #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"x"}}"#,
            id: "save \(number)")
          guard reply.status != 200 else {
            acknowledged.insert(id)
            break
          }
          try #require(reply.status == 503 && reply.json["retryAfter"]?.int64 != nil, "\(reply.text)")
          world.clock.advance(by: 1000)
          try #require(saves < 1000)
        }
      }
      let seconds = (world.clock.now - began) / 1000
      // A save is at most two commits, and a waiting store is tried once when its second is over.
      // Failures in a row have one event.
      let bound = 2 * saves + devices.count * (2 * Int(seconds) + 4)
      #expect(
        storm.refusals > 10 && storm.attempts <= bound, "\(storm.attempts) commits for \(saves) saves in \(seconds) s")
      storm.blow(false)
      for device in devices {
        var tries = 0
        while try await world.get("\(device.store)/status").json["pendingUploads"]?.int64 != 0, tries < 5000 {
          world.clock.advance(by: 1000)
          try await Task.sleep(for: .milliseconds(1))
          tries += 1
        }
      }
      #expect(Set(try await world.liveRecords().map(\.recordName)) == acknowledged && acknowledged.count == 30)
      for (index, device) in devices.enumerated() {
        try await device.pull()
        let own = Set((0..<30).filter { $0 % devices.count == index }.map { "T\($0)" })
        #expect(Set(device.graph.objects.keys) == acknowledged.subtracting(own))
        #expect(
          try await world.get("\(device.store)/history").json["transactions"]?.count == 10,
          "a save that is sent again is stored once")
      }
    }
  }
}
