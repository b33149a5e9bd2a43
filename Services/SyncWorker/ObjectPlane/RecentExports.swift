// Which run exported which transactions: whoever waits for a save is told of its event, also when somebody else's run came first.

import RecordStore
import Synchronization

/// The last runs of a worker's stores. What is forgotten, or was a predecessor's, has no event that could be told.
final class RecentExports: Sendable {
  struct Run: Sendable {
    /// The store's export position before and after it.
    let after: Int64
    let through: Int64
    /// Its event's number, which is another one when its end is stored.
    let eventNumber: Int64
    let eventIdentifier: String
  }

  private let runs = Mutex<[MirrorID: [Run]]>([:])

  private static let storeLimit = 20_000
  /// Of a store.
  private static let runLimit = 4

  /// To be called in the commit that stores the event. One that fails leaves an identifier that no event has.
  func note(_ run: Run, of mirror: MirrorID) {
    runs.withLock { runs in
      if runs.count >= Self.storeLimit, runs[mirror] == nil { runs = [:] }
      if runs[mirror]?.last?.eventIdentifier == run.eventIdentifier { runs[mirror]?.removeLast() }
      if let count = runs[mirror]?.count, count >= Self.runLimit { runs[mirror]?.removeFirst() }
      runs[mirror, default: []].append(run)
    }
  }

  /// The event of the run that exported a transaction; nil: it had none, or it is not known any more.
  func event(of transactionNumber: Int64, _ mirror: MirrorID, in snapshot: any ShardSnapshot) throws -> StoredEvent? {
    let found = runs.withLock { runs in runs[mirror]?.last { $0.after < transactionNumber && transactionNumber <= $0.through } }
    guard let found else { return nil }
    return try snapshot.events(of: mirror.key, after: found.eventNumber - 1, kind: .export, limit: Self.eventLimit).first { $0.identifier == found.eventIdentifier }
  }

  /// Events that may have come between the start of one and its end.
  private static let eventLimit = 100
}
