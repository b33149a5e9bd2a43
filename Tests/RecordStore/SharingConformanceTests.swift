// Shares, their members and their news, in both stores.

import Foundation
import Records
import SQLite
import Sharing
import Testing

@testable import RecordStore

struct SharingConformanceTests {
  private static func participant(_ name: String, _ acceptance: AcceptanceStatus = .accepted, guid: String? = nil)
    -> Participant
  {
    Participant(
      participantID: "P\(name)", identity: UserIdentity(userRecordName: guid == nil ? name : nil, lookupInfo: nil),
      role: .privateUser, permission: .readWrite,
      acceptance: acceptance, dateAdded: 5, oneTimeGUID: guid)
  }

  static func share(_ name: String, root: String? = nil, _ participants: [Participant] = []) -> StoredShare {
    let owner = Participant(
      participantID: "P0", identity: UserIdentity(userRecordName: "ada"), role: .owner, permission: .readWrite,
      acceptance: .accepted, dateAdded: 1)
    return StoredShare(
      name: name, rootRecordName: root, shortGUID: "0\(name)",
      state: ShareState(rootRecordName: root, participants: [owner] + participants))
  }

  static func member(_ user: String, zone: String = "notes", share: String, since: Int64, until: Int64? = nil)
    -> ShareMember
  {
    ShareMember(
      zoneName: zone, userRecordName: user, shareName: share, rootRecordName: nil, role: .privateUser,
      permission: .readWrite, since: since, until: until)
  }

  private static func checked(_ shard: any ShardStore) async throws {
    if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
  }

  @Test(arguments: StoreKind.allCases) func `the records below a record are found, whatever else points to them`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let (other, top) = (try await Place(in: shard, zone: "other"), Sample.uuid(9))
      #expect(try await shard.read { try $0.children(of: top, in: place.zone, limit: 9) } == [])
      try await shard.write { transaction in
        let parent = OutgoingReference(field: ReservedName.parentReference, target: top)
        for name in ["b", Sample.uuid(1), "a"] {
          try transaction.save(
            Sample.note(name), in: place,
            references: [parent, OutgoingReference(field: "x", target: top, action: .deleteSelf)])
        }
        for number in 20..<60 {
          try transaction.save(
            Sample.note(Sample.uuid(number)), in: place, references: [OutgoingReference(field: "x", target: top)])
        }
        try transaction.save(Sample.note("elsewhere"), in: other, references: [parent])
        try transaction.save(Sample.note("moved"), in: place, references: [parent])
        try transaction.save(Sample.note("gone"), in: place, references: [parent])
      }
      try await shard.write { transaction in
        try transaction.save(
          Sample.note("moved"), in: place,
          references: [OutgoingReference(field: ReservedName.parentReference, target: "a")])
        try transaction.delete("gone", in: place)
        #expect(try transaction.children(of: top, in: place.zone, limit: 9) == [Sample.uuid(1), "a", "b"])
        #expect(try transaction.place(of: "moved", in: place.zone) == HierarchyPlace(parent: "a", isDeleted: false))
      }
      let places = try await shard.read { snapshot in
        try ["b", Sample.uuid(1), "moved", "gone", Sample.uuid(20), "never", "elsewhere"].map {
          try snapshot.place(of: $0, in: place.zone)
        }
      }
      let below = HierarchyPlace(parent: top, isDeleted: false)
      #expect(
        places == [
          below, below, HierarchyPlace(parent: "a", isDeleted: false), HierarchyPlace(parent: nil, isDeleted: true),
          HierarchyPlace(parent: nil, isDeleted: false), nil, nil,
        ])
      #expect(
        try await shard.read { try $0.children(of: top, in: place.zone, limit: 9) } == [Sample.uuid(1), "a", "b"])
      #expect(try await shard.read { try $0.children(of: top, in: place.zone, limit: 2) }.count == 2)
      #expect(try await shard.read { try $0.children(of: "a", in: place.zone, limit: 9) } == ["moved"])
      try await Self.checked(shard)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a share is found by its name, its root and its one-time URLs, and stays known when it ends`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      #expect(try await shard.write { try $0.database(key: place.database)?.hasShares } == false)
      let first = Self.share(
        "s1", root: "r1",
        [Self.participant("x", .pending, guid: "0one"), Self.participant("y", .pending, guid: "0two")])
      try await shard.write { transaction in
        try transaction.put(first, in: place.zone)
        try transaction.put(Self.share("s2", root: Sample.uuid(2)), in: place.zone)
        #expect(try transaction.database(key: place.database)?.hasShares == true)
      }
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.database(key: place.database)?.hasShares == true)
        #expect(
          try snapshot.share(named: "s1", in: place.zone) == first
            && snapshot.share(ofRoot: "r1", in: place.zone) == first)
        #expect(
          try snapshot.share(ofRoot: Sample.uuid(2), in: place.zone)?.name == "s2"
            && snapshot.share(named: "s3", in: place.zone) == nil)
        #expect(try snapshot.shares(in: place.zone, afterName: nil, limit: 9).map(\.name) == ["s1", "s2"])
        #expect(try snapshot.shares(in: place.zone, afterName: "s1", limit: 9).map(\.name) == ["s2"])
        #expect(
          try snapshot.share(withOneTimeGUID: "0two")?.share == first && snapshot.share(withOneTimeGUID: "0s1") == nil)
      }
      try await shard.write { transaction in
        var claimed = first
        claimed.state?.participants.removeLast()
        try transaction.put(claimed, in: place.zone)
        #expect(
          try transaction.share(withOneTimeGUID: "0two") == nil
            && transaction.share(withOneTimeGUID: "0one")?.zone == place.zone)
        claimed.state = nil
        try transaction.put(claimed, in: place.zone)
        #expect(
          try transaction.share(ofRoot: "r1", in: place.zone) == nil
            && transaction.share(withOneTimeGUID: "0one") == nil)
        #expect(try transaction.share(named: "s1", in: place.zone)?.shortGUID == "0s1")
        #expect(try transaction.shares(in: place.zone, afterName: nil, limit: 9).map(\.name) == ["s2"])
      }
      await #expect(throws: ContradictingWrite.self) { try await shard.write { try $0.put(first, in: 99_999) } }
      try await Self.checked(shard)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `news are told where somebody's access to a zone begins or ends, by whichever share`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      func put(_ member: ShareMember) async throws { try await shard.write { try $0.put(member, of: place.database) } }
      func news() async throws -> [String] {
        try await shard.read {
          try $0.shareNews(after: 0, limit: 99).map { news in
            switch news.subject {
            case .access(let user, let isActive): "\(user) \(isActive) \(news.sequence)"
            case .invitations(let share): "\(share) waits \(news.sequence)"
            }
          }
        }
      }
      try await shard.write { transaction in
        try transaction.put(
          Self.share("s1", root: "r1", [Self.participant("bob"), Self.participant("eve")]), in: place.zone)
        try transaction.put(Self.share("s2", root: "r2", [Self.participant("bob")]), in: place.zone)
        for _ in 0..<20 { _ = try transaction.nextSequence(in: place.database) }
      }
      try await put(Self.member("bob", share: "s1", since: 5))
      try await put(Self.member("bob", share: "s2", since: 6))
      try await put(Self.member("eve", share: "s1", since: 7))
      #expect(try await news() == ["bob true 5", "eve true 7"])
      try await Self.checked(shard)
      try await put(Self.member("bob", share: "s1", since: 5, until: 8))
      #expect(try await news().count == 2)
      #expect(try await shard.read { try $0.audience(ofZone: "notes", of: place.database) } == ["bob", "eve"])
      try await put(Self.member("bob", share: "s2", since: 6, until: 9))
      #expect(try await news().last == "bob false 9")
      #expect(try await shard.read { try $0.audience(ofZone: "notes", of: place.database) } == ["eve"])
      try await put(Self.member("bob", share: "s2", since: 10))
      #expect(try await news().last == "bob true 10")
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.members("bob", inZone: "notes", of: place.database).map(\.until) == [8, nil])
        #expect(try snapshot.members("bob", of: place.database).map(\.shareName) == ["s1", "s2"])
        #expect(
          try snapshot.members("bob", inZone: "other", of: place.database).isEmpty
            && snapshot.members("ada", of: place.database).isEmpty)
        let all = try snapshot.members(after: nil, limit: 2)
        #expect(all.map(\.member.shareName) == ["s1", "s2"] && all.allSatisfy { $0.databaseKey == place.database })
        let last = try #require(all.last)
        #expect(
          try snapshot.members(after: StoredMemberPlace(last.member, in: last.databaseKey), limit: 9).map(
            \.member.userRecordName) == ["eve"])
        let known = try snapshot.shareNews(after: 0, limit: 2)
        #expect(known.map(\.database) == [Sample.database("ada"), Sample.database("ada")])
        #expect(try snapshot.shareNews(after: known[1].number, limit: 9).count == 2)
      }
      let told = try await shard.read { try $0.shareNews(after: 0, limit: 3).last?.number }
      try await shard.write { try $0.removeShareNews(through: try #require(told)) }
      #expect(try await news() == ["bob true 10"])
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { try $0.put(Self.member("bob", share: "s", since: 1), of: 99_999) }
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `news of the people who wait stand among those of accesses, in their order`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let sequence = try await shard.write { transaction in
        let sequence = try transaction.nextSequence(in: place.database)
        try transaction.put(Self.share("s1", root: "r1", [Self.participant("bob")]), in: place.zone)
        try transaction.noteInvitations(toShare: "s1", inZone: "notes", of: place.database, at: sequence)
        try transaction.put(Self.member("bob", share: "s1", since: sequence), of: place.database)
        try transaction.noteInvitations(toShare: "s2", inZone: "notes", of: place.database, at: sequence)
        return sequence
      }
      try await Self.checked(shard)
      let news = try await shard.read { try $0.shareNews(after: 0, limit: 9) }
      #expect(
        news.map(\.subject) == [
          .invitations(shareName: "s1"), .access(userRecordName: "bob", isActive: true), .invitations(shareName: "s2"),
        ])
      #expect(news.allSatisfy { $0.zoneName == "notes" && $0.sequence == sequence })
      try await shard.write { try $0.removeShareNews(through: news[1].number) }
      #expect(try await shard.read { try $0.shareNews(after: 0, limit: 9) } == [news[2]])
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { try $0.noteInvitations(toShare: "s1", inZone: "notes", of: 99_999, at: 1) }
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a zone that is deleted takes its shares along and ends everybody's access with it`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let other = try await Place(in: shard, zone: "other")
      try await shard.write { transaction in
        for (name, zone) in [("s1", place), ("s2", place), ("s3", other)] {
          try transaction.put(
            Self.share(
              name, root: "r\(name)", [Self.participant("bob"), Self.participant("q", .pending, guid: "0\(name)q")]),
            in: zone.zone)
        }
        let since = try transaction.nextSequence(in: place.database)
        try transaction.put(Self.member("bob", share: "s1", since: since), of: place.database)
        try transaction.put(Self.member("bob", share: "s2", since: since), of: place.database)
        try transaction.put(Self.member("bob", zone: "other", share: "s3", since: since), of: place.database)
        try transaction.noteDeparture(of: Sample.uuid(7), from: "rs1", in: place.zone, at: since)
        try transaction.noteDeparture(of: "gone", from: "rs1", in: place.zone, at: since)
        try transaction.noteDeparture(of: "gone", from: "rs1", in: place.zone, at: nil)
      }
      #expect(try await shard.read { try $0.departure(of: Sample.uuid(7), from: "rs1", in: place.zone) } != nil)
      #expect(try await shard.read { try $0.departure(of: "gone", from: "rs1", in: place.zone) } == nil)
      try await Self.checked(shard)
      let end = try await shard.write { transaction in
        try transaction.deleteZone(place.zone, as: .purged)
        return try transaction.zone(key: place.zone)?.sequence
      }
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.members("bob", of: place.database).map(\.until) == [end, end, nil])
        #expect(
          try snapshot.shareNews(after: 0, limit: 9).map(\.subject).last
            == .access(userRecordName: "bob", isActive: false))
        #expect(try snapshot.shareNews(after: 0, limit: 9).last?.sequence == end)
        #expect(
          try snapshot.share(named: "s1", in: place.zone) == nil && snapshot.share(withOneTimeGUID: "0s1q") == nil)
        #expect(
          try snapshot.share(withOneTimeGUID: "0s3q")?.share.name == "s3"
            && snapshot.shares(in: place.zone, afterName: nil, limit: 9).isEmpty)
        #expect(try snapshot.departure(of: Sample.uuid(7), from: "rs1", in: place.zone) == nil)
        #expect(try snapshot.audience(ofZone: "notes", of: place.database) == [])
      }
      let again = try await shard.write { try $0.makeZone(named: "notes", in: place.database).key }
      #expect(try await shard.read { try $0.share(named: "s1", in: again) } == nil)
      for _ in 0..<4 { try await shard.write { _ in } }
      try await Self.checked(shard)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a body that fails leaves no share, no member and no news`(
    _ kind: StoreKind
  ) async throws {
    struct Stop: Error {}
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      await #expect(throws: Stop.self) {
        try await shard.write { transaction in
          try transaction.put(Self.share("s1", [Self.participant("bob")]), in: place.zone)
          try transaction.put(
            Self.member("bob", share: "s1", since: try transaction.nextSequence(in: place.database)), of: place.database
          )
          throw Stop()
        }
      }
      try await shard.write { (transaction) throws in
        #expect(try transaction.database(key: place.database)?.hasShares == false)
        #expect(
          try transaction.share(named: "s1", in: place.zone) == nil
            && transaction.members("bob", of: place.database).isEmpty)
        #expect(try transaction.shareNews(after: 0, limit: 9).isEmpty)
      }
      try await Self.checked(shard)
    }
  }

  @Test func `a share's people rest sealed, and a byte that flips is noticed`() async throws {
    let world = try World(.sqlite)
    let shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    var share = Self.share("s1", [Self.participant("bob")])
    share.state?.participants[1].identity.lookupInfo = .email("robert.sealed@example.com")
    try await shard.write { [share] in
      try $0.put(share, in: place.zone)
      try $0.put(Self.member("bob", share: "s1", since: try $0.nextSequence(in: place.database)), of: place.database)
    }
    #expect(try await shard.read { try $0.share(named: "s1", in: place.zone) } == share)
    await shard.close()
    let path = world.path + "/shard-0.sqlite"
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)).range(of: Data("robert.sealed".utf8)) == nil)
    let connection = try Connection(exclusive: path, mode: .readWrite)
    try connection.execute("UPDATE share SET guid = '0other'")
    connection.close()
    let again = try await world.store.open(shard: 0)
    await StoredFormatTests.expectCorrupt { _ = try await again.read { try $0.share(named: "s1", in: place.zone) } }
    #expect(try await #require(again as? SQLiteShardStore).verify().problems.count == 1)
    await again.close()
  }

  @Test func `a file of format 18 is brought up to date with its databases and takes shares`() async throws {
    let folder = try TemporaryFolder()
    var older = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    older.changes = FormatChangeStep.all.filter { $0.format <= 18 }
    let connection = try older.takeOver().connection
    try connection.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (1, 'iCloud.a', 'development', 'ada', 5, 1)
      """
    )
    try connection.execute(
      "INSERT INTO zone(id, database, name, incarnation, seq, deleted, live) VALUES (2, 1, 'notes', 6, 1, 0, 0)")
    try connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES ('lastKey', 2)")
    connection.close()
    let shard = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder.path), shardCount: 1).open(shard: 0)
    #expect(try await shard.read { try $0.database(key: 1)?.hasShares } == false)
    try await shard.write {
      try $0.put(Self.share("s1", [Self.participant("bob")]), in: 2)
      try $0.put(Self.member("bob", share: "s1", since: try $0.nextSequence(in: 1)), of: 1)
    }
    #expect(try await shard.read { try $0.share(named: "s1", in: 2)?.state?.members.count } == 1)
    try await Self.checked(shard)
    await shard.close()
  }
}
