// The addresses that operators have pages of ours lead to, and what else the pages say of an app.

/// Where browsers may be sent with a token.
enum CallbackURL {
  static let rule = "is a URL that a browser can be sent to, such as https://example.org/signed-in, without '#'"

  /// An app's own scheme will do.
  static func isAcceptable(_ text: String) -> Bool { WebAddress.scheme(of: text) != nil && !text.utf8.contains(UInt8(ascii: "#")) }
}

/// What the sign-in page and the pages of shares say of an app.
enum AppText {
  static let nameRule = "is a name of 1 to \(nameCharacterLimit) characters, without control characters and spaces at its ends"
  static let addressRule = "is where people find the app: an https:// URL, or one of the app's own scheme, such as photos://open"
  private static let nameCharacterLimit = 100
  /// Of as many characters of four bytes.
  static let nameByteLimit = 400

  static func isName(_ text: String) -> Bool {
    let scalars = text.unicodeScalars
    guard (1...nameCharacterLimit).contains(scalars.count), scalars.first?.properties.isWhitespace == false, scalars.last?.properties.isWhitespace == false else {
      return false
    }
    return scalars.allSatisfy { scalar in
      switch scalar.properties.generalCategory {
      case .control, .lineSeparator, .paragraphSeparator, .unassigned: false
      // What turns the direction of the text that follows could make a page say something else.
      case .format: !(0x202a...0x202e).contains(scalar.value) && !(0x2066...0x2069).contains(scalar.value)
      default: true
      }
    }
  }

  /// Not http: whoever is between could send people elsewhere.
  static func isAddress(_ text: String) -> Bool { WebAddress.scheme(of: text).map { $0 != "http" } ?? false }
}

private enum WebAddress {
  /// Their text runs, or shows, in the page that leads there.
  private static let refusedSchemes: Set<String> = ["javascript", "vbscript", "data", "blob", "file", "filesystem", "about", "view-source"]

  /// The scheme of an absolute URL that a page may lead to, in lower case; nil for any other text.
  static func scheme(of text: String) -> String? {
    guard let mark = text.firstRange(of: "://"), mark.upperBound < text.endIndex, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else { return nil }
    let scheme = text[..<mark.lowerBound].lowercased()
    guard let first = scheme.utf8.first, (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first), !refusedSchemes.contains(scheme),
      scheme.utf8.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || "0123456789+-.".utf8.contains($0) }),
      !text.utf8.contains(where: { "<>\"\\^`{|};,".utf8.contains($0) })
    else { return nil }
    return scheme
  }
}
