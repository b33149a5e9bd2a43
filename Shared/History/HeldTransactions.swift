// The stored form of changes that wait: those of one object, by the transactions that they came with.
//
// A single part is stored as a transaction. Several parts are one MessagePack array, whose first value is the number of
// the format, as in a transaction: 3, then each part's bytes.

import MessagePack
public import Records

/// Changes that wait for another try, in the order of their saves.
///
/// A try must know by whom and over what state each change was made, so changes of different transactions stay apart.
public struct HeldTransactions: Hashable, Sendable {
  /// Each has the author and the edit of the transaction that it is a part of, and the time at which it began to wait.
  public var parts: [HistoryTransaction]

  private static let format: Int64 = 3

  public init(_ parts: [HistoryTransaction]) { self.parts = parts }

  public var changes: [HistoryChange] { parts.flatMap(\.changes) }

  /// When the newest of them began to wait: milliseconds since 1970; 0 without any part.
  public var timestamp: Int64 { parts.last?.timestamp ?? 0 }

  /// The assets that the changes name, in no particular order.
  public var assets: [Asset] { parts.flatMap(\.assets) }

  /// The changes as the store keeps them. Equal ones have equal bytes.
  public func encoded() -> [UInt8] {
    if parts.count <= 1 {
      return (parts.first ?? HistoryTransaction(transactionID: "", timestamp: 0, changes: [])).encoded()
    }
    let encoded = parts.map { $0.encoded() }
    var writer = MessagePackWriter(reservingByteCount: 16 + encoded.reduce(0) { $0 + $1.count + 5 })
    writer.arrayHeader(1 + encoded.count)
    writer.integer(Self.format)
    for part in encoded { writer.bytes(part) }
    return writer.bytes
  }

  /// Reads the bytes that `encoded` wrote, and those of a single transaction.
  /// - Throws: `StoredFormatError` for a format of a later release and for bytes that `encoded` does not write.
  public init(decoding blob: [UInt8]) throws(StoredFormatError) {
    do {
      self.init([try HistoryTransaction(decoding: blob)])
      return
    } catch {
      guard case .unknownFormat(Self.format) = error else { throw error }
    }
    var parts: [HistoryTransaction] = []
    for part in try Self.encodedParts(of: blob) { parts.append(try HistoryTransaction(decoding: part)) }
    self.init(parts)
  }

  private static func encodedParts(of blob: [UInt8]) throws(StoredFormatError) -> [[UInt8]] {
    do throws(MessagePackError) {
      return try blob.withUnsafeBufferPointer { blob throws(MessagePackError) in
        try MessagePackCursor.read(UnsafeRawBufferPointer(blob)) { cursor throws(MessagePackError) in
          guard try cursor.integer() == format else { throw MessagePackError("the format is another one") }
          var parts: [[UInt8]] = []
          while cursor.remainingCount > 0 { parts.append(try cursor.bytes()) }
          guard parts.count > 1 else { throw MessagePackError("a single part is stored as a transaction") }
          return parts
        }
      }
    } catch {
      throw StoredFormatError(error)
    }
  }
}
