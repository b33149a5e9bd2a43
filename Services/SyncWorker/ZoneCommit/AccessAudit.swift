// Logs refused attempts to reach other users' zones (T-P19), for operators alone.

package import Records
package import ServiceKit
import Synchronization

/// Notes refused access to other people's zones.
package final class AccessAudit: Sendable {
  private let log: Log
  private let count = Atomic<Int>(0)

  package init(_ log: Log) { self.log = log }

  /// Since the process began.
  package var deniedCount: Int { count.load(ordering: .relaxed) }

  /// - Parameter hadAccess: the user had access once; a device may not know yet that it ended.
  package func denied(_ zone: Zone.ID, to userRecordName: String?, hadAccess: Bool = false) {
    count.add(1, ordering: .relaxed)
    log.warning(
      "access to somebody else's zone was denied",
      [
        "owner": .text(zone.ownerName), "zone": .text(String(zone.zoneName.prefix(Limit.nameByteCount))),
        "user": .text(userRecordName ?? ""),
        "hadAccess": .flag(hadAccess),
      ])
  }
}
