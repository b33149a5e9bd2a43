// Reads a command line against the table. Pure, so that every mistake can be a test case.

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
    if reader.asksForHelp || (path.isEmpty && reader.rest.isEmpty) { return .help(path) }
    guard let command = table.first(where: { $0.path == path }) else {
      throw unknownCommand(path, next: reader.rest.first, table: table)
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
    let candidates = table.filter { $0.path.starts(with: path) && $0.path.count > path.count }.map { $0.path[path.count] }
    guard let next else { return UsageError("'\(path.joined(separator: " "))' needs one of: \(unique(candidates).joined(separator: ", "))", path: path) }
    let hint = Suggestion.nearest(to: next, among: candidates).map { "; did you mean '\($0)'?" } ?? ""
    return UsageError("There is no command '\((path + [next]).joined(separator: " "))'\(hint)", path: path)
  }

  private static func unique(_ words: [String]) -> [String] {
    words.reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
  }

  static let globalOptions: [Command.Option] = [
    .optional("server", "URL", "the gateway; else AQUIFER_SERVER, else http://127.0.0.1:8080. AQUIFER_CERTIFICATE_AUTHORITY: a PEM file of what to trust"),
    .optional("operator-token", "T", "the operator's token; else AQUIFER_OPERATOR_TOKEN"),
    .flag("json", "print exactly one JSON object"),
    .flag("help", "this text, at every level"),
  ]
}

/// The words that are still to be read.
private struct Reader {
  var rest: ArraySlice<String>
  var globals = Invocation.Globals()
  var options: [String: [String]] = [:]
  var arguments: [String] = []

  init(words: [String]) { rest = words[...] }

  var asksForHelp: Bool { rest.prefix { $0 != "--" }.contains { $0 == "--help" || $0 == "-h" } }

  mutating func readLeadingGlobals() throws(UsageError) {
    while let word = rest.first, word.hasPrefix("--"), word != "--", word != "--help" {
      try readOption(of: nil)
    }
  }

  mutating func takePath(in table: [Command]) -> [String] {
    var path: [String] = []
    while let word = rest.first, table.contains(where: { $0.path.starts(with: path + [word]) }) {
      path.append(word)
      rest = rest.dropFirst()
    }
    return path
  }

  mutating func readOptions(of command: Command) throws(UsageError) {
    while let word = rest.first {
      if word == "--" {
        arguments += rest.dropFirst()
        rest = []
      } else if word.hasPrefix("--") {
        try readOption(of: command)
      } else {
        arguments.append(word)
        rest = rest.dropFirst()
      }
    }
  }

  private mutating func readOption(of command: Command?) throws(UsageError) {
    let word = rest.removeFirst()
    let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let path = command?.path ?? []
    let known = (command?.options ?? []) + CommandLineParser.globalOptions
    guard let name = parts.first, let option = known.first(where: { $0.name == name }) else {
      let hint = Suggestion.nearest(to: parts.first ?? "", among: known.map(\.name)).map { "; did you mean --\($0)?" } ?? ""
      throw UsageError("There is no option --\(parts.first ?? "")\(hint)", path: path)
    }
    let value = try value(of: option, inline: parts.count == 2 ? parts[1] : nil, path: path)
    switch option.name {
    case "server" where CommandLineParser.globalOptions.contains(option): globals.server = value
    case "operator-token" where CommandLineParser.globalOptions.contains(option): globals.operatorToken = value
    case "json" where CommandLineParser.globalOptions.contains(option): globals.isJSON = true
    default:
      if case .value = option.kind, options[option.name] != nil { throw UsageError("--\(option.name) may be given once only", path: path) }
      options[option.name, default: []].append(value)
    }
  }

  private mutating func value(of option: Command.Option, inline: String?, path: [String]) throws(UsageError) -> String {
    if case .flag = option.kind {
      guard inline == nil else { throw UsageError("--\(option.name) takes no value", path: path) }
      return ""
    }
    if case .count(_, let standard) = option.kind {
      let given = inline ?? rest.first.flatMap { UInt32($0) == nil ? nil : $0 }
      if inline == nil, given != nil { rest = rest.dropFirst() }
      guard let given else { return String(standard) }
      guard let count = UInt32(given), (1...3600).contains(count) else { throw UsageError("--\(option.name) takes a number from 1 to 3600", path: path) }
      return given
    }
    if let inline { return inline }
    guard let next = rest.first, !next.hasPrefix("--") else { throw UsageError("--\(option.name) needs a value", path: path) }
    rest = rest.dropFirst()
    return next
  }
}

/// Finds the known word nearest to a misspelt one.
enum Suggestion {
  static func nearest(to word: String, among candidates: [String]) -> String? {
    let near = candidates.map { (word: $0, distance: distance(word, $0)) }.filter { $0.distance <= max(2, word.count / 3) }
    return near.min { ($0.distance, $0.word) < ($1.distance, $1.word) }?.word
  }

  /// The Levenshtein distance: insertions, deletions and replacements of a character.
  static func distance(_ a: String, _ b: String) -> Int {
    let b = Array(b)
    var previous = Array(0...b.count)
    for (i, x) in a.enumerated() {
      var row = [i + 1]
      for (j, y) in b.enumerated() { row.append(min(previous[j] + (x == y ? 0 : 1), previous[j + 1] + 1, row[j] + 1)) }
      previous = row
    }
    return previous[b.count]
  }
}
