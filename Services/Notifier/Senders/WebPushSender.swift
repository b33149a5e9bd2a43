// Web Push (RFC 8030) to browsers and to UnifiedPush distributors, signed by the installation's key (RFC 8292).

import Crypto
import HTTPClient
import JSON
import ServiceBus
import ServiceKit
import Synchronization

final class WebPushSender: PushSender {
  /// A push service may refuse tokens that count for longer than a day.
  private static let tokenLifetime: Int64 = 12 * 3_600_000
  /// Services are remembered up to this number; their tokens are made again then.
  private static let serviceLimit = 1000
  private static let timeout = Duration.seconds(10)
  /// The time for which the service keeps a push for a browser that is off. Unit: seconds.
  private static let storage = 86_400

  private let client: HTTPClient
  private let clock: any WallClock
  private let contact: String
  private let key: P256PrivateKey
  private let publicKey: String
  private let tokens = Mutex<[String: (text: String, expiry: Int64)]>([:])

  /// - Parameter client: reaches public addresses only, because browsers name the services.
  init(client: HTTPClient, clock: any WallClock, contact: String, key: P256PrivateKey) {
    self.client = client
    self.clock = clock
    self.contact = contact
    self.key = key
    publicKey = Base64URL.encode(key.publicPoint)
  }

  func send(_ content: PushContent, to address: PushAddress, of user: String) async -> PushOutcome {
    guard case .web(let endpoint, let receiverKey, let secret) = address else {
      return .refused(reason: "the address is not a browser's")
    }
    guard let body = WebPushEncryption.encrypt(content.json, for: receiverKey, secret: secret) else { return .gone }
    let headers = [
      HTTPClient.Header("Authorization", "vapid t=\(token(for: endpoint)), k=\(publicKey)"),
      HTTPClient.Header("Content-Encoding", "aes128gcm"),
      HTTPClient.Header("Content-Type", "application/octet-stream"),
      HTTPClient.Header("TTL", String(Self.storage)),
      HTTPClient.Header("Topic", content.collapseID),
      HTTPClient.Header("Urgency", content.isSilent ? "normal" : "high"),
    ]
    do throws(HTTPClientError) {
      return Self.outcome(
        of: try await client.send(
          "POST", endpoint, headers: headers, body: body, timeout: Self.timeout, party: user))
    } catch {
      return PushOutcome(of: error)
    }
  }

  private static func outcome(of response: HTTPClient.Response) -> PushOutcome {
    switch response.status {
    case 200...299: .delivered
    case 404, 410: .gone
    case 429: .later(.device, pause: response.retryAfter, reason: "status \(response.status)")
    case 500...: .later(.address, pause: response.retryAfter, reason: "status \(response.status)")
    default: .refused(reason: "status \(response.status)")
    }
  }

  private func token(for endpoint: String) -> String {
    let audience = String(endpoint.prefix { $0 != ":" }) + "://" + PushAddress.host(of: endpoint)
    let now = clock.now
    return tokens.withLock { tokens in
      if let known = tokens[audience], now < known.expiry - Self.tokenLifetime / 2 { return known.text }
      if tokens.count >= Self.serviceLimit { tokens.removeAll() }
      let text = signedToken(for: audience, expiry: now + Self.tokenLifetime)
      tokens[audience] = (text, now + Self.tokenLifetime)
      return text
    }
  }

  private func signedToken(for audience: String, expiry: Int64) -> String {
    var claims = JSONWriter()
    claims.beginObject()
    claims.member("aud", audience)
    claims.member("exp", expiry / 1000)
    claims.member("sub", contact)
    claims.endObject()
    return key.token(header: Array(#"{"typ":"JWT","alg":"ES256"}"#.utf8), claims: claims.bytes)
  }
}
