// The views of answers that operators read often; other answers are shown by their JSON shape (`AnswerText`).

import JSON

enum View {
  /// A row of a table.
  struct Row: Hashable, Sendable {
    /// Marked, and placed before the other rows.
    let isOdd: Bool
    let cells: [String]
  }

  /// The calls that have a view.
  static let kinds: Set<AdminCall.Kind> = [
    .status, .workers, .shards, .balanceShards, .stores, .events, .explain, .listQuarantine, .listUsers, .showUser,
  ]

  /// - Parameter now: milliseconds since 1970, for ages.
  /// - Returns: nil for a call without a view of its own.
  static func text(of kind: AdminCall.Kind, _ answer: JSONValue, now: Int64) -> String? {
    switch kind {
    case .status: ClusterViews.status(answer, now: now)
    case .workers: ClusterViews.workers(answer, now: now)
    case .shards: ClusterViews.shards(answer)
    case .balanceShards: ClusterViews.balance(answer)
    case .stores: StoreViews.stores(answer, now: now)
    case .events: StoreViews.events(answer, now: now)
    case .explain: StoreViews.explanation(answer)
    case .listUsers: UserViews.users(answer)
    case .showUser: UserViews.user(answer)
    case .listQuarantine: StoreViews.quarantine(answer, now: now)
    default: nil
    }
  }

  /// A table whose odd rows come first, marked by `!`. Without odd rows there is no column of marks.
  /// - Parameter sorts: false: the rows keep their order, which has a meaning.
  static func table(_ columns: [String], _ rows: [Row], sorts: Bool = true) -> String {
    let ordered = sorts ? rows.filter(\.isOdd) + rows.filter { !$0.isOdd } : rows
    guard ordered.contains(where: \.isOdd) else { return TextTable.text(columns: columns, rows: ordered.map(\.cells)) }
    return TextTable.text(columns: [""] + columns, rows: ordered.map { [$0.isOdd ? "!" : ""] + $0.cells })
  }

  /// A value in a cell, without characters that would break the line or control the terminal.
  static func text(_ value: JSONValue?) -> String {
    switch value?.kind {
    case nil: ""
    case .string: TextTable.printable(value?.string ?? "")
    case .null: "-"
    default: TextTable.printable(AnswerText.json(value))
    }
  }

  /// A note that names the workers whose rows are missing; empty when all answered.
  static func silence(_ answer: JSONValue) -> String {
    let silent = (answer["silent"]?.elements ?? []).compactMap(\.string)
    return silent.isEmpty
      ? "" : "\n\n! The answer is not complete: \(silent.joined(separator: ", ")) did not answer; see `aquifer status`."
  }
}
