// What others are told after a commit.

import RecordStore
import Records
import ServiceBus

extension RecordPlaneCall {
  /// Tells that a zone changed, up to its sequence.
  func publish(_ zone: StoredZone) {
    context.changes.publish(
      ZoneChange(
        database: database, zoneName: zone.zoneName, sequence: zone.sequence, syncToken: zone.syncToken.text, originStore: nil,
        audience: database.isPublic ? [] : [database.owner]))
  }
}
