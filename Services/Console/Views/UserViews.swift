// `user list` and `user show` for people.

import JSON
import WebServices

enum UserViews {
  /// Users with the most bytes come first.
  static func users(_ answer: JSONValue) -> String {
    let users = (answer["users"]?.elements ?? []).sorted { ($0["bytes"]?.int64 ?? 0) > ($1["bytes"]?.int64 ?? 0) }
    let rows = users.map { user in
      View.Row(
        isOdd: user["disabled"]?.bool == true,
        cells: [
          View.text(user["name"]), View.text(user["email"]), View.text(user["userRecordName"]),
          user["bytes"]?.int64.map(Units.bytes) ?? "", View.text(user["records"]),
          state(user),
        ])
    }
    return View.table(["user", "e-mail", "record name", "holds", "records", "state"], rows, sorts: false)
      + partial(answer)
  }

  private static func state(_ user: JSONValue) -> String {
    [("disabled", "DISABLED"), ("password", "password"), ("discoverable", "discoverable")].filter {
      user[$0.0]?.bool == true
    }.map(\.1).joined(separator: ", ")
  }

  static func user(_ answer: JSONValue) -> String {
    var pairs: [(String, String)] = []
    for (label, key) in [
      ("user", "name"), ("record name", "userRecordName"), ("e-mail", "email"), ("telephone", "phone"),
      ("given name", "givenName"), ("family name", "familyName"),
    ] {
      if let text = answer[key]?.string { pairs.append((label, TextTable.printable(text))) }
    }
    if let going = answer["state"]?.string {
      pairs.append(
        (
          "state",
          going == "removing"
            ? "DELETED, their data are being removed" : "DELETED, their data are removed; a last check is to come"
        ))
      return TextTable.text(pairs: pairs)
    }
    pairs.append(("state", state(answer)))
    pairs.append(
      ("quota", answer["quota"]?.int64.map { $0 == 0 ? "none" : Units.bytes($0) } ?? "the workers' --user-quota"))
    if let bytes = answer["bytes"]?.int64, let records = answer["records"]?.int64 {
      pairs.append(("holds", "\(Units.bytes(bytes)) in \(Units.count(records, "record"))"))
    }
    pairs.append(
      ("shares", "\(View.text(answer["shares"])), with \(Units.count(answer["sharedWith"]?.int64 ?? 0, "other"))"))
    for key in ["tokens", "sessions", "registrations", "keys"] { pairs.append((key, View.text(answer[key]))) }
    return ([TextTable.text(pairs: pairs)] + tables(answer)).joined(separator: "\n\n") + partial(answer)
  }

  private static func tables(_ answer: JSONValue) -> [String] {
    var tables: [String] = []
    if let rows = answer["holds"]?.elements, !rows.isEmpty {
      tables.append(
        TextTable.text(
          columns: ["container", "environment", "holds", "records", "zones"],
          rows: rows.map { row in
            [
              View.text(row["container"]), View.text(row["environment"]), row["bytes"]?.int64.map(Units.bytes) ?? "",
              View.text(row["records"]), View.text(row["zones"]),
            ]
          }))
    }
    if let rows = answer["memberships"]?.elements, !rows.isEmpty {
      tables.append(
        TextTable.text(
          columns: ["shared by", "zone", "container", "environment"],
          rows: rows.map { row in ["owner", "zone", "container", "environment"].map { View.text(row[$0]) } }))
    }
    return tables
  }

  private static func partial(_ answer: JSONValue) -> String {
    answer["isPartial"]?.bool == true
      ? "\n\n! The counts are not complete: a worker does not answer, or has too much to count; see `aquifer status`."
      : ""
  }
}
