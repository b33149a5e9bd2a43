// How a process ends when it can't go on: a code for supervisors, a sentence for people.

/// Ends a process.
public struct ExitError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The numbers of sysexits.h.
  public enum Code: Int32, Sendable {
    /// An unknown option, a missing argument.
    case usage = 64
    /// A programmer's error.
    case bug = 70
    /// A file, a socket or a disk failed.
    case io = 74
    /// It may work later without a change.
    case tryAgain = 75
    /// A value of the configuration is wrong.
    case configuration = 78
  }

  public let code: Code
  /// One sentence that says what to change.
  public let description: String

  public init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }
}
