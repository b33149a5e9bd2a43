// Services on networks with delay, loss and partitions: acknowledged saves are there exactly once, and no restart is
// needed.

import Foundation
import Testing

@Suite(
  .serialized,
  .enabled(
    if: FaultyNetwork.isPossible,
    "network namespaces take root, CAP_SYS_ADMIN, CAP_NET_ADMIN, /dev/net/tun and a C compiler"))
struct NetworkFaultTests {
  private static let deviceCount = 3

  /// Devices that save into such an installation.
  private struct World {
    let installation: NetworkedInstallation
    let user: User
    let devices: [Device]
    let ledger = SaveLedger()
    var network: FaultyNetwork { installation.network }

    static func run(seed: UInt64, _ body: (World) async throws -> Void) async throws {
      try await NetworkedInstallation.run(seed: seed) { installation in
        let user = try await installation.app.user("alice")
        var devices: [Device] = []
        for number in 0..<deviceCount { devices.append(try await user.device("device \(number)")) }
        try await body(World(installation: installation, user: user, devices: devices))
      }
    }

    /// Lets each device save `count` objects while `body` runs.
    func save(_ count: Int, while body: () async throws -> Void) async throws {
      let (devices, ledger) = (devices, ledger)
      async let saving: Void = withThrowingTaskGroup(of: Void.self) { group in
        for device in devices { group.addTask { try await ledger.save(count, on: device, within: .seconds(60)) } }
        try await group.waitForAll()
      }
      try await body()
      try await saving
    }

    /// Waits until at least this many saves are acknowledged.
    func waitForSaves(_ count: Int) async throws {
      for _ in 0..<6000 where ledger.entries.acknowledged.count < count { try await Task.sleep(for: .milliseconds(10)) }
      if ledger.entries.acknowledged.count < count { throw Unexpected("\(ledger.entries)") }
    }

    func expectAll(_ count: Int) async throws {
      #expect(ledger.entries.refusals == [])
      #expect(ledger.entries.acknowledged.count == count)
      try await ledger.expectEachOnce(on: devices, of: user)
    }
  }

  @Test(.timeLimit(.minutes(2))) func `every save is done once on a network that delays and loses packets`()
    async throws
  {
    try await World.run(seed: 1) { world in
      for (index, one) in NetworkedInstallation.names.enumerated() {
        for other in NetworkedInstallation.names[..<index] {
          try world.network.link(one, other, delay: 15, jitter: 10, loss: 30)
        }
      }
      try await world.save(40) {}
      // Packets are lost until the end.
      try await world.expectAll(40 * Self.deviceCount)
    }
  }

  @Test(
    .timeLimit(.minutes(2)),
    arguments: [["gateway-1", "worker-1", "gateway-1", "worker-2"], ["worker-1", "share-1", "worker-2", "share-1"]])
  func `after a partition the services find one another again, and every save is done once`(_ pairs: [String])
    async throws
  {
    try await World.run(seed: 2) { world in
      try await world.save(150) {
        try await world.waitForSaves(50)
        try world.network.cut(pairs[0], pairs[1])
        try world.network.cut(pairs[2], pairs[3])
        // Longer than the time after which a silent peer is noticed.
        try await Task.sleep(for: .seconds(6))
        try world.network.heal()
      }
      try await world.expectAll(150 * Self.deviceCount)
    }
  }

  /// The share services' database is at the host of the tests.
  @Test(.timeLimit(.minutes(2)))
  func `a share service leads no longer without its database, but goes on leading without a worker`() async throws {
    try await NetworkedInstallation.run(seed: 4, hasDatabase: true) { installation in
      let (network, processes, tests) = (installation.network, installation.processes, installation.app.installation)
      let user = try await installation.app.user("alice")
      let devices = [try await user.device("phone"), try await user.device("tablet")]
      let ledger = SaveLedger()
      func save() async throws { for device in devices { #expect(try await ledger.save("tag", on: device)) } }

      // It still has its members: what they ask is answered rightly or put off.
      try network.cut("share-1", "clients")
      for _ in 0..<600 where try await SharesWorld.attempt("bob", in: tests).status == 503 {
        let answer = try await tests.send(
          "GET", tests.ready.gateway + "/admin/1/users", bearer: tests.ready.operatorToken)
        #expect(answer.status == 503 || answer.text.contains("alice"), "\(answer.text)")
        try await save()
      }
      var made: Set<String> = ["alice", "bob"]
      for number in 0..<3 {
        let name = "user-\(number)"
        try await SharesWorld.make(name, in: tests)
        made.insert(name)
        try await save()
      }
      try await SharesWorld.expectUsers(made, in: tests)
      try network.heal()
      try await SharesWorld.waitForEnd(of: "share-1", processes)
      try installation.startWaiting("share-1")

      try network.cut("share-2", "worker-1")
      for _ in 0..<1500 {
        let members = try await tests.admin("GET", "/admin/1/status")["members"].elements.compactMap(\.["name"].string)
        if !members.contains("worker-1") { break }
        try await Task.sleep(for: .milliseconds(20))
      }
      try await SharesWorld.make("lonely", in: tests)
      try network.heal()
      for _ in 0..<5 { try await save() }
      try await SharesWorld.expectUsers(made.union(["lonely"]), in: tests)
      #expect(ledger.entries.refusals == [])
      try await ledger.expectEachOnce(on: devices, of: user)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `while the share service is away everything goes on with the last map, and no call has to be repeated`()
    async throws
  {
    try await World.run(seed: 3) { world in
      for device in world.devices { #expect(try await world.ledger.save("before", on: device)) }
      for name in NetworkedInstallation.names.dropFirst() { try world.network.cut("share-1", name) }
      let before = world.ledger.entries.retries
      var count = 0
      let end = ContinuousClock.now + .seconds(15)
      while ContinuousClock.now < end {
        for device in world.devices {
          #expect(try await world.ledger.save("away", on: device))
          #expect(try await device.send("GET", "/changes").status == 200)
        }
        count += world.devices.count
        try await Task.sleep(for: .milliseconds(100))
      }
      #expect(world.ledger.entries.retries == before)
      try world.network.heal()
      // It accepts operators' calls again by itself.
      var status = 0
      for _ in 0..<600 where status != 200 {
        let ready = world.user.app.installation.ready
        status = try await world.user.app.installation.send(
          "GET", ready.gateway + "/admin/1/users", bearer: ready.operatorToken
        ).status
        if status != 200 { try await Task.sleep(for: .milliseconds(50)) }
      }
      #expect(status == 200)
      try await world.expectAll(count + world.devices.count)
    }
  }
}
