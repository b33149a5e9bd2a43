import Synchronization
import Testing

@testable import Console

/// A server with scripted answers, and a terminal that keeps its output.
final class ScriptedServer: Sendable {
  private let answers: [(part: String, status: Int, body: String)]
  private let failure: HTTPSender.Failure?
  private let asked = Mutex<[String]>([])
  private let output = Mutex<[String]>([])
  private let problems = Mutex<[String]>([])

  /// The first answer whose `part` occurs in the request is used.
  init(_ answers: (part: String, status: Int, body: String)...) {
    self.answers = answers
    failure = nil
  }

  init(failure: HTTPSender.Failure) {
    answers = []
    self.failure = failure
  }

  func run(_ line: String) async -> Int32 {
    var terminal = Terminal(
      output: { line in self.output.withLock { $0.append(line) } },
      problem: { line in self.problems.withLock { $0.append(line) } }, input: { [] })
    terminal.pause = { _ in true }
    let http = HTTPSender { method, url, _, _, _ in
      let request = "\(method) \(url)"
      self.asked.withLock { $0.append(request) }
      if let failure = self.failure { return .failure(failure) }
      guard let answer = self.answers.first(where: { $0.part.isEmpty || request.contains($0.part) }) else {
        return .failure(HTTPSender.Failure(reason: "nobody answers \(request)"))
      }
      return .success(HTTPSender.Answer(status: answer.status, body: Array(answer.body.utf8)))
    }
    return await Console(environment: [:], terminal: terminal, http: http).run(
      line.split(separator: " ").map(String.init))
  }

  var requests: [String] { asked.withLock { $0 } }
  var text: String { output.withLock { $0.joined(separator: "\n") } }
  var problem: String { problems.withLock { $0.joined(separator: "\n") } }
}
