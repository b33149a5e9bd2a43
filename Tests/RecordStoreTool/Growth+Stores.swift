// Many zones, many stores, and one store with a long history.

import RecordStore
import Records

extension Growth {
  private static let perDatabase = 1000
  private static let fillCount = 1000
  private static let loopCount = 16

  /// Makes the missing ones of `count` items, distributed over databases and shards; each body makes those of one
  /// database.
  private func make(
    _ shards: [any ShardStore],
    _ body: @escaping @Sendable (_ name: String, _ database: Int64, any ShardTransaction) throws -> Bool
  ) async throws -> Int {
    var made = 0
    for (number, first) in stride(from: 0, to: count, by: Self.perDatabase).enumerated() {
      let end = min(first + Self.perDatabase, count)
      made += try await shards[number % shards.count].enqueue { transaction in
        let database = try transaction.makeDatabase(Self.database(1000 + number)).key
        return try (first..<end).reduce(0) { try $0 + (body("name \($1)", database, transaction) ? 1 : 0) }
      }.value
    }
    return made
  }

  private struct Place: Sendable {
    let shard: any ShardStore
    let database: Int64
    let key: Int64
  }

  /// All items in the order of their numbers.
  private func places(
    _ shards: [any ShardStore],
    _ find: @escaping @Sendable (_ name: String, _ database: Int64, any ShardSnapshot) throws -> Int64?
  ) async throws -> [Place] {
    var places: [Place] = []
    for (number, first) in stride(from: 0, to: count, by: Self.perDatabase).enumerated() {
      let (shard, end) = (shards[number % shards.count], min(first + Self.perDatabase, count))
      places += try await shard.read { snapshot in
        guard let database = try snapshot.database(Self.database(1000 + number))?.key else { return [] }
        return try (first..<end).compactMap {
          try find("name \($0)", database, snapshot).map { Place(shard: shard, database: database, key: $0) }
        }
      }
    }
    guard places.count == count else { throw StoreError.io("\(places.count) of \(count) are there") }
    return places
  }

  // MARK: Zones

  func fillZones(_ shards: [any ShardStore]) async throws -> Int {
    try await make(shards) { name, database, transaction in
      if try transaction.zone(named: name, in: database) != nil { return false }
      let zone = try transaction.makeZone(named: name, in: database).key
      try Self.save(Bench.name(0, 0), in: zone, of: database, transaction)
      return true
    }
  }

  func measureZones(_ shards: [any ShardStore], _ figures: inout Figures) async throws {
    let zones = try await places(shards) { name, database, snapshot in try snapshot.zone(named: name, in: database)?.key
    }
    figures.add(
      "zoneListMilliseconds",
      try await median(of: 200) { round in
        let zone = zones[round &* 7919 % zones.count]
        _ = try await zone.shard.read { try $0.zones(in: zone.database, after: 0, limit: 200) }
      })
    // Every zone is written once; then some are written again, which is measured.
    let resident = Self.residentByteCount()
    for first in stride(from: 0, to: zones.count, by: Self.perDatabase) {
      let some = Array(zones[first..<min(first + Self.perDatabase, zones.count)])
      try await some[0].shard.enqueue { transaction in
        for zone in some { try Self.save(Bench.name(1, first), in: zone.key, of: zone.database, transaction) }
      }.value
    }
    figures.add("residentBytesEach", Double(Self.residentByteCount() - resident) / Double(zones.count))
    let rate = try await rate(Self.loopCount) { loop, round in
      let zone = zones[(round * Self.loopCount + loop) &* 7919 % zones.count]
      try await zone.shard.enqueue { try Self.save(Bench.name(2 + loop, round), in: zone.key, of: zone.database, $0) }
        .value
      return 1
    }
    figures.add("w1aPerSecond", rate.perSecond)
    figures.add("w1aMicroseconds", rate.cost)
  }

  private static func save(_ name: String, in zone: Int64, of database: Int64, _ transaction: any ShardTransaction)
    throws
  {
    let existing = try transaction.record(named: name, in: zone)
    let stored = StoredRecord(
      record: Bench.record(name, rating: 0), isDeleted: false, sequence: try transaction.nextSequence(in: database),
      origin: 0,
      sequenceOfOthers: existing?.sequence ?? 0)
    try transaction.put(
      stored, in: zone, references: [OutgoingReference(field: "CD_folder", target: Bench.folder)],
      isNew: existing == nil)
  }

  // MARK: Stores

  func fillStores(_ shards: [any ShardStore]) async throws -> Int {
    try await make(shards) { name, database, transaction in
      if try transaction.mirror(name, in: database) != nil { return false }
      let mirror = try Self.makeMirror(name, in: database, transaction).key
      try Self.append(to: mirror, transaction)
      return true
    }
  }

  func measureStores(_ shards: [any ShardStore], _ figures: inout Figures) async throws {
    let mirrors = try await places(shards) { name, database, snapshot in try snapshot.mirror(name, in: database)?.key }
    let resident = Self.residentByteCount()
    for mirror in mirrors { try await mirror.shard.enqueue { try Self.append(to: mirror.key, $0) }.value }
    figures.add("residentBytesEach", Double(Self.residentByteCount() - resident) / Double(mirrors.count))
    let rate = try await rate(Self.loopCount) { loop, round in
      let mirror = mirrors[(round * Self.loopCount + loop) &* 7919 % mirrors.count]
      try await mirror.shard.enqueue { try Self.append(to: mirror.key, $0) }.value
      return 1
    }
    figures.add("appendsPerSecond", rate.perSecond)
    figures.add("appendMicroseconds", rate.cost)
  }

  // MARK: History

  private func mirror(_ shard: any ShardStore) async throws -> StoredMirror {
    try await shard.enqueue { transaction in
      let database = try transaction.makeDatabase(Self.database(999)).key
      return try transaction.mirror("long", in: database) ?? Self.makeMirror("long", in: database, transaction)
    }.value
  }

  func fillHistory(_ shard: any ShardStore) async throws -> Int {
    let mirror = try await mirror(shard)
    let present = Int(mirror.lastTransactionNumber)
    for first in stride(from: present, to: count, by: Self.fillCount) {
      try await shard.enqueue { transaction in
        for _ in first..<min(first + Self.fillCount, count) { try Self.append(to: mirror.key, transaction) }
      }.value
    }
    return max(count - present, 0)
  }

  func measureHistory(_ shard: any ShardStore, _ figures: inout Figures) async throws {
    let mirror = try await mirror(shard)
    let last = mirror.lastTransactionNumber
    figures.add(
      "pageMilliseconds",
      try await median(of: 500) { round in
        let after = Int64(round) &* 104_729 % max(last - 200, 1)
        _ = try await shard.read { try $0.transactions(of: mirror.key, after: after, limit: 200) }
      })
    figures.add(
      "byDateMilliseconds",
      try await median(of: 200) { round in
        let time = Int64(round) &* 104_729 % last
        _ = try await shard.read { try $0.firstTransaction(of: mirror.key, appendedAtOrAfter: time) }
      })
    let rate = try await rate(Self.loopCount) { loop, round in
      try await shard.enqueue { try Self.append(to: mirror.key, $0) }.value
      return 1
    }
    figures.add("appendsPerSecond", rate.perSecond)
    figures.add("appendMicroseconds", rate.cost)
  }
}
