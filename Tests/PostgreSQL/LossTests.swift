import CuttingProxy
import Foundation
import PostgreSQL
import PrivateCluster
import Testing

/// Sessions, servers and answers that are lost at each point of a transaction.
@Suite struct LossTests {
  @Test func `a session that is ended within its transaction stores nothing, and stays lost`() throws {
    let world = try World()
    let (session, other) = (try world.session(), try world.session())
    try session.begin()
    try session.insert(1)
    try session.finish()
    _ = try other.rows(.end, [.integer(Int64(session.serverProcess))])
    #expect(kind { try session.commit() } == .unknownOutcome)
    #expect(!session.isOpen && !session.isInTransaction && session.serverProcess == 0)
    #expect(kind { try session.insert(2) } == .connectionLost)
    #expect(kind { try session.begin() } == .connectionLost)
    session.rollback()
    session.close()
    #expect(try world.items().isEmpty)
  }

  @Test func `a session that is ended before its commit is sent is known to have stored nothing`() throws {
    let world = try World()
    let (session, other) = (try world.session(), try world.session())
    try session.begin()
    try session.insert(1)
    try session.finish()
    _ = try other.rows(.end, [.integer(Int64(session.serverProcess))])
    let error = #expect(throws: PostgreSQLError.self) { _ = try session.itemCount() }
    #expect(error?.kind == .connectionLost && error?.state == "57P01")
    #expect(try world.items().isEmpty)
  }

  /// Cuts each conversation after so many bytes of a direction, and compares what the session says with what is stored.
  @Test(arguments: [true, false])
  func `wherever a conversation is cut, the session says stored, not stored or unknown, and is right`(
    isRequest: Bool
  ) throws {
    let world = try World()
    let proxy = try CuttingProxy(to: "127.0.0.1:\(world.cluster.port)")
    defer { proxy.close() }
    // Without TLS, so that the bytes are those of the commands.
    let address = PrivateCluster.networkAddress(port: proxy.port) + " sslmode=disable"
    var kinds: [PostgreSQLError.Kind?: Set<Int>] = [:]
    var (place, isWhole) = (0, false)
    var stored: Set<Int64> = []
    while !isWhole {
      let identifier = Int64(place)
      let session = try Session(world.configuration(address))
      proxy.setWithinConnections(
        .init(requestByteCount: isRequest ? place : nil, answerByteCount: isRequest ? nil : place))
      let kind = kind {
        try session.begin()
        try session.insert(identifier)
        #expect(try session.itemCount() == Int64(stored.count + 1))
        try session.commit()
      }
      kinds[kind, default: []].insert(place)
      session.close()
      proxy.set(.init())
      let isStored = try world.isSettled(identifier)
      switch kind {
      case nil: #expect(isStored, "cut at \(place)")
      case .unknownOutcome: break
      default: #expect(kind == .connectionLost && !isStored, "cut at \(place): \(String(describing: kind))")
      }
      if isStored { stored.insert(identifier) }
      isWhole = kind == nil
      place += 3
    }
    let unknown = try #require(kinds[.unknownOutcome])
    #expect(kinds[.connectionLost]?.isEmpty == false && kinds.count == 3)
    // A lost answer hides a commit, a lost request hides that there was none.
    #expect(unknown.contains { stored.contains(Int64($0)) != isRequest })
  }

  @Test func `a commit that no standby has confirmed is unknown, though it is stored here`() throws {
    let world = try World()
    let session = try world.session()
    _ = try session.rows(Command("standby", "SELECT set_config('synchronous_commit', 'on', false)"))
    try world.cancel(session, inEvent: "SyncRep")
    try session.begin()
    try session.insert(1)
    let error = #expect(throws: PostgreSQLError.self) { try session.commit() }
    #expect(error?.kind == .unknownOutcome && !session.isOpen)
    #expect(try world.items().keys.sorted() == [1])
  }

  @Test func `a commit that waits for long is left to itself, and its answer is there when it comes`() throws {
    let world = try World()
    let (session, other) = (try world.session(), try world.session())
    try world.holdCommits(by: other)
    try session.begin()
    try session.insert(1)
    #expect(try !session.commit(within: .milliseconds(10)))
    #expect(try !session.awaitCommit(within: .zero) && session.isOpen && session.isInTransaction)
    #expect(try world.items().isEmpty)
    other.close()
    while try !session.awaitCommit(within: .zero) {}
    #expect(!session.isInTransaction)
    #expect(try world.items().keys.sorted() == [1])
    try session.begin()
    try session.insert(2)
    #expect(try session.commit(within: .seconds(60)))
    #expect(try session.itemCount() == 2)
  }

  @Test func `a commit that waits can fail as any other, by its session, its standby and its own checks`() throws {
    let world = try World()
    let other = try world.session()
    let (lost, unconfirmed) = (try world.session(), try world.session())
    for session in [lost, unconfirmed] {
      _ = try session.rows(Command("standby", "SELECT set_config('synchronous_commit', 'on', false)"))
      try session.begin()
      try session.insert(session === lost ? 1 : 2)
      #expect(try !session.commit(within: .milliseconds(10)))
      try other.awaitEvent("SyncRep", ofProcess: session.serverProcess)
    }
    _ = try other.rows(.end, [.integer(Int64(lost.serverProcess))])
    #expect(kind { _ = try lost.awaitCommit(within: .seconds(60)) } == .unknownOutcome)
    #expect(try unconfirmed.cancellation().cancel())
    #expect(kind { _ = try unconfirmed.awaitCommit(within: .seconds(60)) } == .unknownOutcome)
    #expect(!lost.isOpen && !unconfirmed.isOpen)

    let refused = try world.session()
    try refused.begin()
    try refused.insert(1)
    #expect(kind { _ = try refused.commit(within: .seconds(60)) } == .uniqueViolation)
    refused.rollback()
    #expect(try refused.itemCount() == 2)
  }

  @Test func `a server that is killed loses its sessions and no commit, and serves again`() throws {
    let world = try World(PrivateCluster())
    let (session, idle) = (try world.session(), try world.session())
    try session.transaction { try session.insert(1) }
    try session.begin()
    try session.insert(2)
    try session.finish()
    try world.cluster.kill()
    #expect(kind { _ = try session.itemCount() } == .connectionLost)
    #expect(kind { _ = try idle.itemCount() } == .unknownOutcome)
    #expect(kind { _ = try world.session() } == .unavailable)
    try world.cluster.start()
    #expect(try world.items().keys.sorted() == [1])
  }

  @Test func `a server that stops answering is given up, and so is a client that stops asking`() throws {
    let world = try World()
    // Seconds, because a server that answers may need a while on a busy machine.
    let (session, other) = (try world.session { $0.answerLimit = .seconds(2) }, try world.session())
    try session.begin()
    try session.insert(1)
    try session.finish()
    let process = session.serverProcess
    kill(process, SIGSTOP)
    defer { kill(process, SIGCONT) }
    #expect(kind { _ = try session.itemCount() } == .connectionLost)
    #expect(try other.itemCount() == 0)

    // Its lock would keep the other out for ever.
    let hanging = try world.session { $0.idleTransactionLimit = .seconds(2) }
    try other.insert(7)
    try other.finish()
    try hanging.begin()
    _ = try hanging.rows(.lock, [.integer(7)])
    #expect(try other.rows(.lock, [.integer(7)]).count == 1)
    #expect(kind { _ = try hanging.itemCount() } == .connectionLost)
  }

  @Test func `a command is cancelled by another thread, and by its limit; the session goes on`() throws {
    let world = try World()
    let session = try world.session()
    let cancellation = try session.cancellation()
    try world.cancel(session, inEvent: "PgSleep")
    #expect(kind { _ = try session.rows(.pause) } == .cancelled)
    #expect(try session.itemCount() == 0)
    session.close()
    cancellation.cancel()

    let limited = try world.session { $0.commandLimit = .seconds(1) }
    try limited.begin()
    try limited.insert(1)
    #expect(kind { _ = try limited.rows(.pause) } == .cancelled)
    limited.rollback()
    #expect(try limited.itemCount() == 0)
  }
}

extension World {
  /// Lets another thread cancel the session's command once it waits for the event.
  fileprivate func cancel(_ session: Session, inEvent event: String) throws {
    let process = session.serverProcess
    let cancellation = try session.cancellation()
    Thread {
      do {
        try self.session().awaitEvent(event, ofProcess: process)
        #expect(cancellation.cancel())
      } catch {
        Issue.record(error)
      }
    }.start()
  }

  /// Lets each commit that inserts items wait until the session is closed.
  fileprivate func holdCommits(by session: Session) throws {
    let function = """
      CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_xact_lock_shared(hashtext(TG_TABLE_SCHEMA)); RETURN NULL; END'
      """
    let trigger = """
      CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON item DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION pause()
      """
    _ = try session.rows(Command("function", function))
    _ = try session.rows(Command("trigger", trigger))
    _ = try session.rows(Command("hold", "SELECT pg_advisory_lock(hashtext(current_schema()))"))
  }

  /// Whether an item is stored. Waits for a transaction under way that inserts it.
  fileprivate func isSettled(_ identifier: Int64) throws -> Bool {
    let session = try session()
    try session.begin()
    defer { session.rollback() }
    return kind {
      try session.insert(identifier)
      try session.finish()
    } == .uniqueViolation
  }
}
