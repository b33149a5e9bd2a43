// A consumer of a mirrored store's history, as a row: the history's low-water mark follows from them (H8).

/// A reader of a store's history at its own pace: an extension, a search index, a widget.
public struct StoredConsumer: Hashable, Sendable {
  /// Unique within its store.
  public let name: String
  /// The number of the last transaction that it has processed. Later ones are kept for it.
  public var transactionNumber: Int64
  /// The time of its latest call, in milliseconds since 1970.
  public var seenAt: Int64

  public init(name: String, transactionNumber: Int64, seenAt: Int64) {
    self.name = name
    self.transactionNumber = transactionNumber
    self.seenAt = seenAt
  }
}
