// Calls on a shared store's single objects and their shares: reading, accepting an invitation, leaving a share.

import JSON
import Mirroring
import ObjectPlane
import RecordStore
package import Records
import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

extension SharedCall {
  /// `objects/{objectID}` and paths below it: forwards the store's saves, then asks the owner of the object.
  func object(_ objectID: String, _ route: StoreRoute) async throws(RecordError) -> PlaneAnswer {
    let mirror = try await call.locate()
    let home = home(of: mirror)
    _ = try await forwardEverything(home)
    guard let place = try await home.locate([objectID]).objects[objectID], !place.isLost else {
      if route == .explainObject { return try await call.explain(objectID) }
      throw RecordError(.notFound, "There is no object \(objectID.prefix(Limit.nameByteCount)) in this store")
    }
    return try await home.ask(place.zone.ownerName, route, item: objectID)
  }

  /// `GET audit`: asks the owner of the object.
  func audit() async throws(RecordError) -> PlaneAnswer {
    guard let objectID = call.request.query["objectID"], !objectID.isEmpty else {
      throw RecordError(.badRequest, "objectID is missing")
    }
    let home = try await home()
    guard let place = try await home.locate([objectID]).objects[objectID], !place.isLost else {
      throw RecordError(.notFound, "There is no object \(objectID.prefix(Limit.nameByteCount)) in this store")
    }
    return try await home.ask(place.zone.ownerName, .audit, query: call.request.query)
  }

  /// `DELETE history`: with `force`, forwards the whole history first.
  func purgeHistory(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    if try call.flag("force") { _ = try await forwardEverything(try await home()) }
    return try await call.purgeHistory(startNext: startNext)
  }

  func records() async throws(RecordError) -> PlaneAnswer {
    let names = try ObjectIDsRequest(try JSONValue.request(call.body)).objectIDs
    let home = try await home()
    let places = try await home.locate(names)
    var byOwner: [String: [String]] = [:]
    for name in names {
      if let place = places.objects[name], !place.isLost { byOwner[place.zone.ownerName, default: []].append(name) }
    }
    let asked = byOwner
    var found: [String: [UInt8]] = [:]
    for (owner, answer) in await askAll(
      byOwner.keys.sorted(),
      { owner throws(RecordError) in
        try await home.ask(owner, StoreRoute.fetchRecords, body: Self.objectIDs(asked[owner] ?? [])).decoded(
          as: AnswerParts.self)
      })
    {
      for (name, record) in zip(byOwner[owner] ?? [], try answer.get().parts) { found[name] = record.json }
    }
    var writer = JSONWriter(reservingByteCount: 1024 * names.count + 64)
    writer.beginObject()
    writer.key("records")
    writer.beginArray()
    for name in names {
      if let record = found[name] {
        writer.raw(record)
      } else {
        RecordDictionaryWriter.writeError(RecordError(.notFound, "Record not found"), of: name, to: &writer)
      }
    }
    writer.endArray()
    writer.endObject()
    return PlaneAnswer(body: writer.bytes)
  }

  private static func objectIDs(_ names: [String]) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("objectIDs")
    writer.beginArray()
    for name in names { writer.string(name) }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  /// Allows objects that are not saved yet and objects that the user may write (A12).
  func permissions() async throws(RecordError) -> PlaneAnswer {
    let names = try ObjectIDsRequest(try JSONValue.request(call.body)).objectIDs
    let places = try await home().locate(names)
    let objects = names.map { name in (name, places.objects[name].map { $0.mayWrite && !$0.isLost } ?? true) }
    return PlaneAnswer(body: StoreAnswer.permissions(canModify: true, objects: objects))
  }

  // MARK: Shares

  /// The zones that are shared with the store's user, by owner.
  private func zones(_ home: SharedHome, of owners: [String]) async throws(RecordError) -> [(
    owner: String, list: GuestZoneList
  )] {
    var found: [(owner: String, list: GuestZoneList)] = []
    for (owner, answer) in await askAll(
      owners,
      { owner throws(RecordError) in try await home.ask(owner, GuestRoute.listZones).decoded(as: GuestZoneList.self) })
    {
      found.append((owner, try answer.get()))
    }
    return found
  }

  func shares() async throws(RecordError) -> PlaneAnswer {
    let home = try await home()
    var wanted: Zone.ID?
    if let objectID = call.request.query["objectID"] {
      guard let place = try await home.locate([objectID]).objects[objectID], !place.isLost else {
        throw RecordError(.notFound, "There is no object \(objectID.prefix(Limit.nameByteCount)) in this store")
      }
      wanted = place.zone
    }
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("shares")
    writer.beginArray()
    var owners = wanted.map { [$0.ownerName] } ?? []
    if wanted == nil { owners = try await home.owners().filter(\.isActive).map(\.name) }
    for (owner, list) in try await zones(home, of: owners) {
      for zone in list.zones where wanted == nil || wanted?.zoneName == zone.zoneName {
        let id = Zone.ID(zoneName: zone.zoneName, ownerName: owner)
        let body = Self.body(of: id) { writer in
          writer.key("records")
          writer.beginArray()
          for name in zone.shareNames {
            writer.beginObject()
            writer.member("recordName", name)
            writer.endObject()
          }
          writer.endArray()
        }
        let records = try await home.ask(owner, .lookUpRecords, body: body).decoded(as: AnswerParts.self)
        for record in records.parts where record.error == nil { writer.raw(record.json) }
      }
    }
    writer.endArray()
    writer.endObject()
    return PlaneAnswer(body: writer.bytes)
  }

  private static func body(of zone: Zone.ID, _ members: (inout JSONWriter) -> Void) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("zoneID")
    zone.write(to: &writer)
    members(&writer)
    writer.endObject()
    return writer.bytes
  }

  /// `POST purge`: a participant leaves; the zone stays with its owner and the others. A repeated request gets the same
  /// answer without the count of records; a zone that was left in another way is reported as missing.
  func leave() async throws(RecordError) -> PlaneAnswer {
    let reference = try PurgeZoneRequest(try JSONValue.request(call.body)).zone
    let mirror = try await call.locate()
    let home = home(of: mirror)
    let missing = RecordError(
      .zoneNotFound, "zoneID: no zone '\(reference.zoneName.prefix(Limit.nameByteCount))' is shared with the user")
    guard let owner = reference.ownerRecordName, try await home.owners().contains(where: { $0.name == owner }) else {
      throw missing
    }
    _ = try await forwardEverything(home)
    guard let list = try await zones(home, of: [owner]).first?.list else { throw missing }
    let present = list.zones.first { $0.zoneName == reference.zoneName }
    guard let zone = present ?? list.lost?.first(where: { $0.zoneName == reference.zoneName }) else { throw missing }
    let body = Self.body(of: Zone.ID(zoneName: zone.zoneName, ownerName: owner)) { writer in
      writer.key("operations")
      writer.beginArray()
      for name in zone.shareNames {
        writer.beginObject()
        writer.member("operationType", "forceDelete")
        writer.key("record")
        writer.beginObject()
        writer.member("recordName", name)
        writer.member("recordType", ReservedName.shareRecordType)
        writer.endObject()
        writer.endObject()
      }
      writer.endArray()
    }
    do throws(RecordError) {
      let answer = try await home.ask(owner, .modifyRecords, body: body, requestID: call.request.requestID).decoded(
        as: AnswerParts.self)
      if let error = answer.parts.lazy.compactMap(\.error).first(where: { $0.code != .notFound }) { throw error }
    } catch {
      throw present == nil && !error.code.row.isRetryable ? missing : error
    }
    return PlaneAnswer(body: StoreAnswer.purgedZone(zone.recordCount))
  }

  /// `POST accept`: takes the same path as `records/accept` and answers alike.
  func accept() async throws(RecordError) -> PlaneAnswer {
    _ = try await call.locate()
    let references = try ShortGUIDReference.references(of: try JSONValue.request(call.body))
    guard let layout = context.owners.layout else {
      throw RecordError(.tryAgainLater, "The shards are not known yet", retryAfter: 1)
    }
    var places: [Int: [Int]] = [:]
    for (index, reference) in references.enumerated() {
      guard let shard = ShortGUID(reference.value)?.shard else { continue }
      for heir in layout.heirs(of: shard) { places[heir, default: []].append(index) }
    }
    var results: [Int: Result<JSONValue, RecordError>] = [:]
    for (shard, indices) in places.sorted(by: { $0.key < $1.key }) {
      let items = indices.map { index in
        ResolveShortGUIDs.Item(
          shortGUID: references[index].value, fetchesRootRecord: references[index].shouldFetchRootRecord ?? false,
          desiredKeys: references[index].rootRecordDesiredKeys)
      }
      let message = ResolveShortGUIDs(
        purpose: .accept, shard: shard, part: layout.dividedPart(of: shard), container: call.request.database.container,
        environment: call.request.database.environment,
        caller: call.request.caller, items: items, baseURL: call.request.baseURL)
      do throws(RecordError) {
        let found = try Self.resolved(try await context.owners.resolve(message, within: SharedHome.patience))
        for (index, result) in zip(indices, found) where !result.isNull { results[index] = .success(result) }
      } catch {
        for index in indices where results[index] == nil { results[index] = .failure(error) }
      }
    }
    return PlaneAnswer(body: Self.accepted(references, results))
  }

  private static func resolved(_ body: [UInt8]) throws(RecordError) -> [JSONValue] {
    do {
      return try JSONValue(parsing: body).elements
    } catch {
      throw AnswerForm.unreadable
    }
  }

  private static func accepted(_ references: [ShortGUIDReference], _ results: [Int: Result<JSONValue, RecordError>])
    -> [UInt8]
  {
    var writer = JSONWriter(reservingByteCount: 512 * (references.count + 1))
    writer.beginObject()
    writer.key("results")
    writer.beginArray()
    for (index, reference) in references.enumerated() {
      writer.beginObject()
      writer.key("shortGUID")
      reference.write(to: &writer)
      switch results[index] {
      case .success(let found)?:
        found.forEachMember { key, value in
          writer.key(key.string ?? "")
          writer.value(value)
        }
      case .failure(let error)?: error.writeMembers(to: &writer)
      case nil: RecordError(.notFound, "There is no share with this short GUID").writeMembers(to: &writer)
      }
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}

extension StoreCall {
  /// An invitation is accepted into the shared database's store (A11).
  package func refuseAccepting() async throws(RecordError) -> PlaneAnswer {
    _ = try await locate()
    throw RecordError(
      .badRequest, "accept: only a store of the shared database accepts shares", cocoaErrorCode: .noSharedStore)
  }
}
