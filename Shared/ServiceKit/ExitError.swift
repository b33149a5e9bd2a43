// Ends a process that cannot go on, with a code for supervisors and a sentence for people.

public struct ExitError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The numbers of sysexits.h.
  public enum Code: Int32, Sendable {
    /// An unknown option, a missing argument.
    case usage = 64
    /// A programming error.
    case bug = 70
    /// A file, a socket or a disk failed.
    case io = 74
    /// The same command may succeed later.
    case tryAgain = 75
    /// A value of the configuration is wrong.
    case configuration = 78
  }

  public let code: Code
  /// One sentence that names the remedy.
  public let description: String

  public init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }
}
