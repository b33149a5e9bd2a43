// The outcome of an export batch, and the state that its run carries to the next one.

package import History
import Mirroring
import RecordStore
import Records
import WebServices
import ZoneCommit

/// The effects of one batch.
package struct ExportOutcome: Sendable {
  /// The store's export position afterwards.
  var exportedNumber: Int64
  /// The position before the run.
  var startNumber: Int64 = .max
  /// Saved transactions are left for another batch.
  var moreComing = false
  /// True if the store's position moved, even if only within a transaction.
  var hasAdvanced = false
  /// To be published once the commit is durable.
  var effects = ZoneEffects()
  /// The run that the next batch continues, if more is coming.
  var running: ExportProgress?
  /// The event of the ended run; nil when the run goes on or had nothing to do.
  var event: StoredEvent?
  /// Covers every write to the database up to this commit.
  var syncToken: SyncToken?
  /// The transaction whose next slice begins the next batch.
  var next: RecentTransaction?
  /// When the first change that the batch held back is due: milliseconds since 1970.
  var retryAt: Int64?
  /// The store, when its watchers are to be told of something.
  var noticed: MirrorID?

  /// True if the run that ended with this batch exported a transaction.
  func hasExported(_ number: Int64) -> Bool { startNumber < number && number <= exportedNumber && running == nil }

  /// Tells watchers and other processes of the batch; call it when the commit is durable.
  func publish(by context: ObjectContext) {
    effects.publish(by: context)
    if let noticed { context.noticed(noticed) }
  }
}

/// A transaction in its decoded and its stored form.
package struct RecentTransaction: Sendable {
  package let transaction: HistoryTransaction
  package let payload: [UInt8]

  package init(transaction: HistoryTransaction, payload: [UInt8]) {
    self.transaction = transaction
    self.payload = payload
  }
}

/// The state of a run of several batches, between two of them.
package struct ExportProgress: Hashable, Sendable {
  var event: StoredEvent
  /// The store's export position before the run.
  var startNumber: Int64 = 0
  /// At most `problemLimit`, which bounds the event's list.
  var problems: [MirroringProblem] = []

  package static let problemLimit = 1000
}
