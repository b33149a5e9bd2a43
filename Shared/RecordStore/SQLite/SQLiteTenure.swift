// The hold of a shard's file: its one writing connection, the epoch in its table, and its checkpoints.

import SQLite
import Synchronization

final class SQLiteTenure: ShardTenure {
  private let core: ShardCore
  private let file: Connection
  private let checkpoints: ShardCheckpoints

  init(core: ShardCore, file: Connection, checkpoints: ShardCheckpoints) {
    self.core = core
    self.file = file
    self.checkpoints = checkpoints
  }

  var connection: StoreConnection { .sqlite(file) }
  var fetchedBodyLimit: Int { 1 }

  func begin(_ transaction: SQLiteTransaction) throws {
    try file.beginImmediateTransaction()
    let epoch = try transaction.meta(.epoch)
    if epoch == core.epoch - 1, !core.isRaised.load(ordering: .relaxed) {
      try transaction.setMeta(.epoch, core.epoch)
    } else if epoch != core.epoch {
      throw StoreError.fenced(shard: core.shard, epoch: epoch)
    }
  }

  func commit() throws { try file.commit() }
  func rollback() throws { try file.rollback() }
  func rest() { checkpoints.runIfDue() }
  func close() { checkpoints.close() }

  var logPageCount: Int { file.logPageCount }
}
