// The owner's and guests' views of a graph after a process died: an operation must be complete or without any effect.

import Foundation
import Testing

/// The state of a graph in the owner's shard.
struct StepSight: Hashable {
  /// The zone of all its records.
  var zoneName: String
  /// True when its zone, or the one it was in, is shared.
  var isShared: Bool
  /// The share's accepted users, except the owner.
  var members: Set<String>
}

extension StepCast {
  func sight(of shape: StepGraph) -> StepSight {
    let members =
      shape.isShared
      ? [shape.bobIsIn ? bob.recordName : "", shape.carolIsIn ? carol.recordName : ""].filter { !$0.isEmpty } : []
    return StepSight(
      zoneName: shape.isInside ? shape.zoneName ?? "?" : Self.home, isShared: shape.isShared, members: Set(members))
  }

  /// The state of the graph: an imported copy, the records of both zones, and the share must agree.
  func look(at shape: StepGraph) async throws -> StepSight {
    try await tablet.pull()
    #expect(await tablet.part(shape) == shape.graph, "the owner's other device lacks something")
    let zones = await tablet.zones(of: shape)
    #expect(zones.count == 1, "the graph is torn: \(zones)")
    let zoneName = zones.first ?? "?"
    let known = [Self.home] + [shape.zoneName, zoneName == Self.home ? nil : zoneName].compactMap { $0 }.prefix(1)
    for name in known {
      let count = try await records(shape.objectIDs, in: name).count { $0["serverErrorCode"] == .null }
      #expect(
        count == (name == zoneName ? shape.objectIDs.count : 0),
        "\(count) records in \(name), the objects in \(zoneName)")
    }
    let objects = try await phone.repeated(
      "POST", "/records", ["objectIDs": .array(shape.objectIDs.map { .string($0) })])["records"].elements
    #expect(
      objects.count { $0["serverErrorCode"] == .null } == shape.objectIDs.count, "the store lacks objects: \(objects)")
    guard known.count > 1 else { return StepSight(zoneName: zoneName, isShared: false, members: []) }
    let share = try await records(["cloudkit.zoneshare"], in: known[1])[0]
    let accepted = share["participants"].elements.filter {
      $0["acceptanceStatus"].string == "ACCEPTED" && $0["type"].string != "OWNER"
    }
    return StepSight(
      zoneName: zoneName, isShared: share["serverErrorCode"] == .null,
      members: Set(accepted.compactMap { $0["userIdentity"]["userRecordName"].string }))
  }

  private func records(_ names: [String], in zone: String) async throws -> [Value] {
    let body: Value = [
      "zoneID": ["zoneName": .string(zone)], "records": .array(names.map { ["recordName": .string($0)] }),
    ]
    return try await alice.repeated("records/lookup", body)["records"].elements
  }

  /// The names of the owner's zones that were made for shares.
  func shareZones() async throws -> Set<String> {
    Set(
      try await alice.repeated("zones/list", [:])["zones"].elements.compactMap { $0["zoneID"]["zoneName"].string }
        .filter { $0 != Self.home && $0.first != "_" })
  }

  /// Waits until the share service counts this many members; no other share has any at that time.
  func expectIndex(_ count: Int) async throws {
    var found = -1
    for _ in 0..<200 where found != count {
      found = Int(try await installation.admin("GET", "/admin/1/status")["sharedZones"].integer ?? -1)
      if found != count { try await Task.sleep(for: .milliseconds(25)) }
    }
    #expect(found == count, "accesses in the share service's index")
  }

  /// Waits until guests see exactly as much as the owner's shard allows: zones in their lists, objects in their copies.
  func expectGuests(see sight: StepSight, of shape: StepGraph, in zoneName: String?) async throws {
    for guest in [bobs, carols] {
      let user = guest.device.user
      let isIn = sight.members.contains(user.recordName)
      let wanted = isIn && sight.zoneName != Self.home ? shape.graph : Graph()
      let zone = zoneName.map { "\(alice.recordName)/\($0)" } ?? ""
      var (isListed, part) = (false, Graph())
      for _ in 0..<200 {
        isListed = try await user.sharedZones().contains(zone)
        try await guest.pull()
        part = await guest.part(shape)
        if isListed == isIn, part == wanted { break }
        try await Task.sleep(for: .milliseconds(25))
      }
      #expect(
        isListed == isIn,
        "\(user.recordName == bob.recordName ? "bob" : "carol") is a member: \(isIn), has the zone: \(isListed)")
      #expect(part == wanted, "\(user.recordName == bob.recordName ? "bob" : "carol") has another copy")
    }
  }
}
