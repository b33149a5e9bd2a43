// Reads the key file of processes that store encrypted values.

public import Crypto
internal import Glibc

/// `--encryption-key FILE`, read once when the process starts.
public enum EncryptionKeys {
  private static let name = "encryption-key"

  public static let option = Option(
    name, .path, variable: "AQUIFER_ENCRYPTION_KEY_FILE",
    help:
      """
      The file with the keys for encrypted values and files, the same for workers and gateways: 64 hexadecimal digits \
      a line. The last key seals, all keys open. Without it the server refuses encrypted values.
      """
  )

  /// - Returns: a ring without keys when the option is not given.
  /// - Throws: `ExitError` when the file is unreadable or malformed.
  public static func ring(_ options: Options) throws -> KeyRing {
    guard let path = options.text(name) else { return KeyRing() }
    guard let text = readSmallFile(path) else {
      throw ExitError(
        .configuration, "--\(name) names '\(path)', which can't be read: \(String(cString: strerror(errno))).")
    }
    do throws(KeyFileError) {
      return try KeyRing(parsing: text)
    } catch {
      throw ExitError(.configuration, "--\(name) names '\(path)': \(error.reason).")
    }
  }
}
