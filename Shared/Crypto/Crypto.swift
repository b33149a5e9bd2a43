// libcrypto behind the few calls Aquifer needs. Pure but for `SecureRandom`.

/// SHA-256 by libcrypto.
public enum SHA256 {
  /// 32 bytes.
  public static func hash(_ bytes: [UInt8]) -> [UInt8] { preconditionFailure("to be written") }
}

/// RFC 4648 base64, the standard alphabet with padding.
public enum Base64 {
  public static func encode(_ bytes: [UInt8]) -> String { preconditionFailure("to be written") }
  /// nil for anything that is not canonical base64.
  public static func decode(_ text: String) -> [UInt8]? { preconditionFailure("to be written") }
}
