// What can go wrong with files.

/// Why a file could not be made, read or removed; the text names paths, never content.
public enum AssetError: Error, Hashable, Sendable {
  /// No space left: nothing was kept, try again later.
  case full(String)
  /// The file is not what its name says; restore it from a backup.
  case corrupt(String)
  case io(String)
  /// It is sealed with a key that this process lacks.
  case missingKey(String)
}
