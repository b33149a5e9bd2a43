// The zones of a run: shares, participants, moves, deleted zones, and records that devices can't read.

import JSON
import MirroringWorld
import Records
import ServiceBus

/// A share that an owner's device made.
struct RunShare {
  let zone: String
  let shortGUID: String
  /// One of its objects, which identifies the share in requests.
  let objectID: String
}

extension ServerRun {
  /// Participants of alice's shares, each with one device.
  static let participants = ["_bob", "_carol"]

  func zoneStep(_ device: Device, _ generator: inout SeededGenerator) async throws -> String {
    switch Int.random(in: 0..<12, using: &generator) {
    case 0...1: return try await share(by: device, &generator)
    case 2...4: return try await accept(&generator)
    case 5: return try await invite(by: device, &generator)
    case 6...8: return try await move(by: device, &generator)
    case 9: return try await leave(&generator)
    case 10: return try await end(by: device, &generator)
    default: return try await records.spoil(&generator, &ledger)
    }
  }

  private func list(_ generator: inout SeededGenerator) -> String {
    let entries = Self.participants.compactMap { user -> String? in
      let permission = ["READ_WRITE", "READ_WRITE", "READ_ONLY", nil].randomElement(using: &generator) ?? nil
      return permission.map { #"{"userIdentity":{"userRecordName":"\#(user)"},"permission":"\#($0)"}"# }
    }
    return "[\(entries.joined(separator: ","))]"
  }

  private func share(by device: Device, _ generator: inout SeededGenerator) async throws -> String {
    guard shares.count < 3, let id = device.base.objects.keys.sorted().randomElement(using: &generator) else {
      return "nobody shares"
    }
    let reply = try await ask(
      device, "POST", "shares", #"{"objectIDs":["\#(id)"],"to":null,"title":"t","participants":\#(list(&generator))}"#)
    guard let reply, reply.status == 200, let zone = reply.json["zoneID"]?["zoneName"]?.string,
      let guid = reply.json["share"]?["shortGUID"]?.string
    else {
      return "\(device.store) can't share \(id): \(reply?.text ?? "no answer")"
    }
    if !shares.contains(where: { $0.zone == zone }) {
      shares.append(RunShare(zone: zone, shortGUID: guid, objectID: id))
    }
    return "\(device.store) shares \(id) in \(zone)"
  }

  private func accept(_ generator: inout SeededGenerator) async throws -> String {
    guard let share = shares.randomElement(using: &generator),
      let user = Self.participants.randomElement(using: &generator)
    else { return "nobody accepts" }
    let reply = try await server.accept(share.shortGUID, of: Self.owner, by: user)
    return "\(user) accepts \(share.zone): \(reply?.json.elements.first?["serverErrorCode"]?.string ?? "done")"
  }

  /// Changes the permissions of all participants; those who are not in the list are removed.
  private func invite(by device: Device, _ generator: inout SeededGenerator) async throws -> String {
    guard let share = shares.randomElement(using: &generator) else { return "nobody invites" }
    let list = list(&generator)
    let body = #"{"objectIDs":["\#(share.objectID)"],"to":{"zoneName":"\#(share.zone)"},"participants":\#(list)}"#
    return
      "\(device.store) invites to \(share.zone): \(list): \(try await ask(device, "POST", "shares", body)?.status ?? 0)"
  }

  private func move(by device: Device, _ generator: inout SeededGenerator) async throws -> String {
    guard let id = device.base.objects.keys.sorted().randomElement(using: &generator) else { return "nobody moves" }
    let zone = Bool.random(using: &generator) ? shares.randomElement(using: &generator)?.zone : nil
    let reply = try await ask(
      device, "POST", "move", #"{"objectIDs":["\#(id)"],"to":\#(zone.map { #"{"zoneName":"\#($0)"}"# } ?? "null")}"#)
    return "\(device.store) moves \(id) to \(zone ?? "the default zone"): \(reply?.status ?? 0)"
  }

  private func leave(_ generator: inout SeededGenerator) async throws -> String {
    guard let share = shares.randomElement(using: &generator), let guest = guests.randomElement(using: &generator)
    else { return "nobody leaves" }
    let reply = try await ask(
      guest, "POST", "purge", #"{"zoneID":{"zoneName":"\#(share.zone)","ownerRecordName":"\#(Self.owner)"}}"#)
    return "\(guest.user) leaves \(share.zone): \(reply?.status ?? 0)"
  }

  /// Deletes a zone with everything in it.
  private func end(by device: Device, _ generator: inout SeededGenerator) async throws -> String {
    guard let share = shares.randomElement(using: &generator) else { return "no zone ends" }
    // Objects in the zone or on their way there may be deleted.
    let rows = try await records.rows()
    let names = rows.filter { $0.zone == share.zone }.map(\.name)
    for name in names { ledger.doubt(name) }
    records.forget(
      Set(try await records.names(everIn: share.zone)).subtracting(rows.filter { $0.zone != share.zone }.map(\.name)))
    for change in (devices + guests).flatMap(\.pending).flatMap(\.changes) { ledger.doubt(change.objectID) }
    shares.removeAll { $0.zone == share.zone }
    let isPurge = Bool.random(using: &generator)
    let reply: Reply?
    if isPurge {
      reply = try await ask(device, "POST", "purge", #"{"zoneID":{"zoneName":"\#(share.zone)"}}"#)
    } else {
      reply = try await server.ask(
        .record, "POST", "zones/modify", [:],
        #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"\#(share.zone)"}}}]}"#,
        user: Self.owner)
    }
    return "\(device.store) \(isPurge ? "purges" : "deletes") \(share.zone): \(reply?.status ?? 0)"
  }

  private func ask(_ device: Device, _ method: String, _ call: String, _ body: String) async throws -> Reply? {
    try await server.ask(
      .object, method, "stores/\(device.store)/\(call)", [:], body, user: device.user, scope: device.scope)
  }

  // MARK: The end

  /// A participant must have the visible part of alice's zones, and so must a new device of the same participant.
  func guestDifferences(_ reference: Replica.Picture) async throws -> [String] {
    var problems: [String] = []
    for guest in guests {
      let zones = server.directory.zones(sharedWith: guest.user)
      var visible = reference
      visible.objects = reference.objects.filter { zones.contains($0.value.zone) }
      visible.links = reference.links.filter { visible.objects[$0.first] != nil && visible.objects[$0.second] != nil }
      for id in visible.objects.keys { visible.objects[id]?.pointers = reference.objects[id]?.pointers ?? [:] }
      problems += guest.view.picture.differences(from: visible, comparesZones: false).map {
        "\(guest.user) (here) and what is shared with him (there): \($0)"
      }
      let fresh = Device(
        "new of \(guest.user.dropFirst())", user: guest.user, scope: .shared, server: server, shape: shape)
      problems += try await bringOnline([fresh])
      problems += fresh.view.picture.differences(from: visible, comparesZones: false).map {
        "a new device of \(guest.user) (here) and what is shared with him (there): \($0)"
      }
    }
    return problems
  }
}
