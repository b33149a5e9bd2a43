// What others are told after a commit.

import RecordStore
import Records
import ServiceBus

extension RecordPlaneCall {
  /// Tells that a zone changed, up to its sequence.
  /// - Parameter fired: what the change fired; nil when nobody has ever subscribed to anything of the database.
  func publish(_ zone: StoredZone, _ fired: [Firing]?) {
    context.changes.publish(ZoneChange(zone, of: database, originStore: request.clientID, originUser: request.caller.userRecordName, hasSubscriptions: fired != nil))
    if let fired { context.publish(fired) }
  }
}
