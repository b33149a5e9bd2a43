// The owner's side of a shared store: makes the guest on first use and answers the home's requests about it.

import History
import MessagePack
import Mirroring
package import ObjectPlane
import RecordStore
package import Records
package import ServiceBus
import ServiceKit
import Sharing
import WebServices
package import ZoneCommit

/// A home's request about its guest in this database.
package struct GuestCall {
  package let call: StoreCall
  /// The home, as its guest must be; nil: the home only looks around.
  package let store: GuestRequest.Store?

  package init(call: StoreCall, store: GuestRequest.Store?) {
    self.call = call
    self.store = store
  }

  /// Answers a call that only a home makes. A home that only looks around makes no guest.
  package func respond(to route: GuestRoute, startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    switch route {
    case .locateObjects: return try await call.locateObjects()
    case .listZones: return try await call.listZones()
    case .listHeld: return try await guest().listHeld()
    case .acknowledgeHeld: return try await guest().acknowledgeHeld(startNext: startNext)
    case .restore: return try await guest().restoreForHome(startNext: startNext)
    case .forward: return try await guest().takeForwarded(startNext: startNext)
    }
  }

  /// Answers the calls on a guest that differ from those on other stores.
  /// - Returns: nil for a call that is answered as for any store.
  package func respond(to route: StoreRoute, startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer?
  {
    let call = try await guest()
    let takesParts = call.request.takesParts
    switch route {
    case .fetchChanges where takesParts:
      let (batch, page) = try await call.importedBatch()
      return try PlaneAnswer(forProcess: GuestPage(batch, page, hasKept: try await call.hasKept()))
    case .status where takesParts: return try PlaneAnswer(forProcess: GuestStatus(try await call.storeStatus()))
    case .retryQuarantine where takesParts:
      return try PlaneAnswer(forProcess: RetriedCount(retried: try await call.hastenQuarantine(startNext: startNext)))
    // For a home of a release before `takesParts`.
    case .fetchChanges: return try await call.fetchChanges().telling(hasKept: call.hasKept())
    case .forget:
      // The home must take all that the guest keeps before the guest goes.
      if try await call.locate().quarantinedCount > 0 {
        throw RecordError(.conflict, "the guest holds changes that its home has not written down")
      }
      return nil
    default: return nil
    }
  }

  /// The call, once the guest is there and is as the home says.
  private func guest() async throws(RecordError) -> StoreCall {
    guard let store else { throw call.missing }
    try await call.makeGuest(store)
    return call
  }
}

extension StoreCall {
  /// Makes the guest, or gives it the home's current model. A user who never had access to the database gets `missing`.
  fileprivate func makeGuest(_ home: GuestRequest.Store) async throws(RecordError) {
    @Sendable func isCurrent(_ mirror: StoredMirror) -> Bool {
      mirror.modelHash == home.modelHash && mirror.configuration == home.configuration
    }
    let isMade = try await read { snapshot in
      guard let database = try snapshot.database(request.database),
        try !snapshot.members(user, of: database.key).isEmpty
      else { throw missing }
      return try snapshot.mirror(rowIdentifier, in: database.key).map(isCurrent) ?? false
    }
    if isMade { return }
    let at = now
    try await value(
      of: store.enqueue { transaction in
        guard let database = try transaction.database(request.database),
          try !transaction.members(user, of: database.key).isEmpty
        else { throw missing }
        guard var mirror = try transaction.mirror(rowIdentifier, in: database.key) else {
          let mirror = try transaction.makeMirror(
            rowIdentifier, in: database.key, userRecordName: user, scope: .shared, modelHash: home.modelHash,
            configuration: home.configuration,
            deviceName: home.deviceName, createdAt: at)
          var state = StoredSyncState()
          state.sinceSequence = database.sequence
          return try transaction.put(state, of: mirror.key)
        }
        if isCurrent(mirror) { return }
        var state = try transaction.syncState(of: mirror.key)
        state.changeModel(of: mirror)
        _ = try transaction.retryUnimported(nil, of: mirror.key, at: at)
        (mirror.modelHash, mirror.configuration, mirror.deviceName) = (
          home.modelHash, home.configuration, home.deviceName
        )
        try transaction.update(mirror)
        try transaction.put(state, of: mirror.key)
      })
  }

  // MARK: Looking around

  /// The guest's row, or a visitor in its place while there is no row.
  private func visitor(in snapshot: any ShardSnapshot) throws -> StoredMirror? {
    guard let database = try snapshot.database(request.database) else { return nil }
    return try snapshot.mirror(rowIdentifier, in: database.key) ?? .visitor(storeIdentifier, of: user, in: database.key)
  }

  fileprivate func locateObjects() async throws(RecordError) -> PlaneAnswer {
    let asked: LocateObjects = try decodedBody()
    guard asked.objectIDs.count <= LocateObjects.limit else {
      throw RecordError(.badRequest, "objectIDs: at most \(LocateObjects.limit) at once")
    }
    let found = try await read { snapshot -> LocatedObjects in
      guard let mirror = try visitor(in: snapshot) else { return LocatedObjects() }
      let locator = try ObjectLocator(of: mirror, in: snapshot)
      guard let guest = locator.guest else { return LocatedObjects() }
      var (found, places) = (LocatedObjects(), [String: Int]())
      func place(_ zoneName: String, isLost: Bool) -> Int {
        if let known = places[zoneName] { return known }
        found.zones.append(
          LocatedObjects.Zone(
            zoneName: zoneName, mayWrite: !isLost && guest.access[zoneName]?.mayWrite(root: nil) == true, isLost: isLost
          ))
        places[zoneName] = found.zones.count - 1
        return found.zones.count - 1
      }
      for name in asked.objectIDs {
        if let zone = try locator.zone(of: name) {
          guard let access = guest.access[zone.zoneName] else { continue }
          var (mayRead, mayWrite) = (true, access.mayWrite(root: nil))
          // Within a hierarchy the record itself decides.
          if access.roots != nil {
            guard let record = try locator.source(in: zone).row(named: name)?.record,
              let visible = guest.visible(in: zone, snapshot)
            else { continue }
            (mayRead, mayWrite) = (try visible.mayRead(record), try visible.mayWrite(record))
          }
          guard mayRead else { continue }
          let isTombstone = try locator.isTombstone(name)
          found.objects.append(
            LocatedObjects.Object(
              objectID: name, zone: place(zone.zoneName, isLost: false), isTombstone: isTombstone, mayWrite: mayWrite,
              hasLeft: try locator.hasLeft(name)))
        } else if let zoneName = try locator.lostZone(of: name),
          try guest.knew(name, in: zoneName, of: mirror.databaseKey, snapshot)
        {
          found.objects.append(
            LocatedObjects.Object(
              objectID: name, zone: place(zoneName, isLost: true), isTombstone: false, mayWrite: false, hasLeft: false))
        }
      }
      return found
    }
    return try PlaneAnswer(forProcess: found)
  }

  fileprivate func listZones() async throws(RecordError) -> PlaneAnswer {
    let list = try await read { snapshot -> GuestZoneList in
      guard let database = try snapshot.database(request.database) else { return GuestZoneList(zones: []) }
      let guest = try GuestZones(of: user, in: database.key, snapshot)
      let lost = Dictionary(
        grouping: guest.members.filter { !$0.isFormer && guest.hasLost($0.zoneName) }, by: \.zoneName
      ).sorted { $0.key < $1.key }
      return GuestZoneList(
        zones: try guest.zones(in: database.key, snapshot).map { zone in
          GuestZoneList.Zone(
            zoneName: zone.zoneName, shareNames: guest.access[zone.zoneName]?.members.map(\.shareName) ?? [],
            recordCount: try guest.visible(in: zone, snapshot)?.recordCount() ?? 0)
        },
        lost: lost.map { GuestZoneList.Zone(zoneName: $0.key, shareNames: $0.value.map(\.shareName), recordCount: 0) })
    }
    return try PlaneAnswer(forProcess: list)
  }

  // MARK: Bodies

  func decodedBody<Value: Decodable>() throws(RecordError) -> Value {
    do {
      return try MessagePackDecoder().decode(Value.self, from: body)
    } catch {
      throw RecordError(.badRequest, "the body can't be read")
    }
  }
}

extension PlaneAnswer {
  /// Adds `hasKept` to an import page in JSON; no client sees it.
  fileprivate func telling(hasKept: Bool) -> PlaneAnswer {
    guard hasKept, body.last == UInt8(ascii: "}") else { return self }
    var answer = self
    answer.body = body.dropLast() + Array(#","hasKept":true}"#.utf8)
    return answer
  }
}
