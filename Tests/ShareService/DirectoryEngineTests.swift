// The directory in PostgreSQL: its tables, who leads, and what a lost session means.

import CuttingProxy
import Foundation
import PostgreSQL
import PrivateCluster
import SQLite
import Testing

@testable import ShareService

@Suite(.timeLimit(.minutes(2))) struct DirectoryEngineTests {
  private let folder = TemporaryFolder()

  func configuration() throws -> PostgreSQLDirectory.Configuration {
    try DirectoryEngine.database(of: folder)
  }

  func lead(_ succession: Succession = Succession(), epoch: Int64 = 0) throws -> PostgreSQLDirectory {
    try World.whenFree { try tryToLead(succession, epoch: epoch) }
  }

  private func tryToLead(_ succession: Succession = Succession(), epoch: Int64 = 0) throws -> PostgreSQLDirectory {
    try PostgreSQLDirectory(try configuration(), leastEpoch: epoch) { succession.note($0) }
  }

  func set(_ name: String, in directory: PostgreSQLDirectory) throws {
    try directory.change { try DirectoryFormat.set(name, [1], in: directory.connection) }
  }

  func has(_ name: String, in directory: PostgreSQLDirectory) throws -> Bool {
    try DirectoryFormat.value(name, in: directory.connection) != nil
  }

  /// A session of an operator.
  func session() throws -> Session { try Session(try configuration().session) }

  /// Ends the leader's session, and waits until its lock is free.
  func cut() throws {
    let (other, schema) = (try session(), try configuration().schema)
    repeat { try other.endLockHolder(of: schema) } while try other.lockHolder(of: schema) != nil
  }

  @Test func `the tables of both engines have the same columns`() throws {
    let file = try DirectoryFormat.open(folder.path + "/directory.sqlite")
    defer { file.close() }
    let tables = try file.prepare(
      SQL("tables", "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    ).all { $0.text(0) }
    var ofSQLite: Set<String> = []
    for table in tables {
      let columns = try file.prepare(SQL("columns", "PRAGMA table_info(\"\(table)\")")).all {
        (name: $0.text(1), type: $0.text(2), isNeeded: $0.bool(3) || $0.bool(5))
      }
      for column in columns {
        ofSQLite.insert("\(table).\(column.name) \(column.type) \(column.isNeeded)".lowercased())
      }
    }
    let directory = try lead()
    defer { directory.close() }
    let types = ["bigint": "integer", "text": "text", "bytea": "blob"]
    let rows = try session().rows(
      Command(
        "columns",
        """
        SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'NO', collation_name::text
        FROM information_schema.columns WHERE table_schema = current_schema() AND table_name NOT IN ('tenure', 'pulse')
        """))
    var ofPostgreSQL: Set<String> = []
    for row in rows {
      let type = types[try row.text(2)] ?? "?"
      ofPostgreSQL.insert("\(try row.text(0)).\(try row.text(1)) \(type) \(try row.boolean(3))")
      // Texts sort by their bytes, as in SQLite.
      #expect(try row.optionalText(4) == (type == "text" ? "C" : nil))
    }
    #expect(ofSQLite == ofPostgreSQL)
  }

  @Test func `one share service leads at a time, each with a higher epoch than the last`() throws {
    let first = try lead()
    #expect(throws: PostgreSQLDirectory.Led(epoch: nil)) { try tryToLead() }
    first.close()
    let second = try lead()
    #expect(second.epoch == first.epoch + 1)
    second.close()
    let third = try lead(epoch: 40)
    #expect(third.epoch == 40)
    third.close()
  }

  @Test func `a leader that another one has followed writes nothing, and hears of it`() throws {
    let succession = Succession()
    let former = try lead(succession)
    try set("before", in: former)
    // As when the former leader's machine is cut off.
    try cut()
    let leader = try lead()
    try set("after", in: leader)
    #expect(throws: PostgreSQLDirectory.Led(epoch: leader.epoch)) { try set("late", in: former) }
    #expect(succession.epoch == leader.epoch)
    #expect(try has("before", in: leader) && has("after", in: leader) && !has("late", in: leader))
    former.close()
    leader.close()
  }

  @Test func `a leader whose session was lost reads only as long as nobody has led since`() throws {
    let succession = Succession()
    let former = try lead(succession)
    try cut()
    #expect(try !has("before", in: former))
    try cut()
    // Another one has the lock, and is about to lead.
    let contender = try session()
    #expect(try contender.holdLock(of: configuration().schema))
    #expect(throws: PostgreSQLDirectory.Led(epoch: nil)) { try has("before", in: former) }
    #expect(succession.epoch == nil)
    contender.close()
    let leader = try lead()
    #expect(throws: PostgreSQLDirectory.Led(epoch: leader.epoch)) { try has("before", in: former) }
    leader.close()
    #expect(throws: PostgreSQLDirectory.Led(epoch: leader.epoch)) { try has("before", in: former) }
    #expect(succession.epoch == leader.epoch)
    former.close()
  }

  @Test func `an answer from memory is confirmed by the server, and a closed directory gives none`() throws {
    let former = try lead()
    try former.confirm()
    try cut()
    let leader = try lead()
    #expect(throws: PostgreSQLDirectory.Led(epoch: leader.epoch)) {
      while true { try former.confirm() }
    }
    former.close()
    leader.close()
    #expect(throws: PostgreSQLError.self) { try has("before", in: leader) }
    #expect(throws: PostgreSQLError.self) { try set("after", in: leader) }
    try lead().close()
  }

  @Test func `two that believe they lead never write both`() throws {
    let former = try lead()
    try set("first", in: former)
    // The lock is ignored: only the epoch decides.
    _ = try session().rows(TenureCommand.raise.command, [.integer(0)])
    #expect(throws: PostgreSQLDirectory.Led(epoch: former.epoch + 1)) { try set("late", in: former) }
    #expect(try !has("late", in: former) && has("first", in: former))
    former.close()
  }

  @Test func `a session that is lost between changes or within one is replaced, and each change is whole`() throws {
    let directory = try lead()
    for number in 0..<3 {
      try cut()
      #expect(try !has("\(number)", in: directory))
      try cut()
      try set("\(number)", in: directory)
      #expect(throws: PostgreSQLError.self) {
        try directory.change {
          try DirectoryFormat.set("half \(number)", [1], in: directory.connection)
          try cut()
          try DirectoryFormat.set("other half \(number)", [1], in: directory.connection)
        }
      }
      #expect(try has("\(number)", in: directory))
      #expect(try !has("half \(number)", in: directory) && !has("other half \(number)", in: directory))
    }
    directory.close()
  }

  @Test func `a change that a body refuses leaves nothing, and the next one is made`() throws {
    struct Refusal: Error {}
    let directory = try lead()
    #expect(throws: Refusal.self) {
      try directory.change {
        try DirectoryFormat.set("refused", [1], in: directory.connection)
        throw Refusal()
      }
    }
    try set("made", in: directory)
    #expect(try has("made", in: directory) && !has("refused", in: directory))
    directory.close()
  }

  @Test func `a leader that beats keeps the lead, and one that does not beat loses it to the one that waits`()
    async throws
  {
    let former = try lead()
    let pulse = DirectoryPulse(try configuration(), epoch: former.epoch) { _ in }
    let watch = LeaderWatch(try configuration())
    var time = ContinuousClock.now
    for _ in 0..<5 {
      #expect(try await pulse.beat())
      #expect(await watch.seesLeader(at: time))
      time += LeaderWatch.patience
    }
    #expect(await watch.seesLeader(at: time - .milliseconds(1)))
    #expect(throws: PostgreSQLDirectory.Led(epoch: nil)) { try tryToLead() }
    #expect(await !watch.seesLeader(at: time))
    let leader = try lead()
    #expect(leader.epoch == former.epoch + 1)
    // The former leader's next beat finds the successor.
    let succession = Succession()
    await DirectoryPulse(try configuration(), epoch: former.epoch) { succession.note($0) }.run()
    #expect(succession.epoch == former.epoch + 1)
    await watch.close()
    former.close()
    leader.close()
  }

  /// Cuts each conversation of a change after so many bytes of a direction, and compares what the directory says with
  /// what is stored.
  @Test(arguments: [true, false])
  func `wherever the conversation of a change is cut, it is made once or is known not to be`(isRequest: Bool) throws {
    let proxy = try CuttingProxy(to: "127.0.0.1:\(PrivateCluster.shared.get().port)")
    defer { proxy.close() }
    var distant = try configuration()
    // Without TLS, so that the bytes are those of the commands.
    distant.address = PrivateCluster.networkAddress(port: proxy.port) + " sslmode=disable"
    let directory = try World.whenFree { try PostgreSQLDirectory(distant, leastEpoch: 0) { _ in } }
    try directory.change { try DirectoryFormat.set("count", [0], in: directory.connection) }
    var (count, place, isWhole) = (UInt8(0), 0, false)
    // Changes whose commit had an unknown outcome.
    var (found, notFound) = (0, 0)
    while !isWhole {
      proxy.setWithinConnections(
        .init(requestByteCount: isRequest ? place : nil, answerByteCount: isRequest ? nil : place, isOnce: true))
      var connections = 0
      do {
        try directory.change {
          connections = directory.connectionCount
          let last = try #require(try DirectoryFormat.value("count", in: directory.connection)?.first)
          #expect(last == count, "cut at \(place)")
          try DirectoryFormat.set("count", [last &+ 1], in: directory.connection)
        }
        count &+= 1
        if directory.connectionCount > connections { found += 1 }
      } catch let error as PostgreSQLError {
        #expect(error.kind == .connectionLost, "cut at \(place): \(error)")
        if directory.connectionCount > connections { notFound += 1 }
      }
      isWhole = proxy.willCut
      proxy.setWithinConnections(.init())
      #expect(try DirectoryFormat.value("count", in: directory.connection) == [count], "cut at \(place)")
      place += 7
    }
    // A lost answer hides a commit, a lost request hides that there was none.
    #expect(isRequest ? notFound > 0 : found > 0)
    directory.close()
  }

  @Test func `a newer format is refused, and a database without a standby too unless it is allowed`() throws {
    try lead().close()
    _ = try session().rows(TenureCommand.setFormat.command, [.integer(99)])
    #expect(throws: InstallationProblem.self) { try lead() }
    var strict = try configuration()
    strict.allowsAsynchronous = false
    let error = #expect(throws: PostgreSQLError.self) { try PostgreSQLDirectory(strict, leastEpoch: 0) { _ in } }
    #expect(error?.kind == .unavailable && error?.message.contains("--allow-asynchronous") == true)
  }

  @Test(arguments: [
    ("SELECT user FROM session WHERE user = ?1", #"SELECT "user" FROM session WHERE "user" = $1"#),
    (
      "SELECT user.id, userCode FROM user JOIN x ON userRole = user",
      #"SELECT "user".id, userCode FROM "user" JOIN x ON userRole = "user""#
    ),
    (
      "SELECT count(*) FROM a WHERE b LIKE 'shard-%' AND c IN (?1, ?12)",
      "SELECT count(*) FROM a WHERE b LIKE 'shard-%' AND c IN ($1, $12)"
    ),
  ])
  func `the text of a statement differs in the marks of parameters and one reserved word`(text: String, own: String) {
    #expect(DirectoryCommand.text(of: text) == own)
  }
}
