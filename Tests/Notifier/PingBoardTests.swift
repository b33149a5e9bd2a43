import JSON
import Records
import ServiceBus
import Testing

@testable import Notifier

private func scope(_ container: String = "iCloud.a", _ environment: Environment = .development) throws
  -> PingBoard.Scope
{
  PingBoard.Scope(container: try #require(ContainerID(rawValue: container)), environment: environment)
}

private func change(
  _ scope: PingBoard.Scope, owner: String, zone: String = "Z", sequence: Int64 = 1, origin: String? = nil,
  by user: String? = nil, audience: [String]
) -> ZoneChange {
  ZoneChange(
    database: DatabaseID(container: scope.container, environment: scope.environment, owner: owner), zoneName: zone,
    sequence: sequence,
    syncToken: "token \(sequence)", originStore: origin, originUser: user, audience: audience)
}

struct PingBoardTests {
  /// ann has two devices, bob one, cid one; dora listens in another environment, and ann in another container.
  private struct World {
    var board = PingBoard()
    let home: PingBoard.Scope
    let ann1, ann2, bob, cid: PingBoard.ListenerID

    init() throws {
      home = try scope()
      ann1 = board.connect(.init(scope: home, userRecordName: "ann", devices: ["A1"]))
      ann2 = board.connect(.init(scope: home, userRecordName: "ann", devices: []))
      bob = board.connect(.init(scope: home, userRecordName: "bob", devices: ["B1"]))
      cid = board.connect(.init(scope: home, userRecordName: "cid", devices: ["C1"]))
      _ = board.connect(.init(scope: try scope("iCloud.a", .production), userRecordName: "dora", devices: []))
      _ = board.connect(.init(scope: try scope("iCloud.b"), userRecordName: "ann", devices: []))
    }

    func told(_ owner: String, _ audience: [String], origin: String? = nil, by user: String? = nil) -> [DatabaseScope:
      [PingBoard.ListenerID]]
    {
      Dictionary(
        uniqueKeysWithValues: board.deliveries(
          of: change(home, owner: owner, origin: origin, by: user, audience: audience)
        ).map { ($0.databaseScope, $0.listeners) })
    }
  }

  @Test func `a private zone's change goes to the owner's devices`() throws {
    let world = try World()
    #expect(world.told("ann", ["ann"]) == [.private: [world.ann1, world.ann2]])
    #expect(world.told("dora", ["dora"]) == [:])
    #expect(world.told("nobody", ["nobody"]) == [:])
  }

  @Test func `the device that made the change is not told, the user's others are`() throws {
    let world = try World()
    #expect(world.told("ann", ["ann"], origin: "A1") == [.private: [world.ann2]])
    #expect(world.told("bob", ["bob"], origin: "B1") == [:])
    #expect(world.told("ann", ["ann"], origin: "B1") == [.private: [world.ann1, world.ann2]])
  }

  @Test func `a shared zone is private to its owner and shared to the others`() throws {
    let world = try World()
    #expect(
      world.told("ann", ["ann", "bob", "cid"]) == [
        .private: [world.ann1, world.ann2], .shared: [world.bob, world.cid],
      ])
    #expect(world.told("ann", ["bob", "ann"], origin: "B1") == [.private: [world.ann1, world.ann2]])
    #expect(world.told("cid", ["cid", "ann"]) == [.private: [world.cid], .shared: [world.ann1, world.ann2]])
    #expect(world.told("ann", ["bob", "bob"]) == [.shared: [world.bob]])
  }

  @Test
  func `couriers of participants are left to who knows their subscriptions, event streams are told of every zone`()
    throws
  {
    var world = try World()
    let home = world.home
    let couriers = ["ann", "bob"].map {
      world.board.connect(.init(.courier, scope: home, userRecordName: $0, devices: []))
    }
    var change = change(home, owner: "ann", audience: ["ann", "bob"])
    func told(_ change: ZoneChange) -> [DatabaseScope: [PingBoard.ListenerID]] {
      Dictionary(uniqueKeysWithValues: world.board.deliveries(of: change).map { ($0.databaseScope, $0.listeners) })
    }
    // From a worker of an earlier release.
    #expect(told(change) == [.private: [world.ann1, world.ann2, couriers[0]], .shared: [world.bob, couriers[1]]])
    change.tellsHomes = true
    #expect(told(change) == [.private: [world.ann1, world.ann2, couriers[0]], .shared: [world.bob]])
    var notification = SubscriptionNotification(
      container: home.container, environment: home.environment, userRecordName: "bob", subscriptionID: "s",
      scope: .shared,
      zone: Zone.ID(zoneName: "Z", ownerName: "ann"), sequence: 1, originDevice: nil, notificationID: "N", json: [])
    #expect(world.board.listeners(to: notification) == [world.bob, couriers[1]])
    notification.isForCouriersOnly = true
    #expect(world.board.listeners(to: notification) == [couriers[1]])
  }

  @Test func `the public database is everybody's in that container and environment`() throws {
    let world = try World()
    #expect(world.told(DatabaseID.publicOwner, []) == [.public: [world.ann1, world.ann2, world.bob, world.cid]])
    #expect(world.told(DatabaseID.publicOwner, [], origin: "C1") == [.public: [world.ann1, world.ann2, world.bob]])
    // Another user's device of the same name is a different device.
    #expect(
      world.told(DatabaseID.publicOwner, [], origin: "C1", by: "cid") == [.public: [world.ann1, world.ann2, world.bob]])
    #expect(
      world.told(DatabaseID.publicOwner, [], origin: "C1", by: "ann") == [
        .public: [world.ann1, world.ann2, world.bob, world.cid]
      ])
  }

  @Test func `a private zone without an audience is told to nobody`() throws {
    #expect(try World().told("ann", []) == [:])
  }

  @Test func `a device that left hears nothing, and leaving twice does nothing`() throws {
    var world = try World()
    world.board.disconnect(world.ann1)
    world.board.disconnect(world.ann1)
    #expect(world.told("ann", ["ann", "bob"]) == [.private: [world.ann2], .shared: [world.bob]])
    world.board.disconnect(world.ann2)
    #expect(world.told("ann", ["ann"]) == [:])
    #expect(world.board.count == 4)
  }

  @Test func `many come and go in any order, and the board agrees with a plain list`() throws {
    var board = PingBoard()
    var plain: [(id: PingBoard.ListenerID, user: String, device: String)] = []
    let home = try scope()
    var state: UInt64 = 12345
    func next(_ bound: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(bound))
    }
    for step in 0..<3000 {
      if next(3) > 0 || plain.isEmpty {
        let (user, device) = ("user\(next(5))", "device\(next(3))")
        plain.append((board.connect(.init(scope: home, userRecordName: user, devices: [device])), user, device))
      } else {
        board.disconnect(plain.remove(at: next(plain.count)).id)
      }
      if step % 50 == 0 {
        let deliveries = board.deliveries(
          of: change(home, owner: "user0", origin: "device1", audience: ["user0", "user1", "user3"]))
        let owners = plain.filter { $0.user == "user0" && $0.device != "device1" }.map(\.id)
        let others = plain.filter { ["user1", "user3"].contains($0.user) && $0.device != "device1" }.map(\.id)
        #expect(deliveries.first { $0.databaseScope == .private }?.listeners ?? [] == owners)
        #expect(deliveries.first { $0.databaseScope == .shared }?.listeners ?? [] == others)
      }
    }
  }
}

extension Ping {
  /// The last two parts of its key.
  fileprivate var zone: String { key.split(separator: "\u{1f}").suffix(2).joined(separator: " ") }
}

struct PendingPingsTests {
  private func ping(_ zone: String, _ sequence: Int64, owner: String = "ann") throws -> Ping {
    Ping(
      change(try scope(), owner: owner, zone: zone, sequence: sequence, audience: []), as: .private, notificationID: "N"
    )
  }

  @Test func `pings merge by zone, the latest wins, and zones keep the order of their first change`() throws {
    var pending = PendingPings()
    #expect(pending.put(try ping("A", 1)) == .added)
    #expect(pending.put(try ping("B", 1)) == .added)
    #expect(pending.put(try ping("A", 3)) == .coalesced)
    #expect(pending.put(try ping("A", 2)) == .coalesced)
    #expect(pending.put(try ping("A", 9, owner: "bob")) == .added)
    #expect(pending.count == 3)
    #expect(pending.take(2).map { "\($0.zone) \($0.sequence)" } == ["ann A 3", "ann B 1"])
    #expect(pending.take(5).map(\.sequence) == [9])
    #expect(pending.isEmpty)
    #expect(pending.take(1).isEmpty)
    #expect(pending.put(try ping("A", 1)) == .added)
  }

  @Test func `more zones than the limit forget the oldest`() throws {
    var pending = PendingPings(limit: 2)
    #expect(pending.put(try ping("A", 1)) == .added)
    #expect(pending.put(try ping("B", 1)) == .added)
    #expect(pending.put(try ping("C", 1)) == .displaced)
    #expect(pending.put(try ping("B", 2)) == .coalesced)
    #expect(pending.take(10).map(\.zone) == ["ann B", "ann C"])
  }

  @Test(arguments: [(DatabaseScope.public, 0), (.private, 1), (.shared, 2)])
  func `a ping has the form that clients read`(scopeOfDatabase: DatabaseScope, number: Int) throws {
    let ping = Ping(
      change(try scope(), owner: "ann", zone: "com.apple \"x\"", sequence: 7, audience: []), as: scopeOfDatabase,
      notificationID: "5A0C")
    #expect(
      String(decoding: ping.json, as: UTF8.self)
        == #"""
        {"aps":{"content-available":1},"ck":{"ce":2,"cid":"iCloud.a","nid":"5A0C","met":{"dbs":\#(number),\#
        "zid":"com.apple \#
        \"x\"","zoid":"ann","sid":"com.apple.coredata.cloudkit.\#(scopeOfDatabase.rawValue).subscription",\#
        "tok":"token 7"}}}
        """#)
  }
}
