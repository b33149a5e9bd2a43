// Lifetimes of asset URLs and of receipts for uploaded content.

/// Times in seconds, unless a comment says otherwise.
public enum AssetLifetime {
  /// Of an upload URL and of a download URL (docs/protocol/record-plane.md#assets).
  public static let urlSeconds: Int64 = 15 * 60
  /// The lifetime of a receipt, and so of uploaded content that no record uses.
  public static let receiptSeconds: Int64 = 24 * 3600

  /// The time until which content written now may wait for its record, in seconds since 1970.
  /// - Parameter now: milliseconds since 1970.
  public static func uploadExpiry(at now: Int64) -> Int64 { now / 1000 + receiptSeconds }
}
