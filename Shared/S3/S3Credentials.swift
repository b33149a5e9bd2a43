// The identity that signs requests, read from a file in the form that Amazon's tools write.

/// An access key. Its description hides the secret.
public struct S3Credentials: Sendable, CustomStringConvertible {
  public let keyID: String
  let secret: String
  /// Of temporary credentials.
  let sessionToken: String?

  public init(keyID: String, secret: String, sessionToken: String? = nil) {
    self.keyID = keyID
    self.secret = secret
    self.sessionToken = sessionToken
  }

  /// Reads `aws_access_key_id`, `aws_secret_access_key` and `aws_session_token`, one a line, of the file's first
  /// section. Other names are ignored.
  /// - Returns: nil when one of the first two is missing.
  public init?(parsing text: String) {
    var values: [String: String] = [:]
    for line in text.split(whereSeparator: \.isNewline) {
      if line.hasPrefix("["), !values.isEmpty { break }
      let pair = line.split(separator: "=", maxSplits: 1).map { $0.trimmed }
      if pair.count == 2, !pair[1].isEmpty { values[pair[0]] = pair[1] }
    }
    guard let keyID = values["aws_access_key_id"], let secret = values["aws_secret_access_key"] else { return nil }
    self.init(keyID: keyID, secret: secret, sessionToken: values["aws_session_token"])
  }

  /// Reads the variables that Amazon's tools know.
  /// - Returns: nil when one of the first two is missing or empty.
  public init?(environment: (String) -> String?) {
    func value(_ name: String) -> String? { environment(name).flatMap { $0.isEmpty ? nil : $0 } }
    guard let keyID = value("AWS_ACCESS_KEY_ID"), let secret = value("AWS_SECRET_ACCESS_KEY") else { return nil }
    self.init(keyID: keyID, secret: secret, sessionToken: value("AWS_SESSION_TOKEN"))
  }

  public var description: String { "S3Credentials(\(keyID))" }
}

extension Substring {
  fileprivate var trimmed: String {
    let start = drop { $0 == " " || $0 == "\t" }
    guard let end = start.lastIndex(where: { $0 != " " && $0 != "\t" }) else { return "" }
    return String(start[...end])
  }
}
