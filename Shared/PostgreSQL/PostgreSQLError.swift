// PostgreSQL's errors in a form that is safe to log: conditions and names of commands, never values.

public struct PostgreSQLError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What the failure means for the caller.
  public enum Kind: Hashable, Sendable {
    /// A value that must be unique exists already.
    case uniqueViolation
    /// Another constraint is violated.
    case constraintViolation
    /// The transaction collided with another one. It may succeed when it runs again.
    case serialization
    /// The command was cancelled, or exceeded the session's `commandLimit`.
    case cancelled
    /// The transaction failed at an earlier command. Nothing of it is stored; only `rollback` helps.
    case failedTransaction
    /// The session is lost, and nothing of its open transaction is stored. Later calls throw this as well.
    case connectionLost
    /// It is unknown whether the changes are stored: the answer of a commit was lost, or no standby confirmed it.
    case unknownOutcome
    /// No server can be reached, or none accepts sessions now.
    case unavailable
    /// The server accepts no writes (any more): it is a standby.
    case readOnly
    /// No space is left on the server.
    case full
    /// A value is no valid one, is too large, or has another type than was asked for.
    case invalidValue
    /// All sessions of a pool are in use.
    case crowded
    case other
  }

  public let kind: Kind
  /// PostgreSQL's five characters for the condition; empty when the server did not report one.
  public let state: String
  /// The name of the command (`Command.name`) or of the operation that failed.
  public let command: String
  /// Can name tables, columns and constraints, never values.
  public let message: String

  public init(_ kind: Kind, state: String = "", command: String, message: String) {
    self.kind = kind
    self.state = state
    self.command = command
    self.message = message
  }

  public var description: String {
    "PostgreSQL: \(command): \(message)" + (state.isEmpty ? "" : " (\(state))")
  }

  /// True when the session can't be used any more.
  public var endsSession: Bool { kind == .connectionLost || kind == .unknownOutcome }
}

extension PostgreSQLError.Kind {
  /// The meaning of a condition.
  /// - Parameter state: five characters, see the appendix "Error Codes" of PostgreSQL's documentation.
  init(state: String) {
    switch state {
    case "23505": self = .uniqueViolation
    case "40001", "40P01": self = .serialization
    case "40003": self = .unknownOutcome
    case "57014": self = .cancelled
    case "25P02": self = .failedTransaction
    case "25006": self = .readOnly
    case "53100": self = .full
    case "53300", "57P03": self = .unavailable
    case "57P01", "57P02", "57P04", "57P05": self = .connectionLost
    default:
      switch state.prefix(2) {
      case "08": self = .connectionLost
      case "22": self = .invalidValue
      case "23": self = .constraintViolation
      default: self = .other
      }
    }
  }
}
