// `user delete`, and the replacement of users' names by the record names that the server expects.

import JSON

extension Console {
  /// Without `--yes` tells the user's belongings and refuses; with it deletes the user.
  func deleteUser(_ invocation: Invocation) async -> Int32 {
    let name = invocation.arguments[0]
    if invocation.flag("yes") {
      return await send(AdminCall("DELETE", ["admin", "1", "users", name]), invocation) {
        tellDeparture($0, invocation)
      }
    }
    var going = ""
    let code = await send(AdminCall("GET", ["admin", "1", "users", name]), invocation) { body in
      if invocation.globals.isJSON { terminal.output(Self.line(body)) }
      // Dropped because an unreadable answer has no figures.
      going = (try? JSONValue(parsing: body)).map(Self.holdings(ofUser:)) ?? "an unknown number of databases"
    }
    guard code == ExitCode.done else { return code }
    terminal.problem(
      "aquifer: Nothing was deleted. \(name) has \(going). To delete all of it: aquifer user delete \(name) --yes")
    return ExitCode.refused
  }

  private func tellDeparture(_ body: [UInt8], _ invocation: Invocation) {
    // Dropped because an answer that is no JSON is shown unchanged.
    guard !invocation.globals.isJSON, let answer = try? JSONValue(parsing: body),
      let recordName = answer["userRecordName"]?.string
    else { return show(body, invocation) }
    terminal.output(
      """
      \(invocation.arguments[0]) (\(recordName)) is signed out everywhere, and the removal of their data has begun; \
      `aquifer user show \(recordName)` shows the progress
      """
    )
  }

  /// `1.2 MB in 40 records of 2 databases, 3 shares with 5 others, access to 1 zone of others, 2 tokens, 1 session and
  /// 0 server keys`.
  static func holdings(ofUser answer: JSONValue) -> String {
    if answer["state"]?.string != nil { return "been deleted, and the data are being removed" }
    func count(_ key: String, _ noun: String) -> String { Units.count(answer[key]?.int64 ?? 0, noun) }
    let atLeast = answer["isPartial"]?.bool == true ? "at least " : ""
    let held =
      """
      \(atLeast)\(Units.bytes(answer["bytes"]?.int64 ?? 0)) in \(count("records", "record")) of \
      \(count("databases", "database"))
      """
    let zones = Units.count(Int64(answer["memberships"]?.count ?? 0), "zone")
    return
      """
      \(held), \(count("shares", "share")) with \(count("sharedWith", "other")), access to \(zones) of others, \
      \(count("tokens", "token")), \(count("sessions", "session")) and \(count("keys", "server key"))
      """
  }

  /// Options for which the server expects a record name, with the commands concerned; empty: all commands.
  private static let identifying: [String: Set<String>] = ["owner": [], "user": ["quarantine retry"]]

  /// The invocation with record names in place of users' names, which are looked up. nil: there is no such user, and a
  /// message said so.
  func naming(_ invocation: Invocation) async -> Invocation? {
    var options = invocation.options
    for (option, commands) in Self.identifying
    where commands.isEmpty || commands.contains(invocation.command.path.joined(separator: " ")) {
      guard let name = options[option]?.last, !name.hasPrefix("_"), name != "public" else { continue }
      var recordName: String?
      let code = await send(AdminCall("GET", ["admin", "1", "users", name], query: [("brief", "true")]), invocation) {
        body in
        // Dropped because an answer without a record name names no user.
        recordName = (try? JSONValue(parsing: body))?["userRecordName"]?.string
      }
      guard code == ExitCode.done, let recordName else { return nil }
      options[option] = [recordName]
    }
    return Invocation(
      command: invocation.command, arguments: invocation.arguments, options: options, globals: invocation.globals)
  }
}
