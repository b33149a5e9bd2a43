// Help texts, made from the table: at every level the commands, with examples.

enum Help {
  /// - Parameter path: the words given before the request for help; empty: the overview.
  static func text(for path: [String], table: [Command] = Command.table) -> String {
    if let command = table.first(where: { $0.path == path }) { return text(of: command) }
    let shown = table.filter { $0.path.starts(with: path) && $0.action != .guardGroup }
    return path.isEmpty ? overview(shown) : group(path, shown)
  }

  private static func overview(_ commands: [Command]) -> String {
    """
    aquifer: runs and operates an Aquifer installation

    Start all services on this machine and look at their state:
      aquifer dev --data ./data
      aquifer status

    Usage: aquifer [--server URL] [--operator-token T] [--json] <noun> <verb>

    Commands (each has --help with examples):
    \(summaries(commands))

    Options of every command:
    \(options(CommandLineParser.globalOptions))

    Exit codes: 0 done, 1 refused (the reason is on standard error), 2 not understood.
    """
  }

  private static func group(_ path: [String], _ commands: [Command]) -> String {
    var text = "Usage: aquifer \(path.joined(separator: " ")) <verb>\n\n\(summaries(commands))"
    let examples = commands.compactMap(\.examples.first)
    if !examples.isEmpty { text += "\n\nExamples:\n" + examples.map { "  " + $0 }.joined(separator: "\n") }
    return text
  }

  private static func text(of command: Command) -> String {
    var text = "\(command.summary).\n\nUsage: \(usage(of: command))"
    if !command.discussion.isEmpty { text += "\n\n" + command.discussion }
    if !command.arguments.isEmpty {
      text += "\n\nArguments:\n" + rows(command.arguments.map { ($0.name, $0.explanation) })
    }
    if !command.options.isEmpty { text += "\n\nOptions:\n" + options(command.options) }
    text += "\n\nOptions of every command:\n" + options(CommandLineParser.globalOptions)
    if !command.examples.isEmpty {
      text += "\n\nExamples:\n" + command.examples.map { "  " + $0 }.joined(separator: "\n")
    }
    return text
  }

  static func usage(of command: Command) -> String {
    var words = ["aquifer"] + command.path + command.arguments.map(\.name)
    for option in command.options {
      let word =
        switch option.kind {
        case .flag: "--\(option.name)"
        case .value(let placeholder), .values(let placeholder): "--\(option.name) \(placeholder)"
        case .count(let placeholder, _): "--\(option.name) [\(placeholder)]"
        }
      let isRepeated = if case .values = option.kind { true } else { false }
      words.append(option.isRequired ? word : "[\(word)]\(isRepeated ? "…" : "")")
    }
    return words.joined(separator: " ")
  }

  private static func summaries(_ commands: [Command]) -> String {
    rows(commands.map { ($0.path.joined(separator: " "), $0.summary) })
  }

  private static func options(_ options: [Command.Option]) -> String {
    rows(
      options.map { option in
        switch option.kind {
        case .flag: ("--\(option.name)", option.explanation)
        case .value(let placeholder), .values(let placeholder): ("--\(option.name) \(placeholder)", option.explanation)
        case .count(let placeholder, _): ("--\(option.name) [\(placeholder)]", option.explanation)
        }
      })
  }

  private static func rows(_ rows: [(String, String)]) -> String {
    let width = rows.map(\.0.count).max() ?? 0
    return rows.map { "  " + $0.0 + String(repeating: " ", count: width - $0.0.count + 2) + $0.1 }.joined(
      separator: "\n")
  }
}
