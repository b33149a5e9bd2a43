// Reads a command line against the table. Pure, so that every mistake can be a test case.

import OptionWords

enum CommandLineParser {
  enum Outcome: Sendable {
    case run(Invocation)
    /// Help for the commands that begin with these words.
    case help([String])
  }

  /// - Parameter words: the command line without the executable's name.
  /// - Throws: `UsageError` for the first mistake.
  static func parse(_ words: [String], table: [Command] = Command.table) throws(UsageError) -> Outcome {
    var reader = Reader(words: words)
    try reader.readLeadingGlobals()
    let path = reader.takePath(in: table)
    if reader.asksForHelp || (path.isEmpty && reader.isAtEnd) { return .help(path) }
    guard let command = table.first(where: { $0.path == path }) else {
      throw unknownCommand(path, next: reader.next, table: table)
    }
    try reader.readOptions(of: command)
    let arguments = reader.arguments
    guard arguments.count >= command.arguments.count else {
      throw UsageError("\(command.arguments[arguments.count].name) is missing", path: path)
    }
    guard arguments.count <= command.arguments.count else {
      throw UsageError("'\(arguments[command.arguments.count])' is one argument too many", path: path)
    }
    if let missing = command.options.first(where: { $0.isRequired && reader.options[$0.name] == nil }) {
      throw UsageError("--\(missing.name) is missing", path: path)
    }
    return .run(Invocation(command: command, arguments: arguments, options: reader.options, globals: reader.globals))
  }

  private static func unknownCommand(_ path: [String], next: String?, table: [Command]) -> UsageError {
    let candidates = table.filter { $0.path.starts(with: path) && $0.path.count > path.count }.map {
      $0.path[path.count]
    }
    guard let next else {
      return UsageError(
        "'\(path.joined(separator: " "))' needs one of: \(unique(candidates).joined(separator: ", "))", path: path)
    }
    let hint = Spelling.nearest(to: next, among: candidates).map { "; did you mean '\($0)'?" } ?? ""
    return UsageError("There is no command '\((path + [next]).joined(separator: " "))'\(hint)", path: path)
  }

  private static func unique(_ words: [String]) -> [String] {
    words.reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
  }

  static let globalOptions: [Command.Option] = [
    .optional(
      "server", "URL",
      """
      the gateway (default $AQUIFER_SERVER or http://127.0.0.1:8080); AQUIFER_CERTIFICATE_AUTHORITY names a PEM file \
      to trust
      """
    ),
    .optional("operator-token", "T", "the operator token (default $AQUIFER_OPERATOR_TOKEN)"),
    .flag("json", "print exactly one JSON object"),
    .flag("help", "print this help; every command has its own"),
  ]
}

/// The words that are still to be read, and those that were.
private struct Reader {
  private var words: OptionReader
  var globals = Invocation.Globals()
  var options: [String: [String]] = [:]
  var arguments: [String] = []

  init(words: [String]) { self.words = OptionReader(words) }

  var next: String? { words.next }
  var isAtEnd: Bool { words.next == nil }
  var asksForHelp: Bool { words.rest.prefix { $0 != "--" }.contains { $0 == "--help" || $0 == "-h" } }

  mutating func readLeadingGlobals() throws(UsageError) {
    while let word = words.next, word.hasPrefix("--"), word != "--", word != "--help" { try read(nil) }
  }

  mutating func takePath(in table: [Command]) -> [String] {
    var path: [String] = []
    while let word = words.next, table.contains(where: { $0.path.starts(with: path + [word]) }) {
      path.append(word)
      _ = words.take()
    }
    return path
  }

  mutating func readOptions(of command: Command) throws(UsageError) {
    while let word = words.next {
      if word == "--" {
        arguments += words.rest.dropFirst()
        return
      }
      try read(command)
    }
  }

  private mutating func read(_ command: Command?) throws(UsageError) {
    let path = command?.path ?? []
    let known = (command?.options ?? []) + CommandLineParser.globalOptions
    let word: OptionReader.Word?
    do throws(OptionReader.Fault) {
      word = try words.read(Dictionary(known.map { ($0.name, $0.form) }) { own, _ in own })
    } catch {
      throw UsageError(Self.message(for: error), path: path)
    }
    switch word {
    case nil: return
    case .argument(let word): arguments.append(word)
    case .option(let name, let value):
      guard let option = known.first(where: { $0.name == name }) else { return }
      try set(option, to: value, path)
    }
  }

  private mutating func set(_ option: Command.Option, to value: String?, _ path: [String]) throws(UsageError) {
    let isGlobal = CommandLineParser.globalOptions.contains(option)
    switch option.name {
    case "server" where isGlobal: globals.server = value
    case "operator-token" where isGlobal: globals.operatorToken = value
    case "json" where isGlobal: globals.isJSON = true
    default:
      if case .value = option.kind, options[option.name] != nil {
        throw UsageError("--\(option.name) may be given only once", path: path)
      }
      options[option.name, default: []].append(try Self.checked(value, of: option, path))
    }
  }

  private static func checked(_ value: String?, of option: Command.Option, _ path: [String]) throws(UsageError)
    -> String
  {
    guard case .count(_, let standard) = option.kind else { return value ?? "" }
    guard let value else { return String(standard) }
    guard let count = UInt32(value), (1...3600).contains(count) else {
      throw UsageError("--\(option.name) takes a number from 1 to 3600", path: path)
    }
    return value
  }

  private static func message(for fault: OptionReader.Fault) -> String {
    switch fault {
    case .unknown(let name, let nearest):
      "There is no option --\(name)\(nearest.map { "; did you mean --\($0)?" } ?? "")"
    case .valueIsMissing(let name, _): "--\(name) needs a value"
    case .takesNoValue(let name): "--\(name) takes no value"
    }
  }
}
