// Ends a zone by an operator's order: as a purge, or because its encrypted values can't be read any more.

import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

extension ZoneCall {
  /// `POST end` `{"reason"}`: deletes the zone with all its records. Stores get the reason and follow their policy.
  func end(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    guard request.caller.isOperator else {
      throw RecordError(.accessDenied, "Only operators end zones; owners delete or purge them")
    }
    let asked = try EndZoneRequest(try JSONValue.request(body))
    guard zoneName != ReservedName.defaultZone else { throw RecordError(.badRequest, "_defaultZone can't be ended") }
    let schema = try await context.schemas.schema(of: request.database.container, request.database.environment)
    let terms = terms(.endZone, schema)
    var ended: (count: Int, effects: ZoneEffects)?
    var isFirst = true
    while ended == nil {
      let commit = store.enqueue { transaction -> (count: Int, effects: ZoneEffects)? in
        let zone = try zone(in: transaction)
        guard try transaction.clearConflicts(of: zone, before: asked.end) else { return nil }
        let count = try transaction.recordCount(in: zone.key)
        let commit = try terms.begin(in: transaction.row(ofDatabase: zone.databaseKey), transaction)
        try commit.end(zone, as: asked.end)
        return (count, try commit.finish())
      }
      if isFirst { startNext() }
      isFirst = false
      ended = try await value(of: commit)
    }
    let (count, effects) = ended ?? (0, ZoneEffects())
    effects.publish(by: context)
    context.log.warning(
      "a zone was ended",
      [
        "zone": .text(zoneName), "owner": .text(request.database.owner), "reason": .text(asked.end.name),
        "records": .integer(Int64(count)),
      ])
    return PlaneAnswer(body: StoreAnswer.endedZone(count))
  }
}
