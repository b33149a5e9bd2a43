// Backups and scrubs: at most one of each at a time, shard by shard, while the cluster keeps running.

import Assets
import JSON
import MessagePack
import RecordStore
import Records
import ServiceBus
import ServiceKit

/// The state of a job, for operators.
struct StorageJob: Hashable, Sendable {
  enum Kind: String, Sendable, CaseIterable { case backup, scrub, verification }
  enum State: String, Sendable { case running, done, failed }

  let kind: Kind
  /// Milliseconds since 1970. No two jobs of a kind have the same.
  let startedAt: Int64
  let total: Int
  /// The backup's folder; nil for a scrub.
  let directory: String?
  var state = State.running
  /// Shards finished so far, with or without success.
  var done = 0
  var recordCount = 0
  var byteCount: Int64 = 0
  var assetCount = 0
  /// Link records without a target, and how many of them were removed.
  var looseLinkCount = 0
  var removedLinkCount = 0
  var problems: [String] = []
  /// Shards that the backup lacks, with the reasons.
  var missing: [BackupManifest.Missing] = []
  /// The reason for a failure.
  var reason: String?

  static let problemLimit = 100

  mutating func note(_ found: [String]) {
    problems.append(contentsOf: found.prefix(max(Self.problemLimit - problems.count, 0)))
  }

  func answer(status: Int = 200) -> OperatorAnswer {
    var answer = OperatorAnswer { writer in
      writer.member("job", kind.rawValue)
      writer.member("state", state.rawValue)
      writer.member("startedAt", startedAt)
      if let directory { writer.member("directory", directory) }
      writer.member("done", done)
      writer.member("shards", total)
      writer.member("records", recordCount)
      if kind != .scrub {
        writer.member("bytes", byteCount)
      } else {
        writer.member("assets", assetCount)
        writer.member("looseLinks", looseLinkCount)
        writer.member("removedLinks", removedLinkCount)
      }
      writer.key("problems")
      writer.beginArray()
      for problem in problems { writer.string(problem) }
      writer.endArray()
      BackupManifest.write(missing, to: &writer)
      if let reason { writer.member("reason", reason) }
    }
    answer.status = status
    return answer
  }
}

/// Runs the jobs. They end with the process: a backup that was under way is then invalid.
actor StorageJobs {
  /// Reads, moves and syncs files on a queue of its own.
  private let executor = BlockingExecutor(label: "storage jobs")
  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  private let directory: Directory
  private let clock: any WallClock
  private let random: any RandomSource
  private let log: Log
  private var bus: (any Bus)?
  private var map: @Sendable () async -> ClusterMap? = { nil }
  /// The latest job of each kind.
  private var jobs: [StorageJob.Kind: StorageJob] = [:]
  /// Jobs before the latest ones, for those that wait for their end; at most `earlierLimit`.
  private var earlier: [StorageJob] = []
  private var tasks: [StorageJob.Kind: Task<Void, Never>] = [:]
  /// Seconds since 1970 at which the last successful job of a kind ended.
  private(set) var successTimes: [StorageJob.Kind: Int64] = [:]
  /// The number of problems that all scrubs found.
  private(set) var problemCount = 0

  /// Time limit for one shard: copying terabytes takes hours.
  private static let shardLimit = Duration.seconds(86_400)
  /// Attempts, a second apart, for a shard without a holder or one that has just moved.
  private static let attemptCount = 60
  private static let earlierLimit = 30
  /// Attempts after one shard has failed, so that many shards without a holder don't take hours.
  private static let laterAttemptCount = 5

  init(directory: Directory, clock: any WallClock, random: any RandomSource, log: Log) {
    self.directory = directory
    self.clock = clock
    self.random = random
    self.log = log
  }

  func attach(_ bus: any Bus, map: @escaping @Sendable () async -> ClusterMap?) {
    self.bus = bus
    self.map = map
  }

  /// A job of a kind.
  /// - Parameter startedAt: nil: the latest.
  func job(_ kind: StorageJob.Kind, startedAt: Int64? = nil) -> StorageJob? {
    let latest = jobs[kind]
    guard let startedAt, latest?.startedAt != startedAt else { return latest }
    return earlier.last { $0.kind == kind && $0.startedAt == startedAt }
  }

  /// Cancels the running jobs and waits for their end.
  func close() async {
    for task in tasks.values { task.cancel() }
    for task in tasks.values { await task.value }
  }

  func backUp(to path: String) throws(RecordError) -> StorageJob {
    let folder: BackupFolder
    do throws(StoreError) {
      folder = try BackupFolder(path)
    } catch {
      throw RecordError(.badRequest, Self.reason(error))
    }
    let job = try begin(.backup, path)
    tasks[.backup] = Task { await self.finish(.backup) { try await self.backUp(to: folder) } }
    return job
  }

  func scrub(readsAssets: Bool, mendsLinks: Bool) throws(RecordError) -> StorageJob {
    let job = try begin(.scrub)
    tasks[.scrub] = Task {
      await self.finish(.scrub) { try await self.scrubAll(readsAssets: readsAssets, mendsLinks: mendsLinks) }
    }
    return job
  }

  /// Compares a backup with its digests. Nothing is written.
  func verify(_ backup: FinishedBackup) throws(RecordError) -> StorageJob {
    let job = try begin(.verification, backup.folder, shardCount: backup.manifest.shards.count)
    tasks[.verification] = Task {
      await self.finish(
        .verification,
        {
          let reader = BackupReader(backup: backup)
          try await reader.verifyDirectory()
          for copy in backup.manifest.shards {
            try Task.checkCancellation()
            // One damaged shard must not hide the others' defects.
            if let problem = await reader.problem(of: copy) { self.jobs[.verification]?.note([problem]) }
            self.jobs[.verification]?.recordCount += copy.recordCount
            self.jobs[.verification]?.byteCount += copy.byteCount
            self.jobs[.verification]?.done += 1
          }
          self.jobs[.verification]?.missing = backup.manifest.missing
        })
    }
    return job
  }

  private func begin(_ kind: StorageJob.Kind, _ folder: String? = nil, shardCount: Int? = nil) throws(RecordError)
    -> StorageJob
  {
    let last = jobs[kind]
    if last?.state == .running {
      throw RecordError(.badRequest, "A \(kind.rawValue) is under way: wait for its end", httpStatus: 409)
    }
    if let last { earlier.append(last) }
    if earlier.count > Self.earlierLimit { earlier.removeFirst() }
    let job = StorageJob(
      kind: kind, startedAt: max(clock.now, (last?.startedAt ?? 0) + 1), total: shardCount ?? directory.shardCount,
      directory: folder)
    jobs[kind] = job
    log.info("a job has begun", ["job": .text(kind.rawValue)])
    return job
  }

  private func finish(_ kind: StorageJob.Kind, _ work: () async throws -> Void) async {
    do {
      try await work()
      jobs[kind]?.state = .done
      if let job = jobs[kind], job.problems.isEmpty, job.missing.isEmpty { successTimes[kind] = clock.now / 1000 }
      log.info(
        "a job is done", ["job": .text(kind.rawValue), "problems": .integer(Int64(jobs[kind]?.problems.count ?? 0))])
    } catch {
      jobs[kind]?.state = .failed
      jobs[kind]?.reason = Self.reason(error)
      log.error("a job has failed", ["job": .text(kind.rawValue), "reason": .text(Self.reason(error))])
    }
  }

  private func backUp(to folder: BackupFolder) async throws {
    let installation = InstallationID(signingKey: directory.signingKey).text
    let begun = try folder.begin(name: random.hex(byteCount: 16), installation: installation)
    do {
      try await fill(begun, of: installation)
    } catch {
      begun.abandon()
      throw error
    }
  }

  /// Copies the shards first and the directory last, so that it knows at least the models and users that the records
  /// need.
  private func fill(_ backup: BegunBackup, of installation: String) async throws {
    let startedAt = clock.now
    var copies: [ShardCopy] = []
    let layout = directory.layout
    for shard in 0..<layout.count {
      do {
        let copy = try await copy(shard, to: backup)
        copies.append(copy)
        jobs[.backup]?.recordCount += copy.recordCount
        jobs[.backup]?.byteCount += copy.byteCount
        jobs[.backup]?.note(copy.problems)
      } catch let error where !(error is CancellationError) {
        // A backup without this shard is still worth having.
        jobs[.backup]?.missing.append(BackupManifest.Missing(shard: shard, reason: Self.reason(error)))
        log.error(
          "a backup is without a shard", ["shard": .integer(Int64(shard)), "reason": .text(Self.reason(error))])
      }
      jobs[.backup]?.done += 1
    }
    let missing = jobs[.backup]?.missing ?? []
    if copies.isEmpty, let first = missing.first {
      throw BusError(.refused, "no shard could be copied; the first: \(first.reason)")
    }
    try backup.check()
    try await directory.copy(to: backup.folder.directoryFile)
    // Memory may lack a division that the copy has: another share service leads then, and the read finds that.
    try await directory.readSplits()
    // The copies fit together only if they are of one layout, and the directory's.
    guard directory.layout == layout, copies.allSatisfy({ $0.part == layout.dividedPart(of: $0.shard) }) else {
      throw BusError(.refused, "a shard was divided meanwhile: give the command again")
    }
    let digest = try backup.folder.digestOfDirectory()
    jobs[.backup]?.byteCount += digest.byteCount
    try backup.finish(
      BackupManifest(
        installation: installation, startedAt: startedAt, createdAt: clock.now,
        shardCount: layout.count, splits: layout.splits, directoryByteCount: digest.byteCount,
        directoryDigest: digest.digest, shards: copies, missing: missing))
  }

  /// Each attempt has a folder of its own: the worker of an earlier attempt may still be writing to its folder.
  private func copy(_ shard: Int, to backup: BegunBackup) async throws -> ShardCopy {
    var attempt = ""
    let attempts = jobs[.backup]?.missing.isEmpty == true ? Self.attemptCount : Self.laterAttemptCount
    let answer = try await ask(holderOf: shard, attempts: attempts) {
      attempt = random.hex(byteCount: 8)
      return CopyShard(shard: shard, directory: backup.folder.path, mark: backup.mark, attempt: attempt)
    }
    let copy = try MessagePackDecoder().decode(ShardCopy.self, from: answer.body)
    try backup.take(attempt, ofShard: shard)
    return copy
  }

  private func scrubAll(readsAssets: Bool, mendsLinks: Bool) async throws {
    note(try await directory.problems())
    var failure: (any Error)?
    for shard in 0..<directory.shardCount {
      do {
        let reply = try await ask(
          holderOf: shard, attempts: failure == nil ? Self.attemptCount : Self.laterAttemptCount
        ) {
          ScrubShard(shard: shard, readsAssets: readsAssets, mendsLinks: mendsLinks)
        }.reply
        jobs[.scrub]?.recordCount += reply.recordCount
        jobs[.scrub]?.assetCount += reply.assetCount
        jobs[.scrub]?.looseLinkCount += reply.looseLinkCount ?? 0
        jobs[.scrub]?.removedLinkCount += reply.removedLinkCount ?? 0
        note(reply.problems.map { "shard \(shard): \($0)" })
      } catch {
        // One shard that can't be read must not hide the problems of the others.
        note(["shard \(shard): \(Self.reason(error))"])
        failure = failure ?? error
      }
      jobs[.scrub]?.done += 1
    }
    if let failure { throw failure }
  }

  private func note(_ problems: [String]) {
    problemCount += problems.count
    jobs[.scrub]?.note(problems)
  }

  private func ask<M: Message>(holderOf shard: Int, attempts: Int, _ message: () -> M) async throws -> Answer<M.Reply> {
    var last = BusError(.unreachable, "no worker holds shard \(shard)")
    for attempt in 0..<attempts {
      if attempt > 0 { try await Task.sleep(for: .seconds(1)) }
      guard let bus, let map = await map(), map.holders.indices.contains(shard), let holder = map.holders[shard] else {
        continue
      }
      do throws(BusError) {
        return try await bus.call(message(), body: [], to: .peer(holder), within: Self.shardLimit)
      } catch {
        if [.refused, .unknownMessage, .internalError].contains(error.code) { throw error }
        last = error
      }
    }
    throw last
  }

  static func reason(_ error: any Error) -> String {
    switch error {
    case StoreError.io(let reason), StoreError.full(let reason), StoreError.corrupt(let reason): reason
    case let error as BusError: error.reason
    case is CancellationError: "the share service ended"
    default: String(describing: error)
    }
  }
}
