// The commands as values: one table feeds the parser, the help and the tests.

import OptionWords

/// A command: its name, its arguments and options, and its action.
struct Command: Sendable {
  /// One or two words: noun and verb.
  let path: [String]
  let arguments: [Argument]
  let options: [Option]
  /// One sentence without a final full stop.
  let summary: String
  /// Further explanation; may be empty.
  let discussion: String
  /// Complete command lines that work.
  let examples: [String]
  let action: Action

  init(
    _ path: String, _ arguments: [Argument] = [], _ options: [Option] = [], summary: String, discussion: String = "",
    examples: [String] = [], action: Action
  ) {
    self.path = path.split(separator: " ").map(String.init)
    self.arguments = arguments
    self.options = options
    self.summary = summary
    self.discussion = discussion
    self.examples = examples
    self.action = action
  }

  struct Argument: Hashable, Sendable {
    /// As help shows it: `ID`.
    let name: String
    let explanation: String
  }

  struct Option: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
      case flag
      /// Carries the placeholder that help shows.
      case value(String)
      case values(String)
      /// An optional number may follow; without one, `standard` counts.
      case count(String, standard: Int)
    }
    let name: String
    let kind: Kind
    let isRequired: Bool
    let explanation: String

    var form: OptionReader.Form {
      switch kind {
      case .flag: .flag(takesValue: false)
      case .value(let placeholder), .values(let placeholder): .value(placeholder)
      case .count: .count
      }
    }

    static func flag(_ name: String, _ explanation: String) -> Option {
      Option(name: name, kind: .flag, isRequired: false, explanation: explanation)
    }
    static func required(_ name: String, _ placeholder: String, _ explanation: String) -> Option {
      Option(name: name, kind: .value(placeholder), isRequired: true, explanation: explanation)
    }
    static func optional(_ name: String, _ placeholder: String, _ explanation: String) -> Option {
      Option(name: name, kind: .value(placeholder), isRequired: false, explanation: explanation)
    }
    static func count(_ name: String, _ placeholder: String, standard: Int, _ explanation: String) -> Option {
      Option(name: name, kind: .count(placeholder, standard: standard), isRequired: false, explanation: explanation)
    }
    static func repeated(_ name: String, _ placeholder: String, _ explanation: String) -> Option {
      Option(name: name, kind: .values(placeholder), isRequired: false, explanation: explanation)
    }
  }

  enum Action: Hashable, Sendable {
    /// One HTTP request to the gateway.
    case call(AdminCall.Kind)
    case validateModel, pushModel, resetSchema, deleteUser, followEvents
    case exportZone, importZone, restoreZone
    /// A job on the server: one request begins it, further requests ask for its state until it ends.
    case runJob(AdminCall.Kind)
    case restoreBackup
    case copyAssets
    case migrate, renew
    case addEncryptionKey, useEncryptionKeys
    case addBusKey, showBusKey
    case health
    case dev
    /// The process that ends the children of `dev` after `dev` itself was killed.
    case guardGroup
  }
}

/// A parsed command line.
struct Invocation: Sendable {
  let command: Command
  let arguments: [String]
  /// Values by option name; a flag has one empty value.
  let options: [String: [String]]
  let globals: Globals

  struct Globals: Hashable, Sendable {
    var server: String?
    var operatorToken: String?
    var isJSON = false
  }

  func flag(_ name: String) -> Bool { options[name] != nil }
  func value(_ name: String) -> String? { options[name]?.last }
  func values(_ name: String) -> [String] { options[name] ?? [] }
}

/// A command line with a mistake; exit code 2.
struct UsageError: Error, Hashable, Sendable {
  /// One sentence that tells the remedy.
  let reason: String
  /// The words before the mistake, for whose help the message refers to.
  let path: [String]

  init(_ reason: String, path: [String] = []) {
    self.reason = reason
    self.path = path
  }
}
