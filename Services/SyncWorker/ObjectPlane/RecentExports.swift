// Keeps which run exported which transactions: a call that waits for a save gets its event, whichever call exported it.

package import RecordStore
import Synchronization

/// The last runs of a worker's stores. A forgotten or a predecessor's run has no event to return.
package final class RecentExports: Sendable {
  package struct Run: Sendable {
    /// The store's export position before and after it.
    package let after: Int64
    package let through: Int64
    /// The event's number, which changes when the event's end is stored.
    package let eventNumber: Int64
    package let eventIdentifier: String

    package init(after: Int64, through: Int64, eventNumber: Int64, eventIdentifier: String) {
      self.after = after
      self.through = through
      self.eventNumber = eventNumber
      self.eventIdentifier = eventIdentifier
    }
  }

  private let runs = Mutex<[MirrorID: [Run]]>([:])

  package init() {
  }

  private static let storeLimit = 20_000
  /// Runs remembered for one store.
  private static let runLimit = 4

  /// Call it in the commit that stores the event. A commit that fails leaves an identifier without an event.
  package func note(_ run: Run, of mirror: MirrorID) {
    runs.withLock { runs in
      if runs.count >= Self.storeLimit, runs[mirror] == nil { runs = [:] }
      if runs[mirror]?.last?.eventIdentifier == run.eventIdentifier { runs[mirror]?.removeLast() }
      if let count = runs[mirror]?.count, count >= Self.runLimit { runs[mirror]?.removeFirst() }
      runs[mirror, default: []].append(run)
    }
  }

  /// The event of the run that exported a transaction; nil when it had none or is forgotten.
  package func event(of transactionNumber: Int64, _ mirror: MirrorID, in snapshot: any ShardSnapshot) throws
    -> StoredEvent?
  {
    let found = runs.withLock { runs in
      runs[mirror]?.last { $0.after < transactionNumber && transactionNumber <= $0.through }
    }
    guard let found else { return nil }
    return try snapshot.events(of: mirror.key, after: found.eventNumber - 1, kind: .export, limit: Self.eventLimit)
      .first { $0.identifier == found.eventIdentifier }
  }

  /// Events that may have come between the start of one and its end.
  private static let eventLimit = 100
}
