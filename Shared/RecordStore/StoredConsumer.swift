// A consumer of a mirrored store's history, as a row: the history's low-water mark follows from them (H8).

/// Somebody who reads a store's history at a pace of his own: an extension, a search index, a widget.
public struct StoredConsumer: Hashable, Sendable {
  /// Unique within its store.
  public let name: String
  /// The last transaction it has dealt with; later ones are kept for it.
  public var transactionNumber: Int64
  /// When it was last heard of: milliseconds since 1970.
  public var seenAt: Int64

  public init(name: String, transactionNumber: Int64, seenAt: Int64) {
    self.name = name
    self.transactionNumber = transactionNumber
    self.seenAt = seenAt
  }
}
