// A schema of its own for each test, in the cluster that all share.

import PostgreSQL
import PrivateCluster
import Synchronization
import Testing

/// A schema with a table `item`, and sessions that work in it.
struct World {
  let cluster: PrivateCluster
  let schema: String
  private static let count = Mutex(0)

  init(_ cluster: PrivateCluster? = nil) throws {
    self.cluster = try cluster ?? PrivateCluster.shared.get()
    schema = Self.count.withLock {
      $0 += 1
      return "test_\($0)"
    }
    let session = try session()
    try session.transaction {
      try session.queue(Command("schema", "CREATE SCHEMA \(schema)"))
      try session.queue(
        Command("table", "CREATE TABLE item(id bigint PRIMARY KEY, name text COLLATE \"C\" CHECK (name <> ''))"))
    }
  }

  func configuration(_ address: String? = nil) -> SessionConfiguration {
    var configuration = SessionConfiguration(address: address ?? cluster.address, schema: schema, name: "aquifer tests")
    // On a busy machine the server may need seconds for a process.
    configuration.connectLimit = .seconds(60)
    return configuration
  }

  func session(_ change: (inout SessionConfiguration) -> Void = { _ in }) throws -> Session {
    var configuration = configuration()
    change(&configuration)
    return try Session(configuration)
  }

  /// The stored items, by a session of its own.
  func items() throws -> [Int64: String?] {
    let rows = try session().rows(Command("items", "SELECT id, name FROM item"))
    return try Dictionary(uniqueKeysWithValues: rows.map { (try $0.integer(0), try $0.optionalText(1)) })
  }
}

extension Command {
  static let insert = Command("insert", "INSERT INTO item(id, name) VALUES ($1, $2)")
  static let update = Command("update", "UPDATE item SET name = $2 WHERE id = $1")
  static let count = Command("count", "SELECT count(*) FROM item")
  static let pause = Command("pause", "SELECT pg_sleep(600)")
  static let end = Command("end", "SELECT pg_terminate_backend($1::integer, 10000)")
  static let lock = Command("lock", "SELECT id FROM item WHERE id = $1 FOR UPDATE")
}

extension Session {
  func insert(_ identifier: Int64, _ name: String? = "a name") throws(PostgreSQLError) {
    try queue(.insert, [.integer(identifier), .text(name)])
  }

  func itemCount() throws -> Int64 { try #require(rows(.count).first).integer(0) }

  /// Waits until the server says that the process is in no transaction.
  func awaitIdling(ofProcess process: Int32) throws {
    let command = Command("idle", "SELECT count(*) FROM pg_stat_activity WHERE pid = $1::bigint AND state = 'idle'")
    while try #require(rows(command, [.integer(Int64(process))]).first).integer(0) == 0 {}
  }

  /// Waits until the server says that the process waits for the event.
  func awaitEvent(_ event: String, ofProcess process: Int32) throws {
    let command = Command("event", "SELECT count(*) FROM pg_stat_activity WHERE pid = $1::bigint AND wait_event = $2")
    while try #require(rows(command, [.integer(Int64(process)), .text(event)]).first).integer(0) == 0 {}
  }
}

/// The kind of the error that `body` throws; nil when it throws none.
func kind(_ body: () throws -> Void) -> PostgreSQLError.Kind? {
  do {
    try body()
    return nil
  } catch let error as PostgreSQLError {
    return error.kind
  } catch {
    Issue.record(error)
    return nil
  }
}
