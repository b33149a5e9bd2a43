// Copies a shard's write-ahead log into its file, without long waits for those who save.

import SQLite

/// Everything about a shard's checkpoints. Its writer's thread owns it, and runs it between groups.
///
/// A checkpoint copies some thousand pages and then waits until all of them are on the disk, and everybody who saves waits with it. So it comes in
/// three steps:
///
/// 1. A read transaction holds what the log has.
/// 2. Behind the next commit, that is copied, but for pages which that commit has changed again. As something is left, SQLite neither syncs the file nor
///    lets the log begin anew, which has everything that the file may lose with the power. `Writeback` brings the pages to the disk.
/// 3. When they are there, or the log has grown by as much again, the little that came meanwhile is copied, and the file is synced. Then the log may
///    begin anew.
final class ShardCheckpoints {
  private enum Step {
    case gathering
    /// - Parameter pages: of the log, when the hold began.
    case holding(pages: Int)
    case writingBack
  }

  private let core: ShardCore
  private let connection: Connection
  private let file: ShardFile
  private let writeback: Writeback
  private let clock = ContinuousClock()

  private var step = Step.gathering
  /// Log pages when they were last to be copied, and how many of them were; 0 once the log has begun anew.
  private var seenLogPages = 0
  private var copiedLogPages = 0
  /// Made when it is first needed.
  private var hold: Connection?

  /// - Parameter file: the shard's, which `connection` has open.
  init(core: ShardCore, connection: Connection, file: ShardFile, thread: WritebackThread) throws(StoreError) {
    self.core = core
    self.connection = connection
    self.file = file
    writeback = try Writeback(file.path, on: thread)
  }

  /// Takes the next step, if it is time for it.
  func runIfDue() {
    guard core.failure == nil else { return }
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

  /// When overlapping reads have kept the log from beginning anew, holds them up for a moment.
  /// - Returns: false when that was not necessary, or a read went on for too long: saves don't wait for it, the log grows instead.
  private func checkpointExclusivelyIfDue() -> Bool {
    let length = connection.logPageCount / core.options.longLogPages
    if length < 4 { return false }
    let patience = core.options.readerPatience
    guard core.readers.pause(within: patience, thenInterruptingWithin: length < 16 ? nil : patience * 50, cutsShort: length >= 64) else { return false }
    checkpoint(.truncate)
    core.readers.resume()
    core.statistics.update { $0.exclusiveCheckpoints += 1 }
    return true
  }

  private func checkpoint(_ kind: Connection.Checkpoint) {
    let start = clock.now
    let pages = connection.logPageCount
    // Also of one that failed: it is tried again when there is as much again.
    defer { seenLogPages = connection.logPageCount }
    do {
      let result = try connection.checkpoint(kind)
      // An empty log says nothing of what it had.
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
      // Anything else only leaves the log longer, and is tried again: everything acknowledged is in it.
      if error.isSyncError || error.isCorruption || error.isReadError { core.fail(StoreError(error, shard: core.shard)) }
    }
  }

  // MARK: Hold

  /// - Returns: false when there is none.
  private func beginHold() -> Bool {
    do {
      let reader = try hold ?? file.reader()
      hold = reader
      try reader.beginReadTransaction()
      // A transaction begins with what it reads first. This needs no schema.
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
      // Dropped because closing ends it as well; the next hold has a connection of its own.
      hold?.close()
      hold = nil
    }
  }

  private static let anything = SQL("anything", "PRAGMA user_version")
}
