// The audit of operator calls: who changed what, and when.

import Records
import SQLite
import ServiceBus
import ServiceKit

extension Directory {
  struct ActRow: Sendable, Hashable {
    let number: Int64
    /// Milliseconds since 1970.
    let at: Int64
    let name: String
    let role: String
    let container: String?
    let method: String
    let path: String
    let query: String
    /// nil while the act is under way, and for one that ended with its process.
    let status: Int64?
  }

  /// Older acts are forgotten.
  static let actLimit: Int64 = 100_000
  static let actTextByteLimit = 2048

  /// Notes an act durably, before it is carried out.
  /// - Parameter limit: the number of latest acts that stay.
  /// - Returns: its number.
  func begin(_ act: NoteAct.Act, keeping limit: Int64 = actLimit) throws -> Int64 {
    try change {
      try connection.statement(
        SQL(
          "act.insert",
          "INSERT INTO act (at, name, role, container, method, path, query) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
      ).binding(
        clock.now, act.member.name, act.member.role.rawValue, act.container?.rawValue, act.method,
        String(decoding: act.path.utf8.prefix(Self.actTextByteLimit), as: UTF8.self),
        String(decoding: act.query.utf8.prefix(Self.actTextByteLimit), as: UTF8.self)
      ).run()
      let number = try connection.insertedKey()
      try connection.statement(SQL("act.sweep", "DELETE FROM act WHERE number <= ?1")).binding(number - limit)
        .run()
      return number
    }
  }

  func end(act number: Int64, status: Int) throws {
    try change {
      try connection.statement(SQL("act.end", "UPDATE act SET status = ?2 WHERE number = ?1")).binding(
        number, Int64(status)
      ).run()
    }
  }

  /// Newest first.
  /// - Parameter before: only acts with a lower number; nil: all.
  func acts(in container: ContainerID?, before: Int64?, limit: Int) throws -> [ActRow] {
    try connection.statement(
      SQL(
        "act.list",
        """
        SELECT number, at, name, role, container, method, path, query, status FROM act
        WHERE (?1 IS NULL OR container = ?1) AND number < ?2 ORDER BY number DESC LIMIT ?3
        """)
    ).binding(container?.rawValue, before ?? Int64.max, Int64(limit)).all {
      ActRow(
        number: $0.int64(0), at: $0.int64(1), name: $0.text(2), role: $0.text(3), container: $0.optionalText(4),
        method: $0.text(5), path: $0.text(6), query: $0.text(7), status: $0.optionalInt64(8))
    }
  }
}
