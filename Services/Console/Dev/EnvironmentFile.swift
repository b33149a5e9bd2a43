// `DIR/env`: a shell file with the addresses and tokens of the installation. deploy/run adds further lines.

enum EnvironmentFile {
  private static let own = ["export PATH=", "export AQUIFER_"]

  /// - Parameters:
  ///   - authority: the file with the authority of the services' certificate, if the environment names one.
  ///   - earlier: the file's present text; lines that this function does not write are kept.
  static func text(
    binDirectory: String, gateway: String, notifier: String, operatorToken: String, authority: String?, earlier: String
  ) -> String {
    var lines = ["export PATH=\(quoted(binDirectory)):\"$PATH\""]
    var variables = [
      ("AQUIFER_SERVER", gateway), ("AQUIFER_PINGS", notifier), ("AQUIFER_OPERATOR_TOKEN", operatorToken),
    ]
    if let authority { variables.append(("AQUIFER_CERTIFICATE_AUTHORITY", authority)) }
    lines.append("export " + variables.map { "\($0.0)=\(quoted($0.1))" }.joined(separator: " "))
    lines += earlier.split(separator: "\n").map(String.init).filter { line in !own.contains { line.hasPrefix($0) } }
    return lines.map { $0 + "\n" }.joined()
  }

  /// Quotes a text for a POSIX shell.
  private static func quoted(_ text: String) -> String {
    let isPlain =
      !text.isEmpty
      && text.utf8.allSatisfy {
        ($0 >= 0x30 && $0 <= 0x3a) || ($0 >= 0x41 && $0 <= 0x5a) || ($0 >= 0x61 && $0 <= 0x7a)
          || "/._-".utf8.contains($0)
      }
    return isPlain
      ? text : "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
  }
}

/// The source of the operator token.
enum OperatorTokenOrigin {
  /// A note about a token that the environment sets; nil when it sets none, or sets the installation's own.
  /// - Parameter stored: the data folder's token; nil: it has none yet.
  static func note(_ variables: [String: String], stored: String?, data: String) -> String? {
    if let token = variables["AQUIFER_OPERATOR_TOKEN"], !token.isEmpty {
      if token == stored { return nil }
      return
        """
        the operator token comes from AQUIFER_OPERATOR_TOKEN, not from \(data)/operator-token; unset the variable to \
        use the file
        """
    }
    guard let path = variables["AQUIFER_OPERATOR_TOKEN_FILE"], !path.isEmpty, path != data + "/operator-token" else {
      return nil
    }
    return
      """
      the operator token comes from \(path) (AQUIFER_OPERATOR_TOKEN_FILE), not from \(data)/operator-token; unset the \
      variable to use that file
      """
  }
}
