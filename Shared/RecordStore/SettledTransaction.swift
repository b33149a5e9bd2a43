// The remains of a transaction whose history is gone. They suffice to recognize it when a client sends it again.

import Crypto
import History
import Records

/// A saved transaction that has left its history: it was purged, or its store was reset or removed.
public struct SettledTransaction: Hashable, Sendable {
  /// The most that a store keeps. Beyond that the oldest ones are forgotten early.
  public static let keptCount: Int64 = 100_000
  /// The most removed stores that a database remembers. A remembered store knows its transactions when it is made
  /// again.
  package static let formerStoreCount = 1000

  public let number: Int64
  public let transactionID: String
  /// The server's clock at the append, in milliseconds since 1970.
  public let appendedAt: Int64
  /// Digests of the objects that it changed, 8 bytes each, ascending. nil for stores that take whole transactions, and
  /// when the payload was unreadable.
  let objects: [UInt8]?

  package init(_ transaction: StoredTransaction, namesObjects: Bool) {
    number = transaction.number
    transactionID = transaction.transactionID
    appendedAt = transaction.appendedAt
    objects = namesObjects ? Self.objects(of: transaction) : nil
  }

  init(number: Int64, transactionID: String, appendedAt: Int64, objects: [UInt8]?) {
    self.number = number
    self.transactionID = transactionID
    self.appendedAt = appendedAt
    self.objects = objects
  }

  /// True when it changed the object, and when its objects are unknown.
  public func changed(_ objectID: String) -> Bool {
    guard let objects else { return true }
    let digest = Self.digest(of: objectID)
    return stride(from: 0, to: objects.count - digest.count + 1, by: digest.count).contains {
      objects[$0..<($0 + digest.count)].elementsEqual(digest)
    }
  }

  private static func objects(of transaction: StoredTransaction) -> [UInt8]? {
    // Dropped because the export of the transaction reports the damage.
    guard let saved = try? HistoryTransaction(decoding: transaction.payload) else { return nil }
    return Set(saved.changes.map { digest(of: $0.objectID) }).sorted { $0.lexicographicallyPrecedes($1) }.flatMap(
      \.self)
  }

  private static func digest(of objectID: String) -> [UInt8] { Array(SHA256.hash(objectID).prefix(8)) }
}

extension StoredMirror {
  /// True for the store of a user with zones that other users share. Its transactions come in parts.
  package var takesParts: Bool { scope == .shared }
}

extension ShardSnapshot {
  /// The number of a transaction that the store was ever sent; nil when it is unknown or forgotten.
  public func transactionNumber(of transactionID: String, in mirror: Int64) throws -> Int64? {
    if let number = try keptTransactionNumber(of: transactionID, in: mirror) { return number }
    return try settledTransaction(withID: transactionID, of: mirror)?.number
  }
}
