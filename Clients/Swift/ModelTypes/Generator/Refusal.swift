// An error of a model in the form that compilers use, so that a build shows the line in the model's file.

/// What keeps code from being generated.
public struct Refusal: Error, Hashable, Sendable, CustomStringConvertible {
  /// The path of the file as the build knows it.
  public let file: String
  /// Counted from 1.
  public let line: Int
  /// Names entity and property, and says the remedy.
  public let message: String

  /// `file:line: error: message`
  public var description: String { "\(file):\(line): error: \(message)" }
}

/// What an app's author should know of a model that becomes code.
public struct Warning: Hashable, Sendable, CustomStringConvertible {
  public let file: String
  /// Counted from 1.
  public let line: Int
  public let message: String

  /// `file:line: warning: message`
  public var description: String { "\(file):\(line): warning: \(message)" }
}

/// All that is wrong with a model, in the order of its files.
public struct Refusals: Error, Sendable {
  public let list: [Refusal]
}
