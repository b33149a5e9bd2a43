// How answers that operators look at again and again are shown; all others by their shape (`AnswerText`).

import JSON

enum View {
  /// A row of a table.
  struct Row: Hashable, Sendable {
    /// Has a mark, and comes before the others.
    let isOdd: Bool
    let cells: [String]
  }

  /// The calls that have one.
  static let kinds: Set<AdminCall.Kind> = [.status, .workers, .shards, .stores, .events, .listQuarantine, .listUsers, .showUser]

  /// - Parameter now: milliseconds since 1970, for ages.
  /// - Returns: nil for a call without a view of its own.
  static func text(of kind: AdminCall.Kind, _ answer: JSONValue, now: Int64) -> String? {
    switch kind {
    case .status: ClusterViews.status(answer, now: now)
    case .workers: ClusterViews.workers(answer, now: now)
    case .shards: ClusterViews.shards(answer)
    case .stores: StoreViews.stores(answer, now: now)
    case .events: StoreViews.events(answer, now: now)
    case .listUsers: UserViews.users(answer)
    case .showUser: UserViews.user(answer)
    case .listQuarantine: StoreViews.quarantine(answer, now: now)
    default: nil
    }
  }

  /// A table whose odd rows come first, marked by `!`; the column of marks is there only if there are any.
  /// - Parameter sorts: false: the rows' order says something itself.
  static func table(_ columns: [String], _ rows: [Row], sorts: Bool = true) -> String {
    let ordered = sorts ? rows.filter(\.isOdd) + rows.filter { !$0.isOdd } : rows
    guard ordered.contains(where: \.isOdd) else { return TextTable.text(columns: columns, rows: ordered.map(\.cells)) }
    return TextTable.text(columns: [""] + columns, rows: ordered.map { [$0.isOdd ? "!" : ""] + $0.cells })
  }

  /// A value in a cell: text without what would break its line or speak to the terminal.
  static func text(_ value: JSONValue?) -> String {
    switch value?.kind {
    case nil: ""
    case .string: TextTable.printable(value?.string ?? "")
    case .null: "-"
    default: AnswerText.json(value)
    }
  }

  /// Whose rows are missing.
  static func silence(_ answer: JSONValue) -> String {
    let silent = (answer["silent"]?.elements ?? []).compactMap(\.string)
    return silent.isEmpty ? "" : "\n\n! Not everything: \(silent.joined(separator: ", ")) did not answer; see `aquifer status`."
  }
}
