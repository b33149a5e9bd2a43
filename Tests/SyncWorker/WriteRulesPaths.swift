// The paths by which tag N comes to a zone that has tag E, with the effect of each rule.

import History
import JSON
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
@testable import ZoneCommit

/// A path by which tag N comes to a zone, under the name that tag E has there.
struct BringingPath: Sendable {
  /// A write that is ready to be made.
  struct Ready: Sendable {
    /// Where N comes to.
    let place: RulePlace
    /// - Returns: the code of the refusal; nil: N is there.
    let run: @Sendable () async throws -> String?
  }

  let write: ZoneWrite
  /// True if it reaches the public database, where GRANTs hold.
  let isOfPublic: Bool
  let prepare: @Sendable (RuleWorld, RulePlace) async throws -> Ready

  var situations: [RuleSituation] {
    WriteRule.allCases.compactMap { rule in
      if rule == .references || rule == .permission && !isOfPublic { return nil }
      return RuleSituation(write, rule) { world in try await observe(rule, in: world) }
    }
  }

  private func observe(_ rule: WriteRule, in world: RuleWorld) async throws -> Bool {
    let isOpen = rule == .permission
    if isOpen { try await world.grant(.read, .create, .write) }
    let ready = try await prepare(world, isOpen ? .open : .home)
    switch rule {
    case .quota: world.fill()
    case .permission: try await world.grant(.read)
    case .uniqueness: try await world.declare(.reject)
    case .merge: try await world.declare(.mergeLowestUUID)
    case .firing: try await world.subscribe(.tags, at: ready.place)
    case .references: Issue.record("it has a situation of its own")
    }
    #expect(try await world.count(at: ready.place) == 1)
    let code = try await ready.run()
    #expect(try await world.count(at: ready.place) == (code == nil ? 2 : 1), "refused by \(code ?? "nobody")")
    let refusals: [WriteRule: String] = [
      .quota: "QUOTA_EXCEEDED", .permission: "ACCESS_DENIED", .uniqueness: "UNIQUE_FIELD_ERROR",
    ]
    #expect(code == nil || code == refusals[rule])
    return switch rule {
    case .merge: try await world.isMerged(at: ready.place)
    case .firing: try world.isTold(.tags)
    default: code != nil
    }
  }

  static let all = [
    BringingPath(write: .edit, isOfPublic: true, prepare: edit),
    BringingPath(write: .export, isOfPublic: true, prepare: export),
    BringingPath(write: .conflictRestore, isOfPublic: true, prepare: conflictRestore),
    BringingPath(write: .restore, isOfPublic: true, prepare: restore),
    BringingPath(write: .import, isOfPublic: true, prepare: importLine),
    BringingPath(write: .move, isOfPublic: false, prepare: move),
    BringingPath(write: .copy, isOfPublic: false, prepare: copy),
  ]

  // MARK: The paths

  @Sendable private static func edit(_ world: RuleWorld, _ place: RulePlace) async throws -> Ready {
    try await world.setUp("A", at: place)
    try await world.export(Edit.insertTag("E"), at: place)
    return Ready(place: place) { try await world.modify(tagOperation("create", "N"), at: place).records.first?.code }
  }

  /// The save was accepted when there was nothing against it: the export judges for itself.
  @Sendable private static func export(_ world: RuleWorld, _ place: RulePlace) async throws -> Ready {
    try await world.setUp("A", at: place)
    try await world.export(Edit.insertTag("E"), at: place)
    let name = NamedValue(name: "name", value: AttributeValue.string("x"))
    let insert = HistoryChange(changeType: .insert, entity: "Tag", objectID: "N", attributes: [name])
    try await world.wait(insert, at: place)
    return Ready(place: place) { try await world.exportBacklog(at: place) }
  }

  /// N was deleted while store B, which did not know, gave it the name.
  @Sendable private static func conflictRestore(_ world: RuleWorld, _ place: RulePlace) async throws -> Ready {
    for store in ["A", "B"] { try await world.setUp(store, at: place) }
    try await world.export(Edit.insertTag("N", "y"), at: place)
    _ = try await world.base.get("B/changes", user: place.user, scope: place.scope)
    try await world.export(Edit.delete("Tag", "N"), at: place)
    try await world.base.edit("B", Edit.renameTag("N", "x"), scope: place.scope, user: place.user)
    try await world.export(Edit.insertTag("E"), at: place)
    return Ready(place: place, run: try await world.restoration(ofConflictOf: "B", at: place))
  }

  @Sendable private static func restore(_ world: RuleWorld, _ place: RulePlace) async throws -> Ready {
    try await world.setUp("A", at: place)
    try await world.export(Edit.insertTag("E"), Edit.insertTag("N"), at: place)
    let sequence = try await world.sequence(at: place)
    try await world.export(Edit.delete("Tag", "N"), at: place)
    if place.isPublic {
      #expect(try await world.call("zones/\(place.zone)/restore", at: place).code == "ACCESS_DENIED")
    }
    return Ready(place: place) { try await world.restore(#""sequence":\#(sequence)"#, at: place).code }
  }

  @Sendable private static func importLine(_ world: RuleWorld, _ place: RulePlace) async throws -> Ready {
    try await world.setUp("A", at: place)
    try await world.export(Edit.insertTag("E"), at: place)
    if place.isPublic {
      #expect(try await world.call("zones/\(place.zone)/import", at: place).code == "ACCESS_DENIED")
    }
    return Ready(place: place) { try await world.importLine("N", at: place).code }
  }

  @Sendable private static func move(_ world: RuleWorld, _ place: RulePlace) async throws -> Ready {
    try await world.setUp("A")
    try await world.export(Edit.insertTag("N"))
    try await world.base.makeZone(RulePlace.trips.zone)
    try await world.put(tagOperation("create", "E"), at: .trips)
    return Ready(place: .trips) {
      let code = try await world.call("stores/A/move", #"{"objectIDs":["N"],"to":{"zoneName":"Trips"}}"#).code
      #expect(try await world.count(at: .home) == (code == nil ? 0 : 1), "a refusal is of the whole move")
      return code
    }
  }

  @Sendable fileprivate static func copy(_ world: RuleWorld, _ place: RulePlace) async throws -> Ready {
    try await world.setUp("A")
    try await world.export(Edit.insertTag("E"))
    try await world.base.makeZone(RulePlace.trips.zone)
    try await world.put(tagOperation("create", "N"), at: .trips)
    return Ready(place: .home) {
      let code = try await world.purgeTrips().code
      #expect(try await world.count(at: .trips) == (code == nil ? 0 : 1), "a refusal is of the whole copy")
      return code
    }
  }
}

extension RuleWorld {
  /// Saves a change in store A that is not exported yet.
  fileprivate func wait(_ change: HistoryChange, at place: RulePlace) async throws {
    let id = base.random.uuid()
    let transaction = HistoryTransaction(transactionID: id, timestamp: 0, author: "app", changes: [change])
    try await base.appendWithoutExport([transaction], to: "A", scope: place.scope)
  }

  /// The restoration of what a store lost.
  fileprivate func restoration(
    ofConflictOf store: String, at place: RulePlace
  ) async throws -> @Sendable () async throws -> String? {
    let conflicts = try await base.conflicts(store, user: place.user, scope: place.scope)
    let number = try #require(conflicts.first?["number"]?.int64)
    return { try await call("stores/\(store)/conflicts/\(number)/restore", at: place).code }
  }

  fileprivate func purgeTrips(by user: String? = nil) async throws -> PlaneReply {
    try await call("stores/A/purge", #"{"zoneID":{"zoneName":"Trips"},"keepCopy":true}"#, by: user)
  }
}

/// Situations that are not those of all paths: references, and permission where it is no matter of GRANTs.
enum BringingSituations {
  static let all = [
    RuleSituation(.edit, .references) { world in
      try await world.setUp("A")
      let reply = try await world.modify(RuleWorld.pointer("S", to: "nobody"), at: .home)
      return try await isRefused(reply.records.first?.code) { try await world.record("S", at: .home) == nil }
    },
    RuleSituation(.export, .references) { world in
      try await world.setUp("A")
      try await world.export(Edit.insertTag("E"))
      try await world.put(RuleWorld.pointer("S", to: "E"), at: .home)
      try await world.wait(HistoryChange(changeType: .delete, entity: "Tag", objectID: "E"), at: .home)
      let code = try await world.exportBacklog(at: .home)
      return try await isRefused(code) { try await world.record("E", at: .home) != nil }
    },
    // A deletion beyond bob's permissions happens once he has the permission again.
    RuleSituation(.conflictRestore, .references) { world in
      try await world.grant(.read, .create, .write)
      try await world.setUp("A", at: .open)
      try await world.export(Edit.insertTag("E"), at: .open)
      try await world.wait(HistoryChange(changeType: .delete, entity: "Tag", objectID: "E"), at: .open)
      try await world.grant(.read)
      #expect(try await world.exportBacklog(at: .open) == "ACCESS_DENIED")
      try await world.grant(.read, .create, .write)
      try await world.put(RuleWorld.pointer("S", to: "E"), at: .open)
      let restoration = try await world.restoration(ofConflictOf: "A", at: .open)
      let code = try await restoration()
      return try await isRefused(code) { try await world.record("E", at: .open) != nil }
    },
    // E goes back to nothing; S, which came after the part that is restored, stays.
    RuleSituation(.restore, .references) { world in
      try await world.setUp("A")
      let sequence = try await world.sequence(at: .home)
      try await world.export(Edit.insertTag("E"))
      let through = try await world.sequence(at: .home)
      try await world.put(RuleWorld.pointer("S", to: "E"), at: .home)
      let code = try await world.restore(#""sequence":\#(sequence),"through":\#(through)"#, at: .home).code
      return try await isRefused(code) { try await world.record("E", at: .home) != nil }
    },
    RuleSituation(.import, .references) { world in
      try await world.setUp("A")
      let code = try await world.importLine("S", to: "nobody", at: .home).code
      return try await isRefused(code) { try await world.record("S", at: .home) == nil }
    },
    RuleSituation(.move, .references) { world in
      try await world.setUp("A")
      try await world.export(Edit.insertTag("N"))
      try await world.put(RuleWorld.pointer("S", to: "N"), at: .home)
      try await world.base.makeZone(RulePlace.trips.zone)
      let code = try await world.call("stores/A/move", #"{"objectIDs":["N"],"to":{"zoneName":"Trips"}}"#).code
      return try await isRefused(code) { try await world.record("S", at: .trips) == nil }
    },
    // The source has the lower name: it is copied before its target.
    RuleSituation(.copy, .references) { world in
      try await world.setUp("A")
      try await world.base.makeZone(RulePlace.trips.zone)
      try await world.put(tagOperation("create", "N"), RuleWorld.pointer("M", to: "N"), at: .trips)
      let code = try await world.purgeTrips().code
      return try await isRefused(code) { try await world.records(at: .home)?.count != 2 }
    },
    // Objects of a share stay in it, for every caller.
    RuleSituation(.move, .permission) { world in
      try await world.setUp("A")
      try await world.export(Edit.insertTag("E"), Edit.insertTag("N"))
      let (target, own) = (try await world.share("E").place, try await world.share("N").place)
      let code = try await world.share("N", to: target.zone).reply.code
      return try await isRefused(code) { try await world.record("N", at: own) != nil }
    },
    RuleSituation(.copy, .permission) { world in
      let ready = try await BringingPath.copy(world, .home)
      #expect(try await world.purgeTrips(by: "_bob").code == "NOT_FOUND")
      #expect(try await world.count(at: .home) == 1)
      let code = try await ready.run()
      return try await isRefused(code) { try await world.count(at: .home) == 1 }
    },
  ]

  /// True if a write was refused: the answer and the zone agree.
  private static func isRefused(_ code: String?, _ isUndone: () async throws -> Bool) async rethrows -> Bool {
    let isUndone = try await isUndone()
    #expect((code != nil) == isUndone, "refused by \(code ?? "nobody")")
    return isUndone
  }
}
