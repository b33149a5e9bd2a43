// What is left of a transaction whose history is gone: enough to know it when it is sent again.

import Crypto
import History
import Records

/// A transaction that was saved, and is in no history any more: it was purged, or its store was reset or removed.
public struct SettledTransaction: Hashable, Sendable {
  /// How many a store keeps at most. Beyond that the oldest are forgotten before their time.
  public static let keptCount: Int64 = 100_000
  /// How many removed stores of a database are remembered at most, so that those which are made again know their transactions.
  static let formerStoreCount = 1000

  public let number: Int64
  public let transactionID: String
  /// Milliseconds since 1970, the server's clock at the append.
  public let appendedAt: Int64
  /// Digests of the objects that it changed, 8 bytes each, ascending; nil: of a store whose transactions come whole, or nobody knows.
  let objects: [UInt8]?

  init(_ transaction: StoredTransaction, namesObjects: Bool) {
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

  /// Whether it changed an object. A transaction that can't be read is taken to have.
  public func changed(_ objectID: String) -> Bool {
    guard let objects else { return true }
    let digest = Self.digest(of: objectID)
    return stride(from: 0, to: objects.count - digest.count + 1, by: digest.count).contains { objects[$0..<($0 + digest.count)].elementsEqual(digest) }
  }

  private static func objects(of transaction: StoredTransaction) -> [UInt8]? {
    // Dropped because whoever exports it tells of it.
    guard let saved = try? HistoryTransaction(decoding: transaction.payload) else { return nil }
    return Set(saved.changes.map { digest(of: $0.objectID) }).sorted { $0.lexicographicallyPrecedes($1) }.flatMap(\.self)
  }

  private static func digest(of objectID: String) -> [UInt8] { Array(SHA256.hash(objectID).prefix(8)) }
}

extension StoredMirror {
  /// Whether its transactions come in parts: those of a user to whom others' zones are shared.
  var takesParts: Bool { scope == .shared }
}

extension ShardSnapshot {
  /// The number of a transaction that a store was ever sent, as long as that is known.
  public func transactionNumber(of transactionID: String, in mirror: Int64) throws -> Int64? {
    if let number = try keptTransactionNumber(of: transactionID, in: mirror) { return number }
    return try settledTransaction(withID: transactionID, of: mirror)?.number
  }
}
