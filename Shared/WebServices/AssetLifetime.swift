// How long what belongs to an asset is good for.

/// Times of assets, in seconds unless said otherwise.
public enum AssetLifetime {
  /// Of an upload URL and of a download URL (docs/protocol/record-plane.md#assets).
  public static let urlSeconds: Int64 = 15 * 60
  /// Of a receipt, and so of content that was uploaded and is not used yet.
  public static let receiptSeconds: Int64 = 24 * 3600

  /// Until when content that is written now may wait for its record: seconds since 1970.
  /// - Parameter now: milliseconds since 1970.
  public static func uploadExpiry(at now: Int64) -> Int64 { now / 1000 + receiptSeconds }
}
