// Tells the share service of every change of access to zones, in commit order, and regularly compares its whole index.

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import ZoneCommit

/// Empties a shard's table of news from the oldest entry on: told, acknowledged, removed.
///
/// When the shard opens and every ten minutes, the share service's index is compared with the shard, as either may come
/// from a backup.
struct ShareNews: ShardWork {
  let signals: ShareNewsSignals
  /// To the share service.
  let tell: any SharingIndex
  let timing: Timing
  let log: Log
  /// Entries of a page of the compare.
  var comparedAtOnce = CompareSharedZones.countLimit

  static let comparePeriod: Duration = .seconds(600)
  /// News of a commit that sent no signal are found by then.
  private static let idlePause: Duration = .seconds(2)
  private static let firstPause: Duration = .milliseconds(50)
  private static let longestPause: Duration = .seconds(5)

  func run(on store: any ShardStore) async {
    let wakes = signals.begin(store.shard)
    defer { signals.end(store.shard) }
    await withTaskGroup(of: Void.self) { group in
      // Looks at the table regularly, beside the looks that commits ask for.
      group.addTask {
        while !Task.isCancelled {
          // Dropped because a cancelled sleep ends the loop.
          try? await timing.sleep(Self.idlePause)
          signals.note(store.shard)
        }
      }
      await follow(wakes, store)
      group.cancelAll()
    }
  }

  private func follow(_ wakes: AsyncStream<Void>, _ store: any ShardStore) async {
    var compared: ContinuousClock.Instant?
    var pause = Self.firstPause
    signals.note(store.shard)
    for await _ in wakes {
      let waiters = signals.waiters(store.shard)
      do {
        if compared.map({ timing.now() - $0 >= Self.comparePeriod }) ?? true {
          try await compare(store)
          compared = timing.now()
        }
        try await deliver(store)
        signals.finish(waiters, of: store.shard)
        pause = Self.firstPause
      } catch is BusError {
        // The share service is away, or full. Waiters keep their own time limits.
        try? await timing.sleep(pause)
        pause = min(pause * 2, Self.longestPause)
        signals.note(store.shard)
      } catch {
        report("changes of shares were not sent to the share service", error, on: store, to: log)
        try? await timing.sleep(Self.longestPause)
      }
      if Task.isCancelled { return }
    }
  }

  private func deliver(_ store: any ShardStore) async throws {
    while true {
      let news = try await store.read { try $0.shareNews(after: 0, limit: NoteSharedZones.countLimit) }
      signals.waits(news.count, in: store.shard)
      guard let last = news.last else { return }
      let zones = news.compactMap(\.sharedZone)
      try await tell.note(zones)
      let shares = try await store.read { snapshot in
        try news.compactMap { try WaitingInvitations($0, in: snapshot) }
      }
      for part in WaitingInvitations.parts(of: shares) {
        try await tell.note(NoteInvitations(shard: store.shard, shares: part))
      }
      try await store.enqueue { transaction in
        for zone in zones where !zone.isActive { try Self.endSubscriptions(of: zone.key, in: transaction) }
        try transaction.removeShareNews(through: last.number)
      }.value
    }
  }

  /// Removes a user's subscriptions to a zone that the user may no longer read.
  private static func endSubscriptions(of access: SharedZone.Key, in transaction: any ShardTransaction) throws {
    guard let database = try transaction.database(access.database), database.subscriptionEdition != 0,
      try !ZoneAccess(transaction.members(access.userRecordName, inZone: access.zoneName, of: database.key)).mayRead
    else { return }
    for row in try transaction.subscriptions(
      of: access.userRecordName, scope: .shared, in: database.key, limit: Limit.subscriptionsPerUser)
    {
      // Dropped because a row that can't be read tells of nothing, and is shown to operators.
      guard let zone = try? JSONValue(parsing: row.payload)["zoneID"]?["zoneName"]?.string, zone == access.zoneName
      else {
        continue
      }
      try transaction.deleteSubscription(row.key, in: database.key)
    }
  }

  // MARK: The compare

  private func compare(_ store: any ShardStore) async throws {
    let number = try await tell.beginComparison()
    let (zones, shareCount) = try await store.read { snapshot in try Self.sharedZones(in: snapshot) }
    signals.counted(shares: shareCount, members: zones.count(where: \.isActive), in: store.shard)
    var start = 0
    var after: SharedZone.Key?
    repeat {
      let end = min(start + comparedAtOnce, zones.count)
      let isLast = end == zones.count
      let page = CompareSharedZones(
        number: number, shard: store.shard, after: after, through: isLast ? nil : zones[end - 1].key,
        zones: Array(zones[start..<end]), part: store.part)
      let count = try await tell.compare(page)
      if count > 0 {
        log.info(
          "the index of shares was corrected",
          ["shard": .integer(Int64(store.shard)), "entries": .integer(Int64(count))])
      }
      after = zones[..<end].last?.key
      start = end
    } while start < zones.count
    try await compareInvitations(store, number)
  }

  private func compareInvitations(_ store: any ShardStore, _ number: Int64) async throws {
    let shares = try await store.read { try WaitingInvitations.all(in: $0) }
    var parts = WaitingInvitations.parts(of: shares)
    let last = parts.popLast() ?? []
    for part in parts {
      try await tell.note(
        NoteInvitations(
          shard: store.shard, shares: part, comparison: .init(number: number, isLast: false), part: store.part))
    }
    try await tell.note(
      NoteInvitations(
        shard: store.shard, shares: last, comparison: .init(number: number, isLast: true), part: store.part))
  }

  private static let pageCount = 1000

  /// All accesses in the shard, ascending; several shares of a user in one zone are merged.
  private static func sharedZones(in snapshot: any ShardSnapshot) throws -> (zones: [SharedZone], shareCount: Int) {
    var found: [SharedZone.Key: SharedZone] = [:]
    var shares: Set<[String]> = []
    var databases: [Int64: DatabaseID?] = [:]
    var place: StoredMemberPlace?
    while true {
      let page = try snapshot.members(after: place, limit: pageCount)
      for (databaseKey, member) in page {
        if databases[databaseKey] == nil { databases[databaseKey] = .some(try snapshot.database(key: databaseKey)?.id) }
        guard case .some(.some(let database)) = databases[databaseKey] else { continue }
        let key = SharedZone.Key(database: database, zoneName: member.zoneName, userRecordName: member.userRecordName)
        let zone = SharedZone(key: key, isActive: member.isActive, sequence: member.until ?? member.since)
        if member.isActive { shares.insert([String(databaseKey), member.zoneName, member.shareName]) }
        found[key] = found[key].map { Self.merged($0, zone) } ?? zone
      }
      guard page.count == pageCount, let last = page.last else { break }
      place = StoredMemberPlace(last.member, in: last.databaseKey)
    }
    return (found.values.sorted { $0.key < $1.key }, shares.count)
  }

  /// An access that holds counts more than one that ended, a later change more than an earlier one.
  private static func merged(_ one: SharedZone, _ other: SharedZone) -> SharedZone {
    if one.isActive != other.isActive { return one.isActive ? one : other }
    return one.sequence >= other.sequence ? one : other
  }
}

extension StoredShareNews {
  /// nil for other news than of an access.
  fileprivate var sharedZone: SharedZone? {
    guard case .access(let userRecordName, let isActive) = subject else { return nil }
    return SharedZone(
      key: SharedZone.Key(database: database, zoneName: zoneName, userRecordName: userRecordName), isActive: isActive,
      sequence: sequence)
  }
}

/// The share service's index, to which workers report.
protocol SharingIndex: Sendable {
  func note(_ zones: [SharedZone]) async throws
  func note(_ invitations: NoteInvitations) async throws
  /// - Returns: the number for the pages of a comparison that reads the shard from now on.
  func beginComparison() async throws -> Int64
  /// - Returns: the number of corrected entries.
  func compare(_ page: CompareSharedZones) async throws -> Int
}

struct DirectorySharingIndex: SharingIndex {
  private static let limit: Duration = .seconds(5)

  let bus: any Bus

  func note(_ zones: [SharedZone]) async throws {
    _ = try await bus.call(NoteSharedZones(zones: zones), to: .role(.share), within: Self.limit)
  }

  func note(_ invitations: NoteInvitations) async throws {
    do throws(BusError) {
      _ = try await bus.call(invitations, to: .role(.share), within: Self.limit)
    } catch {
      // A share service of an earlier release has no such index. The first comparison with a later one fills it.
      guard error.code == .unknownMessage else { throw error }
    }
  }

  func beginComparison() async throws -> Int64 {
    try await bus.call(BeginComparison(), to: .role(.share), within: Self.limit).number
  }

  func compare(_ page: CompareSharedZones) async throws -> Int {
    try await bus.call(page, to: .role(.share), within: Self.limit).correctedCount
  }
}
