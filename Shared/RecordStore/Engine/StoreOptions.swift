// The limits of a store: of its queues, groups, reads and background work.

/// Limits. The defaults are those of production.
public struct StoreOptions: Sendable {
  /// The most bodies that wait for a shard's writer. Further ones get `overloaded`.
  public var queueLimit = 4096
  /// The most waiting bodies of one party (`ShardStore.turns`), so that no party fills the queue.
  public var partyQueueLimit = 1024
  /// The limits of one commit: the number of bodies, and the numbers of written records and bytes after which it
  /// takes no more bodies.
  public var groupBodyLimit = 1000
  public var groupRecordLimit = 1000
  public var groupByteLimit = 4 << 20
  /// The written records and bytes after which bodies that arrived while a commit's bodies ran no longer join them
  /// (PostgreSQL). In a large commit they would delay its callers by more than they save.
  public var joinedRecordLimit = 50
  public var joinedByteLimit = 256 * 1024
  /// The pages of the write-ahead log after which it is copied into the file (`ShardCheckpoints`). More pages mean
  /// fewer copies, but savers wait longer for each. The log reaches some 12 MB, or 24 with a slow disk, and is read
  /// once after a crash.
  public var checkpointPages = 3000
  /// Reads can prevent the log from restarting, so that it grows. At four times this number of pages the writer waits
  /// for such reads, and at sixteen times it cuts them short, so that they begin again. It does not wait for copies
  /// and checks of the whole shard; one that was cut short twice may go on up to sixty-four times this number.
  public var longLogPages = 12_000
  /// The time that saves wait for such reads to end.
  public var readerPatience = Duration.milliseconds(20)
  /// The records of a deleted zone that one commit removes.
  public var sweepLimit = 500
  /// The most records that one commit adds to a new index.
  public var indexSliceLimit = 2000
  /// The most names of records of any type that one commit looks at for it, the bytes that it reads, and the time
  /// that it takes while saves wait and while none do.
  public var indexSliceNameLimit = 50_000
  public var indexSliceByteLimit = 4 << 20
  public var indexSliceTime = Duration.milliseconds(3)
  public var idleIndexSliceTime = Duration.milliseconds(25)
  /// True when replaced states of records are kept until `forgetPast` removes them.
  public var keepsPastStates = false
  /// The number of reading threads, shared by all shards, and of the reads that may wait for them. A party never
  /// occupies more than half of the threads.
  public var readerThreadCount = 4
  public var readLimit = 4096
  /// The most waiting reads of one party.
  public var partyReadLimit = 1024
  /// The time after which a read begins again on a thread for long reads, if others wait.
  public var briefReadTime = Duration.milliseconds(250)
  /// The number of threads for long reads, and of the reads that may wait for them.
  public var longReaderThreadCount = 2
  public var longReadLimit = 64
  /// The most waiting long reads of one party. If there are several threads for long reads, a party never occupies
  /// all of them.
  public var partyLongReadLimit = 16
  /// The number of threads for copies and checks of whole shards, which take no thread from users' reads.
  public var wholeReaderThreadCount = 2
  /// The time after which a read is given up, including its wait. It is less than clients of the gateway wait.
  public var readTime = Duration.seconds(8)
  /// For a test of the effect of power cuts only: every value except FULL loses acknowledged writes.
  package var synchronous = "FULL"
  /// For tests of a disk whose writeback never ends.
  package var isWritebackStuck = false

  public init() {}
}
