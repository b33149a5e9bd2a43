// Which properties and pairs are the user's, since the server has not acknowledged them.

import MirrorWire
import SQLite

/// Looks at the table `pending`, and not at all when it is empty.
struct PendingEdits {
  private let connection: Connection
  private let isEmpty: Bool

  init(_ connection: Connection) throws {
    self.connection = connection
    isEmpty = try connection.statement(Self.any).first { _ in true } == nil
  }

  /// Deleted here, and not yet there (K6). A deletion that is kept is none as long as a later save makes the object
  /// again.
  func isDeleted(_ object: Int64) throws -> Bool {
    guard try has(object, Pending.deletion, 0) else { return false }
    return try connection.statement(Self.deletion).binding(object).first { _ in true } ?? false
  }
  func isNew(_ object: Int64) throws -> Bool { try has(object, Pending.wholeObject, 0) }
  /// Its zone ended, and the server gets it again. Imports go before it.
  func isSentAgain(_ object: Int64) throws -> Bool {
    try connection.statement(Self.again).binding(object).first { _ in true } ?? false
  }
  func hasPair(_ pair: Pair) throws -> Bool { try has(pair.a, pair.link.firstKey, pair.b) }

  private func has(_ object: Int64, _ property: Int64, _ target: Int64) throws -> Bool {
    if isEmpty { return false }
    return try connection.statement(Self.one).binding(object, property, target).first { _ in true } ?? false
  }

  func properties(_ object: Int64) throws -> Set<Int64> {
    if isEmpty { return [] }
    return Set(try connection.statement(Self.all).binding(object).all { $0.int64(0) })
  }

  private static let any = SQL("any pending", "SELECT 1 FROM pending LIMIT 1")
  private static let one = SQL("is pending", "SELECT 1 FROM pending WHERE object = ? AND property = ? AND target = ?")
  private static let deletion = SQL(
    "is deletion pending",
    "SELECT 1 FROM pending p WHERE p.object = ?1 AND p.property = \(Pending.deletion) AND p.target = 0 "
      + "AND (p.number > 0 OR NOT EXISTS (SELECT 1 FROM pending i LEFT JOIN outbox o ON o.key = i.number "
      + "WHERE i.object = ?1 AND i.property = \(Pending.wholeObject) AND i.target = 0 "
      + "AND coalesce(o.number, -i.number) > -p.number)) LIMIT 1")
  private static let again = SQL("is sent again", "SELECT 1 FROM sentAgain WHERE object = ?")
  private static let all = SQL(
    "pending of object", "SELECT property FROM pending WHERE object = ? AND target = 0 AND property >= 0")
}
