import RecordStore
import Records
import Testing

/// Rows of stores that are available without a read.
struct CommittedMirrorTests {
  private struct Refusal: Error {}

  @Test func `a store's row is at hand as it was committed last, and not once it is deleted`() async throws {
    let folder = try TemporaryFolder()
    let shard = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder.path), shardCount: 1).open(shard: 0)
    let database = Sample.database("ada")
    let key = try await shard.write { try $0.makeDatabase(database).key }
    let made = try await HistoryConformanceTests.makeMirror(in: shard, database: key)
    for number in Int64(1)...5 {
      let isRefused = number == 3
      do {
        try await shard.write { transaction in
          var mirror = try #require(try transaction.mirror(key: made.key))
          mirror.lastTransactionNumber = number
          try transaction.update(mirror)
          if isRefused { throw Refusal() }
        }
        #expect(!isRefused)
      } catch is Refusal {
      }
      let row = shard.committedMirror("phone", of: database)
      #expect(row?.lastTransactionNumber == (isRefused ? 2 : number))
      #expect(try await shard.read { try $0.mirror(key: made.key) } == row)
    }
    #expect(shard.committedMirror("phone", of: Sample.database("bob")) == nil)
    try await shard.write { try $0.deleteMirror(made.key) }
    #expect(shard.committedMirror("phone", of: database) == nil)
    await shard.close()
  }
}
