// Reads command lines word by word, for the services and for the operator's commands alike.

/// The words of a command line that are still to be read: options as `--name VALUE` or `--name=VALUE`, and arguments.
public struct OptionReader: Sendable {
  /// The form of the text after an option's name.
  public enum Form: Hashable, Sendable {
    /// Nothing; `takesValue` allows `--name=true` and `--name=false`.
    case flag(takesValue: Bool)
    /// A value, shown as the placeholder in messages.
    case value(String)
    /// A whole number, or nothing.
    case count
  }

  public enum Word: Hashable, Sendable {
    /// The value is nil for a flag, and for a count without a number.
    case option(String, value: String?)
    case argument(String)
  }

  public enum Fault: Error, Hashable, Sendable {
    /// `nearest` is the known name that is spelled most alike, if one is.
    case unknown(String, nearest: String?)
    case valueIsMissing(String, placeholder: String)
    case takesNoValue(String)
  }

  public private(set) var rest: ArraySlice<String>

  public init(_ words: [String]) { rest = words[...] }

  /// The next word, not yet taken.
  public var next: String? { rest.first }

  /// Takes the next word as it is.
  public mutating func take() -> String? { rest.popFirst() }

  /// Takes the next option with its value, or the next argument.
  /// - Parameter known: the forms of all options by name.
  /// - Returns: nil at the end.
  public mutating func read(_ known: [String: Form]) throws(Fault) -> Word? {
    guard let word = rest.popFirst() else { return nil }
    guard word.hasPrefix("--"), word != "--" else { return .argument(word) }
    let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let (name, inline) = (parts[0], parts.count == 2 ? parts[1] : nil)
    switch known[name] {
    case nil: throw .unknown(name, nearest: Spelling.nearest(to: name, among: known.keys.sorted()))
    case .flag(let takesValue):
      guard inline == nil || takesValue else { throw .takesNoValue(name) }
      return .option(name, value: inline)
    case .count:
      guard inline == nil, let next = rest.first, UInt32(next) != nil else { return .option(name, value: inline) }
      return .option(name, value: rest.removeFirst())
    case .value(let placeholder):
      if let inline { return .option(name, value: inline) }
      guard let next = rest.first, !next.hasPrefix("--") else { throw .valueIsMissing(name, placeholder: placeholder) }
      return .option(name, value: rest.removeFirst())
    }
  }
}
