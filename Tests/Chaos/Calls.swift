// Calls of a careful client: it repeats a request that may not have been executed, at another gateway if need be.

import Glibc
import HTTPClient
import Installations
import JSON
import Synchronization

/// The gateways for all clients of a run, and the reasons for repeated attempts.
final class Calls: Sendable {
  /// Repeated attempts by reason.
  private let repeated = Mutex<[String: Int]>([:])
  private let http = HTTPClient()
  private let gateways: [String]

  /// A request that takes longer means that the installation does not recover.
  private static let limit: Duration = .seconds(60)
  private static let attemptLimit: Duration = .seconds(20)
  private static let pause: Duration = .milliseconds(10)

  init(gateways: [String]) { self.gateways = gateways }

  /// The same gateways with counts of their own.
  func apart() -> Calls { Calls(gateways: gateways) }

  var repetitions: [String: Int] { repeated.withLock { $0 } }

  struct Answer: Sendable {
    let status: Int
    let json: JSONValue
    let attemptCount: Int
  }

  /// Sends a request until there is a final answer.
  /// - Parameters:
  ///   - preferred: the gateway to ask first.
  ///   - isLater: true for an answer with status 200 that asks the client to try again.
  /// - Throws: when no final answer came within a minute.
  func send(
    _ method: String, _ path: String, bearer: String? = nil, requestID: String? = nil, body: [UInt8]? = nil,
    preferred: Int = 0,
    isLater: (JSONValue) -> Bool = { _ in false }
  ) async throws -> Answer {
    var headers = [HTTPClient.Header("Content-Type", "application/json")]
    if let bearer { headers.append(HTTPClient.Header("Authorization", "Bearer \(bearer)")) }
    if let requestID { headers.append(HTTPClient.Header("X-Request-ID", requestID)) }
    let end = ContinuousClock.now + Self.limit
    var gateway = preferred
    var attemptCount = 0
    var reason = ""
    while ContinuousClock.now < end {
      attemptCount += 1
      do throws(HTTPClientError) {
        let response = try await http.send(
          method, gateways[gateway % gateways.count] + path, headers: headers, body: body, timeout: Self.attemptLimit)
        // Dropped because an answer that is no JSON counts as no answer.
        let json = try? JSONValue(parsing: response.body)
        if let json, response.status != 503, response.status != 200 || !isLater(json) {
          return Answer(status: response.status, json: json, attemptCount: attemptCount)
        }
        reason = "\(response.status) \(json?["reason"]?.string ?? (json == nil ? "without JSON" : "for a record"))"
      } catch {
        reason = "\(error.kind)"
        // This gateway may be gone, so the next attempt asks the other one.
        gateway += 1
      }
      repeated.withLock { $0[reason, default: 0] += 1 }
      try await Task.sleep(for: Self.pause)
    }
    throw RunError(
      "\(method) \(path.prefix { $0 != "?" }) is not answered after \(attemptCount) attempts, the last was \(reason)")
  }

  /// A call that must be answered with 200.
  func get(
    _ method: String, _ path: String, bearer: String? = nil, body: [UInt8]? = nil, preferred: Int = 0,
    isLater: (JSONValue) -> Bool = { _ in false }
  ) async throws -> JSONValue {
    let answer = try await send(method, path, bearer: bearer, body: body, preferred: preferred, isLater: isLater)
    guard answer.status == 200 else {
      throw RunError("\(method) \(path.prefix { $0 != "?" }) is answered \(answer.status)")
    }
    return answer.json
  }

  /// The body of a path's answer, whatever its status.
  func bytes(_ path: String) async throws -> [UInt8] {
    try await http.send("GET", gateways[0] + path, timeout: Self.attemptLimit).body
  }
}
