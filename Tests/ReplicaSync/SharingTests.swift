// The sharing story with three people, who are offline in between: against the real server's processes.

import Foundation
import MirrorWire
import ReplicaStore
import ReplicaSync
import ReplicaWorld
import Synchronization
import Testing

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct SharingTests {
  private func device(
    _ user: User, _ scope: String = "private", transport: any Transport = CurlTransport()
  ) async throws -> Device {
    let path = "\(user.server.folder.path)/\(UUID().uuidString)"
    let replica = try await StoredReplica(path, modelHash: user.server.modelHash, isShared: scope == "shared")
    return try await Device(user, scope: scope, replica: replica, transport: transport, lease: 3600)
  }

  /// Half a minute of the test's hurried clock.
  private static let syncLimit = Duration.seconds(3000)

  private func sharing(_ device: Device) -> Sharing {
    Sharing(device.loop, surroundings: .quick, syncLimit: Self.syncLimit)
  }

  @Test func `three people share a post, edit it offline, and one is shut out`() async throws {
    try await Server.run { server in
      let (grace, ida, hedy) = (
        try await server.user("grace"), try await server.user("ida"), try await server.user("hedy")
      )
      let (phone, laptop) = (try await device(grace), try await device(grace))
      let (tablet, watch) = (try await device(ida, "shared"), try await device(hedy, "shared"))
      for device in [phone, laptop, tablet, watch] { try await device.sync() }
      try await phone.replica.save { edit in
        edit.insert("Post", "p1", ["title": .string("Dunes")])
        edit.insert("Tag", "t1", ["name": .string("sea")])
        edit.pair("p1", "t1", isMade: true)
        edit.insert("Post", "p2", ["title": .string("alone")])
      }

      // By link: the connected graph moves.
      let (share, moved) = try await sharing(phone).share(["p1"], to: nil, title: "Our dunes", publicPermission: .none)
      #expect(Set(moved) == ["p1", "t1"] && share.title == "Our dunes" && share.url.contains("/share/"))

      // By name: Ida may write, Hedy may read.
      let people = try await sharing(phone).participants(
        matching: [
          .emailAddress("ida@example.org"), .emailAddress("hedy@example.org"), .emailAddress("nobody@example.org"),
        ])
      #expect(people.count == 2)
      var changed = share
      for var person in people {
        person.permission = person.userRecordName == ida.recordName ? .readWrite : .readOnly
        changed.addParticipant(person)
      }
      let saved = try await sharing(phone).persist(changed)
      #expect(saved.participants.count == 3)
      for device in [tablet, watch] {
        let accepted = try await sharing(device).accept([saved.url])
        #expect(accepted.map(\.zone.zoneName) == [saved.zone.zoneName] && accepted.first?.title == "Our dunes")
        #expect(
          try await device.shown() == ["Post p1: title=string(\"Dunes\")", "Tag t1: name=string(\"sea\")", "p1–t1"])
      }
      #expect(try await sharing(tablet).cachedShares().map(\.zone) == [saved.zone])

      // Offline edits of two people meet.
      await tablet.mirroring.stop()
      await laptop.mirroring.stop()
      try await tablet.replica.save { edit in
        edit.set("title", of: "p1", .string("Dunes by Ida"))
        edit.insert("Remark", "r1", ["text": .string("lovely")])
        edit.point("post", of: "r1", to: "p1")
      }
      try await laptop.replica.save { $0.set("score", of: "p1", .integer(5)) }
      try await tablet.sync()
      for _ in 0..<2 { for device in [laptop, phone, tablet, watch] { try await device.sync() } }
      let expected = [
        "Post p1: score=integer(5) title=string(\"Dunes by Ida\")", "Remark r1: post→p1 text=string(\"lovely\")",
        "Tag t1: name=string(\"sea\")", "p1–t1",
      ]
      for device in [tablet, watch] { #expect(try await device.shown() == expected) }
      for device in [phone, laptop] {
        #expect(Set(try await device.shown()) == Set(expected + ["Post p2: title=string(\"alone\")"]))
      }

      // Whoever may only read is refused before or by the server, and shows the server's state.
      do {
        try await watch.replica.save { $0.set("title", of: "p1", .string("by Hedy")) }
        try await watch.sync()
      } catch let error as StoreError {
        guard case .permission = error else { throw error }
      }
      try await watch.sync()
      #expect(try await watch.shown() == expected)

      // Two changes of the share at a time: the second is made to the server's share.
      var (first, second) = (saved, saved)
      first.title = "Dunes for all"
      second.removeParticipant(try #require(saved.participants.first { $0.userRecordName == hedy.recordName }?.id))
      _ = try await sharing(phone).persist(first)
      let both = try await sharing(laptop).persist(second)
      #expect(both.title == "Dunes for all" && !both.participants.contains { $0.userRecordName == hedy.recordName })
      try await watch.sync()
      #expect(try await watch.shown().isEmpty)

      // Ida leaves; the owner keeps everything, and takes it back.
      try await sharing(tablet).purge(saved.zone, keepCopy: false)
      #expect(try await tablet.shown().isEmpty)
      let back = try await sharing(phone).move(["p1"], to: nil)
      #expect(Set(back) == ["p1", "t1", "r1"])
      for device in [phone, laptop] { try await device.sync() }
      let (onLaptop, onPhone) = (try await laptop.shown(), try await phone.shown())
      #expect(onLaptop == onPhone)
      for device in [phone, laptop, tablet, watch] { await device.mirroring.stop() }
    }
  }

  @Test func `two stores of a person hear of both databases by one stream of pings`() async throws {
    try await Server.run { server in
      let (grace, ida) = (try await server.user("grace"), try await server.user("ida"))
      let phone = try await device(grace)
      try await phone.sync()
      try await phone.replica.save { $0.insert("Post", "p1", ["title": .string("Dunes")]) }
      let (share, _) = try await sharing(phone).share(["p1"], to: nil, title: nil, publicPermission: .readWrite)
      // Ida's two stores, and another device of hers.
      let mirroring = Mirroring(
        account: ida.account(), container: Server.container, environment: "development", transport: CurlTransport(),
        surroundings: .quick)
      var loops: [SyncLoop] = []
      var replicas: [StoredReplica] = []
      for scope in ["private", "shared"] {
        let path = "\(server.folder.path)/ida-\(scope)"
        replicas.append(try await StoredReplica(path, modelHash: server.modelHash, isShared: scope == "shared"))
        loops.append(
          try await mirroring.add(replicas[replicas.count - 1].replica, scope: scope, options: MirrorOptions()))
      }
      try await mirroring.start()
      _ = try await Sharing(loops[1], surroundings: .quick, syncLimit: Self.syncLimit).accept([share.url])
      let tablet = try await device(ida)
      try await tablet.sync()
      for number in 0..<3 {
        try await phone.replica.save { $0.set("title", of: "p1", .string("Dunes \(number)")) }
        try await tablet.replica.save { $0.insert("Tag", "t\(number)", ["name": .string("sea")]) }
        for device in [phone, tablet] { try await device.sync() }
        for _ in 0..<2000 {
          let (own, others) = (try await replicas[0].shown(), try await replicas[1].shown())
          if own.count == number + 1, others == ["Post p1: title=string(\"Dunes \(number)\")"] { break }
          try await Task.sleep(for: .milliseconds(5))
        }
        #expect(try await replicas[0].shown().count == number + 1)
        #expect(try await replicas[1].shown() == ["Post p1: title=string(\"Dunes \(number)\")"])
      }
      await mirroring.stop()
      for device in [phone, tablet] { await device.mirroring.stop() }
    }
  }

  @Test(arguments: [false, true])
  func `a change of a share is known although the answer about it is lost, or the process ends then`(_ ends: Bool)
    async throws
  {
    try await Server.run { server in
      let (grace, ida) = (try await server.user("grace"), try await server.user("ida"))
      let lostCount = Mutex(0)
      let transport = FaultyTransport(inner: CurlTransport()) { request in
        guard request.method == "GET", request.url.contains("/shares") else { return .none }
        return lostCount.withLock { count in
          if count == 0 { return .none }
          count -= 1
          return .losesAnswer
        }
      }
      let (phone, tablet) = (try await device(grace), try await device(ida, "shared", transport: transport))
      for device in [phone, tablet] { try await device.sync() }
      try await phone.replica.save { $0.insert("Post", "p1", ["title": .string("Dunes")]) }
      let (share, _) = try await sharing(phone).share(["p1"], to: nil, title: nil, publicPermission: .none)
      var shared = share
      let address = LookupInfo.emailAddress("ida@example.org")
      var person = try #require(try await sharing(phone).participants(matching: [address]).first)
      person.permission = .readOnly
      shared.addParticipant(person)
      shared = try await sharing(phone).persist(shared)
      _ = try await sharing(tablet).accept([shared.url])
      #expect(try await tablet.replica.store.zones().map(\.permission) == [.readOnly])

      person = try #require(shared.participants.first { $0.userRecordName == ida.recordName })
      person.permission = .readWrite
      shared.addParticipant(person)
      lostCount.withLock { $0 = ends ? .max : 1 }
      _ = try await sharing(phone).persist(shared)
      if ends {
        await #expect(throws: StoreError.offline) { try await tablet.loop.syncNow(timeout: .seconds(200)) }
        try await tablet.restart()
        lostCount.withLock { $0 = 0 }
      }
      try await tablet.sync()
      #expect(try await tablet.replica.store.zones().map(\.permission) == [.readWrite])
      #expect(lostCount.withLock { $0 } == 0)
      try await tablet.replica.save { $0.set("title", of: "p1", .string("by Ida")) }
      for device in [tablet, phone] { try await device.sync() }
      #expect(try await phone.shown() == ["Post p1: title=string(\"by Ida\")"])
      for device in [phone, tablet] { await device.mirroring.stop() }
    }
  }

  @Test func `permissions and records are the server's`() async throws {
    try await Server.run { server in
      let phone = try await device(try await server.user("grace"))
      try await phone.sync()
      try await phone.replica.save { $0.insert("Post", "p1", ["title": .string("Dunes")]) }
      try await phone.sync()
      let answer = try await sharing(phone).fetchPermissions(["p1"])
      #expect(answer.objects.map(\.canUpdate) == [true])
      let answers = try await sharing(phone).records(["none", "p1"])
      let records = answers.map { $0.map { String(decoding: $0, as: UTF8.self) } }
      #expect(records.count == 2 && records[0] == nil)
      #expect(records[1]?.contains("CD_title") == true && records[1]?.contains("Dunes") == true)
      #expect(try await sharing(phone).explain("p1").syncState == "clean")
      await phone.mirroring.stop()
    }
  }
}

@Test func `only the address of a share leads to its name`() throws {
  let name = "0000aBcDeFgHiJkLmNoPqRsTu"
  let addresses = [
    "https://a.example/share/\(name)", "http://a.example:8080/share/\(name)#Dunes", " /share/\(name)?a=b ",
  ]
  for address in addresses {
    #expect(try Share.shortGUID(ofAddress: address) == name)
  }
  for address in ["", "https://a.example", "https://a.example/share/", "https://a.example/share/short", name + "é"] {
    #expect(throws: StoreError.invalid("'\(address)' is not the address of a share")) {
      try Share.shortGUID(ofAddress: address)
    }
  }
}
