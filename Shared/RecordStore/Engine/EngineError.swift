// The errors of the engines, and their meaning for a shard.

import PostgreSQL
import SQLite

/// An error of a statement or transaction.
protocol EngineError: Error {
  /// True when the open transaction can't go on, even if the failed body is undone.
  var spoilsTransaction: Bool { get }
  /// True when the shard must not be written any more: it may have lost a write, or is damaged.
  var endsWriting: Bool { get }
  /// True when a read that meets it shows that the shard is damaged.
  var showsDamage: Bool { get }

  func storeError(shard: Int) -> StoreError
}

extension SQLiteError: EngineError {
  var spoilsTransaction: Bool { !isConstraintViolation }
  // After a failed sync the kernel may have dropped the unwritten pages, and reports it only once.
  var endsWriting: Bool { isSyncError || isCorruption || isReadError }
  var showsDamage: Bool { isCorruption || isReadError }

  func storeError(shard: Int) -> StoreError { StoreError(self, shard: shard) }
}

extension PostgreSQLError: EngineError {
  // PostgreSQL rolls the failed body back to its savepoint.
  var spoilsTransaction: Bool {
    switch kind {
    case .uniqueViolation, .constraintViolation, .invalidValue: false
    default: true
    }
  }
  // A session that is lost says nothing of the shard. With an unknown outcome, the caches may be wrong for good.
  var endsWriting: Bool { kind == .unknownOutcome }
  var showsDamage: Bool { false }

  func storeError(shard: Int) -> StoreError { StoreError(self, shard: shard) }
}
