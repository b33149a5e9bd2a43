import Foundation
import RecordStore
import SQLite
import Testing

/// The log is copied before the sync that the next copy waits for.
struct CheckpointTests {
  private static let file = "/shard-0.sqlite"

  /// F_OFD_GETLK, which the headers define for GNU sources only.
  private static let getDescriptorLock: Int32 = 36

  /// True when another descriptor has a lock on the file where SQLite locks it. Locks belong to descriptors, so this
  /// process's own locks count, too.
  private static func isLocked(_ descriptor: Int32) -> Bool {
    var lock = flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 1 << 30, l_len: 512, l_pid: 0)
    return fcntl(descriptor, getDescriptorLock, &lock) == 0 && lock.l_type != F_UNLCK
  }

  @Test(arguments: 1...5) func `power may end while a file is written back, and nothing acknowledged is lost`(
    _ time: Int
  ) async throws {
    let rig = try DiskFaultTests.Rig(checkpointPages: 40, isWritebackStuck: true)
    var ledger = DiskFaultTests.Ledger()
    let shard = try await rig.open()
    var unsyncedCount = 0
    while unsyncedCount < time {
      await ledger.write(2, to: shard)
      try #require(ledger.sent.count < 200, "no file is written back at any time")
      if rig.disk.unsyncedSectorCount(of: rig.folder.path + Self.file) > 0 { unsyncedCount += 1 }
    }
    // Nothing unsynced, and random parts of the unsynced sectors.
    let leftovers = rig.disk.contentsAfterPowerCut(seeds: [nil, UInt64(time), UInt64(time + 100)])
    await shard.close()
    #expect(ledger.acknowledged.count == ledger.sent.count)
    #expect(rig.disk.problems == [])
    for left in leftovers {
      try rig.disk.restart(with: left)
      #expect(try await rig.problems(of: ledger) == [])
    }
  }

  @Test(arguments: [false, true])
  func `the log begins anew only when all of its file is synced, and beside a stuck disk when it is twice as long`(
    _ isStuck: Bool
  ) async throws {
    let rig = try DiskFaultTests.Rig(checkpointPages: 60, isWritebackStuck: isStuck)
    let shard = try await rig.open()
    var ledger = DiskFaultTests.Ledger()
    // The first log contains the creation of the tables, and ends with the second copy.
    while shard.statistic("checkpoints_total") < 2 { await ledger.write(2, to: shard) }
    var (lengths, longestCommit) = ([Double](), 0.0)
    for _ in 0..<100 {
      let before = shard.statistic("wal_pages_total")
      await ledger.write(2, to: shard)
      longestCommit = max(longestCommit, shard.statistic("wal_pages_total") - before)
      lengths.append(shard.statistic("wal_bytes") / 4120)
    }
    let beginnings = zip(lengths, lengths.dropFirst()).count { $0 > $1 }
    #expect(beginnings >= 5 && shard.statistic("checkpoint_failures_total") == 0)
    let longest = try #require(lengths.max())
    // A hold and a copy take one commit each.
    #expect(longest >= 60 && longest <= 2 * 60 + 3 * longestCommit)
    if isStuck { #expect(longest >= 2 * 60) }
    // Each page of the log is copied once; the others are still in the log.
    let waiting = shard.statistic("wal_pages_total") - shard.statistic("checkpoint_pages_total")
    #expect(waiting >= 0 && waiting <= longest)
    #expect(try await ledger.problems(in: shard) == [])
    await shard.close()
    #expect(rig.disk.problems == [])
  }

  @Test func `the simulated disk notices a log that begins anew before its file is synced`() async throws {
    let rig = try DiskFaultTests.Rig(checkpointPages: 60, synchronous: "OFF")
    let shard = try await rig.open()
    var ledger = DiskFaultTests.Ledger()
    while rig.disk.problems.isEmpty, ledger.sent.count < 400 { await ledger.write(2, to: shard) }
    await shard.close()
    #expect(rig.disk.problems.first?.contains("shard-0.sqlite-wal went while") == true)
  }

  @Test func `a file is written back while it is read and saved to, and stays locked for other processes`() async throws
  {
    let folder = try TemporaryFolder()
    var options = SQLiteRecordStore.Options()
    options.checkpointPages = 40
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: folder.path, options: options), shardCount: 2)
    for round in 1...3 {
      for number in 0..<2 {
        let shard = try await store.open(shard: number)
        let place = try await Place(in: shard)
        // It stays open as long as the shard: closing a file's first descriptor would drop the process's locks.
        let descriptor = open(folder.path + "/shard-\(number).sqlite", O_RDWR)
        for count in 1...60 {
          _ = try await shard.write {
            try $0.save(Sample.note("\(count)", title: String(repeating: "x", count: 9000)), in: place)
          }
          #expect(try await shard.read { try $0.counts().records } == (round == 1 ? count : 60))
        }
        #expect(shard.statistic("checkpoints_total") >= 4, "round \(round)")
        #expect(Self.isLocked(descriptor), "round \(round)")
        await shard.close()
        #expect(!Self.isLocked(descriptor), "round \(round)")
        close(descriptor)
      }
    }
  }

  @Test func `a checkpoint syncs the file, and the log no more once a commit has synced it`() throws {
    let folder = try TemporaryFolder()
    let disk = SimulatedDisk(folder.path)
    let path = folder.path + "/notes.sqlite"
    let writer = try Connection(exclusive: path, mode: .readWrite)
    try writer.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE note(text TEXT)")
    func syncs() -> [Int] { [disk.syncCount(of: path), disk.syncCount(of: path + "-wal")] }
    let before = syncs()
    try writer.execute("INSERT INTO note VALUES ('first')")
    #expect(syncs() == [before[0], before[1] + 1])
    try writer.checkpoint(.passive)
    #expect(syncs() == [before[0] + 1, before[1] + 1])
    // The checkpoint syncs an unsynced commit before it copies any of it.
    try writer.execute("PRAGMA synchronous=NORMAL; INSERT INTO note VALUES ('second')")
    let between = syncs()
    try writer.checkpoint(.passive)
    #expect(syncs() == [between[0] + 1, between[1] + 1])
    writer.close()
  }

  @Test
  func `behind a reader that needs what was committed before, a checkpoint copies without a sync, and the log goes on`()
    throws
  {
    let folder = try TemporaryFolder()
    let disk = SimulatedDisk(folder.path)
    let path = folder.path + "/notes.sqlite"
    let writer = try Connection(exclusive: path, mode: .readWrite)
    try writer.execute(
      """
      PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE note(text TEXT); INSERT INTO note VALUES ('first')
      """
    )
    let reader = try Connection(exclusive: path, mode: .readOnly)
    try reader.beginReadTransaction()
    _ = try reader.statement(SQL("version", "PRAGMA user_version")).first { $0.int64(0) }
    let held = writer.logPageCount
    try writer.execute("INSERT INTO note VALUES ('second')")
    let syncs = disk.syncCount(of: path)
    #expect(try writer.checkpoint(.passive).checkpointedPages == held)
    #expect(disk.syncCount(of: path) == syncs && disk.unsyncedSectorCount(of: path) > 0)
    try reader.rollback()
    try writer.execute("INSERT INTO note VALUES ('third')")
    #expect(writer.logPageCount > held)
    let whole = try writer.checkpoint(.passive)
    #expect(whole.checkpointedPages == whole.logPages)
    #expect(disk.syncCount(of: path) == syncs + 1 && disk.unsyncedSectorCount(of: path) == 0)
    try writer.execute("INSERT INTO note VALUES ('fourth')")
    #expect(writer.logPageCount < held)
    writer.close()
    reader.close()
  }
}
