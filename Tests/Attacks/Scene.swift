// What an attack acts in: an installation, its own users, and the time until it is over.

import HTTPClient
import Installations
import JSON
import Synchronization

/// Where an attack is made, and where it puts down what it was answered.
final class Scene: Sendable {
  let stage: Stage
  /// Who attacks, of the same shard as the bystander that is near.
  let attacker: UserClient
  let isLong: Bool
  private let state = Mutex(State())

  private struct State {
    var isOver = false
    var answers: [String: Int] = [:]
    var complaints: [String] = []
  }

  init(_ stage: Stage, attacker: UserClient, isLong: Bool) {
    self.stage = stage
    self.attacker = attacker
    self.isLong = isLong
  }

  var isOver: Bool { state.withLock { $0.isOver } }
  func end() { state.withLock { $0.isOver = true } }

  /// How the attacker was answered, and how often.
  var answers: [String: Int] { state.withLock { $0.answers } }
  var complaints: [String] { state.withLock { $0.complaints } }

  func complain(_ text: String) {
    state.withLock { if $0.complaints.count < 8, !$0.complaints.contains(text) { $0.complaints.append(text) } }
  }

  /// Notes an answer. It is a complaint if it is none of those that are documented.
  /// - Parameter documented: `200`, `429 THROTTLED`, or `cut` for a connection that was closed; a status alone stands for each of its codes.
  func note(_ answer: String, documented: Set<String>) {
    state.withLock { $0.answers[answer, default: 0] += 1 }
    let status = answer.prefix { $0 != " " }
    if !documented.contains(answer), !documented.contains(String(status)) { complain("the attacker was answered \(answer)") }
  }

  /// Does it again and again, so many at a time, until the scene is over.
  func repeatedly(_ count: Int, _ body: @escaping @Sendable (Int) async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<count {
        group.addTask {
          while !self.isOver { try await body(number) }
        }
      }
      try await group.waitForAll()
    }
  }

  /// Waits, as long as it is not over.
  func pause(_ duration: Duration) async throws {
    let end = ContinuousClock.now + duration
    while !isOver, ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(20)) }
  }
}

/// A user of the container, and how he calls.
struct UserClient: Sendable {
  let recordName: String
  let webAuthToken: String
  let shard: Int
  let stage: Stage
  let http: HTTPClient

  struct Answer: Sendable {
    let status: Int
    let body: [UInt8]

    private static let codeName = Array("serverErrorCode".utf8)

    // Dropped because who has no JSON has none of its members.
    var json: JSONValue? { try? JSONValue(parsing: body) }
    /// The status, and the error's code where there is one: the whole answer's, or its first item's.
    var text: String {
      // To parse what has no code takes time from the bystanders, who are measured in this process.
      guard body.indices.contains(where: { body[$0] == Self.codeName[0] && body[$0...].starts(with: Self.codeName) }) else { return "\(status)" }
      let json = json
      var code = json?["serverErrorCode"]?.string
      for list in ["records", "zones", "subscriptions"] where code == nil {
        code = json?[list]?.elements.first { $0["serverErrorCode"] != nil }?["serverErrorCode"]?.string
      }
      return "\(status)" + (code.map { " \($0)" } ?? "")
    }
  }

  /// A call of the record plane.
  func records(_ call: String, _ body: String, in database: String = "private") async throws(HTTPClientError) -> Answer {
    try await records(call, Array(body.utf8), in: database)
  }

  func records(_ call: String, _ body: [UInt8], in database: String = "private", isLastOfConnection: Bool = false) async throws(HTTPClientError) -> Answer {
    try await send("POST", recordPath(call, in: database), body: body, isLastOfConnection: isLastOfConnection)
  }

  func recordPath(_ call: String, in database: String = "private") -> String {
    "/database/1/\(Stage.container)/development/\(database)/\(call)?ckAPIToken=\(percentEncoded(stage.apiToken))&ckWebAuthToken=\(percentEncoded(webAuthToken))"
  }

  /// A call of the object plane.
  func mirror(_ method: String, _ path: String, _ body: String? = nil, in database: String = "private") async throws(HTTPClientError) -> Answer {
    try await send(method, "/mirror/1/\(Stage.container)/development/\(database)/\(path)", bearer: webAuthToken, body: body.map { Array($0.utf8) })
  }

  func send(_ method: String, _ path: String, bearer: String? = nil, body: [UInt8]? = nil, isLastOfConnection: Bool = false) async throws(HTTPClientError) -> Answer {
    var headers = [HTTPClient.Header("Content-Type", "application/json")]
    if let bearer { headers.append(HTTPClient.Header("Authorization", "Bearer \(bearer)")) }
    if isLastOfConnection { headers.append(HTTPClient.Header("Connection", "close")) }
    let response = try await http.send(method, stage.url + path, headers: headers, body: body, timeout: .seconds(60))
    return Answer(status: response.status, body: response.body)
  }

  /// A call that an attack is prepared with, which must succeed for every item.
  @discardableResult
  func must(_ call: String, _ body: String, in database: String = "private") async throws -> JSONValue {
    var answer = try await records(call, body, in: database)
    // What was attacked before may still be busy.
    for _ in 0..<20 where answer.status == 503 {
      try await Task.sleep(for: .milliseconds(500))
      answer = try await records(call, body, in: database)
    }
    guard answer.text == "200", let json = answer.json else { throw RunError("\(call): \(answer.text) \(answer.json?["reason"]?.string ?? "")") }
    return json
  }
}

extension Attack {
  /// Of an address that a server named, however it calls itself there.
  static func path(of url: String) -> String? {
    guard let start = url.firstRange(of: "://")?.upperBound, let slash = url[start...].firstIndex(of: "/") else { return nil }
    return String(url[slash...])
  }
}
