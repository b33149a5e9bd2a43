// The surroundings of an attack: an installation, the attack's users, and its end.

import HTTPClient
import Installations
import JSON
import Synchronization

/// The place of an attack, which also collects the answers.
final class Scene: Sendable {
  let stage: Stage
  /// The attacker, a user of the same shard as the near bystander.
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

  /// The attacker's answers with their counts.
  var answers: [String: Int] { state.withLock { $0.answers } }
  var complaints: [String] { state.withLock { $0.complaints } }

  func complain(_ text: String) {
    state.withLock { if $0.complaints.count < 8, !$0.complaints.contains(text) { $0.complaints.append(text) } }
  }

  /// Notes an answer. An answer that is not documented becomes a complaint.
  /// - Parameter documented: answers such as `200`, `429 THROTTLED`, or `cut` for a closed connection. A status alone
  ///   stands for all of its codes.
  func note(_ answer: String, documented: Set<String>) {
    state.withLock { $0.answers[answer, default: 0] += 1 }
    let status = answer.prefix { $0 != " " }
    if !documented.contains(answer), !documented.contains(String(status)) {
      complain("the attacker was answered \(answer)")
    }
  }

  /// Runs `body` repeatedly in `count` parallel tasks until the scene is over.
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

  /// Waits for the duration, or until the scene is over.
  func pause(_ duration: Duration) async throws {
    let end = ContinuousClock.now + duration
    while !isOver, ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(20)) }
  }
}

/// A user of the container, with their calls.
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

    // Dropped because a body that is no JSON has no members.
    var json: JSONValue? { try? JSONValue(parsing: body) }
    /// The status with the error code, if there is one: the whole answer's, or its first item's.
    var text: String {
      // Bodies without a code are not parsed, because that takes time from the bystanders measured in this process.
      guard body.indices.contains(where: { body[$0] == Self.codeName[0] && body[$0...].starts(with: Self.codeName) })
      else { return "\(status)" }
      let json = json
      var code = json?["serverErrorCode"]?.string
      for list in ["records", "zones", "subscriptions"] where code == nil {
        code = json?[list]?.elements.first { $0["serverErrorCode"] != nil }?["serverErrorCode"]?.string
      }
      return "\(status)" + (code.map { " \($0)" } ?? "")
    }
  }

  /// A call of the record plane.
  func records(_ call: String, _ body: String, in database: String = "private") async throws(HTTPClientError) -> Answer
  {
    try await records(call, Array(body.utf8), in: database)
  }

  func records(_ call: String, _ body: [UInt8], in database: String = "private", isLastOfConnection: Bool = false)
    async throws(HTTPClientError) -> Answer
  {
    try await send("POST", recordPath(call, in: database), body: body, isLastOfConnection: isLastOfConnection)
  }

  func recordPath(_ call: String, in database: String = "private") -> String {
    """
    /database/1/\(Stage.container)/development/\(database)/\(call)?ckAPIToken=\(percentEncoded(stage.apiToken))&\
    ckWebAuthToken=\(percentEncoded(webAuthToken))
    """
  }

  /// A call of the object plane.
  func mirror(_ method: String, _ path: String, _ body: String? = nil, in database: String = "private")
    async throws(HTTPClientError) -> Answer
  {
    try await send(
      method, "/mirror/1/\(Stage.container)/development/\(database)/\(path)", bearer: webAuthToken,
      body: body.map { Array($0.utf8) })
  }

  func send(
    _ method: String, _ path: String, bearer: String? = nil, body: [UInt8]? = nil, isLastOfConnection: Bool = false
  ) async throws(HTTPClientError) -> Answer {
    var headers = [HTTPClient.Header("Content-Type", "application/json")]
    if let bearer { headers.append(HTTPClient.Header("Authorization", "Bearer \(bearer)")) }
    if isLastOfConnection { headers.append(HTTPClient.Header("Connection", "close")) }
    let response = try await http.send(method, stage.url + path, headers: headers, body: body, timeout: .seconds(60))
    return Answer(status: response.status, body: response.body)
  }

  /// A call that prepares an attack and must succeed for every item.
  @discardableResult
  func must(_ call: String, _ body: String, in database: String = "private") async throws -> JSONValue {
    var answer = try await records(call, body, in: database)
    // The shard may still be busy after an earlier attack.
    for _ in 0..<20 where answer.status == 503 {
      try await Task.sleep(for: .milliseconds(500))
      answer = try await records(call, body, in: database)
    }
    guard answer.text == "200", let json = answer.json else {
      throw RunError("\(call): \(answer.text) \(answer.json?["reason"]?.string ?? "")")
    }
    return json
  }
}

extension Attack {
  /// The path of an address that a server named, whatever its host name.
  static func path(of url: String) -> String? {
    guard let start = url.firstRange(of: "://")?.upperBound, let slash = url[start...].firstIndex(of: "/") else {
      return nil
    }
    return String(url[slash...])
  }
}
