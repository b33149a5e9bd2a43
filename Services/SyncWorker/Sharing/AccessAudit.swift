// Logs refused attempts to reach other users' zones (T-P19), for operators alone.

import Records
import ServiceKit
import Synchronization

/// Notes refused access to other people's zones.
final class AccessAudit: Sendable {
  private let log: Log
  private let count = Atomic<Int>(0)

  init(_ log: Log) { self.log = log }

  /// Since the process began.
  var deniedCount: Int { count.load(ordering: .relaxed) }

  /// - Parameter hadAccess: the user had access once; a device may not know yet that it ended.
  func denied(_ zone: Zone.ID, to userRecordName: String?, hadAccess: Bool = false) {
    count.add(1, ordering: .relaxed)
    log.warning(
      "access to somebody else's zone was denied",
      [
        "owner": .text(zone.ownerName), "zone": .text(String(zone.zoneName.prefix(Limit.nameByteCount))), "user": .text(userRecordName ?? ""),
        "hadAccess": .flag(hadAccess),
      ])
  }
}
