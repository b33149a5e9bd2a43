// The class of an export's failure, which decides about its retry.

import Assets
import Mirroring
import RecordStore
import Records
import ZoneCommit

/// The meaning of a batch's error for the next try.
package enum ExportFailure: Hashable, Sendable {
  /// Another worker holds the shard, or this one ends.
  case gone
  /// It may succeed later; the seconds until then, where they are known.
  case transient(retryAfter: Int?)
  /// It can't succeed until part of it is left out.
  case poisoned

  package init(_ error: any Error) {
    switch error {
    case is CancellationError, StoreError.fenced, StoreError.closed: self = .gone
    case StoreError.full, AssetError.full, StoreError.unavailable, AssetError.unavailable, is AssetCalls:
      self = .transient(retryAfter: RecordError.noSpace.retryAfter)
    case StoreError.overloaded, StoreError.unreachable: self = .transient(retryAfter: 1)
    case StoreError.tooSlow: self = .transient(retryAfter: 10)
    case StoreError.io, StoreError.newerFormat, StoreError.missingKey, AssetError.missingKey:
      self = .transient(retryAfter: nil)
    case let error as RecordError where error == .shardMoved: self = .gone
    case let error as Unreached: self = .transient(retryAfter: error.error.retryAfter)
    case let error as RecordError: self = .transient(retryAfter: error.retryAfter)
    default: self = .poisoned
    }
  }
}
