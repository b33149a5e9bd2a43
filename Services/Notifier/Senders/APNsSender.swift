// Apple Push Notification service: HTTP/2, with tokens that the developer's key signs.

import Crypto
import HTTPClient
import JSON
import ServiceBus
import ServiceKit
import Synchronization

/// Sends to the devices of one app.
final class APNsSender: PushSender {
  static let byteLimit = 4096
  /// Apple refuses tokens older than an hour, and a provider that makes them more often than every 20 minutes.
  static let tokenLifetime: Int64 = 50 * 60_000
  private static let tokenLeastAge: Int64 = 20 * 60_000
  private static let timeout = Duration.seconds(10)
  /// The time for which Apple keeps a push for a device that is off. Unit: seconds.
  private static let storage: Int64 = 86_400
  private static let production = "https://api.push.apple.com"
  private static let sandbox = "https://api.sandbox.push.apple.com"
  /// Apple's words for a device that the app is no longer on. `DeviceTokenNotForTopic` is none of them: every device of
  /// a service whose topic is another app's gets it.
  private static let wordsForGone: Set<String> = ["BadDeviceToken", "Unregistered", "ExpiredToken"]

  private let client: HTTPClient
  private let clock: any WallClock
  private let teamID: String
  private let keyID: String
  private let key: P256PrivateKey
  private let topic: String
  private let url: String?
  private let token = Mutex<(text: String, made: Int64)?>(nil)

  /// - Parameter url: takes the place of Apple's addresses.
  init(
    client: HTTPClient, clock: any WallClock, teamID: String, keyID: String, key: P256PrivateKey, topic: String,
    url: String?
  ) {
    self.client = client
    self.clock = clock
    self.teamID = teamID
    self.keyID = keyID
    self.key = key
    self.topic = topic
    self.url = url
  }

  func send(_ content: PushContent, to address: PushAddress, of user: String) async -> PushOutcome {
    guard case .apns(let device, let isSandbox) = address else { return .refused(reason: "the address is not Apple's") }
    let base = url ?? (isSandbox ? Self.sandbox : Self.production)
    let sent: HTTPClient.Response
    do throws(HTTPClientError) {
      sent = try await client.send(
        "POST", "\(base)/3/device/\(device)", headers: headers(of: content), body: content.json, timeout: Self.timeout)
    } catch {
      return .later(.service, pause: nil, reason: error.reason)
    }
    return outcome(of: sent)
  }

  private func headers(of content: PushContent) -> [HTTPClient.Header] {
    [
      HTTPClient.Header("authorization", "bearer \(currentToken())"),
      HTTPClient.Header("apns-topic", topic),
      HTTPClient.Header("apns-push-type", content.isSilent ? "background" : "alert"),
      // Apple refuses 10 for silent pushes.
      HTTPClient.Header("apns-priority", content.isSilent ? "5" : "10"),
      HTTPClient.Header("apns-collapse-id", content.collapseID),
      HTTPClient.Header("apns-expiration", String(clock.now / 1000 + Self.storage)),
      HTTPClient.Header("content-type", "application/json"),
    ]
  }

  private func outcome(of response: HTTPClient.Response) -> PushOutcome {
    if response.status == 200 { return .delivered }
    // Dropped because the status alone then decides.
    let reason = (try? JSONValue(parsing: response.body))?["reason"]?.string ?? "status \(response.status)"
    if response.status == 410 || Self.wordsForGone.contains(reason) { return .gone }
    switch response.status {
    case 403 where reason == "ExpiredProviderToken":
      // Apple's clock is ahead of ours, or the token waited in a queue.
      forgetToken()
      return .later(.device, pause: .seconds(1), reason: reason)
    case 429: return .later(.device, pause: response.retryAfter, reason: reason)
    case 500...: return .later(.service, pause: response.retryAfter, reason: reason)
    default: return .refused(reason: reason)
    }
  }

  private func currentToken() -> String {
    let now = clock.now
    return token.withLock { token in
      if let known = token, (known.made...known.made + Self.tokenLifetime).contains(now) { return known.text }
      let text = signedToken(now)
      token = (text, now)
      return text
    }
  }

  private func forgetToken() {
    let now = clock.now
    token.withLock { if let known = $0, now - known.made >= Self.tokenLeastAge { $0 = nil } }
  }

  private func signedToken(_ now: Int64) -> String {
    var header = JSONWriter()
    header.beginObject()
    header.member("alg", "ES256")
    header.member("kid", keyID)
    header.endObject()
    var claims = JSONWriter()
    claims.beginObject()
    claims.member("iss", teamID)
    claims.member("iat", now / 1000)
    claims.endObject()
    return key.token(header: header.bytes, claims: claims.bytes)
  }
}
