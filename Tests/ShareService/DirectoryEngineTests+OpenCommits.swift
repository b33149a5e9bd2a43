// Commits whose answer does not come: nobody waits for long, and nothing else is written before their outcome is known.

import PostgreSQL
import Records
import SQLite
import Testing

@testable import ShareService

extension DirectoryEngineTests {
  private func run(_ name: String, _ text: String, in session: Session) throws {
    _ = try session.rows(Command(name, text))
  }

  /// Lets each commit that inserts values wait until the returned session is closed.
  private func holdCommits() throws -> Session {
    let session = try session()
    try run(
      "function",
      """
      CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_xact_lock_shared(hashtext(TG_TABLE_SCHEMA)); RETURN NULL; END'
      """, in: session)
    try run(
      "trigger",
      """
      CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON value DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION pause()
      """, in: session)
    try run("lock", "SELECT pg_advisory_lock(hashtext(current_schema()))", in: session)
    return session
  }

  /// Whether commits wait for a standby. The cluster has none.
  private func demandStandby(_ isDemanded: Bool, in session: Session) throws {
    let demand = isDemanded ? "PERFORM set_config(''synchronous_commit'', ''on'', true);" : ""
    try run(
      "function \(isDemanded)",
      "CREATE OR REPLACE FUNCTION demand() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN \(demand) RETURN NEW; END'",
      in: session)
  }

  /// Waits until the commit of the directory's session waits for a standby.
  private func awaitStandby(_ directory: PostgreSQLDirectory, in session: Session) throws {
    let waiting = Command("waiting", "SELECT 1 FROM pg_stat_activity WHERE pid = $1::bigint AND wait_event = 'SyncRep'")
    while try session.rows(waiting, [.integer(Int64(directory.session.serverProcess))]).isEmpty {}
  }

  /// A change whose commit nobody waits for.
  private func setImpatiently(_ name: String, in directory: PostgreSQLDirectory) throws {
    directory.patience = .zero
    defer { directory.patience = .seconds(60) }
    let error = #expect(throws: PostgreSQLError.self) { try set(name, in: directory) }
    #expect(error?.kind == .unknownOutcome)
  }

  private func expectNoChange(_ name: String, in directory: PostgreSQLDirectory) {
    let error = #expect(throws: PostgreSQLError.self) { try set(name, in: directory) }
    #expect(error?.kind == .unavailable && error?.recordError?.retryAfter == 1)
  }

  @Test func `while a commit waits, reads go on and changes are refused, and its answer counts when it comes`() throws {
    let directory = try lead()
    try set("before", in: directory)
    let holder = try holdCommits()
    try setImpatiently("late", in: directory)
    for _ in 0..<3 {
      #expect(try has("before", in: directory) && !has("late", in: directory))
      expectNoChange("refused", in: directory)
    }
    #expect(directory.outcome == .awaited(commitCount: directory.commitCount + 1))
    let connections = directory.connectionCount
    holder.close()
    // A read that sees the commit before its answer is here is refused.
    while (try? has("late", in: directory)) != true {}
    #expect(directory.connectionCount > connections, "what memory has is older than the commit")
    try set("after", in: directory)
    #expect(try has("after", in: directory) && !has("refused", in: directory))
    directory.close()
  }

  @Test(arguments: [true, false])
  func `a commit that waited and lost its session is known before the next change`(isStored: Bool) throws {
    let directory = try lead()
    try set("before", in: directory)
    let holder = try holdCommits()
    try setImpatiently("late", in: directory)
    if isStored {
      holder.close()
      let stored = Command("stored", "SELECT 1 FROM value WHERE name = 'late'")
      let other = try session()
      while try other.rows(stored).isEmpty {}
    }
    try cut()
    holder.close()
    // What it writes may have been read before that commit.
    expectNoChange("refused", in: directory)
    #expect(directory.outcome == .known)
    #expect(try has("late", in: directory) == isStored)
    try set("after", in: directory)
    #expect(try has("before", in: directory) && has("after", in: directory) && !has("refused", in: directory))
    directory.close()
  }

  @Test func `a commit that no standby has confirmed is not read, and is asked for until one has`() throws {
    let directory = try lead()
    try set("before", in: directory)
    let other = try session()
    try demandStandby(true, in: other)
    try run(
      "trigger", "CREATE TRIGGER demand BEFORE UPDATE ON tenure FOR EACH ROW EXECUTE FUNCTION demand()", in: other)
    try setImpatiently("late", in: directory)
    #expect(try has("before", in: directory) && !has("late", in: directory))
    // The server stores it alone, and the question waits as well.
    try awaitStandby(directory, in: other)
    try cut()
    directory.patience = .zero
    #expect(throws: PostgreSQLDirectory.openCommit) { try has("late", in: directory) }
    expectNoChange("refused", in: directory)
    #expect(directory.outcome == .awaited(commitCount: directory.commitCount + 1))
    directory.patience = .seconds(60)
    try awaitStandby(directory, in: other)
    try demandStandby(false, in: other)
    try cut()
    #expect(try has("late", in: directory))
    try set("after", in: directory)
    #expect(try has("after", in: directory) && !has("refused", in: directory))
    directory.close()
  }

  @Test func `one that waits for the lead ends no session for which the server works, and one that then rests`()
    async throws
  {
    let directory = try lead()
    let (holder, other) = (try holdCommits(), try session())
    try setImpatiently("late", in: directory)
    let working = Command(
      "working",
      "SELECT 1 FROM pg_stat_activity WHERE pid = $1::bigint AND state = 'active' AND wait_event = 'advisory'")
    let process = directory.session.serverProcess
    while try other.rows(working, [.integer(Int64(process))]).isEmpty {}
    let watch = LeaderWatch(try configuration())
    var time = ContinuousClock.now
    for _ in 0..<3 {
      #expect(await watch.seesLeader(at: time))
      time += LeaderWatch.patience
    }
    #expect(try other.lockHolder(of: configuration().schema) == process)
    holder.close()
    while (try? has("late", in: directory)) != true {}
    #expect(await watch.seesLeader(at: time - .milliseconds(1)))
    #expect(await !watch.seesLeader(at: time))
    #expect(try other.lockHolder(of: configuration().schema) != process)
    await watch.close()
    directory.close()
  }

  @Test func `one that waits for the lead gives each new leader the whole time`() async throws {
    let former = try lead()
    let watch = LeaderWatch(try configuration())
    let time = ContinuousClock.now
    #expect(await watch.seesLeader(at: time))
    former.close()
    // It has the lock, and has not given a sign of life of its own yet.
    let contender = try session()
    while try !contender.holdLock(of: configuration().schema) {}
    let noticed = time + LeaderWatch.patience
    #expect(await watch.seesLeader(at: noticed))
    #expect(await watch.seesLeader(at: noticed + LeaderWatch.patience - .milliseconds(1)))
    #expect(await !watch.seesLeader(at: noticed + LeaderWatch.patience))
    await watch.close()
    contender.close()
  }

  @Test func `a leader whose commit waits reads nothing once another one leads`() throws {
    let succession = Succession()
    let former = try lead(succession)
    try set("before", in: former)
    let holder = try holdCommits()
    try setImpatiently("late", in: former)
    try cut()
    holder.close()
    let leader = try lead()
    #expect(throws: PostgreSQLDirectory.Led(epoch: leader.epoch)) { try has("before", in: former) }
    #expect(throws: PostgreSQLDirectory.Led(epoch: leader.epoch)) { try set("later", in: former) }
    #expect(succession.epoch == leader.epoch)
    #expect(try has("before", in: leader) && !has("late", in: leader) && !has("later", in: leader))
    former.close()
    leader.close()
  }
}
