// Checks the addresses, names and texts that operators set.

/// Addresses to which a browser may be sent with a token.
enum CallbackURL {
  static let rule = "must be a URL that a browser can open, such as https://example.org/signed-in, without '#'"

  /// True for an address of the web or of an app's own scheme.
  static func isAcceptable(_ text: String) -> Bool {
    WebAddress.scheme(of: text) != nil && !text.utf8.contains(UInt8(ascii: "#"))
  }
}

/// The name and the address of an app on the sign-in page and on pages of shares.
enum AppText {
  static let nameRule =
    "must be a name of 1 to \(nameCharacterLimit) characters, without control characters and spaces at its ends"
  static let addressRule =
    "must be the app's address: an https:// URL, or a URL of the app's own scheme, such as photos://open"
  private static let nameCharacterLimit = 100
  /// The limit of characters, at four bytes each.
  static let nameByteLimit = 400

  static func isName(_ text: String) -> Bool {
    let scalars = text.unicodeScalars
    guard (1...nameCharacterLimit).contains(scalars.count), scalars.first?.properties.isWhitespace == false,
      scalars.last?.properties.isWhitespace == false
    else {
      return false
    }
    return scalars.allSatisfy { scalar in
      switch scalar.properties.generalCategory {
      case .control, .lineSeparator, .paragraphSeparator, .unassigned: false
      // Characters that change the direction of text could make a page read differently.
      case .format: !(0x202a...0x202e).contains(scalar.value) && !(0x2066...0x2069).contains(scalar.value)
      default: true
      }
    }
  }

  /// Plain http is refused: an attacker on the network could send users elsewhere.
  static func isAddress(_ text: String) -> Bool { WebAddress.scheme(of: text).map { $0 != "http" } ?? false }
}

enum WebAddress {
  static let issuerRule =
    "must be the provider's https address (http only for 127.0.0.1), without a query, such as https://id.example.org"

  /// True for the address of a provider of identities.
  static func isIssuer(_ text: String) -> Bool {
    guard let scheme = scheme(of: text), !text.utf8.contains(where: { "?#@".utf8.contains($0) }) else { return false }
    if scheme == "https" { return true }
    let rest = text.dropFirst("http://127.0.0.1".count)
    return text.hasPrefix("http://127.0.0.1") && (rest.isEmpty || rest.first == ":" || rest.first == "/")
  }

  /// Addresses with these schemes would run scripts or show their own text within the page.
  private static let refusedSchemes: Set<String> = [
    "javascript", "vbscript", "data", "blob", "file", "filesystem", "about", "view-source",
  ]

  /// The scheme, in lower case, of an absolute URL that a page may link to; nil for any other text.
  static func scheme(of text: String) -> String? {
    guard let mark = text.firstRange(of: "://"), mark.upperBound < text.endIndex,
      text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
    else { return nil }
    let scheme = text[..<mark.lowerBound].lowercased()
    guard let first = scheme.utf8.first, (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first),
      !refusedSchemes.contains(scheme),
      scheme.utf8.allSatisfy({
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || "0123456789+-.".utf8.contains($0)
      }),
      !text.utf8.contains(where: { "<>\"\\^`{|};,".utf8.contains($0) })
    else { return nil }
    return scheme
  }
}

/// Names that operators give to services of others. They are parts of addresses, so they need no escapes.
enum PlainName {
  static let rule = "must have 1 to 40 characters of a-z, 0-9 and '-'"

  static func isName(_ text: String) -> Bool {
    (1...40).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
          || byte == UInt8(ascii: "-")
      }
  }
}
