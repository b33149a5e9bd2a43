// The text of a command, and the name that prepared statements and errors know it by.

/// A command with numbered parameters, `$1` and so on.
public struct Command: Hashable, Sendable {
  /// Unique within a session, at most 40 bytes. Appears in errors.
  public let name: String
  /// One SQL command. Values are parameters; never part of the text.
  public let text: String

  public init(_ name: String, _ text: String) {
    self.name = name
    self.text = text
  }
}
