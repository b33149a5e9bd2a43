// Copies a shard's write-ahead log into its file without long waits for saves.

import SQLite

/// A shard's checkpoints. The writer's thread owns them and runs them between groups.
///
/// A checkpoint copies some thousand pages and waits until the disk has them, and all saves wait with it. Therefore it
/// has three steps:
///
/// 1. A read transaction holds the current content of the log.
/// 2. After the next commit that content is copied, except for pages that the commit has changed again. Because a rest
///    remains, SQLite neither syncs the file nor restarts the log. So the log still has every page that a power cut
///    could take from the file. `Writeback` writes the pages to the disk.
/// 3. Once they are there, or the log has grown by as much again, the few later pages are copied and the file is
///    synced. Then the log may restart.
final class ShardCheckpoints {
  private enum Step {
    case gathering
    /// - Parameter pages: the length of the log when the hold began.
    case holding(pages: Int)
    case writingBack
  }

  private let core: ShardCore
  private let connection: Connection
  private let file: ShardFile
  private let writeback: Writeback
  private let clock = ContinuousClock()

  private var step = Step.gathering
  /// The log's pages at the latest checkpoint, and how many of them were copied; 0 after the log has restarted.
  private var seenLogPages = 0
  private var copiedLogPages = 0
  /// Opened on first use.
  private var hold: Connection?

  /// - Parameter file: the shard's file, which `connection` has open.
  init(core: ShardCore, connection: Connection, file: ShardFile, thread: WritebackThread) throws(StoreError) {
    self.core = core
    self.connection = connection
    self.file = file
    writeback = try Writeback(file.path, on: thread)
  }

  /// Takes the next step if it is due. Must not run after a failure of the shard.
  func runIfDue() {
    let pages = connection.logPageCount
    if pages < seenLogPages { (seenLogPages, copiedLogPages) = (0, 0) }
    let isLong = pages - seenLogPages >= core.options.checkpointPages
    switch step {
    case .gathering:
      guard isLong else { return }
      if beginHold() { step = .holding(pages: pages) } else { complete() }
    case .holding(let held):
      guard pages > held else { return }
      checkpoint(.passive)
      endHold()
      if core.failure == nil { writeback.start() }
      step = .writingBack
    case .writingBack:
      if isLong || !writeback.isUnderWay { complete() }
    }
  }

  private func complete() {
    if !checkpointExclusivelyIfDue() { checkpoint(.passive) }
    step = .gathering
  }

  /// Empties the log, unless the shard has failed, and closes the connection and the file.
  func close() {
    hold?.close()
    if core.failure == nil { checkpoint(.truncate) }
    connection.close()
    writeback.close()
  }

  /// Keeps reads out for a moment when overlapping reads have prevented the log from restarting.
  /// - Returns: false when that was unnecessary, or a read did not end in time. Saves do not wait for it, and the log
  ///   grows.
  private func checkpointExclusivelyIfDue() -> Bool {
    let length = connection.logPageCount / core.options.longLogPages
    if length < 4 { return false }
    let patience = core.options.readerPatience
    guard
      core.readers.pause(
        within: patience, thenInterruptingWithin: length < 16 ? nil : patience * 50, cutsShort: length >= 64)
    else { return false }
    checkpoint(.truncate)
    core.readers.resume()
    core.statistics.update { $0.exclusiveCheckpoints += 1 }
    return true
  }

  private func checkpoint(_ kind: Connection.Checkpoint) {
    let start = clock.now
    let pages = connection.logPageCount
    // Also after a failure: the next attempt follows when the log has grown by as much again.
    defer { seenLogPages = connection.logPageCount }
    do {
      let result = try connection.checkpoint(kind)
      // An emptied log does not tell how many pages it had.
      let copied = (kind == .truncate ? pages : result.checkpointedPages) - copiedLogPages
      core.statistics.update { statistics in
        statistics.checkpoints += 1
        statistics.checkpointPages += copied
        statistics.checkpointSeconds += start.duration(to: clock.now).seconds
        statistics.logPages = result.logPages
      }
      copiedLogPages = result.checkpointedPages
    } catch {
      core.statistics.update { $0.checkpointFailures += 1 }
      // Any other error only leaves the log longer until the next attempt. The log has everything acknowledged.
      if error.isSyncError || error.isCorruption || error.isReadError {
        core.fail(StoreError(error, shard: core.shard))
      }
    }
  }

  // MARK: Hold

  /// - Returns: false when no hold was possible.
  private func beginHold() -> Bool {
    do {
      let reader = try hold ?? file.reader()
      hold = reader
      try reader.beginReadTransaction()
      // A transaction's snapshot is that of its first read. This statement needs no schema.
      _ = try reader.statement(Self.anything).first { $0.int64(0) }
      return true
    } catch {
      if let error = error as? SQLiteError { _ = core.readFailed(error) }
      // Dropped, unless the shard fails with it, because without a hold a checkpoint only takes longer.
      endHold()
      return false
    }
  }

  private func endHold() {
    do {
      try hold?.rollback()
    } catch {
      // Dropped because closing ends the transaction too, and the next hold opens another connection.
      hold?.close()
      hold = nil
    }
  }

  private static let anything = SQL("anything", "PRAGMA user_version")
}
