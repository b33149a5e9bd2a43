// The one place where errors of the store become errors that clients see.

import Assets
import Mirroring
import RecordStore
package import Records
package import ServiceKit

extension RecordError {
  /// Another worker holds the shard. The host closes it and sends the caller elsewhere. Clients never see this error.
  package static let shardMoved = RecordError(.tryAgainLater, "The shard has moved to another worker", retryAfter: 1)

  /// The shard's storage fails or is damaged. The place that notices it logs the reason; clients never see it.
  package static let outOfService = RecordError(
    .tryAgainLater, "The database is out of service; the server's log has the reason for its operator", retryAfter: 10)

  /// The database that keeps the shard does not answer, or takes no writes now.
  package static let unreachable = RecordError(
    .tryAgainLater, "The storage of this database does not answer; nothing was stored", retryAfter: 1)

  /// A read costs more than one request may: it looks at too much, or takes too long.
  package static let tooMuch = RecordError(
    .tryAgainLater, "The request reads more than the server allows for one request; ask for less at once",
    retryAfter: 30)

  /// The client's view of an error that a store, or a body that it ran, throws. Logs the operator's part, once.
  package init(storing error: any Error, log: Log) {
    switch error {
    case let error as RecordError: self = error
    case let error as StoreError: self.init(error, log: log)
    case let error as Unreached: self = error.error
    case let error as AssetError: self.init(error, log: log)
    case is CostBudget.Exceeded: self = .tooMuch
    case is MissingAsset: self.init(.badRequest, "asset not found: upload it again")
    case let problem as MirroringProblem:
      self.init(problem.code, "\(problem.recordName): \(problem.reason)", cocoaErrorCode: problem.cocoaErrorCode)
    case is CancellationError: self.init(.tryAgainLater, "The request was cancelled", retryAfter: 1)
    default:
      log.error("a store body failed", ["error": .text(String(describing: error))])
      self.init(.internalError, "The server failed")
    }
  }

  private init(_ error: AssetError, log: Log) {
    switch error {
    case .full(let reason): self.init(StoreError.full(reason), log: log)
    case .io(let reason): self.init(StoreError.io(reason), log: log)
    case .corrupt(let reason): self.init(StoreError.corrupt(reason), log: log)
    case .missingKey(let reason): self.init(StoreError.missingKey(reason), log: log)
    case .unavailable(let reason): self.init(StoreError.unavailable(reason), log: log)
    }
  }

  private init(_ error: StoreError, log: Log) {
    switch error {
    case .fenced, .closed: self = .shardMoved
    case .outOfService: self = .outOfService
    case .overloaded: self.init(.tryAgainLater, "Too many requests are waiting for this database", retryAfter: 1)
    case .tooSlow(let shard):
      log.warning("a read took too long and was stopped", ["shard": .integer(Int64(shard))])
      self = .tooMuch
    case .full(let reason):
      log.error("the store is full", ["reason": .text(reason)])
      self = .noSpace
    case .corrupt(let reason):
      log.error("the store is damaged", ["reason": .text(reason)])
      self.init(.internalError, "The stored data of this database is damaged")
    case .newerFormat(let found, let known):
      log.error(
        "the store was written by a newer release", ["found": .integer(Int64(found)), "known": .integer(Int64(known))])
      // The caller looks for a worker of that release, as after a move of the shard.
      self = .shardMoved
    case .missingKey(let reason):
      log.error("an encryption key is missing", ["reason": .text(reason)])
      self.init(
        .tryAgainLater,
        "Encrypted values can't be stored or read: the server lacks the key (its operator: --encryption-key)",
        retryAfter: Self.keyRetrySeconds)
    case .foreign(let reason):
      log.error("a shard is not the installation's", ["reason": .text(reason)])
      self = .outOfService
    case .unavailable(let reason):
      log.error("the store of assets does not answer", ["reason": .text(reason)])
      self = .assetsAway
    case .unreachable(let reason):
      log.warning("the store can't be reached", ["reason": .text(reason)])
      self = .unreachable
    case .io(let reason):
      log.error("the store failed", ["reason": .text(reason)])
      self.init(.internalError, "The server could not read or write its data")
    }
  }

  /// Seconds; an operator must act first.
  private static let keyRetrySeconds = 60
}

/// A shared store's history yields nothing more until an owner takes its waiting parts.
package struct Unreached: Error {
  package let owners: Set<String>
  package let error: RecordError

  package init(owners: Set<String>, error: RecordError) {
    self.owners = owners
    self.error = error
  }
}
