// Moves of objects between zones of their owner's private database, both ways (A9).

import JSON
import Mirroring
import ObjectPlane
import RecordStore
package import Records
import ServiceBus
import WebServices
package import ZoneCommit

extension StoreCall {
  /// `POST move`: takes objects and everything connected with them to another zone of the user's own: out of a share,
  /// into one, or between two. They keep their names, and users of both zones see a move.
  package func move(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked = try MoveObjectsRequest(try JSONValue.request(body))
    let mirror = try await locate()
    let defaultZoneName = try privateZoneName(of: mirror, for: "move")
    let zoneName = try asked.zone.map { zone throws(RecordError) in try ownZoneName(zone, "to") } ?? defaultZoneName
    let (model, schema) = try await model(of: mirror)
    let move = GraphMove(
      call: self, objectIDs: asked.objectIDs, zoneName: zoneName, model: model, schema: schema,
      makesZone: zoneName == defaultZoneName)
    startNext()
    let moved = try await move.run(mayEnter: { zone, snapshot in
      let mirror = try self.mirror(in: snapshot)
      if let refusal = try ZoneStanding(of: mirror, to: zone, in: snapshot).refusal {
        throw RecordError(.conflict, "to: \(refusal.reason)")
      }
    }) { _ in }
    return PlaneAnswer(
      body: StoreAnswer.moved(moved.objectIDs, to: Zone.ID(zoneName: zoneName, ownerName: request.database.owner)))
  }

  /// The default zone of a private store.
  /// - Throws: `BAD_REQUEST` with 134060 for a store of another scope.
  func privateZoneName(of mirror: StoredMirror, for action: String) throws(RecordError) -> String {
    guard mirror.scope == .private, let name = mirror.defaultZoneName else {
      throw RecordError(
        .badRequest,
        """
        \(action): objects of the \(mirror.scope.rawValue) database stay in their zones; only a private store has \
        zones of its own
        """,
        cocoaErrorCode: .mirroring)
    }
    return name
  }

  /// - Parameter key: of the request, for the refusal.
  /// - Throws: `ZONE_NOT_FOUND` for a zone of another owner, and for the record clients' default zone.
  func ownZoneName(_ zone: ZoneReference, _ key: String) throws(RecordError) -> String {
    guard zone.ownerRecordName ?? request.database.owner == request.database.owner,
      zone.zoneName != ReservedName.defaultZone,
      RecordName.problem(zone.zoneName, kind: key) == nil
    else {
      throw RecordError(.zoneNotFound, "\(key): the store has no zone '\(zone.zoneName.prefix(Limit.nameByteCount))'")
    }
    return zone.zoneName
  }
}
