// The index of users' access to shared zones: versions, order, repair, limits.

import JSON
import Records
import SQLite
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct SharedZoneTests {
  private static func zone(
    _ name: String, of owner: String, to user: String, _ isActive: Bool = true, at sequence: Int64,
    container: ContainerID = World.container,
    _ environment: Records.Environment = .development
  ) -> SharedZone {
    SharedZone(
      key: SharedZone.Key(
        database: DatabaseID(container: container, environment: environment, owner: owner), zoneName: name,
        userRecordName: user), isActive: isActive,
      sequence: sequence)
  }

  /// `owner/zone@sequence`, with a minus in front of ended accesses.
  private func list(_ user: String, in world: World, _ environment: Records.Environment = .development) async throws
    -> [String]
  {
    try await world.service.directory.sharedZones(
      FetchSharedZones(userRecordName: user, container: World.container, environment: environment)
    ).owners
      .flatMap { owner in owner.zones.map { "\($0.isActive ? "" : "-")\(owner.owner)/\($0.zoneName)@\($0.sequence)" } }
  }

  /// Compares with all entries of the shards, one page for each shard.
  private func compare(_ zones: [SharedZone], in world: World) async throws -> Int {
    let directory = world.service.directory
    let groups = Dictionary(grouping: zones.sorted { $0.key < $1.key }) {
      directory.layout.shard(of: $0.key.database)
    }
    var corrected = 0
    let number = try await directory.beginComparison()
    for shard in 0..<directory.shardCount {
      corrected += try await directory.compare(
        CompareSharedZones(number: number, shard: shard, after: nil, through: nil, zones: groups[shard] ?? []))
    }
    return corrected
  }

  @Test func `news are taken in once, and older ones change nothing`() async throws {
    let world = try await World.withContainer()
    let directory = world.service.directory
    let joined = Self.zone("Trips", of: "_ann", to: "_bob", at: 5)
    for _ in 0..<2 {
      try await directory.note([
        joined, Self.zone("Notes", of: "_ann", to: "_bob", at: 6), Self.zone("Trips", of: "_ann", to: "_cem", at: 7),
      ])
    }
    #expect(try await list("_bob", in: world) == ["_ann/Notes@6", "_ann/Trips@5"])
    try await directory.note([Self.zone("Trips", of: "_ann", to: "_bob", false, at: 9), joined])
    #expect(try await list("_bob", in: world) == ["_ann/Notes@6", "-_ann/Trips@9"])
    #expect(try await list("_cem", in: world) == ["_ann/Trips@7"])
    try await directory.note([Self.zone("Trips", of: "_ann", to: "_bob", at: 12)])
    #expect(try await list("_bob", in: world) == ["_ann/Notes@6", "_ann/Trips@12"])
    #expect(try await list("_bob", in: world, .production) == [])
    let counts = try await directory.sharedZoneCounts()
    #expect(counts.active == 3 && counts.ended == 0)
  }

  @Test func `news in any order end alike`() async throws {
    let news = [
      Self.zone("Trips", of: "_ann", to: "_bob", at: 1), Self.zone("Trips", of: "_ann", to: "_bob", false, at: 2),
      Self.zone("Trips", of: "_ann", to: "_bob", at: 3),
      Self.zone("Trips", of: "_ann", to: "_bob", false, at: 4),
    ]
    for first in news.indices {
      for second in news.indices {
        let world = try await World.withContainer()
        try await world.service.directory.note([news[first], news[second], news[3]])
        try await world.service.directory.note([news[second]])
        #expect(try await list("_bob", in: world) == ["-_ann/Trips@4"])
      }
    }
  }

  @Test func `news of no container is nobody's, and a deleted container's news is gone`() async throws {
    let world = try await World.withContainer()
    let elsewhere = try #require(ContainerID(rawValue: "iCloud.none"))
    let known = Self.zone("Trips", of: "_ann", to: "_bob", at: 1)
    try await world.service.directory.note([
      Self.zone("Trips", of: "_ann", to: "_bob", at: 1, container: elsewhere), known,
    ])
    #expect(try await world.service.directory.sharedZoneCounts().active == 1)
    try await world.ok("DELETE", "/admin/1/containers/\(World.photos)")
    #expect(try await world.service.directory.sharedZoneCounts().active == 0)
    #expect(try await compare([known], in: world) == 0)
  }

  @Test func `a reset of development forgets its accesses and no others`() async throws {
    let world = try await World.withContainer()
    try await world.service.directory.note(
      [
        Self.zone("Trips", of: "_ann", to: "_bob", at: 90),
        Self.zone("Trips", of: "_ann", to: "_bob", at: 8, .production),
      ])
    try await world.ok("POST", "/admin/1/schema/\(World.photos)/development/reset")
    #expect(try await list("_bob", in: world) == [])
    #expect(try await list("_bob", in: world, .production) == ["_ann/Trips@8"])
    // The sequences of databases begin again.
    try await world.service.directory.note([Self.zone("Trips", of: "_ann", to: "_bob", at: 2)])
    #expect(try await list("_bob", in: world) == ["_ann/Trips@2"])
  }

  @Test func `a compare corrects in both directions, also to older states`() async throws {
    let world = try await World.withContainer()
    try await world.service.directory.note([
      Self.zone("A", of: "_ann", to: "_bob", at: 50), Self.zone("B", of: "_ann", to: "_bob", false, at: 60),
      Self.zone("C", of: "_cem", to: "_bob", at: 9),
    ])
    // The entries as a restored shard knows them.
    let truth = [
      Self.zone("A", of: "_ann", to: "_bob", false, at: 40), Self.zone("D", of: "_dan", to: "_bob", at: 3),
      Self.zone("C", of: "_cem", to: "_bob", at: 9),
    ]
    #expect(try await compare(truth, in: world) == 3)
    #expect(try await list("_bob", in: world) == ["-_ann/A@40", "_cem/C@9", "_dan/D@3"])
    #expect(try await compare(truth, in: world) == 0)
    let restarted = try await world.restarted()
    #expect(try await list("_bob", in: restarted) == ["-_ann/A@40", "_cem/C@9", "_dan/D@3"])
    #expect(try await compare([], in: restarted) == 3)
    #expect(try await list("_bob", in: restarted) == [])
  }

  @Test func `a page that comes late changes nothing that was noted since it was read`() async throws {
    let folder = TemporaryFolder()
    let world = try World(in: folder, shardCount: 1)
    try await world.ok("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
    let directory = world.service.directory
    let (old, ended) = (
      Self.zone("A", of: "_ann", to: "_bob", at: 5), Self.zone("A", of: "_ann", to: "_bob", false, at: 9)
    )
    try await directory.note([old])
    let number = try await directory.beginComparison()
    // The shard was read before these reports: its page has only `old`.
    try await directory.note([ended, Self.zone("A", of: "_ann", to: "_cem", at: 10)])
    #expect(
      try await directory.compare(CompareSharedZones(number: number, shard: 0, after: nil, through: nil, zones: [old]))
        == 0)
    #expect(try await list("_bob", in: world) == ["-_ann/A@9"])
    #expect(try await list("_cem", in: world) == ["_ann/A@10"])
    #expect(try await compare([old], in: world) == 2)
    #expect(try await list("_bob", in: world) == ["_ann/A@5"])
  }

  @Test func `a comparison that began with a directory that was lost since changes nothing`() async throws {
    let world = try await World.withContainer(shardCount: 1)
    let directory = world.service.directory
    try await directory.note([Self.zone("A", of: "_ann", to: "_bob", at: 5)])
    // The lost directory had given out more numbers than the one of the backup.
    let number = try await directory.beginComparison() + 1
    let page = CompareSharedZones(number: number, shard: 0, after: nil, through: nil, zones: [])
    let invitations = NoteInvitations(shard: 0, shares: [], comparison: .init(number: number, isLast: true))
    for _ in 0..<2 {
      let late = await #expect(throws: RecordError.self) { try await directory.compare(page) }
      #expect(late?.code == .tryAgainLater)
      await #expect(throws: RecordError.self) { try await directory.note(invitations) }
    }
    #expect(try await list("_bob", in: world) == ["_ann/A@5"])
  }

  @Test func `pages of a compare leave alone what lies beyond them`() async throws {
    let folder = TemporaryFolder()
    let world = try World(in: folder, shardCount: 1)
    try await world.ok("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
    let names = ["B", "_a", "_a0", "_b", "a", "z", "~"]
    let all = names.flatMap { owner in ["Trips", "trips and more"].map { Self.zone($0, of: owner, to: "_bob", at: 1) } }
      .sorted { $0.key < $1.key }
    try await world.service.directory.note(all)
    let number = try await world.service.directory.beginComparison()
    for start in all.indices {
      for end in start..<all.count {
        let page = CompareSharedZones(
          number: number, shard: 0, after: start == 0 ? nil : all[start - 1].key,
          through: end == all.count - 1 ? nil : all[end].key, zones: Array(all[start...end]))
        #expect(try await world.service.directory.compare(page) == 0, "\(start)...\(end)")
      }
    }
    let middle = CompareSharedZones(number: number, shard: 0, after: all[3].key, through: all[8].key, zones: [all[5]])
    #expect(try await world.service.directory.compare(middle) == 4)
    #expect(try await world.service.directory.sharedZoneCounts().active == Int64(all.count - 4))
  }

  @Test func `beyond a thousand zones of a user the oldest that ended are forgotten, and no compare brings them back`()
    async throws
  {
    let world = try await World.withContainer()
    let limit = Directory.sharedZoneLimit
    let active = (0..<limit - 2).map { Self.zone("zone \($0)", of: "_ann", to: "_bob", at: Int64($0)) }
    let ended = (0..<4).map { Self.zone("ended \($0)", of: "_cem", to: "_bob", false, at: Int64($0)) }
    for zone in ended { try await world.service.directory.note([zone]) }
    try await world.service.directory.note(active)
    var counts = try await world.service.directory.sharedZoneCounts()
    #expect(counts.active == Int64(limit - 2) && counts.ended == 2)
    #expect(try await list("_bob", in: world).filter { $0.hasPrefix("-") } == ["-_cem/ended 2@2", "-_cem/ended 3@3"])
    #expect(try await compare(active + ended, in: world) == 0)
    // Active accesses are never forgotten.
    let more = (0..<5).map { Self.zone("more \($0)", of: "_dan", to: "_bob", at: Int64($0)) }
    try await world.service.directory.note(more)
    counts = try await world.service.directory.sharedZoneCounts()
    #expect(counts.active == Int64(limit + 3) && counts.ended == 0)
  }

  @Test(.tags(.sqliteFile))
  func `a directory of the format before has no telephone numbers and no accesses, and takes both`() async throws {
    let world = try World()
    try await world.ok("POST", "/admin/1/users", #"{"name":"alice","email":"alice@example.org"}"#)
    try await world.service.directory.downgrade()
    let upgraded = try await world.restarted()
    let row = try #require(try await upgraded.ok("GET", "/admin/1/users")["users"]?.elements.first)
    #expect(row["email"]?.string == "alice@example.org" && row["phone"] == nil)
    try await upgraded.ok("POST", "/admin/1/users/alice", #"{"phone":"+44 20 7946 0000"}"#)
    try await upgraded.ok("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
    try await upgraded.service.directory.note([Self.zone("Trips", of: "_ann", to: "_bob", at: 1)])
    #expect(try await list("_bob", in: upgraded) == ["_ann/Trips@1"])
  }
}

@Suite(.eachEngine) struct IdentificationTests {
  @Test func `services recognise everybody who is not disabled, by name, address or number`() async throws {
    let world = try World()
    func make(_ body: String) async throws -> String {
      try #require(try await world.ok("POST", "/admin/1/users", body)["userRecordName"]?.string)
    }
    let alice = try await make(
      #"{"name":"alice","email":"alice@example.org","phone":"+44 20 7946 0000","givenName":"Alice"}"#)
    let bob = try await make(#"{"name":"bob","email":"bob@example.org"}"#)
    _ = try await make(#"{"name":"carol","phone":"555 0100"}"#)
    try await world.ok("POST", "/admin/1/users/carol/disable")
    let found = try await world.service.directory.identify(
      IdentifyUsers(lookups: [
        .init(userRecordName: alice), .init(emailAddress: "BOB@example.org"), .init(phoneNumber: "+442079460000"),
        .init(phoneNumber: "5550100"), .init(),
        .init(phoneNumber: "none"),
      ])
    ).users
    #expect(found.map { $0?.userRecordName } == [alice, bob, alice, nil, nil, nil])
    #expect(found[0]?.isDiscoverable == false)
    #expect(
      found[2]?.phoneNumber == "+442079460000" && found[2]?.emailAddress == "alice@example.org"
        && found[2]?.givenName == "Alice")
    // Other users still find only users who want to be found.
    let discovered = try await world.service.directory.discover(
      DiscoverUsers(caller: bob, lookups: [.init(phoneNumber: "+44 20 7946-0000")]))
    #expect(discovered.users.compactMap(\.self).isEmpty)
    try await world.ok("POST", "/admin/1/users/alice", #"{"discoverable":true}"#)
    let shown = try await world.service.directory.discover(
      DiscoverUsers(caller: bob, lookups: [.init(phoneNumber: "+44 20 7946-0000")])
    ).users
    #expect(shown.first??.userRecordName == alice && shown.first??.emailAddress == nil)
  }

  @Test func `a telephone number is one person's, and must be one`() async throws {
    let world = try World()
    try await world.ok("POST", "/admin/1/users", #"{"name":"alice","phone":"+44 20 7946 0000"}"#)
    let taken = try await world.refused(
      "POST", "/admin/1/users", #"{"name":"bob","phone":"+442079460000"}"#, status: 409)
    #expect(taken["reason"]?.string == "Another user has this telephone number")
    try await world.refused("POST", "/admin/1/users", #"{"name":"bob","phone":"call me"}"#, status: 400)
    try await world.ok("POST", "/admin/1/users", #"{"name":"bob","email":"b@example.org","phone":"112"}"#)
    try await world.refused("POST", "/admin/1/users/bob", #"{"phone":"+44 2079460000"}"#, status: 409)
    let mail = try await world.refused(
      "POST", "/admin/1/users", #"{"name":"carol","email":"B@example.org","phone":"113"}"#, status: 409)
    #expect(mail["reason"]?.string == "Another user has this e-mail address")
    let rows = try await world.ok("GET", "/admin/1/users")["users"]?.elements.map { $0["phone"]?.string }
    #expect(rows == ["+442079460000", "112"])
  }
}

extension Directory {
  /// Turns the file into one of the release before.
  fileprivate func downgrade() throws {
    try connection.execute(
      """
      ALTER TABLE container DROP COLUMN displayName; ALTER TABLE container DROP COLUMN appURL; DROP TABLE departure; \
      DROP TABLE dataEpoch; ALTER TABLE user DROP COLUMN isSelfMade; ALTER TABLE user DROP COLUMN signOutCount;
      DROP TABLE identity; DROP TABLE identityProvider; DROP TABLE invitation;
      DROP TABLE pushRegistration; DROP TABLE pushService; DROP TABLE signIn; DROP TABLE deviceSignIn;
      DROP TABLE passkey; DROP TABLE pushRegistrationEnd; DROP TABLE waitingInvitation; DROP TABLE sentMail; \
      DROP TABLE mailRefusal;
      DROP INDEX sessionIdentity; DROP INDEX sessionProvider; ALTER TABLE session DROP COLUMN issuer;
      ALTER TABLE session DROP COLUMN subject; ALTER TABLE session DROP COLUMN providerSession;
      ALTER TABLE session DROP COLUMN way; ALTER TABLE session DROP COLUMN provider;
      ALTER TABLE session DROP COLUMN client;
      DROP TABLE staffRole; DROP TABLE consoleSession; DROP TABLE act;
      DROP TABLE sharedZone; DROP INDEX userPhone; ALTER TABLE user DROP COLUMN phone; PRAGMA user_version=6;
      """)
  }
}
