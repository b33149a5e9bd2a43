// Telephone numbers in any notation, made comparable.

/// A telephone number as the directory stores and compares it: a plus sign, if the person wrote one, and digits.
public struct PhoneNumber: Hashable, Sendable, CustomStringConvertible {
  /// E.164 allows at most fifteen.
  private static let digitCounts = 3...15
  private static let separators: Set<Character> = [" ", "-", ".", "(", ")", "/", "\u{a0}"]

  /// `+` and digits, or digits.
  public let description: String

  /// - Returns: nil unless the text is 3 to 15 digits, an optional plus sign before them and separators between them.
  public init?(_ text: String) {
    guard text.utf8.count <= 64 else { return nil }
    let characters = text.filter { !Self.separators.contains($0) }
    let digits = characters.hasPrefix("+") ? characters.dropFirst() : characters[...]
    guard Self.digitCounts.contains(digits.count),
      digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
    else { return nil }
    description = characters
  }
}
