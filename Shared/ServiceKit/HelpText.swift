// Builds the text of `--help`, which suffices to run the process without further documentation.

struct HelpText {
  let command: String
  let version: String
  /// A few sentences that say what the process does.
  let summary: String
  let options: [Option]
  let examples: [String]

  var text: String {
    var text = "\(command) \(version)\n\n" + Self.wrapped(summary, indent: 0) + "\n\n"
    text +=
      """
      Usage: \(command) [options]\n\nOptions (the command line goes before the environment, the environment before the \
      default)\n
      """
    for option in options { text += describe(option) }
    text += "  --version\n  --help\n"
    if !examples.isEmpty { text += "\nExamples\n" + examples.map { "  \($0)\n" }.joined() }
    return text + "\nExit codes: 0 stopped as asked, 64 usage, 70 bug, 74 I/O, 75 try again, 78 configuration.\n"
  }

  private func describe(_ option: Option) -> String {
    var facts = option.variable
    if case .secret = option.kind { facts += " or \(option.variable)_FILE (a file with the value)" }
    if let value = option.defaultValue {
      facts += ", default \(value)"
    } else if option.isRequired {
      facts += ", required"
    }
    let head = "  --\(option.name)\(option.placeholder.isEmpty ? "" : " " + option.placeholder)\n"
    return head + Self.wrapped(option.help, indent: 6) + "\n" + Self.wrapped(facts, indent: 6) + "\n"
  }

  private static func wrapped(_ text: String, indent: Int) -> String {
    let margin = String(repeating: " ", count: indent)
    var lines: [String] = []
    var line = margin
    for word in text.split(separator: " ") {
      if line.count + word.count + 1 > 100, line != margin {
        lines.append(line)
        line = margin
      }
      line += (line == margin ? "" : " ") + word
    }
    return (lines + [line]).joined(separator: "\n")
  }
}
