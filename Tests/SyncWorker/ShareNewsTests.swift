// A shard's news of shares to the share service: complete, in order, after the commit; the truth after a restore.

import InMemoryRecordStore
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import Synchronization
import Testing
@testable import WorkerHost
@testable import ZoneCommit

/// An index that keeps what it is told by the share service's rule, and can be away.
private final class NaiveIndex: SharingIndex {
  struct State {
    var zones: [SharedZone.Key: SharedZone] = [:]
    var told: [[SharedZone]] = []
    /// Addresses that wait, by the name of the share.
    var waiting: [String: [String]] = [:]
    var compares = 0
    var failures = 0
  }

  let state = Mutex(State())

  func fail(_ count: Int) { state.withLock { $0.failures = count } }

  private static func fail(_ state: inout State) throws {
    guard state.failures > 0 else { return }
    state.failures -= 1
    throw BusError(.unreachable, "the share service is away")
  }

  func note(_ zones: [SharedZone]) async throws {
    try state.withLock { state in
      try Self.fail(&state)
      state.told.append(zones)
      for zone in zones where state.zones[zone.key]?.sequence ?? 0 <= zone.sequence { state.zones[zone.key] = zone }
    }
  }

  func note(_ invitations: NoteInvitations) async throws {
    try state.withLock { state in
      try Self.fail(&state)
      let listed = invitations.shares.map { share in
        ("\(share.zoneName) \(share.shareName)", share.invitations.compactMap { $0.emailAddress ?? $0.phoneNumber })
      }
      if let comparison = invitations.comparison, comparison.isLast {
        state.waiting = state.waiting.filter { known in listed.contains { $0.0 == known.key } }
      }
      for (share, people) in listed { state.waiting[share] = people.isEmpty ? nil : people }
    }
  }

  /// `zone share: address …`
  var waiting: [String] {
    state.withLock { $0.waiting.map { "\($0.key): \($0.value.joined(separator: " "))" }.sorted() }
  }

  func beginComparison() async throws -> Int64 { 1 }

  func compare(_ page: CompareSharedZones) async throws -> Int {
    try state.withLock { state in
      try Self.fail(&state)
      state.compares += 1
      let listed = Dictionary(uniqueKeysWithValues: page.zones.map { ($0.key, $0) })
      let inside = state.zones.keys.filter { key in
        page.after.map { $0 < key } ?? true && page.through.map { key <= $0 } ?? true
      }
      let count = Set(inside).union(listed.keys).count { state.zones[$0] != listed[$0] }
      for key in inside { state.zones[key] = nil }
      state.zones.merge(listed) { _, new in new }
      return count
    }
  }

  /// `zone user@sequence`, with a minus before those that ended.
  var list: [String] {
    state.withLock {
      $0.zones.values.sorted { $0.key < $1.key }.map {
        "\($0.isActive ? "" : "-")\($0.key.zoneName) \($0.key.userRecordName)@\($0.sequence)"
      }
    }
  }
}

private struct NewsWorld {
  static let ann = DatabaseID(container: ContainerID(rawValue: "iCloud.a")!, environment: .development, owner: "_ann")

  let store: any ShardStore
  let index = NaiveIndex()
  let signals = ShareNewsSignals()

  init() async throws {
    store = try await InMemoryRecordStore(shardCount: 1).open(shard: 0)
    try await store.enqueue { transaction in
      let database = try transaction.makeDatabase(Self.ann).key
      for name in ["Trips", "Notes"] {
        let zone = try transaction.makeZone(named: name, in: database)
        try transaction.put(
          StoredShare(name: "S", rootRecordName: nil, shortGUID: "0\(name)", state: nil), in: zone.key)
      }
    }.value
  }

  /// Without a signal, as if the commit's worker had died before it gave one.
  func put(_ user: String, _ zone: String = "Trips", share: String = "S", since: Int64, until: Int64? = nil)
    async throws
  {
    try await store.enqueue { transaction in
      let database = try transaction.makeDatabase(Self.ann).key
      try transaction.put(
        ShareMember(
          zoneName: zone, userRecordName: user, shareName: share, rootRecordName: nil, role: .privateUser,
          permission: .readWrite, since: since, until: until),
        of: database)
    }.value
  }

  /// Stores a share in which these people wait, and news of it unless somebody restored the shard.
  func share(_ people: LookupInfo..., name: String = "S", isTold: Bool = true) async throws {
    try await store.enqueue { transaction in
      let database = try transaction.makeDatabase(Self.ann).key
      guard let zone = try transaction.zone(named: "Trips", in: database)?.key else { return }
      let participants = people.enumerated().map { number, lookup in
        Participant(
          participantID: "P\(number)", identity: UserIdentity(lookupInfo: lookup), role: .privateUser,
          permission: .readOnly, acceptance: .pending, dateAdded: 1)
      }
      try transaction.put(
        StoredShare(
          name: name, rootRecordName: nil, shortGUID: "0\(name)",
          state: ShareState(rootRecordName: nil, participants: participants)), in: zone)
      guard isTold else { return }
      try transaction.noteInvitations(toShare: name, inZone: "Trips", of: database, at: 1)
    }.value
  }

  /// Runs the delivery beside `body`, with pauses that cost nothing.
  func running<Value: Sendable>(
    comparedAtOnce: Int = CompareSharedZones.countLimit, _ body: @Sendable () async throws -> Value
  ) async throws -> Value {
    let timing = Timing(now: { .now }, sleep: { _ in try await Task.sleep(for: .milliseconds(1)) })
    let work = ShareNews(signals: signals, tell: index, timing: timing, log: .silent, comparedAtOnce: comparedAtOnce)
    let task = Task { [store] in await work.run(on: store) }
    // The loop has begun once `delivered` can wait for it.
    while await !signals.delivered(0) { try await Task.sleep(for: .milliseconds(1)) }
    do {
      let value = try await body()
      task.cancel()
      await task.value
      return value
    } catch {
      task.cancel()
      await task.value
      throw error
    }
  }

  func waiting() async throws -> Int { try await store.read { try $0.shareNews(after: 0, limit: 100).count } }
}

@Suite(.timeLimit(.minutes(5))) struct ShareNewsTests {
  @Test func `committed changes are sent in order, removed, and waited for`() async throws {
    let world = try await NewsWorld()
    try await world.running {
      try await world.put("_bob", since: 5)
      try await world.put("_cem", "Notes", since: 6)
      world.signals.note(0)
      #expect(await world.signals.delivered(0))
      #expect(world.index.list == ["Notes _cem@6", "Trips _bob@5"])
      try await world.put("_bob", since: 5, until: 9)
      #expect(await world.signals.delivered(0))
      #expect(world.index.list == ["Notes _cem@6", "-Trips _bob@9"])
      #expect(try await world.waiting() == 0)
    }
    #expect(world.index.state.withLock { $0.told.flatMap(\.self).map(\.sequence) }.sorted() == [5, 6, 9])
    #expect(await !world.signals.delivered(0), "nobody delivers any more")
  }

  @Test func `changes from before the shard was opened are sent then, even without a signal`() async throws {
    let world = try await NewsWorld()
    try await world.put("_bob", since: 5)
    try await world.running {
      #expect(world.index.list == ["Trips _bob@5"])
      try await world.put("_cem", since: 6)
      while world.index.list.count < 2 { try await Task.sleep(for: .milliseconds(2)) }
    }
    #expect(try await world.waiting() == 0)
  }

  @Test(arguments: 1...6) func `a share service that is away the n-th time is told as soon as it is there`(
    failures: Int
  ) async throws {
    let world = try await NewsWorld()
    world.index.fail(failures)
    try await world.put("_bob", since: 5)
    try await world.running {
      #expect(world.index.list == ["Trips _bob@5"])
      world.index.fail(failures)
      try await world.put("_bob", since: 5, until: 7)
      #expect(await world.signals.delivered(0))
      #expect(world.index.list == ["-Trips _bob@7"])
    }
  }

  @Test func `nobody is told that he was heard while the share service is away`() async throws {
    let world = try await NewsWorld()
    try await world.running {
      world.index.fail(.max)
      try await world.put("_bob", since: 5)
      let waiting = Task { await world.signals.delivered(0) }
      try await Task.sleep(for: .milliseconds(30))
      waiting.cancel()
      #expect(await !waiting.value)
      #expect(world.index.list == [] && world.signals.waitingCounts == [0: 1])
    }
  }

  @Test(arguments: 0...4) func `people who wait in a share are told, until they wait no more`(failures: Int)
    async throws
  {
    let world = try await NewsWorld()
    world.index.fail(failures)
    try await world.share(.email("ida@example.org"), .phone("+49301234"), .recordName("_bob"))
    try await world.running {
      #expect(world.index.waiting == ["Trips S: ida@example.org +49301234"])
      world.index.fail(failures)
      try await world.share(.phone("+49301234"))
      try await world.share(.email("eve@example.org"), name: "T")
      #expect(await world.signals.delivered(0))
      #expect(world.index.waiting == ["Trips S: +49301234", "Trips T: eve@example.org"])
      try await world.share(name: "T")
      #expect(await world.signals.delivered(0))
      #expect(world.index.waiting == ["Trips S: +49301234"])
    }
    #expect(try await world.waiting() == 0)
  }

  @Test func `an opening compares the people who wait, too`() async throws {
    let world = try await NewsWorld()
    try await world.share(.email("ida@example.org"), isTold: false)
    world.index.state.withLock { $0.waiting = ["Trips S": ["old@example.org"], "Gone S": ["x@example.org"]] }
    try await world.running {}
    #expect(world.index.waiting == ["Trips S: ida@example.org"])
  }

  @Test func `many people are told in parts that one message holds each`() {
    let crowd = (0..<NoteInvitations.countLimit).map {
      WaitingInvitations.Invitation(participantID: "\($0)", emailAddress: "a@example.org", phoneNumber: nil, added: 1)
    }
    func share(_ name: String, _ count: Int) -> WaitingInvitations {
      WaitingInvitations(
        database: NewsWorld.ann, zoneName: "Trips", shareName: name, invitations: Array(crowd.prefix(count)))
    }
    let parts = WaitingInvitations.parts(of: [share("a", 600), share("b", 600), share("c", 1), share("d", 1000)])
    #expect(parts.map { $0.map(\.shareName) } == [["a", "b"], ["c", "d"]])
    #expect(WaitingInvitations.parts(of: []).isEmpty)
  }

  @Test func `an opening compares the index with what there is`() async throws {
    let world = try await NewsWorld()
    try await world.put("_bob", since: 5)
    try await world.put("_cem", since: 6, until: 8)
    // Told by a shard that was restored to an earlier state since.
    try await world.index.note(
      [("_bob", true, 50), ("_dan", true, 60)].map { user, isActive, sequence in
        SharedZone(
          key: SharedZone.Key(database: NewsWorld.ann, zoneName: "Trips", userRecordName: user), isActive: isActive,
          sequence: Int64(sequence))
      })
    try await world.running {}
    #expect(world.index.list == ["Trips _bob@5", "-Trips _cem@8"])
    #expect(world.index.state.withLock(\.compares) == 1)
    #expect(world.signals.memberCounts.isEmpty, "what is let go of is counted elsewhere")
  }

  @Test func `several shares of a user in one zone are one entry, which holds as long as one of them does`()
    async throws
  {
    let world = try await NewsWorld()
    try await world.put("_bob", share: "R1", since: 5, until: 9)
    try await world.put("_bob", share: "R2", since: 7)
    try await world.running {
      #expect(world.index.list.map { $0.split(separator: "@")[0] } == ["Trips _bob"])
      #expect(world.signals.memberCounts[0]?.shares == 1 && world.signals.memberCounts[0]?.members == 1)
    }
  }

  @Test func `a list longer than a page is compared page by page`() async throws {
    let world = try await NewsWorld()
    let count = 12
    try await world.store.enqueue { transaction in
      let database = try transaction.makeDatabase(NewsWorld.ann).key
      for number in 0..<count {
        try transaction.put(
          ShareMember(
            zoneName: "Trips", userRecordName: "_u\(number)", shareName: "S", rootRecordName: nil, role: .privateUser,
            permission: .readOnly, since: 5), of: database)
      }
    }.value
    try await world.index.note([
      SharedZone(
        key: .init(database: NewsWorld.ann, zoneName: "Gone", userRecordName: "_x"), isActive: true, sequence: 1)
    ])
    try await world.running(comparedAtOnce: 5) {}
    #expect(world.index.list.count == count && world.index.state.withLock(\.compares) == 3)
    #expect(try await world.waiting() == 0)
  }
}
