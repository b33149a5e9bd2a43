// `schema import` and `schema reset`, which tell the consequences of a change.

import JSON

extension Console {
  /// Shows the difference as lines, then notes, and the schema if it was asked for.
  func showChange(_ body: [UInt8], _ invocation: Invocation) {
    // Dropped because an answer that is no JSON, or comes from a server of an earlier release, is shown unchanged.
    guard !invocation.globals.isJSON, let answer = try? JSONValue(parsing: body), let diff = answer["diff"]?.string
    else { return show(body, invocation) }
    let lines = diff.split(separator: "\n").map { TextTable.printable(String($0)) }
    var parts = [lines.isEmpty ? "nothing changes" : lines.joined(separator: "\n")]
    if let notes = Self.notes(answer) { parts.append(notes) }
    if let schema = answer["schema"]?.string { parts.append(schema) }
    terminal.output(parts.joined(separator: "\n\n"))
  }

  static func notes(_ answer: JSONValue) -> String? {
    let notes = (answer["notes"]?.elements ?? []).compactMap(\.string)
    return notes.isEmpty ? nil : notes.map { "! " + TextTable.printable($0) }.joined(separator: "\n")
  }

  /// Without `--yes` counts the records and refuses; with it drops them and tells how many there were.
  func resetSchema(_ invocation: Invocation) async -> Int32 {
    let container = invocation.value("container") ?? ""
    guard invocation.flag("yes") else {
      var held = ""
      let query = [("container", container), ("environment", "development")]
      let code = await send(AdminCall("GET", ["admin", "1", "usage"], query: query), invocation) { body in
        if invocation.globals.isJSON { terminal.output(Self.line(body)) }
        // Dropped because an unreadable answer has no figures.
        held = Self.holdings(try? JSONValue(parsing: body))
      }
      guard code == ExitCode.done else { return code }
      terminal.problem(
        """
        aquifer: Nothing was dropped. Development of \(container) has \(held). To drop them with schema, models, rules \
        and devices' stores: aquifer schema reset --container \(container) --yes
        """
      )
      return ExitCode.refused
    }
    return await send(AdminCall("POST", ["admin", "1", "schema", container, "development", "reset"]), invocation) {
      body in
      // Dropped because an answer that is no JSON is shown unchanged.
      guard !invocation.globals.isJSON, let answer = try? JSONValue(parsing: body), answer["before"] != nil else {
        return show(body, invocation)
      }
      terminal.output("dropped \(Self.holdings(answer["before"])); left: \(Self.holdings(answer["after"]))")
    }
  }

  /// `12 records in 3 users' databases and 4 in the public one`.
  static func holdings(_ usage: JSONValue?) -> String {
    guard let usage, let records = usage["records"]?.int64, let databases = usage["databases"]?.int64 else {
      return "an unknown number of records"
    }
    let publicRecords = usage["publicRecords"]?.int64 ?? 0
    let atLeast = usage["isPartial"]?.bool == true ? "at least " : ""
    let inPublic = publicRecords > 0 ? " and \(publicRecords) in the public one" : ""
    let owned = databases == 1 ? "1 user's database" : "\(databases) users' databases"
    return "\(atLeast)\(Units.count(records - publicRecords, "record")) in \(owned)\(inPublic)"
  }
}
