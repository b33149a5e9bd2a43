// Restores objects that a shared store lost: in the zone of connected objects, or else in the user's private database.

import History
import MessagePack
import Mirroring
import ObjectModel
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneActions
import ZoneCommit

extension SharedCall {
  /// `POST conflicts/{n}/restore`. The server writes the changes, so that every device imports them, the losing one
  /// too.
  ///
  /// They go to the zone of the object, or of the objects it is connected with. A missing object that can't be made in
  /// such a zone is made in the default zone of the user's private database, with its connections to objects there.
  /// - Throws: `NOT_FOUND` for an edit of a missing object, or the refusal of the write; the changes then stay lost.
  func restoreConflict(_ text: String, startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let number = try ConflictCall.number(text)
    let (conflicts, mirror) = try await call.conflictCall()
    let lost = try await conflicts.lost(number)
    guard let first = lost.first else { return try await conflicts.noteRestored(number, startNext: startNext) }
    let home = home(of: mirror)
    let (model, _) = try await call.model(of: mirror)
    let places = try await home.locate(Set(lost.flatMap(\.names)).sorted())
    let isNew = lost.contains { $0.changeType == .insert } && !places.isThere(first.objectID)
    if let zone = Self.zone(of: lost, places, model.index) {
      do throws(RecordError) {
        try await restore(
          lost.map { change in change.without { !places.isThere($0) && $0 != first.objectID } }, number, to: zone, home)
        return try await conflicts.noteRestored(number, startNext: startNext)
      } catch {
        // Dropped because it may be made elsewhere.
        guard isNew, error.isAbsence || error.code == .accessDenied else { throw error }
      }
    }
    guard isNew else {
      throw RecordError(
        .notFound,
        "\(first.entity) \(first.objectID): the lost edit is of an object that is no longer shared with the user")
    }
    return try await conflicts.restore(number, to: ReservedName.privateMirrorZone, startNext: startNext)
  }

  /// The shared zone that can take the changes of one object; nil when there is none.
  private static func zone(of lost: [HistoryChange], _ places: SharedPlaces, _ model: ModelIndex) -> Zone.ID? {
    guard let name = lost.first?.objectID else { return nil }
    if places.isThere(name) { return places.objects[name]?.zone }
    let known = lost.map { change in change.without { !places.isThere($0) } }
    var assignment = SharedAssignment(places, model: model)
    do {
      try assignment.add(HistoryTransaction(transactionID: "", timestamp: 0, changes: known), place: "what was lost")
    } catch {
      // Dropped because nil says the same: no zone takes them.
      return nil
    }
    return assignment.isLost(name) ? nil : assignment.zone(of: name)
  }

  private func restore(_ lost: [HistoryChange], _ number: Int64, to zone: Zone.ID, _ home: SharedHome)
    async throws(RecordError)
  {
    let body: [UInt8]
    do {
      let payload = HistoryTransaction(transactionID: "", timestamp: 0, changes: lost).encoded()
      body = try MessagePackEncoder().encode(RestoreLost(zoneName: zone.zoneName, payload: payload))
    } catch {
      throw RecordError(.internalError, "the request can't be written")
    }
    // The request ID is fixed: a repetition, after the entry could not be noted, restores nothing twice.
    let requestID = "restore/\(home.mirror.incarnation)/\(number)/\(zone.zoneName)"
    try await home.ask(zone.ownerName, .restore, body: body, requestID: requestID).check()
  }
}

extension StoreCall {
  /// `POST restore` of a home: restores once, however often the request is sent.
  func restoreForHome(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked: RestoreLost = try decodedBody()
    let lost: [HistoryChange]
    do {
      lost = try HistoryTransaction(decoding: asked.payload).changes
    } catch {
      throw RecordError(.badRequest, "the changes can't be read")
    }
    let (conflicts, _) = try await conflictCall()
    let key = IdempotencyKey(request: request, body: body)
    let restoration = RestoredChanges(call: conflicts, at: now)
    let at = now
    let commit = store.enqueue { transaction -> ZoneEffects in
      guard let database = try transaction.database(request.database) else { throw missing }
      if try key.outcome(in: transaction) != nil { return ZoneEffects() }
      let effects = try restoration.write(lost, to: asked.zoneName, of: database, in: transaction)
      try key.put(RequestOutcome(at: at, items: []), in: transaction)
      return effects
    }
    startNext()
    try await value(of: commit).publish(by: context)
    return PlaneAnswer(body: StoreAnswer.empty)
  }
}
