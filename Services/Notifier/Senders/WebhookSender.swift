// Calls of apps' servers, signed by the secret that each of them registered with.

import Crypto
import HTTPClient
import ServiceBus
import ServiceKit

struct WebhookSender: PushSender {
  static let byteLimit = 64 * 1024
  private static let timeout = Duration.seconds(10)

  /// Reaches public addresses only, because clients name the servers.
  let client: HTTPClient
  let clock: any WallClock

  /// The signature covers the time, so that a server can refuse calls that are repeated later.
  func send(_ content: PushContent, to address: PushAddress, of user: String) async -> PushOutcome {
    guard case .webhook(let url, let secret) = address else { return .refused(reason: "the address is no server's") }
    let time = String(clock.now / 1000)
    let code = HMACSHA256.code(for: Array("\(time).".utf8) + content.json, key: Array(secret.utf8))
    let headers = [
      HTTPClient.Header("Content-Type", "application/json"),
      HTTPClient.Header("Aquifer-Signature", "t=\(time),v1=\(Hex.encode(code))"),
    ]
    do throws(HTTPClientError) {
      let response = try await client.send(
        "POST", url, headers: headers, body: content.json, timeout: Self.timeout, party: user)
      return switch response.status {
      case 200...299: .delivered
      case 410: .gone
      case 429: .later(.device, pause: response.retryAfter, reason: "status \(response.status)")
      case 500...: .later(.address, pause: response.retryAfter, reason: "status \(response.status)")
      default: .refused(reason: "status \(response.status)")
      }
    } catch {
      return PushOutcome(of: error)
    }
  }
}
