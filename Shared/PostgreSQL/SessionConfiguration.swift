// Where a session connects to, and how long it waits for whom.

import CPostgreSQL
import Glibc

public struct SessionConfiguration: Hashable, Sendable {
  /// libpq's connection string or address: hosts, user, database, TLS (`sslmode`, `sslrootcert`). Several hosts are
  /// tried in their order until one accepts writes. Can hold a password, so it is never part of a message.
  public var address: String
  /// The schema that names without one belong to; nil for the server's default.
  public var schema: String?
  /// The name in the server's list of sessions, at most 63 bytes.
  public var name: String
  /// Refuses every write.
  public var isReadOnly = false
  /// The time for one host to accept a session, in whole seconds, at least 2.
  public var connectLimit: Duration = .seconds(2)
  /// Without a sign of the other machine for so long, the session is lost. Applies to both ends of TCP.
  public var deadHostLimit: Duration = .seconds(3)
  /// The server cancels a command that takes longer.
  public var commandLimit: Duration = .seconds(30)
  /// Without a byte of the server for so long while an answer is awaited, the session is lost. Notices servers whose
  /// machine lives and whose processes do not, so it must exceed `commandLimit`.
  public var answerLimit: Duration = .seconds(40)
  /// The server ends a session whose transaction waits for its client so long, because the locks of a client that
  /// hangs keep others out.
  public var idleTransactionLimit: Duration = .seconds(5)

  public init(address: String, schema: String? = nil, name: String) {
    self.address = address
    self.schema = schema
    self.name = name
  }

  /// libpq's keywords with values. Later ones replace those of the address.
  var keywords: [(String, String)] {
    [
      ("dbname", address), ("application_name", name), ("client_encoding", "UTF8"),
      // A standby lags behind, and a read must see all acknowledged commits.
      ("target_session_attrs", "read-write"),
      ("connect_timeout", "\(max(2, connectLimit.seconds))"),
      ("keepalives", "1"), ("keepalives_idle", "1"), ("keepalives_interval", "1"),
      ("keepalives_count", "\(max(1, deadHostLimit.seconds - 1))"),
      ("tcp_user_timeout", "\(deadHostLimit.milliseconds)"),
    ]
  }

  /// The server's settings for the session.
  var settings: [(String, String)] {
    var settings = [
      ("client_min_messages", "warning"), ("statement_timeout", "\(commandLimit.milliseconds)"),
      ("idle_in_transaction_session_timeout", "\(idleTransactionLimit.milliseconds)"),
      ("default_transaction_read_only", isReadOnly ? "on" : "off"),
      ("tcp_keepalives_idle", "1"), ("tcp_keepalives_interval", "1"),
      ("tcp_keepalives_count", "\(max(1, deadHostLimit.seconds - 1))"),
      ("tcp_user_timeout", "\(deadHostLimit.milliseconds)"),
    ]
    if let schema { settings.append(("search_path", "\"" + schema.replacing("\"", with: "\"\"") + "\"")) }
    return settings
  }

  /// True for a text that `address` can have.
  public static func isAddress(_ text: String) -> Bool {
    // Dropped because libpq's own message quotes the text.
    var reason: UnsafeMutablePointer<CChar>?
    let options = PQconninfoParse(text, &reason)
    PQfreemem(reason)
    PQconninfoFree(options)
    return options != nil
  }

  /// Connects and waits until a host accepts, or none does.
  func connect() throws(PostgreSQLError) -> OpaquePointer {
    guard Self.isAddress(address) else {
      throw PostgreSQLError(.invalidValue, command: "connect", message: "the address is no connection string")
    }
    let pairs = keywords
    let words = pairs.map { UnsafePointer(strdup($0.0)) } + [nil]
    let values = pairs.map { UnsafePointer(strdup($0.1)) } + [nil]
    defer { for text in words + values { free(UnsafeMutablePointer(mutating: text)) } }
    guard let handle = PQconnectdbParams(words, values, 1) else {
      throw PostgreSQLError(.unavailable, command: "connect", message: "out of memory")
    }
    guard PQstatus(handle) == CONNECTION_OK else {
      defer { PQfinish(handle) }
      throw PostgreSQLError(.unavailable, command: "connect", message: Self.text(PQerrorMessage(handle)))
    }
    return handle
  }

  /// One of libpq's messages, in one line.
  static func text(_ message: UnsafePointer<CChar>?) -> String {
    guard let message else { return "unknown error" }
    return String(cString: message).split(separator: "\n").joined(separator: "; ")
  }
}

extension Duration {
  /// Whole seconds, rounded up.
  var seconds: Int { Int((self / .seconds(1)).rounded(.up)) }
  /// At least 1: 0 would mean "without limit".
  var milliseconds: Int { max(1, Int(self / .milliseconds(1))) }
}
