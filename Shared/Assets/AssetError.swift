// The failures of operations on asset files.

/// The reason why a file could not be made, read or removed. The text names paths, never content.
public enum AssetError: Error, Hashable, Sendable {
  /// The device has no space. Nothing was kept; the caller may retry later.
  case full(String)
  /// The content does not match the file's name; restore the file from a backup.
  case corrupt(String)
  case io(String)
  /// The store does not answer now. The caller may repeat the call.
  case unavailable(String)
  /// This process lacks the key that sealed the file.
  case missingKey(String)

  public var reason: String {
    switch self {
    case .full(let reason), .corrupt(let reason), .io(let reason), .unavailable(let reason), .missingKey(let reason):
      reason
    }
  }
}
