// The parts of transactions that wait at a shared store's home for absent owners, as rows of the home's quarantine.

import History
import Mirroring
import RecordStore
import Records
import ServiceKit
import WebServices

/// The waiting rest of a store's transactions, in the order of the transactions.
///
/// A row's name begins with a character that no object's name has; its payload is the transaction with the remaining
/// changes. So the export position moves on, and history may be purged, while an owner is away.
enum WaitingParts {
  private static let mark: Character = "\u{1f}"

  static func name(of number: Int64) -> String { "\(mark)\(number)" }
  static func isName(_ name: String) -> Bool { name.first == mark }

  /// Limits of rows and of bytes; at either, the history yields no further transaction.
  static let limit = 2000
  static let byteLimit = 16_000_000

  /// Reads the oldest rows.
  /// - Returns: `isAll` is false at either limit. Unreadable rows stay stored; their transactions' numbers are
  ///   returned.
  static func read(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> (
    outgoing: [OutgoingTransaction], isAll: Bool, unreadable: [Int64]
  ) {
    if mirror.quarantinedCount == 0 { return ([], true, []) }
    var (outgoing, unreadable, byteCount) = ([OutgoingTransaction](), [Int64](), 0)
    for row in try snapshot.quarantined(of: mirror.key, afterKey: 0, limit: limit) {
      guard let number = Int64(row.name.dropFirst()) else { continue }
      if byteCount >= byteLimit { return (outgoing, false, unreadable) }
      do {
        guard let payload = try snapshot.quarantinedChanges(row.key) else { continue }
        byteCount += payload.count
        outgoing.append(
          OutgoingTransaction(waiting: row, number: number, transaction: try HistoryTransaction(decoding: payload)))
      } catch StoreError.corrupt {
        // Dropped because an operator may restore it: the log and `verify` tell of it.
        unreadable.append(number)
      } catch is StoredFormatError {
        // Dropped as above.
        unreadable.append(number)
      }
    }
    return (outgoing, mirror.quarantinedCount < limit && byteCount < byteLimit, unreadable)
  }

  /// Stores the remaining changes of a transaction; without any, removes its row.
  /// - Returns: when they are tried again (milliseconds since 1970); nil when nothing remains.
  static func put(
    _ changes: [HistoryChange], of item: OutgoingTransaction, at now: Int64, _ mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws -> Int64? {
    let name = name(of: item.number)
    guard let first = changes.first else {
      if item.waiting != nil { try transaction.removeQuarantined(name, of: mirror.key) }
      return nil
    }
    var rest = item.transaction
    rest.changes = changes
    let attempts = (item.waiting?.attempts ?? 0) + 1
    let row = StoredQuarantine(
      mirror: mirror.key, name: name, entity: first.entity, cause: QuarantineCause.other.rawValue,
      code: ServerErrorCode.tryAgainLater.rawValue,
      reason: reason, firstAt: item.waiting?.firstAt ?? now, lastAt: now, attempts: attempts,
      dueAt: now + min(shortestPause << Int64(min(attempts, 10)), longestPause), schemaVersion: 0)
    try transaction.putQuarantined(
      row, changes: rest.encoded(), assets: rest.assets.filter { try transaction.hasContent(of: $0) })
    return row.dueAt
  }

  static let reason = "the object's owner can't be reached: the change is sent when they can"

  /// Milliseconds.
  private static let shortestPause: Int64 = 1000
  private static let longestPause: Int64 = 60_000

  /// The objects with waiting changes, as entries of the quarantine list: each once, the oldest first.
  static func objects(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws -> [QuarantinedObject] {
    var seen: Set<String> = []
    return try read(of: mirror, in: snapshot).outgoing.flatMap { item in
      item.transaction.changes.compactMap { change in
        guard let row = item.waiting, seen.insert(change.objectID).inserted else { return nil }
        let problem = MirroringProblem(
          recordName: change.objectID, entity: change.entity, code: .tryAgainLater, reason: row.reason)
        return QuarantinedObject(
          problem: problem, firstAt: row.firstAt, lastAt: row.lastAt, attempts: row.attempts, dueAt: row.dueAt)
      }
    }
  }

  /// True when the row is unchanged since it was read.
  static func isCurrent(_ item: OutgoingTransaction, _ mirror: StoredMirror, in snapshot: any ShardSnapshot) throws
    -> Bool
  {
    guard let row = item.waiting else { return true }
    let current = try snapshot.quarantined(row.name, of: mirror.key)
    return current?.key == row.key && current?.attempts == row.attempts && current?.firstAt == row.firstAt
  }
}
