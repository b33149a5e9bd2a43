// Dates as the object plane writes them.

public import FoundationEssentials

/// RFC 3339 in UTC with milliseconds, such as `2026-11-20T07:33:24.123Z`.
public enum WireDate {
  private static let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

  public static func text(_ date: Date) -> String { date.formatted(style) }

  /// - Returns: nil for other text.
  public static func date(_ text: String) -> Date? { try? style.parse(text) }
}
