// Writes without an object from a client: the server's own, those about shares, and those of zones as a whole.

import FixedClocks
import JSON
import Mirroring
import ObjectModel

@testable import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
@testable import SharedStores
@testable import WorkerHost
@testable import ZoneCommit

// MARK: Merges

/// Duplicates from before their rule, in a zone that record clients alone have.
enum MergeSituations {
  static let all = [
    RuleSituation(.merge, .quota) { world in try await isRefused(world) { world.fill() } },
    RuleSituation(.merge, .permission) { world in
      try await world.grant(.read, .create, .write)
      return try await isRefused(world, at: .open) { try await world.grant(.read) }
    },
    RuleSituation(.merge, .references) { world in
      let isRefused = try await isRefused(world) { try await world.put(RuleWorld.pointer("S", to: "N"), at: .trips) }
      let pointer = try await world.record("S", at: .trips)?.record.fields["to"]?.value
      #expect(isRefused || pointer == .reference(Reference(recordName: "E", action: .validate)))
      return isRefused
    },
    // They are duplicates by a second rule, too, which refuses such.
    RuleSituation(.merge, .uniqueness) { world in
      try await world.base.makeZone(RulePlace.trips.zone)
      try await world.put(photo("E"), photo("N"), at: .trips)
      world.base.schemas.declare(
        EnvironmentRules.Unique(entity: "Photo", attributes: ["displayName"], policy: .mergeLowestUUID),
        EnvironmentRules.Unique(entity: "Photo", attributes: ["displayName", "views"], policy: .reject))
      for _ in 0..<2 { try await world.base.settleDuplicates() }
      return try await world.records(at: .trips)?.map(\.record.recordName) != ["E"]
    },
    RuleSituation(.merge, .firing) { world in
      #expect(try await !isRefused(world) { try await world.subscribe(.zone, at: .trips) })
      return try world.isTold(.zone)
    },
  ]

  private static func photo(_ name: String) -> String {
    let fields = #""CD_entityName":{"value":"Photo"},"CD_displayName":{"value":"x"},"CD_views":{"value":7}"#
    let record = #""recordName":"\#(name)","recordType":"CD_Photo","fields":{\#(fields)}"#
    return #"{"operationType":"create","record":{\#(record)}}"#
  }

  /// True if E and N stay two objects.
  private static func isRefused(
    _ world: RuleWorld, at place: RulePlace = .trips, _ situation: () async throws -> Void
  ) async throws -> Bool {
    if !place.isPublic { try await world.base.makeZone(place.zone) }
    try await world.put(tagOperation("create", "E"), tagOperation("create", "N"), at: place)
    try await situation()
    try await world.declare(.mergeLowestUUID)
    for _ in 0..<2 { try await world.base.settleDuplicates() }
    return try await world.record("N", at: place) != nil
  }
}

// MARK: Records that imports left out

/// Store B's import left N out, because it was damaged; it is readable again, and due.
enum RetrySituations {
  static let all = [
    RuleSituation(.quarantineRetry, .quota, on: .sqlite) { world in try await isRefused(world) { world.fill() } },
    RuleSituation(.quarantineRetry, .permission, on: .sqlite) { world in
      try await world.grant(.read, .create, .write)
      return try await isRefused(world, at: .open) { try await world.grant(.read) }
    },
    RuleSituation(.quarantineRetry, .references, on: .sqlite) { world in
      try await isRefused(world, pointingTo: "nobody") {}
    },
    RuleSituation(.quarantineRetry, .uniqueness, on: .sqlite) { world in
      try await isRefused(world) { try await world.declare(.reject) }
    },
    RuleSituation(.quarantineRetry, .merge, on: .sqlite) { world in
      #expect(try await !isRefused(world) { try await world.declare(.mergeLowestUUID) })
      return try await world.isMerged(at: .home)
    },
    RuleSituation(.quarantineRetry, .firing, on: .sqlite) { world in
      #expect(try await !isRefused(world) { try await world.subscribe(.tags) })
      return try world.isTold(.tags)
    },
  ]

  /// True if N is not written again for store B.
  private static func isRefused(
    _ world: RuleWorld, at place: RulePlace = .home, pointingTo target: String? = nil,
    _ situation: () async throws -> Void
  ) async throws -> Bool {
    for store in ["A", "B"] { try await world.setUp(store, at: place) }
    try await world.export(Edit.insertTag("E"), at: place)
    #expect(try await world.importLine("N", to: target, at: place).code == nil)
    try world.base.damage("record SET sum = sum + 1 WHERE name = 'N'")
    let token = try await page(world, after: nil, at: place)
    try world.base.damage("record SET sum = sum - 1 WHERE name = 'N'")
    #expect(try await world.call("stores/B/quarantine/retry", "{}", at: place).json["retried"]?.int64 == 1)
    try await situation()
    let before = try #require(try await world.record("N", at: place))
    _ = try await page(world, after: token, at: place)
    let after = try #require(try await world.record("N", at: place))
    return before.sequence == after.sequence
  }

  /// - Returns: the token of B's next import.
  private static func page(_ world: RuleWorld, after token: String?, at place: RulePlace) async throws -> String? {
    let query = token.map { ["after": $0] } ?? [:]
    let reply = try await world.base.get("B/changes", query, user: place.user, scope: place.scope)
    #expect(reply.status == 200, "\(reply.text)")
    return reply.json["importToken"]?.string
  }
}

// MARK: Shares and links

/// Bob, whom alice has invited, comes to her share.
enum ShareActSituations {
  static let all = [
    RuleSituation(.shareAct, .quota) { world in
      let share = try await world.shareTag()
      world.fill()
      return try await isRefused(share, in: world, by: "_bob")
    },
    // Nobody has invited carol.
    RuleSituation(.shareAct, .permission) { world in
      try await isRefused(world.shareTag(), in: world, by: "_carol")
    },
    RuleSituation(.shareAct, .firing) { world in
      let share = try await world.shareTag()
      try await world.subscribe(.zone, at: share.place)
      #expect(try await !isRefused(share, in: world, by: "_bob"))
      return try world.isTold(.zone)
    },
  ]

  private static func isRefused(_ share: RuleWorld.Shared, in world: RuleWorld, by user: String) async throws -> Bool {
    let code = try await world.accept(share.shortGUID, by: user)
    let participants = try await world.base.get("A/shares").json["shares"]?.elements.first?.participants ?? []
    let accepted = participants.filter { $0["acceptanceStatus"]?.string == "ACCEPTED" }
    let isIn = accepted.contains { $0["userIdentity"]?["userRecordName"]?.string == user }
    #expect((code == nil) == isIn)
    return !isIn
  }
}

extension RuleWorld {
  fileprivate func shareTag() async throws -> Shared {
    try await setUp("A")
    try await export(Edit.insertTag("E"))
    let shared = try await share("E")
    try #require(shared.reply.status == 200, "\(shared.reply.text)")
    return shared
  }

  /// All remaining subscriptions in alice's database.
  fileprivate func subscriptions() async throws -> [String] {
    try await base.store.read { snapshot in
      guard let database = try snapshot.database(RulePlace.home.database) else { return [] }
      let all = try snapshot.subscriptions(in: database.key, afterKey: 0, limit: 10)
      return all.map { "\($0.userRecordName) \($0.identifier)" }
    }
  }
}

/// A photo's link to a tag that never came.
enum LooseLinkSituations {
  static let all = [
    RuleSituation(.looseLinks, .quota) { world in try await isRefused(world) { _ in world.fill() } },
    RuleSituation(.looseLinks, .permission) { world in
      try await world.grant(.read, .create, .write)
      return try await isRefused(world, at: .open) { _ in try await world.grant(.read) }
    },
    RuleSituation(.looseLinks, .references) { world in
      try await isRefused(world) { link in try await world.put(RuleWorld.pointer("S", to: link), at: .home) }
    },
    RuleSituation(.looseLinks, .firing) { world in
      #expect(try await !isRefused(world) { _ in try await world.subscribe(.zone) })
      return try world.isTold(.zone)
    },
  ]

  /// True if the link stays.
  private static func isRefused(
    _ world: RuleWorld, at place: RulePlace = .home, _ situation: (_ link: String) async throws -> Void
  ) async throws -> Bool {
    try await world.setUp("A", at: place)
    try await world.export(Edit.insertPhoto("P", tags: ["gone"]), at: place)
    let rows = try await world.records(at: place) ?? []
    let link = try #require(rows.first { LinkRecord($0.record) != nil }).record.recordName
    try await situation(link)
    world.base.clock.advance(by: LooseLinks.age + 1)
    let report = try await LooseLinks(store: world.base.store, context: world.base.plane.context.commits).run(
      removes: true)
    let isThere = try await world.record(link, at: place) != nil
    #expect(report == LooseLinks.Report(looseCount: 1, removedCount: isThere ? 0 : 1))
    return isThere
  }
}

// MARK: Zones

/// Zones that are made, and zones that end, for themselves or with their owner.
enum ZoneSituations {
  static let all = [
    RuleSituation(.makeZone, .quota) { world in
      try await fill(.home, in: world)
      world.fill()
      return try await isRefused("create", in: world)
    },
    // The first store makes the public database's zone, with any permissions of its user.
    RuleSituation(.makeZone, .permission) { world in
      try await world.grant(.read)
      #expect(try await world.modify(tagOperation("create", "N"), at: .open).records.first?.code == "ACCESS_DENIED")
      #expect(try await world.records(at: .open) == nil)
      try await world.setUp("A", at: .open)
      return try await world.records(at: .open) == nil
    },
    RuleSituation(.makeZone, .firing) { world in
      try await world.subscribe(.database)
      #expect(try await !isRefused("create", in: world))
      return try world.isTold(.database)
    },
    RuleSituation(.endZone, .quota) { world in
      try await fill(.trips, in: world)
      world.fill()
      return try await isRefused("delete", in: world)
    },
    RuleSituation(.endZone, .permission) { world in
      try await fill(.trips, in: world)
      let (path, body) = ("zones/Trips/end", #"{"reason":"purged"}"#)
      #expect(try await world.call(path, body, at: .trips, by: "_bob").code == "ACCESS_DENIED")
      #expect(try await world.records(at: .trips) != nil)
      let code = try await world.call(path, body, at: .trips, asOperator: true).code
      #expect((code == nil) == (try await world.records(at: .trips) == nil))
      return code != nil
    },
    RuleSituation(.endZone, .references) { world in
      try await fill(.trips, in: world)
      try await world.put(RuleWorld.pointer("S", to: "E"), at: .trips)
      return try await isRefused("delete", in: world)
    },
    RuleSituation(.endZone, .firing) { world in
      try await fill(.trips, in: world)
      try await world.subscribe(.zone, at: .trips)
      #expect(try await !isRefused("delete", in: world))
      return try world.isTold(.zone)
    },
    RuleSituation(.removeUser, .quota) { world in
      try await fill(.trips, in: world)
      world.fill()
      return try await isRemovalRefused(in: world)
    },
    RuleSituation(.removeUser, .references) { world in
      try await fill(.trips, in: world)
      try await world.put(RuleWorld.pointer("S", to: "E"), at: .trips)
      return try await isRemovalRefused(in: world)
    },
    // Bob takes part in the zone, and watches it, too.
    RuleSituation(.removeUser, .firing) { world in
      let share = try await world.shareTag()
      #expect(try await world.accept(share.shortGUID, by: "_bob") == nil)
      try await world.subscribe(.zone, at: RulePlace(scope: .shared, user: "_bob", zone: share.place.zone))
      try await world.subscribe(.database)
      #expect(try await !isRemovalRefused(at: share.place, in: world))
      let left = try await world.subscriptions()
      #expect(left == [], "what was bound to the zones goes with them")
      return try world.isTold(.database)
    },
  ]

  /// A zone of alice's that has a tag.
  private static func fill(_ place: RulePlace, in world: RuleWorld) async throws {
    try await world.base.makeZone(place.zone)
    try await world.put(tagOperation("create", "E"), at: place)
  }

  /// True if zones/modify leaves zone Trips as it is.
  private static func isRefused(_ operation: String, in world: RuleWorld) async throws -> Bool {
    let zone = #"{"operationType":"\#(operation)","zone":{"zoneID":{"zoneName":"Trips"}}}"#
    let reply = try await world.call("zones/modify", #"{"operations":[\#(zone)]}"#, on: .record)
    let isThere = try await world.records(at: .trips) != nil
    let isRefused = isThere != (operation == "create")
    #expect((reply.zones.first?.code != nil) == isRefused, "\(reply.text)")
    return isRefused
  }

  private static func isRemovalRefused(at place: RulePlace = .trips, in world: RuleWorld) async throws -> Bool {
    _ = try await UserRemoval(context: world.base.plane.context.commits, user: "_alice").run(on: world.base.store)
    return try await world.records(at: place) != nil
  }
}
