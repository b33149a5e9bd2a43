import PostgreSQL
import PrivateCluster
import Testing

@Suite struct ConfigurationTests {
  @Test func `an address that is none is refused without being quoted`() throws {
    for address in ["host=x password=secret words", "postgresql://ada:sec ret@[", "secret"] {
      let error = #expect(throws: PostgreSQLError.self) {
        _ = try Session(SessionConfiguration(address: address, name: "tests"))
      }
      #expect(error?.kind == .invalidValue && error.map { "\($0)" }?.contains("sec") == false)
    }
  }

  @Test func `a name with quotes is a schema like any other`() throws {
    let world = try World()
    let session = try world.session { $0.schema = "a \"quoted\", schema" }
    _ = try session.rows(Command("schema", "CREATE SCHEMA \"a \"\"quoted\"\", schema\""))
    _ = try session.rows(Command("table", "CREATE TABLE item()"))
    let row = try #require(try session.rows(Command("current", "SELECT current_schema()::text")).first)
    #expect(try row.text(0) == "a \"quoted\", schema")
    #expect(try world.items().isEmpty)
    _ = try session.rows(Command("drop", "DROP SCHEMA \"a \"\"quoted\"\", schema\" CASCADE"))
  }

  @Test func `of several hosts the one that accepts writes is taken`() throws {
    let world = try World()
    let dead = "host=127.0.0.1,127.0.0.1 port=1,\(world.cluster.port) user=aquifer dbname=postgres"
    #expect(try Session(world.configuration(dead)).itemCount() == 0)
    let session = try world.session()
    // As a standby says it.
    let database = "\(world.schema)_standby"
    _ = try session.rows(Command("make", "CREATE DATABASE \(database)"))
    _ = try session.rows(Command("alter", "ALTER DATABASE \(database) SET default_transaction_read_only = on"))
    let standby = world.cluster.address.replacing("dbname=postgres", with: "dbname=\(database)")
    for address in [standby, standby + " target_session_attrs=any"] {
      #expect(kind { _ = try Session(world.configuration(address)) } == .unavailable)
    }
  }

  @Test func `nobody at the address, and nobody of that name, is unavailable`() throws {
    let cluster = try PrivateCluster.shared.get()
    for address in ["host=127.0.0.1 port=1", cluster.address + " user=nobody", cluster.address + " dbname=none"] {
      #expect(kind { _ = try Session(SessionConfiguration(address: address, name: "tests")) } == .unavailable)
    }
  }

  @Test func `TLS and its checks are settings of the address`() throws {
    let world = try World()
    let command = Command("tls", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    let network = world.cluster.networkAddress
    for (settings, isEncrypted) in [
      ("sslmode=disable", false), ("sslmode=require", true),
      ("sslmode=verify-full sslrootcert=\(world.cluster.certificate)", true),
    ] {
      let session = try Session(world.configuration(network + " " + settings))
      #expect(try #require(session.rows(command).first).boolean(0) == isEncrypted)
      try session.transaction { try session.insert(isEncrypted ? 1 : 2, String(repeating: "x", count: 1 << 20)) }
      _ = try session.rows(Command("clear", "DELETE FROM item"))
    }
    let foreign = network.replacing("host=127.0.0.1", with: "host=elsewhere hostaddr=127.0.0.1")
    let address = foreign + " sslmode=verify-full sslrootcert=\(world.cluster.certificate)"
    #expect(kind { _ = try Session(world.configuration(address)) } == .unavailable)
  }

  @Test func `the limits of the configuration reach both ends`() throws {
    let world = try World()
    var configuration = world.configuration(world.cluster.networkAddress)
    configuration.commandLimit = .milliseconds(1500)
    configuration.idleTransactionLimit = .seconds(7)
    configuration.deadHostLimit = .seconds(4)
    let session = try Session(configuration)
    for (name, value) in [
      ("statement_timeout", "1500ms"), ("idle_in_transaction_session_timeout", "7s"), ("tcp_user_timeout", "4000"),
      ("tcp_keepalives_idle", "1"), ("tcp_keepalives_count", "3"), ("application_name", "aquifer tests"),
    ] {
      let rows = try session.rows(Command("setting", "SELECT current_setting($1)"), [.text(name)])
      #expect(try rows.first?.text(0) == value, "\(name)")
    }
  }
}
