// Reads backups on a queue of its own, so that questions about a job's progress don't wait for a disk.

import RecordStore
import ServiceKit

actor BackupReader {
  private let executor = BlockingExecutor(label: "backup reader")
  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  private let backup: FinishedBackup

  init(backup: FinishedBackup) { self.backup = backup }

  func verifyDirectory() throws { try backup.verifyDirectory() }

  /// The first defect of a shard's copy; nil if all of its files are as they were.
  func problem(of copy: ShardCopy) -> String? {
    do {
      try backup.verify(copy)
      return nil
    } catch {
      return "shard \(copy.shard): \(StorageJobs.reason(error))"
    }
  }
}
