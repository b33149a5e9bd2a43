// Tests of the machine's limits: they write and count as described.

import Glibc
import RecordStore
import SQLite
import Testing

@testable import aquifer_load

struct LimitTests {
  @Test func `SQLite's limit counts commits of files that hold what was committed`() async throws {
    let folder = "/tmp/aquifer-limit-test-\(UInt64.random(in: .min ... .max))"
    try #require(mkdir(folder, 0o700) == 0)
    defer { Folder.remove(folder) }
    for limit in [StorageLimit(fileCount: 1, recordsPerCommit: 1), StorageLimit(fileCount: 4, recordsPerCommit: 20)] {
      let measurement = try await limit.measure(in: folder, seconds: 0.05)
      #expect(measurement.latencies.count > 0 && measurement.seconds > 0)
      let rows = try (0..<limit.fileCount).map { number in
        let connection = try Connection(
          exclusive: "\(folder)/limit-\(limit.fileCount)-\(limit.recordsPerCommit)-\(number)", mode: .readOnly)
        return try connection.prepare(SQL("count", "SELECT count(*) FROM record")).first { $0.int64(0) } ?? 0
      }
      #expect(rows.reduce(0, +) == Int64(measurement.latencies.count * limit.recordsPerCommit))
      Folder.empty(folder)
    }
  }

  @Test func `SQLite's limit copies its log as often as a shard does`() {
    #expect(StorageLimit.checkpointPageCount == SQLiteRecordStore.Options().checkpointPages)
  }

  @Test func `an empty server answers what it is sent`() async throws {
    let measurement = try await ProtocolLimit(workload: .w1b, clientCount: 3).measure(
      batch: 5, threadCount: 1, length: RunLength(seconds: 60, answerLimit: 30))
    #expect(measurement.latencies.count >= 30 && measurement.errorCount == 0)
  }
}
