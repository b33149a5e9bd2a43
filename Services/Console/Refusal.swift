// Text for a refused request: the reason, all problems of a model, and suggestions.

import JSON

enum Refusal {
  /// - Parameter body: an error dictionary, or a proxy's answer in its place.
  static func text(status: Int, body: [UInt8], server: String) -> String {
    // Dropped because a body that is no JSON, such as a proxy's page, has no reason to show.
    guard let answer = try? JSONValue(parsing: body), let code = answer["serverErrorCode"]?.string else {
      return "\(server) answered \(status), but not like Aquifer"
    }
    var lines = [answer["reason"]?.string.map { "\($0) (\(code))" } ?? code]
    lines += problems(answer)
    if let seconds = answer["retryAfter"]?.int64 { lines.append("Try again in \(seconds) s.") }
    if status == 401 {
      lines.append("Give an operator token with --operator-token or AQUIFER_OPERATOR_TOKEN; `aquifer dev` prints it.")
    }
    return lines.map(AnswerText.lines).joined(separator: "\n")
  }

  /// The problems of a model, one line each, with a suggestion below.
  static func problems(_ answer: JSONValue) -> [String] {
    (answer["problems"]?.elements ?? []).flatMap { problem -> [String] in
      let place = [problem["entity"]?.string, problem["property"]?.string].compactMap(\.self).joined(separator: ".")
      let rule = problem["rule"]?.string.map { " [\($0)]" } ?? ""
      let line = "  \(place.isEmpty ? "model" : place): \(problem["message"]?.string ?? "")\(rule)"
      guard let suggestion = problem["suggestion"]?.string, !suggestion.isEmpty else { return [line] }
      return [line, "    → \(suggestion)"]
    }
  }
}
