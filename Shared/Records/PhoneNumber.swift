// Telephone numbers as people write them, made comparable.

/// A telephone number as it is stored and compared: a plus sign, if it was given, and digits.
public struct PhoneNumber: Hashable, Sendable, CustomStringConvertible {
  /// E.164 has at most fifteen.
  private static let digitCounts = 3...15
  private static let separators: Set<Character> = [" ", "-", ".", "(", ")", "/", "\u{a0}"]

  /// `+` and digits, or digits.
  public let description: String

  /// - Returns: nil for what is no telephone number: other characters than digits, a leading plus sign and what separates groups, or fewer than
  ///   3 or more than 15 digits.
  public init?(_ text: String) {
    guard text.utf8.count <= 64 else { return nil }
    let characters = text.filter { !Self.separators.contains($0) }
    let digits = characters.hasPrefix("+") ? characters.dropFirst() : characters[...]
    guard Self.digitCounts.contains(digits.count), digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
    description = characters
  }
}
