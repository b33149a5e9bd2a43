// A process's settings. The command line overrides the environment, which overrides defaults. All are checked before
// the start.

internal import Glibc
internal import OptionWords

public struct Options: Sendable {
  /// A request for information instead of a run.
  public enum Request: Error, Hashable, Sendable {
    case help
    case version
  }

  private let declared: [String: Option]
  private let values: [String: String]

  /// - Parameters:
  ///   - options: all declared options.
  ///   - arguments: the command line without the program's name.
  ///   - environment: looks up a variable; an empty value counts as absent.
  /// - Throws: `ExitError` (`usage` for a malformed command line, `configuration` for a missing or invalid value), or
  ///   `Request`.
  public init(_ options: [Option], arguments: [String], environment: (String) -> String?) throws {
    declared = Dictionary(uniqueKeysWithValues: options.map { ($0.name, $0) })
    let given = try Self.parse(arguments, declared)
    var values: [String: String] = [:]
    for option in options {
      guard
        let (value, origin) = try given[option.name].map({ ($0, "--" + option.name) })
          ?? Self.fromEnvironment(option, environment)
      else {
        guard let value = option.defaultValue else {
          if option.isRequired {
            throw ExitError(.configuration, "--\(option.name) (or \(option.variable)) is missing: \(option.help)")
          }
          continue
        }
        values[option.name] = value
        continue
      }
      if let expectation = option.expectation(of: value) {
        let shown = if case .secret = option.kind { "not usable" } else { "'\(value)'" }
        throw ExitError(.configuration, "\(origin) is \(shown); it must be \(expectation).")
      }
      values[option.name] = value
    }
    self.values = values
  }

  private static func parse(_ arguments: [String], _ declared: [String: Option]) throws -> [String: String] {
    let known = declared.mapValues(\.form).merging([
      "help": .flag(takesValue: false), "version": .flag(takesValue: false),
    ]) { own, _ in own }
    var given: [String: String] = [:]
    var reader = OptionReader(arguments)
    do {
      while let word = try reader.read(known) {
        switch word {
        case .argument("-h"), .option("help", value: nil): throw Request.help
        case .option("version", value: nil): throw Request.version
        case .argument(let word): throw ExitError(.usage, "'\(word)' is not an option; options begin with '--'.")
        case .option(let name, let value): given[name] = value ?? "true"
        }
      }
    } catch let fault as OptionReader.Fault {
      throw ExitError(.usage, message(for: fault))
    }
    return given
  }

  private static func message(for fault: OptionReader.Fault) -> String {
    switch fault {
    case .unknown(let name, let nearest):
      "There is no option --\(name).\(nearest.map { " Did you mean --\($0)?" } ?? "")"
    case .valueIsMissing(let name, let placeholder): "--\(name) needs a value: \(placeholder)."
    case .takesNoValue(let name): "--\(name) takes no value."
    }
  }

  private static func fromEnvironment(_ option: Option, _ environment: (String) -> String?) throws -> (
    value: String, origin: String
  )? {
    if let value = environment(option.variable), !value.isEmpty { return (value, option.variable) }
    guard case .secret = option.kind, let path = environment(option.variable + "_FILE"), !path.isEmpty else {
      return nil
    }
    guard let text = readSmallFile(path) else {
      throw ExitError(
        .configuration,
        "\(option.variable)_FILE names '\(path)', which can't be read: \(String(cString: strerror(errno))).")
    }
    return (text.hasSuffix("\n") ? String(text.dropLast()) : text, option.variable + "_FILE")
  }

  // MARK: Values

  /// The value or the default; nil when the option has neither.
  public func text(_ name: String) -> String? {
    precondition(declared[name] != nil, "the option --\(name) was not declared")
    return values[name]
  }

  /// The value or the default.
  /// - Precondition: the option is declared with a default or as required.
  public func requiredText(_ name: String) -> String {
    guard let text = text(name) else { preconditionFailure("the option --\(name) has neither default nor value") }
    return text
  }

  public func flag(_ name: String) -> Bool { text(name).flatMap(Option.flag) ?? false }
  public func integer(_ name: String) -> Int? { text(name).flatMap { Int($0) } }
  public func duration(_ name: String) -> Duration? { text(name).flatMap { Double($0) }.map { .seconds($0) } }
  public func address(_ name: String) -> SocketAddress? { text(name).flatMap { SocketAddress($0) } }
  /// The value without a final slash.
  public func url(_ name: String) -> String? {
    text(name).map { text in
      var text = text[...]
      while text.hasSuffix("/") { text = text.dropLast() }
      return String(text)
    }
  }
}

/// The first 64 KiB of a file as text; nil, with `errno` set, when the file is unreadable or not UTF-8.
func readSmallFile(_ path: String) -> String? {
  let fd = open(path, O_RDONLY | O_CLOEXEC)
  guard fd >= 0 else { return nil }
  defer { close(fd) }
  var bytes = [UInt8](repeating: 0, count: 65_537)
  let count = read(fd, &bytes, bytes.count)
  guard count >= 0 else { return nil }
  guard count < bytes.count else {
    errno = EFBIG
    return nil
  }
  errno = EILSEQ
  return String(validating: bytes[..<count], as: UTF8.self)
}
